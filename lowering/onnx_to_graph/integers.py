"""ConvInteger and MatMulInteger: sums of integer products, as the accelerator forms them.

Zero points become one number a channel, and padding holds that of the operand. uint8 is moved by
128 to int8; weights that leave int8 once their zero point is taken away are a sum of two.
"""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, f32, i8
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    AddBiasOp,
    AddOp,
    ConvOp,
    DequantizeOp,
    GemmOp,
    QuantizeOp,
    least_byte,
    shape_of,
)
from vtac.lowering.onnx_to_graph.node import Node, StaysOnHostError, known_shape
from vtac.lowering.onnx_to_graph.windows import window_of


def conv_integer(node: Node) -> Sequence[Operation]:
    """ConvInteger with constant weights and zero points."""
    x, weights = _Operand(node), _weights(node, axis=0)
    window = window_of(node, list(weights.shape[2:]))
    ops, result = list(x.ops), node.result_type()
    sums: list[SSAValue] = []
    for part in _parts(weights):
        w = node.new_constant(part, "weights")
        conv = ConvOp(
            x.value,
            w.result,
            None,
            result,
            strides=window.strides,
            pads=window.pads,
            dilations=window.dilations,
            group=node.attributes.get("group", 1),
            pad_value=x.zero_point,
        )
        ops += [w, conv]
        sums.append(conv.result)
    return [*ops, *_finish(node, sums, x.zero_point, weights.reshape(len(weights), -1))]


def matmul_integer(node: Node) -> Sequence[Operation]:
    """MatMulInteger of a matrix by a constant matrix."""
    x, weights = _Operand(node), _weights(node, axis=1)
    if weights.ndim != 2 or len(known_shape(node.operand(0))) != 2:
        raise StaysOnHostError("it multiplies tensors of other ranks than 2")
    rows = np.ascontiguousarray(weights.T)
    ops = list(x.ops)
    sums: list[SSAValue] = []
    for part in _parts(rows):
        w = node.new_constant(part, "weights")
        ops += [w, GemmOp(x.value, w.result, None, node.result_type(), trans_b=True)]
        sums.append(ops[-1].results[0])
    return [*ops, *_finish(node, sums, x.zero_point, rows)]


class _Operand:
    """The activations of a node as int8, and their zero point."""

    def __init__(self, node: Node):
        self.value = node.operand(0)
        self.ops: list[Operation] = []
        low = least_byte(self.value.type)
        zero_point = node.constant(2) if node.has(2) else np.zeros((), np.int8)
        if low is None or zero_point is None or zero_point.size != 1:
            raise StaysOnHostError("its activations are no 8-bit integers with one zero point")
        self.zero_point = int(zero_point.reshape(-1)[0]) - 128 - low
        if low == 0:
            shape = shape_of(self.value) or ()
            real = DequantizeOp(self.value, [1.0], 128, TensorType(f32, shape))
            self.ops = [real, QuantizeOp(real.result, 1.0, 0, TensorType(i8, shape))]
            self.value = self.ops[-1].results[0]


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
    """int8 arrays whose sum the weights are, one or two."""
    first = np.clip(weights, -128, 127)
    rest = weights - first
    return [part.astype(np.int8) for part in ((first, rest) if rest.any() else (first,))]


def _finish(
    node: Node, sums: Sequence[SSAValue], zero_point: int, rows: Array
) -> Sequence[Operation]:
    """The sum of products, and the share of the activations' zero point taken out of it."""
    ops: list[Operation] = []
    total = sums[0]
    for more in sums[1:]:
        ops.append(AddOp(total, more, node.result_type()))
        total = ops[-1].results[0]
    largest = np.abs(rows).sum(axis=1).max(initial=0) * (128 + abs(zero_point))
    if largest > np.iinfo(np.int32).max:
        raise StaysOnHostError("a partial sum could leave int32")
    bias = node.new_constant((-zero_point * rows.sum(axis=1)).astype(np.int32), "bias")
    return [*ops, bias, AddBiasOp(total, bias.result, node.result_type())]
