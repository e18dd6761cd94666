"""``te-pack-lanes``: axes of logical tensors go to the lanes of the machine's elements.

Takes accelerator functions that call kernels of logical tensors of any shape, each kernel called
once. Leaves kernels in the form that everything below expects: the last two dimensions of each
tensor are lanes, products read activations [..., b, k] and weights [..., o, k]. Parameters of the
function get the types that this needs, twice where a tensor is read in two ways; constants are
packed here. The ``te.layout`` of parameters and results tells callers how to pack and unpack.

Which axes: `search`. The rewrite of a kernel: `packed_kernel`. Option ``ranks``: the text of a
point whose knobs are labels of stages (``conv=1``); such a stage gets not its cheapest lanes by
formula, but those after so many cheaper ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from vtac.dialects.context import Array, constant_attr, constant_value, tensor_type
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Target
from vtac.dialects.te import (
    CallOp,
    ConstantOp,
    KernelOp,
    Layout,
    parse_point,
    shaped,
)
from vtac.passes.te.accelerated import accelerated_functions, target_of
from vtac.passes.te.borders import layouts_of, results_of, with_layouts
from vtac.passes.te.lanes.packed_kernel import LaneAssignment, PackedKernel
from vtac.passes.te.lanes.placing import LanePlacement
from vtac.passes.te.lanes.search import KernelStage, choose_lanes
from vtac.passes.te.lanes.units import dropped_axes


@dataclass(frozen=True)
class PackLanesPass(ModulePass):
    """Put axes of logical tensors into lanes."""

    name = "te-pack-lanes"

    ranks: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every function with codegen "vta" and the kernels that it calls."""
        kernels = {k.sym_name.data: k for k in op.ops if isinstance(k, KernelOp)}
        ranks = _ranks(self.ranks, kernels.values())
        called: set[str] = set()
        for function in accelerated_functions(op):
            target = target_of(function)
            calls = [call for call in function.body.block.ops if isinstance(call, CallOp)]
            for name in (call.callee.root_reference.data for call in calls):
                if name in called:
                    raise CompileError(
                        Problem(f"te.kernel @{name}", "lanes are chosen for a kernel called once")
                    )
                called.add(name)
            called_kernels = [(c, kernels[c.callee.root_reference.data]) for c in calls]
            _Packer(ctx, function, called_kernels, target, ranks).run()


def _ranks(text: str, kernels: Iterable[KernelOp]) -> dict[str, int]:
    """The option of that name by stage. Raises `CompileError` on what is no rank of a stage."""
    try:
        point = parse_point(text)
    except ValueError as error:
        raise CompileError(Problem("", f"the ranks cannot be read: {error}")) from error
    stages = {compute.label.data for kernel in kernels for compute in kernel.computes}
    ranks = dict[str, int]()
    for stage, rank in point.items():
        if stage not in stages:
            raise CompileError(Problem("", f"there is no stage {stage!r}"))
        if isinstance(rank, bool) or not isinstance(rank, int) or rank < 0:
            raise CompileError(Problem("", f"the rank of stage {stage!r} is a number from 0 on"))
        ranks[stage] = rank
    return ranks


Where = tuple[SSAValue, LanePlacement]
"""A parameter of the function in some lanes."""


@dataclass
class _Packer:
    """The rewrite of one function. physical: its new parameters, by old one and placement."""

    ctx: Context
    function: FuncOp
    calls: Sequence[tuple[CallOp, KernelOp]]
    target: Target
    ranks: Mapping[str, int]
    block: Block = field(default_factory=Block)
    physical: dict[Where, SSAValue] = field(default_factory=dict)
    results: dict[SSAValue, tuple[SSAValue, LanePlacement]] = field(default_factory=dict)
    layouts: list[Layout] = field(default_factory=list)

    def run(self) -> None:
        """Choose, rewrite kernels, rewrite the function."""
        stages = self._stages()
        choices = choose_lanes(stages, self.target, self.ranks)
        made = {stage.compute: stage for stage in stages}
        assignment = LaneAssignment(choices, made, dropped_axes(stages, choices))
        old = self.function.body.block
        before = layouts_of(self.function.arg_attrs, old.args, "arg")
        self._layout_before = dict(zip(old.args, before, strict=True))
        kernels = [PackedKernel(kernel, assignment, self.target) for _, kernel in self.calls]
        for kernel in kernels:
            kernel.rewrite()
        self._declare_parameters(kernels)
        for (call, _), kernel in zip(self.calls, kernels, strict=True):
            self._call(call, kernel)
        self._finish(old)

    def _stages(self) -> list[KernelStage]:
        """The computes of all kernels, in order, and who makes what they read."""
        made: dict[SSAValue, KernelStage] = {}
        stages: list[KernelStage] = []
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
                made[compute.result] = KernelStage(compute, where, operands, init)
                stages.append(made[compute.result])
            made |= {
                output: made[value]
                for output, value in zip(call.outputs, results_of(kernel), strict=True)
            }
        return stages

    def _declare_parameters(self, kernels: Sequence[PackedKernel]) -> None:
        """The new parameters, in the order of the old ones."""
        wanted: dict[SSAValue, dict[LanePlacement, None]] = {}
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

    def _call(self, call: CallOp, kernel: PackedKernel) -> None:
        arguments = [
            self._argument(call, kernel, number, placement) for number, placement in kernel.given
        ]
        arguments += [self._constant(array, "factor") for array in kernel.constants]
        new = CallOp(
            kernel.kernel.sym_name.data,
            arguments,
            kernel.kernel.function_type.outputs.data,
            call.unit,
        )
        new.location = call.location
        self.block.add_op(new)
        for before, after, placement in zip(call.outputs, new.outputs, kernel.results, strict=True):
            after.name_hint = before.name_hint
            self.results[before] = after, placement

    def _argument(
        self, call: CallOp, kernel: PackedKernel, number: int, placement: LanePlacement
    ) -> SSAValue:
        """What the new call passes for an argument of the old one."""
        value = call.arguments[number]
        if value in self.results:
            return self.results[value][0]
        owner = value.owner
        if isinstance(owner, ConstantOp):
            array = constant_value(self.ctx, owner.value, value.type)
            hint = value.name_hint or "constant"
            return self._constant(kernel.pack(number, placement, array), hint)
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
