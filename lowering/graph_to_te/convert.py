"""``graph-to-te``: the integer ops of accelerator functions become kernels of tensor expressions.

Takes functions with ``codegen = "vta"`` whose activations are packed (``layout``). Afterwards they
consist of `te.constant` and `te.call` over physical tensors, and the module contains their kernels,
which equal layers share. Concatenations and slices of whole elements become `te.assemble` and
`te.window`, which move nothing; so do the windows and assemblies of a plan, whose instances
``graph-inline-instances`` has inlined. What a plan for a cluster says of a layer goes to its call:
its binding as ``parts`` and ``core``, the places of its results as ``graph.places``. Callers keep
the packed types of the graph: an ``unrealized_conversion_cast``, which moves nothing either,
converts arguments and results.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FunctionType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnrealizedConversionCastOp,
    i64,
)
from xdsl.dialects.func import CallOp as FuncCallOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects.context import Array, constant_attr, constant_value, tensor_type
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import (
    BINDING,
    PLACES,
    BatchMatMulOp,
    BindingAttr,
    ConcatOp,
    ConstantOp,
    SliceOp,
    TensorAssembleOp,
    TensorWindowOp,
    packing,
)
from vtac.dialects.graph.pieces import unit_of
from vtac.dialects.graph.rectangles import moves_whole_elements, starts_of
from vtac.dialects.target import Target
from vtac.dialects.te import AssembleOp, CallOp, KernelOp, ViewOp, WindowOp, shaped
from vtac.dialects.te import ConstantOp as TensorConstantOp
from vtac.lowering.graph_to_te.groups import Group, groups_of
from vtac.lowering.graph_to_te.kernel import BlockedLayout, KernelBuilder, label_of, unsupported
from vtac.lowering.graph_to_te.stages import emit
from vtac.passes.te.accelerated import accelerated_functions, is_accelerated, target_of


@dataclass(frozen=True)
class GraphToTePass(ModulePass):
    """Turn accelerator functions into kernels and their calls."""

    name = "graph-to-te"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Convert every function with codegen "vta"; all problems are reported together."""
        problems: list[Problem] = []
        kernels = _Kernels(op)
        for function in accelerated_functions(op):
            try:
                _convert(ctx, function, target_of(function), kernels, problems)
            except CompileError as error:
                problems += error.problems
        if problems:
            raise CompileError(problems)
        _cast_around_calls(op)


@dataclass
class _Kernels:
    """The kernels of a module, without duplicates."""

    module: ModuleOp
    names: set[str] = field(init=False)
    made: list[KernelOp] = field(default_factory=list)

    def __post_init__(self) -> None:
        symbols = (op.properties.get("sym_name") for op in self.module.ops)
        self.names = {name.data for name in symbols if isinstance(name, StringAttr)}

    def add(self, kernel: KernelOp) -> str:
        """The name of an equal kernel of the module; if there is none, this one is added."""
        for known in self.made:
            if known.function_type == kernel.function_type and (
                known.body.is_structurally_equivalent(kernel.body)
            ):
                kernel.erase()
                return known.sym_name.data
        base, number = kernel.sym_name.data, 0
        name = f"{base}{number}"
        while name in self.names:
            number += 1
            name = f"{base}{number}"
        kernel.properties["sym_name"] = StringAttr(name)
        self.names.add(name)
        self.made.append(kernel)
        self.module.body.block.add_op(kernel)
        return name


@dataclass
class _Caller:
    """The new body of a function, which consists of constants and calls.

    values: the new value of each activation of the old body.
    """

    ctx: Context
    block: Block
    values: dict[SSAValue, SSAValue] = field(default_factory=dict)
    constants: dict[str, SSAValue] = field(default_factory=dict)

    def constant(self, array: Array, hint: str) -> SSAValue:
        """The constant of the function with this array."""
        attr = constant_attr(self.ctx, array, hint)
        key = f"{attr}{array.shape}"
        if key not in self.constants:
            op = TensorConstantOp(attr, tensor_type(array))
            self.block.add_op(op)
            self.constants[key] = op.result
        return self.constants[key]

    def view(self, value: SSAValue, type: Attribute) -> SSAValue:
        """The value, behind a view if it has another physical type."""
        if value.type == type:
            return value
        op = ViewOp(value, type)
        op.result.name_hint = value.name_hint
        self.block.add_op(op)
        return op.result


def _convert(
    ctx: Context, function: FuncOp, target: Target, kernels: _Kernels, problems: list[Problem]
) -> None:
    layout = BlockedLayout(target, _spatial_rank(function, target))
    old = function.body.block
    caller = _Caller(ctx, Block(arg_types=[layout.type(type) for type in old.arg_types]))
    for before, after in zip(old.args, caller.block.args, strict=True):
        after.name_hint = before.name_hint
        caller.values[before] = after
    for group in groups_of(function):
        try:
            _call_kernel(ctx, group, layout, caller, kernels)
        except CompileError as error:
            problems += error.problems
            for outside, _ in group.outputs:
                caller.values.setdefault(outside, outside)
    if problems:
        return
    last = old.last_op
    assert isinstance(last, ReturnOp)
    caller.block.add_op(ReturnOp(*(caller.values[value] for value in last.arguments)))
    types = [caller.values[value].type for value in last.arguments]
    function.properties["function_type"] = FunctionType.from_lists(caller.block.arg_types, types)
    function.body.detach_block(old)
    old.erase(safe_erase=False)
    function.body.add_block(caller.block)


def _spatial_rank(function: FuncOp, target: Target) -> int:
    """The largest number of spatial dimensions of an activation. Checks that all fit the target."""
    rank = 0
    for value in _values(function):
        layout = packing(value.type)
        if layout is None:
            continue
        rows = target.block if layout.holds_weights else target.batch
        if (layout.batch.data, layout.block.data) != (rows, target.block):
            raise CompileError(
                Problem(
                    function.sym_name.data,
                    f"it is packed for {layout.batch.data}x{layout.block.data}, the target is"
                    f" {target.batch}x{target.block}",
                    "Run layout with the same target.",
                )
            )
        assert isinstance(value.type, TensorType)
        rank = max(rank, len(value.type.get_shape()) - 2)
    return rank


def _values(function: FuncOp) -> Sequence[SSAValue]:
    values: list[SSAValue] = list(function.body.block.args)
    for op in function.walk():
        values += op.results
    return values


def _call_kernel(
    ctx: Context, group: Group, layout: BlockedLayout, caller: _Caller, kernels: _Kernels
) -> None:
    """Append the call of a group's kernel, and record the new values of its results."""
    (*_, last) = group.ops
    if isinstance(last, ConcatOp | SliceOp) and len(group.ops) == 1:
        _place(last, group, layout, caller)
        return
    if isinstance(last, TensorWindowOp | TensorAssembleOp):
        _place_pieces(last, layout, caller)
        return

    def constant_of(value: SSAValue) -> Array | None:
        owner = group.inner.get(value, value).owner
        if isinstance(owner, ConstantOp):
            return constant_value(ctx, owner.value, owner.result.type)
        return None

    inputs = [value for value in group.inputs if constant_of(value) is None]
    entries = [op.entries for op in group.ops if isinstance(op, BatchMatMulOp)]
    own = replace(layout, entries=max(entries, default=1))
    read = {outside: inside.type for inside, outside in group.inner.items() if _is_weights(inside)}
    builder = KernelBuilder(own, constant_of, inputs, read)
    for inside, outside in group.inner.items():
        if outside in builder.values:
            builder.values[inside] = builder.values[outside]
    for op in group.ops:
        _check_layouts(op)
        emit(op, builder)
    made: dict[SSAValue, list[SSAValue]] = {}
    for outside, inside in group.outputs:
        value = builder.values[inside]
        if isinstance(value, BlockArgument):
            given = _given(caller, inputs[value.index], group)
            caller.values[outside] = caller.view(given, layout.type(outside.type))
        else:
            made.setdefault(value, []).append(outside)
    if not made:
        return
    arguments = [
        caller.view(_given(caller, value, group), own.type(read.get(value, value.type)))
        for value in inputs
    ]
    finished = builder.finish(_identifier(group.name), list(made))
    arguments += [caller.constant(array, hint) for array, hint in finished.constants]
    name = kernels.add(finished.kernel)
    call = CallOp(name, arguments, finished.results)
    call.location = group.layer.location
    _bind(call, group.layer, own)
    _place_results(call, group, [values[0] for values in made.values()])
    caller.block.add_op(call)
    for result, stands_for in zip(call.outputs, made.values(), strict=True):
        result.name_hint = stands_for[0].name_hint
        for value in stands_for:
            caller.values[value] = caller.view(result, layout.type(value.type))


def _bind(call: CallOp, layer: Operation, layout: BlockedLayout) -> None:
    """Let the call of a layer be cut as the layer's binding says, if it has one."""
    binding = layer.attributes.get(BINDING)
    if not isinstance(binding, BindingAttr):
        return
    factors = [1] * len(shaped(call.outputs[0]).get_shape())
    channel = layout.channel
    places = {"n": channel - 1, "c": channel, "h": channel + 1}
    for name, factor in binding.factors.items():
        factors[places[name]] = factor
    call.set_core(binding.first.data)
    call.properties["parts"] = DenseArrayBase.from_list(i64, factors)


def _place_results(op: CallOp | AssembleOp, group: Group, outside: Sequence[SSAValue]) -> None:
    """Pass on the places that a plan gives the results of a group, which are these of `outside`."""
    places = group.layer.attributes.get(PLACES)
    results = [value for value, _ in group.outputs]
    if isinstance(places, ArrayAttr) and len(places) == len(results):
        known = dict(zip(results, places, strict=True))
        op.attributes[PLACES] = ArrayAttr([known[value] for value in outside])


def _place(op: ConcatOp | SliceOp, group: Group, layout: BlockedLayout, caller: _Caller) -> None:
    """Append the assembly, or the window, that a concatenation or a slice becomes."""
    batch, block = layout.target.batch, layout.target.block
    if not moves_whole_elements(op, batch, block):
        hint = f"join and cut at multiples of {batch} entries and {block} channels"
        raise unsupported(op, "rectangles that cut its elements", hint)
    units = (batch, block)
    rank = layout.rank + 4

    def in_elements(starts: Sequence[int]) -> list[int]:
        whole = [start // unit for start, unit in zip(starts, units, strict=False)]
        return [*whole, *starts[2:], *(0 for _ in range(rank - len(starts)))]

    operands = [_given(caller, group.inner.get(value, value), group) for value in op.operands]
    made: AssembleOp | WindowOp
    if isinstance(op, ConcatOp):
        starts = [in_elements(start) for start in starts_of(op)]
        made = AssembleOp(operands, starts, layout.type(op.result.type))
        _place_results(made, group, [value for value, _ in group.outputs])
    else:
        starts_in_x = in_elements(op.starts.get_values())
        made = WindowOp(operands[0], starts_in_x, layout.type(op.result.type))
    made.location = group.layer.location
    caller.block.add_op(made)
    for outside, _ in group.outputs:
        made.result.name_hint = outside.name_hint
        caller.values[outside] = made.result


def _place_pieces(
    op: TensorWindowOp | TensorAssembleOp, layout: BlockedLayout, caller: _Caller
) -> None:
    """Append the window, or the assembly, of te that one of a plan becomes."""
    rank = layout.rank + 4

    def in_elements(starts: Sequence[int]) -> list[int]:
        units = [unit_of(op.result, dimension) for dimension in range(len(starts))]
        whole = [start // unit for start, unit in zip(starts, units, strict=True)]
        return [*whole, *(0 for _ in range(rank - len(starts)))]

    operands = [caller.values[value] for value in op.operands]
    type = layout.type(op.result.type)
    made: AssembleOp | WindowOp
    if isinstance(op, TensorWindowOp):
        made = WindowOp(operands[0], in_elements([start for start, _ in op.rectangle]), type)
    else:
        starts = [[start for start, _ in rectangle] for rectangle in op.rectangles]
        made = AssembleOp(operands, [in_elements(each) for each in starts], type)
    if PLACES in op.attributes:
        made.attributes[PLACES] = op.attributes[PLACES]
    made.location = op.location
    made.result.name_hint = op.result.name_hint
    caller.block.add_op(made)
    caller.values[op.result] = made.result


def _is_weights(value: SSAValue) -> bool:
    """Whether a value is packed as weights are."""
    layout = packing(value.type)
    return layout is not None and layout.holds_weights


def _check_layouts(op: Operation) -> None:
    """Raise `CompileError` if an op reads weights of the packed layout as activations."""
    for number, operand in enumerate(op.operands):
        layout = packing(operand.type)
        may_be_weights = isinstance(op, BatchMatMulOp) and number == 1
        if layout is not None and layout.holds_weights and not may_be_weights:
            raise unsupported(op, "activations packed as weights are", "pack them once more")


def _given(caller: _Caller, value: SSAValue, group: Group) -> SSAValue:
    if value not in caller.values:
        raise CompileError(
            Problem(label_of(group.layer), "it reads a value that depends on its own results")
        )
    return caller.values[value]


def _identifier(name: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in name) or "kernel"


def _cast_around_calls(module: ModuleOp) -> None:
    """Convert the operands and results of calls to the physical types of their callees."""
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, FuncOp)}
    for call in [op for op in module.walk() if isinstance(op, FuncCallOp)]:
        callee = functions.get(call.callee.root_reference.data)
        if not is_accelerated(callee):
            continue
        builder = Builder(InsertPoint.before(call))
        arguments = [
            builder.insert(UnrealizedConversionCastOp.get([value], [type])).results[0]
            for value, type in zip(call.arguments, callee.function_type.inputs, strict=True)
        ]
        new = builder.insert(FuncCallOp(call.callee, arguments, callee.function_type.outputs.data))
        new.location, new.attributes = call.location, call.attributes.copy()
        for before, after in zip(call.results, new.results, strict=True):
            cast = builder.insert(UnrealizedConversionCastOp.get([after], [before.type]))
            after.name_hint = before.name_hint
            before.replace_all_uses_with(cast.results[0])
        Rewriter.erase_op(call)
