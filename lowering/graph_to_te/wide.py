"""Arithmetic of accumulators, and planes of 16-bit numbers, as computes."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import i8
from xdsl.ir import Operation, SSAValue

from vtac.dialects.graph import MultiplyShiftOp, RequantizePlanesOp, ShiftRightByOp
from vtac.lowering.graph_to_te.kernel import (
    KernelBuilder,
    immediate,
    label_of,
    narrow,
    unsupported,
)
from vtac.lowering.graph_to_te.vectors import IMMEDIATES, applied, channel_constant


def multiply_shift(op: MultiplyShiftOp, kernel: KernelBuilder) -> list[SSAValue]:
    """``(acc * multiplier + offset) >> shift`` with immediates; a large offset is a parameter."""
    multiplier, shift = op.multiplier.value.data, op.shift.value.data
    if multiplier != 1 and not kernel.layout.target.alu_mul:
        raise unsupported(op, "a product with a number", "keep it on the host")
    offset: int | SSAValue = op.offset.value.data
    vectors = []
    if offset not in IMMEDIATES:
        channels = kernel.channels_of(op.acc)
        vector = np.full(channels, offset, np.int32)
        offset = kernel.parameter(vector, f"{label_of(op)}.offset")
        vectors.append(offset)

    def body(acc: SSAValue, *scalars: SSAValue) -> SSAValue:
        value = acc
        if multiplier != 1:
            value = arith.MuliOp(value, immediate(multiplier)).result
        value = applied(arith.AddiOp, value, offset, iter(scalars))
        return applied(arith.ShRSIOp, value, shift, iter(()))

    if multiplier == 1 and offset == 0 and shift == 0:
        return [kernel.values[op.acc]]
    return [kernel.elementwise("scale", kernel.values[op.acc], body, vectors=vectors)]


def shift_right_by(op: ShiftRightByOp, kernel: KernelBuilder) -> list[SSAValue]:
    """A shift to the right of each accumulator by the amount in another accumulator."""
    acc, amount = kernel.values[op.acc], kernel.values[op.amount]
    return [
        kernel.elementwise(
            "shift_by", acc, lambda x, by: arith.ShRSIOp(x, by).result, others=[amount]
        )
    ]


def requantize_planes(op: RequantizePlanesOp, kernel: KernelBuilder) -> list[SSAValue]:
    """The low byte is stored, the number is shifted by 8, and the low byte is stored again."""
    layer = label_of(op)
    shift_vector = kernel.constant(op.shift, "shift")
    if not 0 <= int(shift_vector.min()) <= int(shift_vector.max()) <= 31:
        raise unsupported(op, "a right shift outside 0 to 31", "requantise with another scale")
    bias = channel_constant(kernel, op.bias, "bias", layer, IMMEDIATES)
    shift = channel_constant(kernel, op.shift, "shift", layer, range(32))

    def body(acc: SSAValue, *vectors: SSAValue) -> SSAValue:
        rest = iter(vectors)
        value = applied(arith.AddiOp, acc, bias, rest)
        value = applied(arith.ShRSIOp, value, shift, rest)
        if op.bound is None:
            return value
        value = arith.MaxSIOp(value, immediate(-op.bound.value.data)).result
        return arith.MinSIOp(value, immediate(op.bound.value.data)).result

    def raised(value: SSAValue) -> SSAValue:
        return arith.ShRSIOp(arith.AddiOp(value, immediate(128)).result, immediate(8)).result

    vectors = [value for value in (bias, shift) if isinstance(value, SSAValue)]
    value = kernel.values[op.acc]
    if op.bound is not None or bias != 0 or shift != 0:
        value = kernel.elementwise("planes", value, body, vectors=vectors)
    low = kernel.elementwise("low", value, narrow, i8)
    high = kernel.elementwise("high", kernel.elementwise("shift", value, raised), narrow, i8)
    return [high, low]


EMITTERS: Mapping[type[Operation], Callable[[Any, KernelBuilder], list[SSAValue]]] = {
    MultiplyShiftOp: multiply_shift,
    RequantizePlanesOp: requantize_planes,
    ShiftRightByOp: shift_right_by,
}
