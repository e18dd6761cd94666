"""``te-pack-lanes``: axes of logical tensors go to the lanes of the machine's elements.

Takes accelerator functions that call kernels of logical tensors of any shape, each kernel called
once. Leaves kernels in the form that everything below expects: the last two dimensions of each
tensor are lanes, products read activations [..., b, k] and weights [..., o, k]. Parameters of the
function get the types that this needs, twice where a tensor is read in two ways; constants are
packed here. What callers must do is in the ``te.layout`` of parameters and results.

Which axes: `search`. Elementwise products and sums of int8 become products with a reduction over
the lanes (`choices.factors_of`), since only the GEMM core reads int8.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, TensorType, i8, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.passes import ModulePass

from vtac.dialects.context import Array, constant_attr, constant_value, tensor_type
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.dialects.te import (
    CallOp,
    ComputeOp,
    ConstantOp,
    KernelOp,
    Layout,
    Read,
    Row,
    YieldOp,
    scalar_body,
    shaped,
)
from vtac.passes.te.borders import layouts_of, results_of, with_layouts
from vtac.passes.te.computes import fresh_name
from vtac.passes.te.lanes.choices import Choice, Subscripts, factors_of
from vtac.passes.te.lanes.placing import Placement, place_constant, place_operand, place_result
from vtac.passes.te.lanes.search import Stage, choose_lanes
from vtac.passes.te.lanes.units import dropped_axes, is_zero, unit_axes


@dataclass(frozen=True)
class PackLanesPass(ModulePass):
    """Put axes of logical tensors into lanes."""

    name = "te-pack-lanes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every function with codegen "vta" and the kernels that it calls."""
        kernels = {k.sym_name.data: k for k in op.ops if isinstance(k, KernelOp)}
        called: set[str] = set()
        for function in list(op.ops):
            if not isinstance(function, FuncOp):
                continue
            if function.attributes.get("codegen") != StringAttr("vta"):
                continue
            target = function.attributes.get(TARGET_ATTRIBUTE, op.attributes.get(TARGET_ATTRIBUTE))
            if not isinstance(target, Target):
                where = f"function @{function.sym_name.data}"
                raise CompileError(Problem(where, "it has no target", "vta-opt --target sets one."))
            calls = [call for call in function.body.block.ops if isinstance(call, CallOp)]
            for name in (call.callee.root_reference.data for call in calls):
                if name in called:
                    raise CompileError(
                        Problem(f"te.kernel @{name}", "lanes are chosen for a kernel called once")
                    )
                called.add(name)
            _Packer(
                ctx, function, [(c, kernels[c.callee.root_reference.data]) for c in calls], target
            ).run()


Where = tuple[SSAValue, Placement]
"""A parameter or a constant of the function in some lanes."""


@dataclass
class _Packer:
    """The rewrite of one function. physical: its new values, by the old one and its placement."""

    ctx: Context
    function: FuncOp
    calls: Sequence[tuple[CallOp, KernelOp]]
    target: Target
    block: Block = field(default_factory=Block)
    physical: dict[Where, SSAValue] = field(default_factory=dict)
    results: dict[SSAValue, tuple[SSAValue, Placement]] = field(default_factory=dict)
    layouts: list[Layout] = field(default_factory=list)

    def run(self) -> None:
        """Choose, rewrite kernels, rewrite the function."""
        stages = self._stages()
        choices = choose_lanes(stages, self.target)
        made = {stage.compute: stage for stage in stages}
        plan = Plan(choices, dropped_axes(stages, choices), made)
        old = self.function.body.block
        before = layouts_of(self.function.arg_attrs, old.args, "arg")
        self._layout_before = dict(zip(old.args, before, strict=True))
        kernels = [_Kernel(kernel, plan, self.target) for _, kernel in self.calls]
        for kernel in kernels:
            kernel.rewrite()
        self._declare_parameters(kernels)
        for (call, _), kernel in zip(self.calls, kernels, strict=True):
            self._call(call, kernel)
        self._finish(old)

    def _stages(self) -> list[Stage]:
        """The computes of all kernels, in order, and who makes what they read."""
        made: dict[SSAValue, Stage] = {}
        stages: list[Stage] = []
        for call, kernel in self.calls:
            made |= {
                parameter: made[argument]
                for parameter, argument in zip(kernel.body.block.args, call.arguments, strict=True)
                if argument in made
            }
            for compute in kernel.computes:
                operands = tuple(made.get(read.value) for read in compute.reads)
                init = None if compute.init is None else made.get(compute.init)
                where = f'te.kernel @{kernel.sym_name.data}, stage "{compute.label.data}"'
                made[compute.result] = Stage(compute, where, operands, init)
                stages.append(made[compute.result])
            made |= {
                output: made[value]
                for output, value in zip(call.outputs, results_of(kernel), strict=True)
            }
        return stages

    def _declare_parameters(self, kernels: Sequence["_Kernel"]) -> None:
        """The new parameters, in the order of the old ones."""
        wanted: dict[SSAValue, dict[Placement, None]] = {}
        for (call, _), kernel in zip(self.calls, kernels, strict=True):
            for number, placement in kernel.given:
                wanted.setdefault(call.arguments[number], {})[placement] = None
        for argument, layout in self._layout_before.items():
            for placement in wanted.get(argument, ()):
                shape = placement.shape(shaped(argument).get_shape())
                type = TensorType(shaped(argument).element_type, shape)
                new = self.block.insert_arg(type, len(self.block.args))
                new.name_hint = argument.name_hint
                self.physical[argument, placement] = new
                self.layouts.append(placement.layout(layout))

    def _call(self, call: CallOp, kernel: "_Kernel") -> None:
        arguments = [
            self._value(call.arguments[number], placement) for number, placement in kernel.given
        ]
        arguments += [self._constant(array, "factor") for array in kernel.constants]
        new = CallOp(
            kernel.kernel.sym_name.data, arguments, kernel.kernel.function_type.outputs.data
        )
        new.location = call.location
        self.block.add_op(new)
        for before, after, placement in zip(call.outputs, new.outputs, kernel.results, strict=True):
            after.name_hint = before.name_hint
            self.results[before] = after, placement

    def _value(self, value: SSAValue, placement: Placement) -> SSAValue:
        if value in self.results:
            return self.results[value][0]
        owner = value.owner
        if isinstance(owner, ConstantOp) and (value, placement) not in self.physical:
            array = constant_value(self.ctx, owner.value, value.type)
            layout = placement.layout(Layout.plain("", array.shape))
            hint = value.name_hint or "constant"
            self.physical[value, placement] = self._constant(layout.pack(array), hint)
        return self.physical[value, placement]

    def _constant(self, array: Array, hint: str) -> SSAValue:
        op = ConstantOp(constant_attr(self.ctx, array, hint), tensor_type(array))
        op.result.name_hint = hint
        for known in self.block.ops:
            if isinstance(known, ConstantOp) and known.is_structurally_equivalent(op):
                return known.result
        self.block.add_op(op)
        return op.result

    def _finish(self, old: Block) -> None:
        last = old.last_op
        assert isinstance(last, ReturnOp)
        layouts = layouts_of(self.function.res_attrs, last.arguments, "result")
        values, packed = [], []
        for value, layout in zip(last.arguments, layouts, strict=True):
            new, placement = self.results[value]
            values.append(new)
            packed.append(placement.layout(layout))
        self.block.add_op(ReturnOp(*values))
        self.function.properties["function_type"] = FunctionType.from_lists(
            self.block.arg_types, [value.type for value in values]
        )
        self.function.arg_attrs = with_layouts(None, self.layouts)
        self.function.res_attrs = with_layouts(self.function.res_attrs, packed)
        self.function.body.detach_block(old)
        old.erase(safe_erase=False)
        self.function.body.add_block(self.block)


@dataclass(frozen=True)
class Plan:
    """What was decided: lanes of each compute, axes that it loses, and who makes what it reads."""

    choices: Mapping[ComputeOp, Choice]
    dropped: Mapping[ComputeOp, frozenset[int]]
    stages: Mapping[ComputeOp, Stage]


@dataclass
class _Kernel:
    """The rewrite of one kernel.

    given: for each new parameter the number of the old one, and its placement. constants: what the
    call passes after these. results: the placement of each result.
    """

    kernel: KernelOp
    plan: Plan
    target: Target
    given: list[tuple[int, Placement]] = field(default_factory=list)
    constants: list[Array] = field(default_factory=list)
    results: list[Placement] = field(default_factory=list)
    _block: Block = field(default_factory=Block)
    _values: dict[SSAValue, SSAValue] = field(default_factory=dict)
    _numbers: dict[SSAValue, int] = field(default_factory=dict)

    def rewrite(self) -> None:
        """Build the new body beside the old one, and exchange them."""
        old = self.kernel.body.block
        self._numbers = {argument: number for number, argument in enumerate(old.args)}
        placed = [self._placements(compute) for compute in self.kernel.computes]
        parameters = self._parameters(placed)
        for compute, placements in zip(self.kernel.computes, placed, strict=True):
            self._compute(compute, placements, parameters)
        batch, block = self.target.batch, self.target.block
        results = results_of(self.kernel)
        for value in results:
            assert isinstance(value.owner, ComputeOp)
            placement = place_result(self.plan.choices[value.owner], batch, block)
            self.results.append(placement.without(self.plan.dropped[value.owner]))
        self._block.add_op(YieldOp(*(self._values[value] for value in results)))
        self.kernel.properties["function_type"] = FunctionType.from_lists(
            self._block.arg_types, [self._values[value].type for value in results]
        )
        self.kernel.body.detach_block(old)
        old.erase(safe_erase=False)
        self.kernel.body.add_block(self._block)

    def _placements(self, compute: ComputeOp) -> list[Placement]:
        """How each operand must lie; that of a stage of the kernel does so already."""
        choice = self.plan.choices[compute]
        batch, block = self.target.batch, self.target.block
        found = []
        for number, read in enumerate(compute.reads):
            placement = place_operand(choice, number, Subscripts(read), batch, block)
            found.append(placement.without(self._dropped(compute, number, placement)))
        if choice.depth is not None and choice.weights is None:
            found.append(place_constant(choice, block))
        return found

    def _dropped(self, compute: ComputeOp, number: int, placement: Placement) -> frozenset[int]:
        """The dimensions that an operand has lost: its maker says, or whoever reads a parameter."""
        maker = self.plan.stages[compute].operands[number]
        if maker is not None:
            return self.plan.dropped[maker.compute]
        read, units = compute.reads[number], unit_axes(compute, self.plan.choices[compute])
        blocks = placement.shape(shaped(read.value).get_shape())
        gone = {d for d, row in enumerate(read.rows) if blocks[d] == 1 and is_zero(row, units)}
        return frozenset(gone - {0} if len(gone) == len(read.rows) else gone)

    def _parameters(
        self, placed: Sequence[Sequence[Placement]]
    ) -> dict[tuple[int | str, Placement], SSAValue]:
        """The new parameters: of tensors first, then of factors that are numbers."""
        found: dict[tuple[int | str, Placement], SSAValue] = {}
        factors: dict[tuple[str, Placement], Array] = {}
        for compute, placements in zip(self.kernel.computes, placed, strict=True):
            for read, placement in zip(compute.reads, placements, strict=False):
                number = self._numbers.get(read.value)
                if number is not None and (number, placement) not in found:
                    shape = placement.shape(shaped(read.value).get_shape())
                    type = TensorType(shaped(read.value).element_type, shape)
                    found[number, placement] = self._parameter(type, read.value.name_hint)
                    self.given.append((number, placement))
            if len(placements) > len(compute.reads):
                value = _constant_factor(compute)
                array = placements[-1].layout(Layout.plain("", ())).pack(np.array(value, np.int8))
                factors[f"factor {value}", placements[-1]] = array
        for key, array in factors.items():
            found[key] = self._parameter(tensor_type(array), "factor")
            self.constants.append(array)
        return found

    def _parameter(self, type: Attribute, hint: str | None) -> SSAValue:
        argument = self._block.insert_arg(type, len(self._block.args))
        argument.name_hint = hint
        return argument

    def _compute(
        self,
        compute: ComputeOp,
        placements: Sequence[Placement],
        parameters: Mapping[tuple[int | str, Placement], SSAValue],
    ) -> None:
        choice = self.plan.choices[compute]
        axes = _LaneAxes(compute, choice, self.plan.dropped[compute], self.target)
        reads = []
        for number, (read, placement) in enumerate(zip(compute.reads, placements, strict=False)):
            parameter = self._numbers.get(read.value)
            value = (
                self._values[read.value] if parameter is None else parameters[parameter, placement]
            )
            reads.append(Read(value, axes.rows(read, number, placement), read.outside))
        element: Attribute = compute.element_type
        if choice.depth is None:
            body = compute.body.clone()
        else:
            if choice.weights is None:
                key = f"factor {_constant_factor(compute)}", placements[-1]
                reads = [reads[choice.activations], Read(parameters[key], axes.weight_lanes)]
            else:
                reads = [reads[choice.activations], reads[choice.weights]]
            body = scalar_body([i32, i8, i8], _multiply_accumulate)
        starts = choice.depth is not None or len(compute.reduce) > 0
        init = None if compute.init is None else self._values[compute.init]
        identity = 0 if compute.identity is None else compute.identity.value.data
        new = ComputeOp(
            compute.label.data,
            dict(axes.spatial),
            dict(axes.reduce),
            reads,
            body,
            element,
            identity=identity if starts and init is None else None,
            init=init,
        )
        new.location = compute.location
        new.result.name_hint = compute.result.name_hint
        self._block.add_op(new)
        self._values[compute.result] = new.result


class _LaneAxes:
    """The axes of a compute in lanes: the old ones in blocks, then lanes, for both domains."""

    def __init__(self, compute: ComputeOp, choice: Choice, dropped: frozenset[int], target: Target):
        self.choice, rank = choice, len(compute.spatial)
        names = [*compute.spatial.names, *compute.reduce.names]
        units = unit_axes(compute, choice)
        if choice.depth is None and units.issuperset(range(rank, len(names))):
            units = units - {rank}  # a reduction of the ALU keeps one of its axes
        kept = [v for v in range(len(names)) if v not in (dropped if v < rank else units)]
        self.spatial = [(names[v], self._blocks(compute, v)) for v in kept if v < rank]
        self.reduce = [(names[v], self._blocks(compute, v)) for v in kept if v >= rank]
        self.b, self.o = len(self.spatial), len(self.spatial) + 1
        self.k = len(kept) + 2
        self._places = {v: n + (0 if v < rank else 2) for n, v in enumerate(kept)}
        b, o, k = (fresh_name(lane, names) for lane in ("b", "o", "k"))
        self.spatial += [(b, target.batch), (o, target.block)]
        if choice.depth is not None:
            self.reduce.append((k, target.block))

    def _blocks(self, compute: ComputeOp, variable: int) -> int:
        return -(-compute.extents[variable] // self.choice.counts.get(variable, 1))

    def rows(self, read: Read, number: int, placement: Placement) -> tuple[Row, ...]:
        """The subscripts of an operand: blocks, then lanes. Axes that are gone were always 0."""
        lanes = (self.b, self.o)
        if self.choice.depth is not None:
            activations = number == self.choice.activations
            lanes = (self.b, self.k) if activations else (self.o, self.k)
        outer = [
            Row.of(
                [(self._places[v], c) for v, c in row.terms if v in self._places],
                row.constant,
                row.divisor,
            )
            for dim, row in enumerate(read.rows)
            if dim not in placement.dropped
        ]
        return (*outer, *(Row.of([(lane, 1)]) for lane in lanes))

    @property
    def weight_lanes(self) -> tuple[Row, ...]:
        """The subscripts of weights that are one element."""
        return Row.of([(self.o, 1)]), Row.of([(self.k, 1)])


def _constant_factor(compute: ComputeOp) -> int:
    factors = factors_of(compute)
    assert factors is not None and factors.constant is not None
    return factors.constant


def _multiply_accumulate(acc: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    product = arith.MuliOp(arith.ExtSIOp(a, i32).result, arith.ExtSIOp(b, i32).result)
    return arith.AddiOp(acc, product.result).result
