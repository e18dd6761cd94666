"""Ops that channels last keep from the accelerator, and what they are with channels first.

A product of [N, spatial..., C] by a constant matrix is a convolution of [N, C, spatial...] with
windows of one element; a mean over all axes but the first and the last is a global pooling.
"""

from collections.abc import Sequence

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, IntegerAttr, TensorType, f32
from xdsl.ir import Attribute, Operation, SSAValue

from vtac.dialects.graph import (
    ConstantOp,
    ConvOp,
    GlobalAveragePoolOp,
    HostOp,
    MatMulOp,
    ReshapeOp,
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


def is_mean_over_space(ctx: Context, op: Operation) -> bool:
    """Whether an op is the mean of a float tensor [N, spatial..., C] over all spatial axes."""
    if not isinstance(op, HostOp) or op.op_type.data != "ReduceMean" or op.domain.data:
        return False
    shape, axes = shape_of(op.inputs[0]) or (), _axes(ctx, op)
    if axes is None or DYNAMIC_INDEX in shape or not 3 <= len(shape) <= MOST_AXES:
        return False
    type = op.inputs[0].type
    is_float = isinstance(type, TensorType) and type.element_type == f32
    return is_float and {axis % len(shape) for axis in axes} == set(range(1, len(shape) - 1))


def _axes(ctx: Context, op: HostOp) -> Sequence[int] | None:
    """The axes that an operator reduces: an attribute, or since opset 18 an operand."""
    given = op.onnx_attributes.data.get("axes")
    if isinstance(given, DenseArrayBase):
        return [int(axis) for axis in given.get_values()]
    array = constant_of(ctx, op.inputs[1]) if len(op.inputs) == 2 else None
    return None if array is None else [int(axis) for axis in array.reshape(-1)]


def keeps_axes(op: HostOp) -> bool:
    """Whether an operator that reduces axes leaves them with an extent of 1."""
    given = op.onnx_attributes.data.get("keepdims")
    return not isinstance(given, IntegerAttr) or bool(given.value.data)


def global_pooling(op: HostOp, x: SSAValue) -> list[Operation]:
    """The pooling of x: [N, C, spatial...] that computes a mean over space.

    Its result is [N, C, 1...], or [N, C] where the operator keeps no axes.
    """
    shape, element = shape_of(x) or (), op.outputs[0].type
    assert isinstance(element, TensorType)
    type: TensorType[Attribute] = TensorType(f32, [*shape[:2], *[1] * (len(shape) - 2)])
    made: list[Operation] = [GlobalAveragePoolOp(x, type)]
    if not keeps_axes(op):
        made.append(ReshapeOp(made[0].results[0], TensorType(f32, shape[:2])))
    return made
