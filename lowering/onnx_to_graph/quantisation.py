"""QuantizeLinear and DequantizeLinear: at one scale as graph ops, of constants as constants.

A constant that is dequantised becomes a float constant that remembers its grid. Scales that are
not constant, one an axis of an activation, or blocked, stay with the host.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Operation

from vtac.dialects.context import Array, element_type
from vtac.dialects.graph import DequantizeOp, GridAttr, QuantizeOp
from vtac.lowering.onnx_to_graph.node import ConstantResult, Node, StaysOnHostError
from vtac.passes.graph.reasons import Kind

_BYTES = (np.dtype(np.int8), np.dtype(np.uint8))


@dataclass(frozen=True)
class _Steps:
    """What a node says about its steps: scales (float32) and zero points, [] or [C] along axis."""

    scale: Array
    zero_point: Array
    axis: int

    @property
    def is_single(self) -> bool:
        return self.scale.size == 1 and self.zero_point.size == 1

    def along(self, vector: Array, rank: int) -> Array:
        """A vector in the shape that broadcasts along the axis."""
        if vector.size == 1:
            return vector.reshape(())
        return vector.reshape([-1 if i == self.axis else 1 for i in range(rank)])


def _steps(node: Node, shape: Sequence[int] | None, default: "np.dtype[np.generic]") -> _Steps:
    scale = node.constant(1)
    if scale is None:
        raise StaysOnHostError("its scale is not constant")
    zero_point = node.constant(2) if node.has(2) else np.zeros(scale.shape, default)
    if zero_point is None:
        raise StaysOnHostError("its zero point is not constant")
    if scale.dtype != np.float32 or not (np.isfinite(scale) & (scale > 0)).all():
        raise StaysOnHostError("its scales are not positive float32", Kind.TYPE)
    if node.attributes.get("block_size", 0):
        raise StaysOnHostError("its scales are blocked")
    axis = node.attributes.get("axis", 1)
    if scale.size == zero_point.size == 1:
        return _Steps(scale.reshape(()), zero_point.reshape(()), 0)
    if shape is None or scale.ndim > 1 or not -len(shape) <= axis < len(shape):
        raise StaysOnHostError("its scales do not lie along one axis")
    if not scale.shape == zero_point.shape == (shape[axis],):
        raise StaysOnHostError("there are more or fewer scales or zero points than channels")
    return _Steps(scale, zero_point, axis % len(shape))


def quantize_linear(node: Node) -> Operation | ConstantResult:
    """QuantizeLinear to int8 or uint8."""
    array, shape = node.constant(0), node.shape(0)
    if array is None:
        node.floats(0)
    elif array.dtype.kind != "f":
        raise StaysOnHostError("it quantises no floats", Kind.TYPE)
    steps = _steps(node, shape, np.dtype(np.uint8))
    dtype = steps.zero_point.dtype
    if dtype not in _BYTES or (not node.has(2) and node.attributes.get("output_dtype", 0)):
        raise StaysOnHostError("it quantises to other than int8 and uint8", Kind.TYPE)
    if array is not None:
        return ConstantResult(_quantized(array, steps))
    type = node.result_type()
    if not steps.is_single or type.element_type != element_type(dtype):
        raise StaysOnHostError("an activation has a scale a channel")
    if not isinstance(node.operand(0).type, TensorType) or node.element(0) != f32:
        raise StaysOnHostError("it quantises other than float32", Kind.TYPE)
    return QuantizeOp(node.operand(0), float(steps.scale), int(steps.zero_point), type)


def _quantized(array: Array, steps: _Steps) -> Array:
    """In float32 as ONNX has it: halves to even, saturating."""
    scale = steps.along(steps.scale, array.ndim)
    zero_point = steps.along(steps.zero_point, array.ndim)
    limits = np.iinfo(zero_point.dtype)
    stored = np.rint(array.astype(np.float32) / scale) + zero_point.astype(np.float32)
    return cast(Array, np.clip(stored, limits.min, limits.max).astype(zero_point.dtype))


def dequantize_linear(node: Node) -> Operation | ConstantResult:
    """DequantizeLinear to float32: of a constant, or of an int8 or uint8 tensor at one scale."""
    array, shape = node.constant(0), node.shape(0)
    default = np.dtype(np.uint8) if array is None else array.dtype
    steps = _steps(node, shape, default)
    if array is not None:
        return _dequantized(array, steps)
    if not steps.is_single or node.result_type().element_type != f32:
        raise StaysOnHostError("an activation has a scale a channel")
    if node.element(0) not in [element_type(dtype) for dtype in _BYTES]:
        raise StaysOnHostError("it dequantises other than int8 and uint8", Kind.TYPE)
    zero_point = int(steps.zero_point)
    return DequantizeOp(node.operand(0), [float(steps.scale)], zero_point, node.result_type())


def _dequantized(array: Array, steps: _Steps) -> ConstantResult:
    if array.dtype.kind not in "iu" or array.dtype.itemsize > 4:
        raise StaysOnHostError("it dequantises no integers", Kind.TYPE)
    scale = steps.along(steps.scale, array.ndim)
    whole = array.astype(np.int64) - steps.along(steps.zero_point.astype(np.int64), array.ndim)
    grid = None
    if array.dtype in _BYTES:
        values = steps.scale.reshape(-1).astype(np.float64)
        grid = GridAttr(steps.axis, values.tolist())
    return ConstantResult(whole.astype(np.float32) * scale, grid)
