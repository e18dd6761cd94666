"""Quantisation ops as ONNX nodes, in the standard operators of any opset from 7 on.

Integer arithmetic that ONNX lacks (arithmetic shifts, bytes of int32) is done in float64, which
holds every int32 exactly: a shift right is a product by a power of two and a floor.
"""

from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array, element_dtype
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import (
    AddBiasOp,
    DequantizeOp,
    FakeQuantizeOp,
    JoinBytesOp,
    PackOp,
    QuantizeOp,
    RequantizeOp,
    RescaleOp,
    ShiftLeftOp,
    SplitBytesOp,
    UnpackOp,
    shape_of,
)
from vtac.lowering.graph_to_onnx.builder import ElementOrder, OnnxBuilder, place_of

ROUNDER = 1.5 * 2**23
"""float32 numbers near this one are the integers: adding it rounds, halves to even."""


def quantize(b: OnnxBuilder, op: QuantizeOp) -> None:
    """QuantizeLinear."""
    assert isinstance(op.result.type, TensorType)
    dtype = element_dtype(op.result.type.element_type)
    output = b.name_for(op.result)
    _quantized(b, op.x, op.scale.value.data, op.zero_point.value.data, dtype, output)
    b.define(op.result, output)


def _quantized(
    b: OnnxBuilder,
    value: SSAValue,
    scale: float,
    zero_point: int,
    dtype: np.dtype[Any],
    output: str = "",
) -> str:
    """QuantizeLinear of a value; before opset 10 the arithmetic it stands for."""
    x = b.name(value)
    assert isinstance(value.type, TensorType)
    if element_dtype(value.type.element_type) != np.float32:
        x = b.cast(x, np.float32)
    step = b.weight(np.array(scale, np.float32), "scale")
    if b.opset >= 10:
        zero = b.weight(np.array(zero_point, dtype), "zero_point")
        return b.add("QuantizeLinear", [x, step, zero], output)
    x = b.add("Clip", [b.add("Div", [x, step])], min=-512.0, max=512.0)
    rounder = b.weight(np.array(ROUNDER, np.float32), "rounder")
    x = b.add("Sub", [b.add("Add", [x, rounder]), rounder])
    x = b.add("Add", [x, b.weight(np.array(zero_point, np.float32), "zero_point")])
    low = float(np.iinfo(dtype).min)
    return b.cast(b.add("Clip", [x], min=low, max=low + 255), dtype, output)


def fake_quantize(b: OnnxBuilder, op: FakeQuantizeOp) -> None:
    """A rounding to the steps of int8: QuantizeLinear, and DequantizeLinear of its result."""
    b.require(op, 10)
    dtype = np.dtype(np.int8 if op.low.value.data < 0 else np.uint8)
    stored = _quantized(b, op.x, op.scale.value.data, op.zero_point.value.data, dtype)
    scale = b.weight(np.array(op.scale.value.data, np.float32), "scale")
    zero = b.weight(np.array(op.zero_point.value.data, dtype), "zero_point")
    b.define(op.result, b.add("DequantizeLinear", [stored, scale, zero], b.name_for(op.result)))


def dequantize(b: OnnxBuilder, op: DequantizeOp) -> None:
    """Cast, subtract and multiply: DequantizeLinear, also for int32 with one scale per channel."""
    assert isinstance(op.result.type, TensorType)
    dtype = element_dtype(op.result.type.element_type)
    x, output, zero = b.name(op.x), b.name_for(op.result), op.zero_point.value.data
    if zero:
        x = b.add("Sub", [b.cast(x, np.int32), b.weight(np.array(zero, np.int32), "zero_point")])
    scales = np.array(op.scales.get_values(), dtype)
    array = scales.reshape(()) if scales.size == 1 else _by_channel(scales, op.x)
    b.add("Mul", [b.cast(x, dtype), b.weight(array, "scale")], output)
    b.define(op.result, output)


def _by_channel(vector: Array, x: SSAValue) -> Array:
    """A vector in the shape that broadcasts along dimension 1 of ``x``."""
    return vector.reshape(1, -1, *(1 for _ in (shape_of(x) or ())[2:]))


def channel_vector(b: OnnxBuilder, op: Operation, value: SSAValue, x: SSAValue) -> Array:
    """A constant with one number per channel of ``x``."""
    array = b.constant(value)
    if array is None:
        raise CompileError(Problem(place_of(op), "its vectors must be constants"))
    return _by_channel(array, x)


def shift_left(b: OnnxBuilder, op: ShiftLeftOp) -> None:
    """A product by powers of two."""
    amounts = channel_vector(b, op, op.amount, op.x)
    factors = b.weight(np.left_shift(np.int32(1), amounts), "factor")
    b.define(
        op.result, b.add("Mul", [b.cast(b.name(op.x), np.int32), factors], b.name_for(op.result))
    )


def add_bias(b: OnnxBuilder, op: AddBiasOp) -> None:
    """Add."""
    bias = b.weight(channel_vector(b, op, op.bias, op.acc), "bias")
    b.define(op.result, b.add("Add", [b.name(op.acc), bias], b.name_for(op.result)))


def requantize(b: OnnxBuilder, op: RequantizeOp) -> None:
    """``clamp(floor((acc + bias) * 2^-shift))`` in float64."""
    b.require(op, 8)
    bias = channel_vector(b, op, op.bias, op.acc).astype(np.float64)
    factor = np.exp2(-channel_vector(b, op, op.shift, op.acc).astype(np.float64))
    x = b.add("Add", [b.cast(b.name(op.acc), np.float64), b.weight(bias, "bias")])
    x = b.add("Floor", [b.add("Mul", [x, b.weight(factor, "factor")])])
    x = b.add("Max", [x, b.weight(np.array(op.lo.value.data, np.float64), "lo")])
    x = b.add("Min", [x, b.weight(np.array(op.hi.value.data, np.float64), "hi")])
    b.define(op.result, b.cast(x, np.int8, b.name_for(op.result)))


def rescale(b: OnnxBuilder, op: RescaleOp) -> None:
    """``clamp(floor((clamp(acc + bias) * multiplier + offset) * 2^-shift))`` in float64."""
    b.require(op, 8)
    bias, least, most, multiplier, offset = (
        b.weight(channel_vector(b, op, vector, op.acc).astype(np.float64), name)
        for name, vector in op.vectors().items()
    )
    x = b.add("Add", [b.cast(b.name(op.acc), np.float64), bias])
    x = b.add("Mul", [b.add("Min", [b.add("Max", [x, least]), most]), multiplier])
    x = floor_shift(b, b.add("Add", [x, offset]), op.shift.value.data)
    x = b.add("Max", [x, b.weight(np.array(op.lo.value.data, np.float64), "lo")])
    x = b.add("Min", [x, b.weight(np.array(op.hi.value.data, np.float64), "hi")])
    b.define(op.result, b.cast(x, np.int8, b.name_for(op.result)))


def floor_shift(b: OnnxBuilder, x: str, bits: int) -> str:
    """``x >> bits`` of a float64 tensor of integers."""
    factor = b.weight(np.array(2.0**-bits), "factor")
    return b.add("Floor", [b.add("Mul", [x, factor])])


def split_bytes(b: OnnxBuilder, op: SplitBytesOp) -> None:
    """Byte k is the signed residue of ``x >> 8k`` modulo 256."""
    x = b.cast(b.name(op.x), np.float64)
    half, whole = b.weight(np.array(128.0), "half"), b.weight(np.array(256.0), "whole")
    for k, plane in enumerate(op.planes):
        shifted = floor_shift(b, x, 8 * k) if k else x
        multiple = b.add("Mul", [floor_shift(b, b.add("Add", [shifted, half]), 8), whole])
        residue = b.add("Sub", [shifted, multiple])
        b.define(plane, b.cast(residue, np.int8, b.name_for(plane)))


def join_bytes(b: OnnxBuilder, op: JoinBytesOp) -> None:
    """The sum of the bytes by their weights, the lower three unsigned."""
    total = ""
    whole = b.weight(np.array(256.0), "whole")
    for k, plane in enumerate(op.operands):
        term = b.cast(b.name(plane), np.float64)
        if k < 3:
            term = b.add("Sub", [term, b.add("Mul", [floor_shift(b, term, 8), whole])])
        if k:
            term = b.add("Mul", [term, b.weight(np.array(256.0**k), "place")])
        total = b.add("Add", [total, term]) if total else term
    b.define(op.result, b.cast(total, np.int32, b.name_for(op.result)))


def pack(b: OnnxBuilder, op: PackOp) -> None:
    """The same elements under a packed type; their layout is made where something needs it."""
    last = b.known(op.x, ElementOrder.CHANNELS_LAST)
    if last is None:
        b.define(op.result, b.name(op.x))
    else:
        b.define(op.result, last, ElementOrder.CHANNELS_LAST)


def unpack(b: OnnxBuilder, op: UnpackOp) -> None:
    """The operand as a logical tensor."""
    b.define(op.result, b.name(op.x))
