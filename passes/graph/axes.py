"""How ops look when the axes of their operands and results are permuted.

A *layout* of a value is a permutation of its axes: the value in that layout is what
``graph.transpose`` by the permutation makes of it. `layouts_with` says in which layouts an op
could compute instead, and `with_layouts` builds the op that does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, Operation, SSAValue

from vtac.dialects.graph import (
    AxisAttributes,
    ConcatOp,
    ConstantOp,
    ElementWise,
    GridAttr,
    HostOp,
    MatMulOp,
    ReshapeOp,
    TransposeOp,
    grid_of,
    integers,
    is_static,
    set_grid,
    shape_of,
)
from vtac.passes.graph.channels_first import (
    is_pointwise_product,
    pointwise_convolution,
    pooling,
    reduction_over_space,
    with_channels_first,
)
from vtac.passes.graph.constants import constant_of, new_constant

Layout = tuple[int, ...]
"""A permutation of the axes of a value."""

# fmt: off
UNARY_OPERATORS = frozenset({
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cast", "Ceil",
    "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu",
    "HardSigmoid", "HardSwish", "Log", "Mish", "Reciprocal", "Round", "Selu", "Sigmoid",
    "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh",
    "ThresholdedRelu",
})
# fmt: on
"""Operators of ONNX that stay on the host and compute each element of one operand by itself."""


NORMALISING_OPERATORS = frozenset({"Hardmax", "LogSoftmax", "Softmax"})
"""Operators of ONNX that compute along one axis, each line of elements by itself."""


@dataclass(frozen=True)
class Layouts:
    """In which layouts an op takes its operands and leaves its result.

    operands: for each operand, None where the value is taken as it is or is a constant. result:
    None where the result does not depend on the layouts of the operands.
    """

    operands: tuple[Layout | None, ...]
    result: Layout | None


def inverse(layout: Layout) -> Layout:
    """The permutation that undoes another."""
    return tuple(int(axis) for axis in np.argsort(layout))


def is_identity(layout: Layout) -> bool:
    """Whether a permutation leaves every axis where it is."""
    return list(layout) == sorted(layout)


def permuted(values: Sequence[int], layout: Layout) -> list[int]:
    """One number per axis, in the order of a layout."""
    return [values[axis] for axis in layout]


def moves_nothing(layout: Layout, shape: Sequence[int]) -> bool:
    """Whether a transpose keeps all elements in order, since only extents of 1 change places."""
    moved = [axis for axis in layout if shape[axis] != 1]
    return moved == sorted(moved)


def channels_first(rank: int) -> Layout:
    """From [N, spatial..., C] to [N, C, spatial...]."""
    return (0, rank - 1, *range(1, rank - 1))


def layouts_with(
    ctx: Context,
    op: Operation,
    value: SSAValue,
    layout: Layout,
    candidates: Callable[[SSAValue], Layout | None],
) -> Layouts | None:
    """The layouts of an op of which one operand, or the result, has this layout.

    value: that operand or result. candidates: layouts in which other values are wanted. None if the
    op computes only as it is.
    """
    if len(op.results) != 1 or isinstance(op, TransposeOp):
        return None
    if isinstance(op, ReshapeOp):
        return _reshape_layouts(op, value, layout, candidates)
    if is_pointwise_product(op) or reduction_over_space(ctx, op) is not None:
        return _channels_first_layouts(op, layout)
    if not _takes_any_layout(op, layout):
        return None
    operands: list[Layout | None] = []
    for operand in op.operands:
        shape = shape_of(operand)
        stays = isinstance(operand.owner, ConstantOp) or (shape is not None and set(shape) <= {1})
        if not stays and (shape is None or len(shape) != len(layout)):
            return None
        operands.append(None if stays else layout)
    if len(shape_of(op.results[0]) or ()) != len(layout):
        return None
    return Layouts(tuple(operands), layout)


def _takes_any_layout(op: Operation, layout: Layout) -> bool:
    """Whether an op is the same op when all its tensors are permuted."""
    if isinstance(op, HostOp):
        if op.domain.data or len(op.operands) != 1:
            return False
        return op.op_type.data in UNARY_OPERATORS or _axis_of(op) is not None
    axes = op.get_trait(AxisAttributes)
    if axes is None:
        return op.has_trait(ElementWise)
    return layout[1:2] == (1,) or not any(_has_channels(op, name) for name in axes.channels)


def _has_channels(op: Operation, name: str) -> bool:
    """Whether a property or an operand has more than one entry."""
    entries = getattr(op, name)
    if isinstance(entries, SSAValue):
        return shape_of(entries) != (1,)
    return len(entries) > 1


def _axis_of(op: HostOp) -> int | None:
    """The axis along which an operator normalises; None if it does not do that."""
    given, shape = op.onnx_attributes.data.get("axis"), shape_of(op.operands[0])
    if op.op_type.data not in NORMALISING_OPERATORS or not isinstance(given, IntegerAttr):
        return None
    # Before opset 13, all axes behind this one are normalised with it.
    if shape is None or not is_from_opset(op, 13):
        return None
    return int(given.value.data) % len(shape)


def is_from_opset(op: Operation, version: int) -> bool:
    """Whether the module around an op says that its operators are those of this opset or later."""
    root: Operation | None = op
    while root is not None and "graph.opsets" not in root.attributes:
        root = root.parent_op()
    opsets = root.attributes["graph.opsets"] if root is not None else None
    found = opsets.data.get("") if isinstance(opsets, DictionaryAttr) else None
    return isinstance(found, IntegerAttr) and found.value.data >= version


def _channels_first_layouts(op: Operation, layout: Layout) -> Layouts | None:
    """A pointwise product or a reduction over space takes its operand with channels first."""
    before, after = shape_of(op.operands[0]) or (), shape_of(op.results[0]) or ()
    given = channels_first(len(before))
    left = channels_first(len(after)) if len(after) > 2 else None
    if layout not in (given, left):
        return None
    return Layouts((given, *[None] * (len(op.operands) - 1)), left)


def _reshape_layouts(
    op: ReshapeOp,
    value: SSAValue,
    layout: Layout,
    candidates: Callable[[SSAValue], Layout | None],
) -> Layouts | None:
    """A reshape splits and joins axes; groups of axes that stay together may change places."""
    if not is_static(op.x) or not is_static(op.result):
        return None
    before, after = shape_of(op.x) or (), shape_of(op.result) or ()
    groups = _groups(before, after)
    if groups is None or 0 in (*before, *after):
        return None
    sides = [(before, [g[0] for g in groups]), (after, [g[1] for g in groups])]
    other = op.result if value is op.x else op.x
    if other is op.x:
        sides.reverse()
    order = _group_order(layout, *sides[0])
    if order is None:
        return None
    wanted = candidates(other)
    if wanted is None or _group_order(wanted, *sides[1]) != order:
        wanted = _spread(order, *sides[1])
    found = None if is_identity(wanted) else wanted
    return Layouts((found,), layout) if other is op.x else Layouts((layout,), found)


Group = list[int]


def _groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[Group, Group]] | None:
    """The smallest groups of axes before and after a reshape that hold the same elements.

    Axes of extent 1 are left out.
    """
    sides = [[axis for axis, n in enumerate(shape) if n != 1] for shape in (before, after)]
    found: list[tuple[Group, Group]] = []
    place = [0, 0]
    while place[0] < len(sides[0]) and place[1] < len(sides[1]):
        group: tuple[Group, Group] = ([], [])
        sizes = [1, 1]
        while not group[0] or sizes[0] != sizes[1]:
            smaller = 0 if sizes[0] <= sizes[1] and (not group[0] or group[1]) else 1
            if place[smaller] == len(sides[smaller]):
                return None
            axis = sides[smaller][place[smaller]]
            group[smaller].append(axis)
            sizes[smaller] *= (before, after)[smaller][axis]
            place[smaller] += 1
        found.append(group)
    return found


def _group_order(layout: Layout, shape: Sequence[int], groups: list[Group]) -> list[int] | None:
    """The order in which a layout has the groups; None if it splits a group."""
    first = {group[0]: number for number, group in enumerate(groups)}
    axes, order = [axis for axis in layout if shape[axis] != 1], list[int]()
    while axes:
        number = first.get(axes[0])
        if number is None or axes[: len(groups[number])] != groups[number]:
            return None
        axes = axes[len(groups[number]) :]
        order.append(number)
    return order


def _spread(order: list[int], shape: Sequence[int], groups: list[Group]) -> Layout:
    """A layout with the groups in this order.

    Extents of 1 stay at the side of spatial axes: before them if they come behind the first axis,
    else behind.
    """
    beside: dict[int, list[int]] = {}
    units, last = list[int](), len(shape) - 1
    used = [axis for group in groups for axis in group]
    lead = [0] if 0 not in used else []
    for axis in range(len(lead), len(shape)):
        if axis in used:
            beside[axis] = [*units, axis]
            units = []
        elif axis - 1 in used and axis - 1 not in (0, last):
            beside[axis - 1].append(axis)
        else:
            units.append(axis)
    placed = [x for number in order for axis in groups[number] for x in beside[axis]]
    return (*lead, *placed, *units)


def with_layouts(
    ctx: Context, op: Operation, operands: Sequence[SSAValue], layouts: Layouts
) -> list[Operation]:
    """The ops that compute an op in these layouts; the last has the result.

    operands: those of the op, where ``layouts`` has one already in that layout.
    """
    if isinstance(op, MatMulOp):
        made = pointwise_convolution(ctx, op, operands[0])
    elif (reduction := reduction_over_space(ctx, op)) is not None:
        made = list(pooling(with_channels_first(reduction), operands[0]))
    else:
        made = _same_op(ctx, op, operands, layouts.result)
    for each in made:
        each.location = op.location
    made[-1].results[0].name_hint = op.results[0].name_hint
    return made


def _same_op(
    ctx: Context, op: Operation, operands: Sequence[SSAValue], layout: Layout | None
) -> list[Operation]:
    """The same op with a result in a layout, behind constants that it needs permuted."""
    result = op.results[0].type
    assert isinstance(result, TensorType)
    made, given = list[Operation](), list(operands)
    if layout is not None:
        result = TensorType(result.element_type, permuted(result.get_shape(), layout))
        for place, value in enumerate(op.operands):
            constant = _permuted_constant(ctx, op, value, layout)
            if constant is not None:
                made.append(constant)
                given[place] = constant.result
    again = type(op).create(
        operands=given,
        result_types=[result],
        properties=_properties(op, layout),
        attributes=dict(op.attributes),
    )
    return [*made, again]


def _permuted_constant(
    ctx: Context, op: Operation, value: SSAValue, layout: Layout
) -> ConstantOp | None:
    """A constant operand in a layout of the result; None if it stays as it is."""
    array, axes = constant_of(ctx, value), op.get_trait(AxisAttributes)
    if array is None or (array.size == 1 and not isinstance(op, ConcatOp)):
        return None
    if axes is not None and any(getattr(op, name) is value for name in axes.channels):
        return None
    shape = (1,) * (len(layout) - array.ndim) + array.shape
    made = new_constant(
        ctx, np.ascontiguousarray(array.reshape(shape).transpose(layout)), value.name_hint, op
    )
    grid = grid_of(value)
    if grid is not None and len(grid.steps) > 1:
        axis = grid.axis.data + len(layout) - array.ndim
        grid = GridAttr(layout.index(axis), grid.steps)
    return set_grid(made, grid)


def _properties(op: Operation, layout: Layout | None) -> dict[str, Attribute]:
    properties = op.properties.copy()
    if isinstance(op, HostOp) and layout is not None and (along := _axis_of(op)) is not None:
        known = {**op.onnx_attributes.data, "axis": IntegerAttr(layout.index(along), i64)}
        properties["onnx_attributes"] = DictionaryAttr(known)
    axes = op.get_trait(AxisAttributes)
    if axes is None or layout is None:
        return properties
    for name in axes.entries:
        properties[name] = integers(permuted(_numbers(properties[name]), layout))
    for name in axes.ends:
        numbers = _numbers(properties[name])
        begins, ends = numbers[: len(layout)], numbers[len(layout) :]
        properties[name] = integers([*permuted(begins, layout), *permuted(ends, layout)])
    if axes.index is not None:
        axis = properties[axes.index]
        assert isinstance(axis, IntegerAttr)
        properties[axes.index] = IntegerAttr(layout.index(axis.value.data), i64)
    return properties


def _numbers(attribute: Attribute) -> Sequence[int]:
    assert isinstance(attribute, DenseArrayBase)
    return [int(number) for number in attribute.get_values()]
