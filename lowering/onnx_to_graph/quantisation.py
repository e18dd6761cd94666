"""QuantizeLinear and DequantizeLinear: at one scale as graph ops, of constants as constants.

A constant that is dequantised becomes a float constant: integers at one scale or at one scale per
channel remember their grid; integers at one scale per block of elements, and 8-bit floats, are
ordinary weights from then on. Scales that are not constant, and activations with more than one
scale, stay with the host.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Operation

from vtac.dialects.context import Array, element_dtype, element_type
from vtac.dialects.graph import DequantizeOp, GridAttr, QuantizeOp
from vtac.lowering.onnx_to_graph.node import ConstantResult, Node, StaysOnHostError
from vtac.passes.graph.reasons import ReasonKind

_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))


@dataclass(frozen=True)
class _Steps:
    """The scales and zero points of a node.

    scale, zero_point: float32 and stored integers; [], [C] along axis, or, where block is not 0,
    of the rank of the operand with one entry per ``block`` elements along axis.
    """

    scale: Array
    zero_point: Array
    axis: int
    block: int = 0

    @property
    def is_single(self) -> bool:
        return self.scale.size == 1 and self.zero_point.size == 1

    def along(self, steps: Array, shape: Sequence[int]) -> Array:
        """Scales or zero points in a shape that broadcasts to that of the operand."""
        if self.block:
            repeated = np.repeat(steps, self.block, axis=self.axis)
            return np.take(repeated, range(shape[self.axis]), axis=self.axis)
        if steps.size == 1:
            return steps.reshape(())
        return steps.reshape([-1 if i == self.axis else 1 for i in range(len(shape))])


def _steps(node: Node, shape: Sequence[int] | None, default: "np.dtype[np.generic]") -> _Steps:
    scale = node.widened(1)
    if scale is None:
        raise StaysOnHostError("its scale is not constant")
    zero_point = node.widened(2) if node.has(2) else np.zeros(scale.shape, default)
    if zero_point is None:
        raise StaysOnHostError("its zero point is not constant")
    if scale.dtype.kind != "f" or not (np.isfinite(scale) & (scale > 0)).all():
        raise StaysOnHostError("its scales are not positive floats", ReasonKind.TYPE)
    scale = scale.astype(np.float32)
    axis, block = node.attributes.get("axis", 1), node.attributes.get("block_size", 0)
    if block and scale.size > 1:
        return _blocked_steps(scale, zero_point, shape, axis, block)
    if scale.size == zero_point.size == 1:
        return _Steps(scale.reshape(()), zero_point.reshape(()), 0)
    if shape is None or scale.ndim > 1 or not -len(shape) <= axis < len(shape):
        raise StaysOnHostError("its scales do not lie along one axis")
    if not scale.shape == zero_point.shape == (shape[axis],):
        raise StaysOnHostError("there are more or fewer scales or zero points than channels")
    return _Steps(scale, zero_point, axis % len(shape))


def _blocked_steps(
    scale: Array, zero_point: Array, shape: Sequence[int] | None, axis: int, block: int
) -> _Steps:
    """One scale per block of elements along an axis (QuantizeLinear-21)."""
    if shape is None or not -len(shape) <= axis < len(shape) or -1 in shape:
        raise StaysOnHostError(
            "its scales are blocked, and its shape is not known", ReasonKind.SHAPE
        )
    axis %= len(shape)
    expected = tuple(-(-n // block) if i == axis else n for i, n in enumerate(shape))
    if not scale.shape == zero_point.shape == expected:
        raise StaysOnHostError("there are more or fewer scales or zero points than blocks")
    return _Steps(scale, zero_point, axis, block)


def quantize_linear(node: Node) -> Operation | ConstantResult:
    """QuantizeLinear to int8 or uint8."""
    array, shape = node.constant(0), node.shape(0)
    if array is None:
        node.floats(0)
    elif array.dtype.kind != "f":
        raise StaysOnHostError("it quantises no floats", ReasonKind.TYPE)
    steps = _steps(node, shape, np.dtype(np.uint8))
    dtype = steps.zero_point.dtype
    if dtype not in _BYTES or (not node.has(2) and node.attributes.get("output_dtype", 0)):
        raise StaysOnHostError("it quantises to other than int8 and uint8", ReasonKind.TYPE)
    if array is not None:
        return ConstantResult(_quantized(array, steps))
    type = node.result_type()
    if not steps.is_single or type.element_type != element_type(dtype):
        raise StaysOnHostError("an activation has one scale per channel")
    if not isinstance(node.operand(0).type, TensorType) or node.element(0) != f32:
        raise StaysOnHostError("it quantises other than float32", ReasonKind.TYPE)
    return QuantizeOp(node.operand(0), float(steps.scale), int(steps.zero_point), type)


def _quantized(array: Array, steps: _Steps) -> Array:
    """Quantise in float32 as ONNX does: halves to even, saturating."""
    scale = steps.along(steps.scale, array.shape)
    zero_point = steps.along(steps.zero_point, array.shape)
    limits = np.iinfo(zero_point.dtype)
    stored = np.rint(array.astype(np.float32) / scale) + zero_point.astype(np.float32)
    return cast(Array, np.clip(stored, limits.min, limits.max).astype(zero_point.dtype))


def dequantize_linear(node: Node) -> Operation | ConstantResult:
    """DequantizeLinear to float32: of a constant, or of an int8 or uint8 tensor at one scale."""
    array = node.widened(0)
    shape = node.shape(0) if array is None else array.shape
    default = np.dtype(np.uint8) if array is None else array.dtype
    steps = _steps(node, shape, default)
    if array is not None:
        return _dequantized(array, steps, node)
    if not steps.is_single or node.result_type().element_type != f32:
        raise StaysOnHostError("an activation has one scale per channel")
    if node.element(0) not in [element_type(dtype) for dtype in _BYTES]:
        raise StaysOnHostError("it dequantises other than int8 and uint8", ReasonKind.TYPE)
    zero_point = int(steps.zero_point)
    return DequantizeOp(node.operand(0), [float(steps.scale)], zero_point, node.result_type())


def _dequantized(array: Array, steps: _Steps, node: Node) -> ConstantResult:
    """A dequantised constant, in the element type of the node's result."""
    if array.dtype.kind in "iu" and array.dtype.itemsize > 4:
        raise StaysOnHostError("it dequantises integers of 64 bits", ReasonKind.TYPE)
    scale = steps.along(steps.scale, array.shape)
    whole = np.float64 if array.dtype.kind == "f" else np.int64
    zero_point = steps.along(steps.zero_point.astype(whole), array.shape)
    values = (array.astype(whole) - zero_point).astype(np.float32) * scale
    grid = None
    if array.dtype in _BYTES and not steps.block:
        grid = GridAttr(steps.axis, steps.scale.reshape(-1).astype(np.float64).tolist())
    return ConstantResult(values.astype(element_dtype(node.result_type().element_type)), grid)
