"""ConvInteger and MatMulInteger: sums of integer products, as the accelerator forms them.

Zero points become one number per channel, and padding holds that of the operand. uint8 is moved by
128 to int8. Weights that exceed int8 when their zero point is subtracted become a sum of several.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f32, i8, i32
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    AddBiasOp,
    AddOp,
    ConvOp,
    DequantizeOp,
    GemmOp,
    QuantizeOp,
    ReshapeOp,
    least_byte,
    shape_of,
)
from vtac.lowering.onnx_to_graph.node import Node, StaysOnHostError, known_shape
from vtac.lowering.onnx_to_graph.windows import window_of
from vtac.passes.graph.reasons import ReasonKind


def conv_integer(node: Node) -> Sequence[Operation]:
    """ConvInteger with constant weights and zero points."""
    weights, zero_point, result = _weights(node, axis=0), _zero_point(node), node.result_type()
    window = window_of(node, list(weights.shape[2:]))
    bias = _share(zero_point, weights.reshape(len(weights), -1))
    x, ops = _as_int8(node)
    sums: list[SSAValue] = []
    for part in _parts(weights):
        w = node.new_constant(part, "weights")
        conv = ConvOp(
            x,
            w.result,
            None,
            result,
            strides=window.strides,
            pads=window.pads,
            dilations=window.dilations,
            group=node.attributes.get("group", 1),
            pad_value=zero_point,
        )
        ops += [w, conv]
        sums.append(conv.result)
    return [*ops, *_finish(node, sums, bias)]


def matmul_integer(node: Node) -> Sequence[Operation]:
    """MatMulInteger of a vector, a matrix or several by a constant matrix."""
    weights, zero_point, type = _weights(node, axis=1), _zero_point(node), node.result_type()
    shape = known_shape(node.operand(0))
    if weights.ndim != 2:
        raise StaysOnHostError("its weights are no matrix", ReasonKind.SHAPE)
    if len(shape) != 2 and DYNAMIC_INDEX in shape:
        raise StaysOnHostError("the number of rows it multiplies is unknown", ReasonKind.SHAPE)
    rows = np.ascontiguousarray(weights.T)
    bias = _share(zero_point, rows)
    (value, ops), flat = _as_int8(node), type
    if len(shape) != 2:
        count = prod(shape[:-1])
        ops.append(ReshapeOp(value, TensorType(i8, [count, shape[-1]])))
        value, flat = ops[-1].results[0], TensorType(i32, [count, len(rows)])
    sums: list[SSAValue] = []
    for part in _parts(rows):
        w = node.new_constant(part, "weights")
        ops += [w, GemmOp(value, w.result, None, flat, trans_b=True)]
        sums.append(ops[-1].results[0])
    ops += _finish(node, sums, bias)
    return ops if flat == type else [*ops, ReshapeOp(ops[-1].results[0], type)]


def _zero_point(node: Node) -> int:
    """The zero point of the activations as int8, which must be one and constant."""
    low = least_byte(node.operand(0).type)
    zero_point = node.constant(2) if node.has(2) else np.zeros((), np.int8)
    if low is None:
        raise StaysOnHostError("its activations are no 8-bit integers", ReasonKind.TYPE)
    if zero_point is None:
        raise StaysOnHostError("the zero point of its activations is not constant")
    if zero_point.size != 1:
        raise StaysOnHostError("its activations have more than one zero point")
    return int(zero_point.reshape(-1)[0]) - 128 - low


def _as_int8(node: Node) -> tuple[SSAValue, list[Operation]]:
    """The activations as int8, and the ops that make them so."""
    value = node.operand(0)
    if least_byte(value.type) != 0:
        return value, []
    shape = shape_of(value) or ()
    real = DequantizeOp(value, [1.0], 128, TensorType(f32, shape))
    stored = QuantizeOp(real.result, 1.0, 0, TensorType(i8, shape))
    return stored.result, [real, stored]


def _weights(node: Node, axis: int) -> Array:
    """The weights less their zero points (one, or one along an axis), as int64."""
    weights = node.constant(1)
    zero_point = node.constant(3) if node.has(3) else np.zeros((), np.int8)
    if weights is None or zero_point is None or weights.ndim <= axis:
        raise StaysOnHostError("its weights or their zero points are not constant")
    if zero_point.size not in (1, weights.shape[axis]):
        raise StaysOnHostError("the zero points of its weights do not lie along one axis")
    along = [-1 if i == axis else 1 for i in range(weights.ndim)]
    zero_points = zero_point.astype(np.int64)
    moved = zero_points.reshape(()) if zero_point.size == 1 else zero_points.reshape(along)
    return np.asarray(weights.astype(np.int64) - moved)


def _parts(weights: Array) -> list[Array]:
    """The fewest int8 arrays, at least one, whose sum is the weights."""
    parts: list[Array] = []
    rest = weights
    while not parts or rest.any():
        parts.append(np.clip(rest, -128, 127).astype(np.int8))
        rest = rest - parts[-1]
    return parts


def _share(zero_point: int, rows: Array) -> Array:
    """The numbers that remove the zero point's share from the sums: int32, one per row of weights
    [O, K]."""
    largest = np.abs(rows).sum(axis=1).max(initial=0) * (128 + abs(zero_point))
    if largest > np.iinfo(np.int32).max:
        raise StaysOnHostError("a partial sum could leave int32")
    return np.asarray((-zero_point * rows.sum(axis=1)).astype(np.int32))


def _finish(node: Node, sums: Sequence[SSAValue], share: Array) -> Sequence[Operation]:
    """The sums of products, from which the share of the activations' zero point is removed."""
    ops: list[Operation] = []
    total, type = sums[0], sums[0].type
    for more in sums[1:]:
        ops.append(AddOp(total, more, type))
        total = ops[-1].results[0]
    bias = node.new_constant(share, "bias")
    return [*ops, bias, AddBiasOp(total, bias.result, type)]
