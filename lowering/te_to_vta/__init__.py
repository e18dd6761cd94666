"""``te-to-vta``: makes one flat program of each accelerator function.

Takes functions with ``codegen = "vta"`` that call kernels in loop form, every statement tensorised
(`te.InvokeOp`) or a copy. Leaves in each function's place a ``vta.program`` of the same name: its
arguments are input buffers, its results output buffers, its constants buffers of their own.
Intermediates are scratch buffers, each with the first and the last call that uses it (counted from
0). SRAM buffers are ``vta.alloc``, micro-ops inline, no tokens. Calls of the functions become
``vta.launch``; kernels and intrinsics are gone.

For a cluster of several units, or with a global buffer, the program is a ``vta.cluster``: each call
goes to the stream of its core, behind a ``vta.step`` with the call's number. Intermediates to which
a plan gives a place in the global buffer (``graph.places``) have it.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.traits import SymbolTable

from vtac.dialects import te, vta
from vtac.dialects.context import VtacContext, constant_value
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import PLACES, PlaceAttr
from vtac.dialects.locations import layer_of
from vtac.dialects.target import ClusterTarget, Target, machine_at
from vtac.dialects.vta import BufferKind
from vtac.dialects.vta.attributes import GLOBAL_SCOPE
from vtac.dialects.vtac import ResourceAttr
from vtac.passes.te.accelerated import accelerated_functions, target_of

from .columns import CallColumns, ColumnSink
from .immediates import Table
from .instructions import STANDARD, Lowering
from .interpreter import KernelRun, SharedKernel
from .prepared import PreparedKernel
from .sink import ProgramSink, Sink
from .storage import Dram, DramBuffers, bytes_of, name_of, outer_shape, packed_boxes
from .transfers import row_major

_KNOWN = te.CallOp | te.ConstantOp | te.ViewOp | te.WindowOp | te.AssembleOp
"""The ops of a function, besides its return. All but calls only determine where values lie."""


@dataclass(frozen=True)
class TeToVtaPass(ModulePass):
    """Make a flat vta.program of every accelerator function."""

    name = "te-to-vta"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        problems: list[Problem] = []
        kernels = _Kernels(lowerings=lowerings_of(ctx))
        functions = accelerated_functions(op)
        for function in functions:
            try:
                Rewriter.replace_op(function, _convert(ctx, function, op, kernels), [])
            except CompileError as error:
                problems += error.problems
        if problems:
            raise CompileError(problems)
        if functions:
            _clean_up(op, {function.sym_name.data for function in functions})


def lowerings_of(ctx: Context) -> Mapping[str, Lowering]:
    """How what intrinsics lower to becomes instructions: the machine's own, and the context's."""
    added = ctx.lowerings if isinstance(ctx, VtacContext) else {}
    return {**STANDARD, **cast("Mapping[str, Lowering]", added)}


def _clean_up(module: ModuleOp, programs: set[str]) -> None:
    """Replace calls by launches, and erase functions and kernels that are not used any more."""
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    for call in [op for f in functions for op in f.walk() if isinstance(op, CallOp)]:
        name = call.callee.root_reference.data
        if name in programs:
            launch = vta.LaunchOp(name, call.arguments, call.result_types)
            launch.location = call.location
            Rewriter.replace_op(call, launch)
    for left in list(module.body.block.ops):
        if isinstance(left, te.KernelOp | te.IntrinsicOp):
            Rewriter.erase_op(left)


def lower_function(ctx: Context, function: FuncOp, module: ModuleOp) -> vta.ProgramOp:
    """The program of one accelerator function whose kernels are in the module; both stay.

    Raises `CompileError` where the function is no sequence of calls of kernels in loop form.
    """
    program = _convert(ctx, function, module, _Kernels(lowerings=lowerings_of(ctx)))
    assert isinstance(program, vta.ProgramOp), "a function for one core is one program"
    return program


def lower_to_columns(
    ctx: Context, function: FuncOp, module: ModuleOp
) -> tuple[vta.ProgramOp, CallColumns]:
    """A program with only the buffers of a function, and the instructions of its calls as columns.

    Raises what `lower_function` raises.
    """
    columns = CallColumns()
    kernels = _Kernels(lowerings=lowerings_of(ctx))
    lowering = _Function(ctx, function, module, DramBuffers(target_of(function)), kernels)
    lowering.run(lambda call: ColumnSink(columns, layer_of(call)))
    return lowering.program([]), columns


Program: TypeAlias = vta.ProgramOp | vta.ClusterOp


def _convert(ctx: Context, function: FuncOp, module: ModuleOp, kernels: "_Kernels") -> Program:
    lowering = _Function(ctx, function, module, DramBuffers(target_of(function)), kernels)
    machine = machine_at(function)
    if isinstance(machine, ClusterTarget) and machine.has_windows:
        return _convert_for_cluster(lowering, machine)
    out: list[Operation] = []
    lowering.run(lambda call: ProgramSink(out, call.location))
    return lowering.program([*out, vta.FinishOp.create()])


def _convert_for_cluster(lowering: "_Function", cluster: ClusterTarget) -> vta.ClusterOp:
    """The program of a cluster: a stream for each core, those without a call a lone FINISH."""
    streams: list[list[Operation]] = [[] for _ in range(cluster.cores)]
    steps = itertools.count()

    def sink(call: te.CallOp) -> Sink:
        if call.unit >= cluster.cores:
            what = f"a call is for core {call.unit} of a cluster of {cluster.cores}"
            raise CompileError(Problem(layer_of(call), what))
        streams[call.unit].append(vta.StepOp(next(steps)))
        return ProgramSink(streams[call.unit], call.location)

    lowering.run(sink)
    cores = [
        vta.CoreOp(number, Region(Block([*stream, vta.FinishOp.create()])))
        for number, stream in enumerate(streams)
    ]
    return lowering.cluster(cluster, cores)


def _is_table_of(user: Operation, parameter: SSAValue) -> bool:
    return isinstance(user, te.InvokeOp) and user.table is parameter


@dataclass
class _Kernels:
    """The prepared forms of kernels, which several calls share."""

    lowerings: Mapping[str, Lowering] = field(default_factory=lambda: STANDARD)
    _shared: dict[tuple[te.KernelOp, Target], SharedKernel] = field(default_factory=dict)

    def shared(self, kernel: te.KernelOp, target: Target) -> SharedKernel:
        """The prepared form that calls of a kernel on a machine share."""
        if (kernel, target) not in self._shared:
            prepared = PreparedKernel(kernel, target)
            self._shared[kernel, target] = SharedKernel(prepared, self.lowerings)
        return self._shared[kernel, target]


class _Function:
    """The lowering of one accelerator function."""

    def __init__(
        self,
        ctx: Context,
        function: FuncOp,
        module: ModuleOp,
        buffers: DramBuffers,
        kernels: "_Kernels",
    ):
        self._ctx = ctx
        self._function = function
        self._module = module
        self._kernels = kernels
        self.buffers = buffers
        self._names: dict[SSAValue, str] = {}
        self._live: dict[SSAValue, tuple[int, int]] = {}
        self._assignment = te.BufferAssignment(function.body.block)

    def program(self, instructions: Sequence[Operation]) -> vta.ProgramOp:
        """The program: its buffers, then these instructions."""
        body = Region(Block([*self.buffers.declarations(), *instructions]))
        program = vta.ProgramOp(self._function.sym_name.data, self.buffers.target, body)
        program.location = self._function.location
        return program

    def cluster(self, target: ClusterTarget, cores: Sequence[vta.CoreOp]) -> vta.ClusterOp:
        """The program of a cluster: its buffers, then the streams of its cores."""
        self.buffers.spill(target.gb_bytes)
        body = Region(Block([*self.buffers.declarations(), *cores]))
        program = vta.ClusterOp(self._function.sym_name.data, target, body)
        program.location = self._function.location
        return program

    def run(self, sink_for: Callable[[te.CallOp], Sink]) -> None:
        """Run each call in order, and report its effects to the call's sink."""
        block = self._function.body.block
        for index, argument in enumerate(block.args):
            hint = name_of(argument, f"in{index}")
            size = bytes_of(argument.type)
            self._names[argument] = self.buffers.add(hint, BufferKind.INPUT, size, index)
        outputs = self._outputs()
        for index, value in enumerate(outputs):
            hint = name_of(value, f"out{index}")
            size = bytes_of(value.type)
            self._names[value] = self.buffers.add(hint, BufferKind.OUTPUT, size, index)
        calls = [op for op in block.ops if isinstance(op, te.CallOp)]
        for step, call in enumerate(calls):
            for value in (*call.operands, *call.results):
                buffer = self._assignment[value].buffer
                first, _ = self._live.get(buffer, (step, step))
                self._live[buffer] = first, step
        site = 0
        for step, call in enumerate(calls):
            site += self._call(call, sink_for(call), step, site)

    def _outputs(self) -> Sequence[SSAValue]:
        """The values whose buffers are outputs. Raises `CompileError` if copies are missing."""
        where = f"function @{self._function.sym_name.data}"
        outputs: Sequence[SSAValue] = ()
        for op in self._function.body.block.ops:
            if isinstance(op, ReturnOp):
                outputs = op.arguments
            elif not isinstance(op, _KNOWN):
                raise CompileError(Problem(where, f"{op.name} is not a call of a kernel"))
        if self._assignment.conflicts:
            raise CompileError(
                [
                    Problem(where, conflict.reason, "Run te-insert-copies first.")
                    for conflict in self._assignment.conflicts
                ]
            )
        return [self._assignment[value].buffer for value in outputs]

    def _call(self, call: te.CallOp, sink: Sink, step: int, site: int) -> int:
        """Lower a call; returns how many sites it has allocated at."""
        kernel = SymbolTable.lookup_symbol(self._module, call.callee)
        if not isinstance(kernel, te.KernelOp) or not kernel.is_lowered:
            raise CompileError(
                Problem(
                    layer_of(call),
                    f"kernel {call.callee} is not in loop form",
                    "Run te-to-loops and te-apply-schedule first.",
                )
            )
        tables = self._tables(call, kernel)
        passed = zip(kernel.body.block.args, (*call.arguments, *call.outputs), strict=True)
        parameters: dict[SSAValue, Dram] = {
            parameter: self._dram(parameter, value, layer_of(call))
            for parameter, value in passed
            if parameter not in tables
        }
        shared = self._kernels.shared(kernel, self.buffers.target)
        return KernelRun(call, shared, parameters, self.buffers, step, site, sink, tables).run()

    def _tables(self, call: te.CallOp, kernel: te.KernelOp) -> dict[SSAValue, Table]:
        """The values of the kernel's tables of immediates: they lie in instructions, not DRAM."""
        tables = dict[SSAValue, Table]()
        for parameter, value in zip(kernel.body.block.args, call.arguments, strict=False):
            if not any(_is_table_of(use.operation, parameter) for use in parameter.uses):
                continue
            constant = value.owner
            if not isinstance(constant, te.ConstantOp):
                raise CompileError(
                    Problem(
                        layer_of(call),
                        f"the immediates %{parameter.name_hint or parameter.index} of"
                        f" {call.callee} are not constant",
                        "Pass a te.constant for them.",
                    )
                )
            tables[parameter] = constant_value(self._ctx, constant.value, value.type)
        return tables

    def _dram(self, parameter: SSAValue, value: SSAValue, where: str) -> Dram:
        """The place of the value that a call passes for a parameter."""
        view = self._assignment[value]
        name, shape = self._name(view.buffer), outer_shape(parameter.type, where)
        boxes = packed_boxes(parameter.type, where)
        if boxes is not None:
            return Dram(name, shape, 0, row_major(shape), boxes)
        lanes = view.shape[len(shape) :]
        element = math.prod(lanes)
        strides = [by if n > 1 else 0 for by, n in zip(view.strides, view.shape, strict=True)]
        dense = [by if n > 1 else 0 for by, n in zip(te.row_major(lanes), lanes, strict=True)]
        if strides[len(shape) :] != dense or any(
            by % element for by in (view.offset, *strides[: len(shape)])
        ):
            what = f"a window of {view.buffer.type} cuts its lanes"
            raise CompileError(Problem(where, what, "Windows hold whole lanes."))
        outer = tuple([by // element for by in strides[: len(shape)]])
        return Dram(name, shape, view.offset // element, outer)

    def _name(self, value: SSAValue) -> str:
        """The name of the buffer of a value that has one."""
        if value not in self._names:
            constant = value.owner
            if isinstance(constant, te.ConstantOp):
                attr = constant.value
                hint = name_of(value, "constant")
                if isinstance(attr, ResourceAttr):
                    hint = attr.key.data
                self._names[value] = self.buffers.constant(hint, attr, bytes_of(value.type))
            else:
                size, live = bytes_of(value.type), self._live[value]
                self._names[value] = self.buffers.scratch(size, live, self._planned(value))
        return self._names[value]

    def _planned(self, value: SSAValue) -> tuple[str, int] | None:
        """The place in the global buffer that a plan gives a value; None where it gives none."""
        owner = value.owner
        places = owner.attributes.get(PLACES) if isinstance(owner, Operation) else None
        if not isinstance(places, ArrayAttr) or not isinstance(value, OpResult):
            return None
        if not isinstance(machine_at(self._function), ClusterTarget):
            return None
        place = places.data[value.index]
        if not isinstance(place, PlaceAttr) or place.offset is None:
            return None
        return GLOBAL_SCOPE, place.offset
