"""Arithmetic of int32 and planes of 16-bit numbers as ONNX nodes, in float64 (`integer_ops`)."""

import numpy as np

from vtac.dialects.graph import MultiplyShiftOp, RequantizePlanesOp, ShiftRightByOp
from vtac.lowering.graph_to_onnx.builder import OnnxBuilder
from vtac.lowering.graph_to_onnx.integer_ops import channel_vector, floor_shift


def multiply_shift(b: OnnxBuilder, op: MultiplyShiftOp) -> None:
    """``floor((acc * multiplier + offset) * 2^-shift)`` in float64."""
    b.require(op, 8)
    multiplier, offset = (
        b.weight(np.array(float(number.value.data)), name)
        for number, name in ((op.multiplier, "multiplier"), (op.offset, "offset"))
    )
    x = b.add("Mul", [b.cast(b.name(op.acc), np.float64), multiplier])
    x = floor_shift(b, b.add("Add", [x, offset]), op.shift.value.data)
    b.define(op.result, b.cast(x, np.int32, b.name_for(op.result)))


def shift_right_by(b: OnnxBuilder, op: ShiftRightByOp) -> None:
    """``floor(acc / 2^amount)`` in float64."""
    b.require(op, 8)
    two = b.weight(np.array(2.0), "two")
    power = b.add("Pow", [two, b.cast(b.name(op.amount), np.float64)])
    x = b.add("Floor", [b.add("Div", [b.cast(b.name(op.acc), np.float64), power])])
    b.define(op.result, b.cast(x, np.int32, b.name_for(op.result)))


def requantize_planes(b: OnnxBuilder, op: RequantizePlanesOp) -> None:
    """``high = floor((v + 128) / 256)`` and ``low = v - 256 high`` in float64."""
    b.require(op, 8)
    bias = channel_vector(b, op, op.bias, op.acc).astype(np.float64)
    factor = np.exp2(-channel_vector(b, op, op.shift, op.acc).astype(np.float64))
    x = b.add("Add", [b.cast(b.name(op.acc), np.float64), b.weight(bias, "bias")])
    x = b.add("Floor", [b.add("Mul", [x, b.weight(factor, "factor")])])
    if op.bound is not None:
        bound = float(op.bound.value.data)
        x = b.add("Max", [x, b.weight(np.array(-bound), "least")])
        x = b.add("Min", [x, b.weight(np.array(bound), "most")])
    half, whole = b.weight(np.array(128.0), "half"), b.weight(np.array(256.0), "whole")
    high = floor_shift(b, b.add("Add", [x, half]), 8)
    low = b.add("Sub", [x, b.add("Mul", [high, whole])])
    b.define(op.high, b.cast(high, np.int8, b.name_for(op.high)))
    b.define(op.low, b.cast(low, np.int8, b.name_for(op.low)))
