"""Ops on channels-last tensors that the accelerator could take in channels-first form.

A product of [N, spatial..., C] by a constant matrix is a convolution of [N, C, spatial...] with
windows of one element; a mean or a sum over axes between the first and the last is a pooling.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BoolAttr,
    DenseArrayBase,
    IntegerAttr,
    TensorType,
    f32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from vtac.dialects.graph import (
    AveragePoolOp,
    ConstantOp,
    ConvOp,
    GlobalAveragePoolOp,
    HostOp,
    MatMulOp,
    MaxPoolOp,
    ReshapeOp,
    SumPoolOp,
    grid_of,
    set_grid,
    shape_of,
)
from vtac.passes.graph.constants import constant_of, new_constant

MOST_AXES = 5
"""The largest rank of a tensor that the accelerator's convolutions and poolings take."""


def is_pointwise_product(op: Operation) -> bool:
    """Whether an op multiplies [N, spatial..., C], two or more spatial axes, by a constant matrix.

    Matrices, and batches of them, are dense layers as they are.
    """
    if not isinstance(op, MatMulOp) or not isinstance(op.b.owner, ConstantOp):
        return False
    return len(shape_of(op.b) or ()) == 2 and 4 <= len(shape_of(op.a) or ()) <= MOST_AXES


def pointwise_convolution(ctx: Context, op: MatMulOp, x: SSAValue) -> list[Operation]:
    """The convolution of x: [N, C, spatial...] that computes a pointwise product."""
    matrix, shape = constant_of(ctx, op.b), shape_of(x) or ()
    assert matrix is not None
    rank = len(shape) - 2
    kernel = np.ascontiguousarray(matrix.T).reshape(*matrix.shape[::-1], *[1] * rank)
    weights = new_constant(ctx, kernel, op.b.name_hint, op)
    set_grid(weights, grid_of(op.b), transposed=True)
    assert isinstance(op.result.type, TensorType)
    type = TensorType(op.result.type.element_type, [shape[0], matrix.shape[1], *shape[2:]])
    ones, zeros = [1] * rank, [0] * (2 * rank)
    conv = ConvOp(x, weights.result, None, type, strides=ones, pads=zeros, dilations=ones)
    return [weights, conv]


@dataclass(frozen=True)
class AxisReduction:
    """The sum of a float tensor of known shape over some of its axes, or the mean.

    keeps: whether the axes stay, with an extent of 1.
    """

    is_mean: bool
    axes: frozenset[int]
    keeps: bool


def reduction_over_space(ctx: Context, op: Operation) -> AxisReduction | None:
    """The reduction of an op that reduces spatial axes of a tensor [N, spatial..., C]; else None.

    The op may also be a pooling: the importer turns reductions over axes from 2 on into poolings,
    since it takes tensors for [N, C, spatial...].
    """
    found = _operator_reduction(ctx, op) if isinstance(op, HostOp) else _pooled_reduction(op)
    if found is None:
        return None
    shape, type = shape_of(op.operands[0]) or (), op.operands[0].type
    if DYNAMIC_INDEX in shape or not 3 <= len(shape) <= MOST_AXES:
        return None
    is_float = isinstance(type, TensorType) and type.element_type == f32
    return found if is_float and found.axes <= set(range(1, len(shape) - 1)) else None


def _operator_reduction(ctx: Context, op: HostOp) -> AxisReduction | None:
    if op.op_type.data not in ("ReduceMean", "ReduceSum") or op.domain.data:
        return None
    axes, rank = _axes(ctx, op), len(shape_of(op.inputs[0]) or ())
    if not axes:  # without axes the operator reduces all axes, or none
        return None
    given = op.onnx_attributes.data.get("keepdims")
    keeps = not isinstance(given, IntegerAttr) or bool(given.value.data)
    is_mean = op.op_type.data == "ReduceMean"
    return AxisReduction(is_mean, frozenset(axis % rank for axis in axes), keeps)


def _pooled_reduction(op: Operation) -> AxisReduction | None:
    """The reduction that equals a pooling whose one window covers whole axes; else None."""
    shape = shape_of(op.operands[0]) or () if op.operands else ()
    if isinstance(op, GlobalAveragePoolOp):
        return AxisReduction(True, frozenset(range(2, len(shape))), True)
    if not isinstance(op, AveragePoolOp | SumPoolOp) or any(op.pads.get_values()):
        return None
    axes = set[int]()
    for axis, kernel in enumerate(op.kernel_shape(), 2):
        if kernel == shape[axis]:
            axes.add(axis)
        elif kernel != 1 or op.strides.get_values()[axis - 2] != 1:
            return None
    return AxisReduction(isinstance(op, AveragePoolOp), frozenset(axes), True)


def _axes(ctx: Context, op: HostOp) -> Sequence[int] | None:
    """The axes that an operator reduces: an attribute, or since opset 18 an operand."""
    given = op.onnx_attributes.data.get("axes")
    if isinstance(given, DenseArrayBase):
        return [int(axis) for axis in given.get_values()]
    array = constant_of(ctx, op.inputs[1]) if len(op.inputs) == 2 else None
    return None if array is None else [int(axis) for axis in array.reshape(-1)]


def with_channels_first(reduction: AxisReduction) -> AxisReduction:
    """The reduction of [N, spatial..., C] as one of [N, C, spatial...]."""
    return replace(reduction, axes=frozenset(axis + 1 for axis in reduction.axes))


def pooling(reduction: AxisReduction, x: SSAValue) -> Sequence[Operation]:
    """The pooling that computes a reduction of x: [N, C, spatial...] over spatial axes.

    Behind it stands a reshape, unless the axes stay.
    """
    pools = mean_pooling if reduction.is_mean else sum_pooling
    return pools(x, reduction.axes, keeps=reduction.keeps)


def mean_pooling(x: SSAValue, axes: Set[int], *, keeps: bool) -> Sequence[Operation]:
    """The mean of x: [N, C, spatial...] over some spatial axes."""
    window, type = _whole_window(x, axes)
    if len(axes) == len(type.get_shape()) - 2:
        return _reshaped(GlobalAveragePoolOp(x, type), axes, keeps)
    counts = BoolAttr.from_bool(False)
    return _reshaped(AveragePoolOp(x, type, **window, count_include_pad=counts), axes, keeps)


def sum_pooling(x: SSAValue, axes: Set[int], *, keeps: bool) -> Sequence[Operation]:
    """The sum of x: [N, C, spatial...] over some spatial axes."""
    window, type = _whole_window(x, axes)
    return _reshaped(SumPoolOp(x, type, **window), axes, keeps)


def max_pooling(x: SSAValue, axes: Set[int], *, keeps: bool) -> Sequence[Operation]:
    """The largest element of x: [N, C, spatial...] over some spatial axes."""
    window, type = _whole_window(x, axes)
    return _reshaped(MaxPoolOp(x, type, **window), axes, keeps)


def _whole_window(x: SSAValue, axes: Set[int]) -> tuple[dict[str, Any], TensorType[Attribute]]:
    """A window as large as x along some axes, and the type of what a pooling over it makes."""
    shape = shape_of(x) or ()
    kernel = [n if axis in axes else 1 for axis, n in enumerate(shape[2:], 2)]
    ones = [1] * len(kernel)
    window = {"kernel": kernel, "strides": ones, "pads": [0, 0] * len(ones), "dilations": ones}
    return window, TensorType(f32, [1 if axis in axes else n for axis, n in enumerate(shape)])


def _reshaped(pool: Operation, axes: Set[int], keeps: bool) -> Sequence[Operation]:
    """A pooling, and a reshape behind it unless the axes stay."""
    if keeps:
        return [pool]
    left = [n for axis, n in enumerate(shape_of(pool.results[0]) or ()) if axis not in axes]
    return [pool, ReshapeOp(pool.results[0], TensorType(f32, left))]
