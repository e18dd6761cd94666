"""``te-to-vta``: makes one flat program of each accelerator function.

Takes functions with ``codegen = "vta"`` that call kernels in loop form, every statement tensorised
(`te.InvokeOp`) or a copy. Leaves in each function's place a ``vta.program`` of the same name: its
arguments are input buffers, its results output buffers, constants and intermediates buffers of
their own; SRAM buffers are ``vta.alloc``, micro-ops inline, no tokens. Calls of the functions
become ``vta.launch``; kernels and intrinsics are gone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.traits import SymbolTable

from vtac.dialects import te, vta
from vtac.dialects.context import VtacContext, constant_value
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.dialects.vta import BufferKind
from vtac.dialects.vtac import ResourceAttr

from .immediates import Table
from .instructions import STANDARD, Lowering
from .interpreter import KernelRun
from .invocation import Invocation
from .prepared import Prepared
from .storage import Buffers, bytes_of, name_of

CODEGEN = "vta"
"""Functions with this ``codegen`` run on the accelerator."""


@dataclass(frozen=True)
class TeToVtaPass(ModulePass):
    """Make a flat vta.program of every accelerator function."""

    name = "te-to-vta"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        problems: list[Problem] = []
        kernels = _Kernels(lowerings=lowerings_of(ctx))
        functions = [f for f in op.body.block.ops if isinstance(f, FuncOp) and _is_ours(f)]
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
    """Launch what was called, and drop what nobody needs any more."""
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


def _is_ours(function: FuncOp) -> bool:
    return function.attributes.get("codegen") == StringAttr(CODEGEN)


def _target_of(function: FuncOp, module: ModuleOp) -> Target:
    target = function.attributes.get(TARGET_ATTRIBUTE) or module.attributes.get(TARGET_ATTRIBUTE)
    if not isinstance(target, Target):
        raise CompileError(
            Problem(
                f"function @{function.sym_name.data}",
                f"it has no {TARGET_ATTRIBUTE}, nor has the module",
                "Give a target: vta-opt --target NAME.",
            )
        )
    return target


def _convert(
    ctx: Context, function: FuncOp, module: ModuleOp, kernels: "_Kernels"
) -> vta.ProgramOp:
    target = _target_of(function, module)
    lowering = _Function(ctx, function, module, Buffers(target), kernels)
    out = lowering.run()
    finish = vta.FinishOp.create()
    body = Region(Block([*lowering.buffers.declarations(), *out, finish]))
    program = vta.ProgramOp(function.sym_name.data, target, body)
    program.location = function.location
    return program


def _is_table_of(user: Operation, parameter: SSAValue) -> bool:
    return isinstance(user, te.InvokeOp) and user.table is parameter


@dataclass
class _Kernels:
    """What is known of the kernels that several calls share."""

    prepared: Prepared = field(default_factory=Prepared)
    invocations: dict[te.InvokeOp, Invocation] = field(default_factory=dict)
    lowerings: Mapping[str, Lowering] = field(default_factory=lambda: STANDARD)


class _Function:
    """The lowering of one accelerator function."""

    def __init__(
        self,
        ctx: Context,
        function: FuncOp,
        module: ModuleOp,
        buffers: Buffers,
        kernels: "_Kernels",
    ):
        self._ctx = ctx
        self._function = function
        self._module = module
        self._kernels = kernels
        self.buffers = buffers
        self._names: dict[SSAValue, str] = {}

    def run(self) -> list[Operation]:
        """The instructions, buffers declared aside."""
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
        last_reader = {te.viewed(value): call for call in calls for value in call.arguments}
        out: list[Operation] = []
        site = 0
        for call in calls:
            site += self._call(call, out, site)
            read = map(te.viewed, call.arguments)
            dead = {v for v in read if last_reader[v] is call}
            dead |= {v for v in call.outputs if v not in last_reader}
            for value in dead:
                if isinstance(value.owner, te.CallOp) and value not in outputs:
                    self.buffers.release(self._names[value])
        return out

    def _outputs(self) -> Sequence[SSAValue]:
        where = f"function @{self._function.sym_name.data}"
        outputs: Sequence[SSAValue] = ()
        for op in self._function.body.block.ops:
            if isinstance(op, ReturnOp):
                outputs = tuple(map(te.viewed, op.arguments))
            elif not isinstance(op, te.CallOp | te.ConstantOp | te.ViewOp):
                raise CompileError(Problem(where, f"{op.name} is not a call of a kernel"))
        for value in outputs:
            if not isinstance(value.owner, te.CallOp):
                raise CompileError(Problem(where, "it returns a value that it does not compute"))
        if len(set(outputs)) != len(outputs):
            raise CompileError(Problem(where, "it returns the same value twice"))
        return outputs

    def _call(self, call: te.CallOp, out: list[Operation], site: int) -> int:
        kernel = SymbolTable.lookup_symbol(self._module, call.callee)
        if not isinstance(kernel, te.KernelOp) or not kernel.is_lowered:
            raise CompileError(
                Problem(
                    vta.layer_of(call),
                    f"kernel {call.callee} is not in loop form",
                    "Run te-to-loops and te-apply-schedule first.",
                )
            )
        for result in call.outputs:
            if result not in self._names:
                self._names[result] = self.buffers.scratch(bytes_of(result.type))
        tables = self._tables(call, kernel)
        parameters = [
            "" if parameter in tables else self._name(value)
            for parameter, value in zip(
                kernel.body.block.args, (*call.arguments, *call.outputs), strict=True
            )
        ]
        run = KernelRun(
            call,
            kernel,
            parameters,
            self.buffers,
            site,
            out,
            self._kernels.prepared,
            self._kernels.invocations,
            tables,
            self._kernels.lowerings,
        )
        return run.run()

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
                        vta.layer_of(call),
                        f"the immediates %{parameter.name_hint or parameter.index} of"
                        f" {call.callee} are not constant",
                        "Pass a te.constant for them.",
                    )
                )
            tables[parameter] = constant_value(self._ctx, constant.value, value.type)
        return tables

    def _name(self, value: SSAValue) -> str:
        value = te.viewed(value)
        if value not in self._names:
            constant = value.owner
            assert isinstance(constant, te.ConstantOp)
            attr = constant.value
            hint = attr.key.data if isinstance(attr, ResourceAttr) else name_of(value, "constant")
            self._names[value] = self.buffers.constant(hint, attr, bytes_of(value.type))
        return self._names[value]
