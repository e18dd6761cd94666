"""The integer semantics of docs/quantisation.md in NumPy: a part of `graph_reference`."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from vtac.dialects import graph
from vtac.dialects.context import Array


def check_fits(array: Array, dtype: np.dtype[Any], what: str) -> None:
    """Raise OverflowError if an integer does not fit. what: what the error names."""
    if array.size and not (
        np.iinfo(dtype).min <= array.min() and array.max() <= np.iinfo(dtype).max
    ):
        raise OverflowError(f"{what}: [{array.min()}, {array.max()}] does not fit {dtype}")


def by_channel(vector: Array, rank: int) -> Array:
    """A vector with one entry per channel, shaped to broadcast against [N, C, spatial...]."""
    return np.reshape(vector, (-1, *[1] * (rank - 2))) if vector.size > 1 else vector


def quantize(x: Array, scale: float, zero_point: int, low: int = -128) -> Array:
    """ONNX QuantizeLinear to the 8-bit integers from ``low``, in float32: halves to even."""
    steps = np.rint(x.astype(np.float32) / np.float32(scale))
    return cast(Array, np.clip(steps + np.float32(zero_point), low, low + 255).astype(np.int64))


def dequantize(x: Array, scales: Sequence[float], zero_point: int) -> Array:
    """``scale * (x - zero_point)`` in float32; one scale, or one per channel."""
    steps = (x.astype(np.int64) - zero_point).astype(np.float32)
    return steps * by_channel(np.asarray(scales, np.float32), x.ndim)


def shift_left(x: Array, amount: Array) -> Array:
    """``x << amount`` in int64, one amount per channel."""
    return x.astype(np.int64) << by_channel(amount.astype(np.int64), x.ndim)


def add_bias(acc: Array, bias: Array) -> Array:
    """``acc + bias`` in int64, one bias per channel; the sum fits int32."""
    total = acc.astype(np.int64) + by_channel(bias.astype(np.int64), acc.ndim)
    check_fits(total, np.dtype(np.int32), "acc + bias")
    return total


def requantize(acc: Array, bias: Array, shift: Array, lo: int, hi: int) -> Array:
    """``clamp((acc + bias) >> shift, lo, hi)``, an arithmetic shift of 0 to 31 a channel."""
    if shift.size and not (shift.min() >= 0 and shift.max() <= 31):
        raise OverflowError(f"shifts must lie in 0..31, not {shift.min()}..{shift.max()}")
    shifted = add_bias(acc, bias) >> by_channel(shift.astype(np.int64), acc.ndim)
    return np.clip(shifted, lo, hi)


def rescale(acc: Array, vectors: Sequence[Array], shift: int, bounds: tuple[int, int]) -> Array:
    """``clamp((clamp(acc + bias, least, most) * multiplier + offset) >> shift, *bounds)``.

    Every step fits int32.
    """
    _, least, most, multiplier, offset = (by_channel(v.astype(np.int64), acc.ndim) for v in vectors)
    product = np.clip(add_bias(acc, vectors[0]), least, most) * multiplier
    check_fits(product, np.dtype(np.int32), "acc * multiplier")
    total = product + offset
    check_fits(total, np.dtype(np.int32), "acc * multiplier + offset")
    return cast(Array, np.clip(total >> shift, *bounds))


def split_bytes(x: Array) -> list[Array]:
    """The four bytes of int32, least significant first, each as int8."""
    return [(x >> (8 * i)).astype(np.uint8).view(np.int8) for i in range(4)]


def requantize_planes(op: graph.RequantizePlanesOp, acc: Array, *vectors: Array) -> list[Array]:
    """``v = clamp((acc + bias) >> shift)`` as ``256 high + low``."""
    bound = 2**15 if op.bound is None else op.bound.value.data
    v = requantize(acc, *vectors, -bound, bound)
    assert v.size == 0 or (v.min() >= -(2**15) and v.max() <= 2**15 - 129)
    low = (v & 255).astype(np.uint8).view(np.int8)
    return [((v - low.astype(np.int64)) // 256).astype(np.int8), low]


def multiply_shift(op: graph.MultiplyShiftOp, acc: Array) -> Array:
    """``(acc * multiplier + offset) >> shift``; every step fits int32."""
    product = acc.astype(np.int64) * op.multiplier.value.data
    check_fits(product, np.dtype(np.int32), op.name)
    total = product + op.offset.value.data
    check_fits(total, np.dtype(np.int32), op.name)
    return total >> op.shift.value.data


def shift_right_by(op: graph.ShiftRightByOp, acc: Array, amount: Array) -> Array:
    """``acc >> amount`` with amounts of 0 to 31."""
    assert amount.min() >= 0 and amount.max() <= 31
    return acc.astype(np.int64) >> amount.astype(np.int64)


def join_bytes(planes: Sequence[Array]) -> Array:
    """The int32 whose bytes are the planes, least significant first."""
    word = np.zeros(planes[0].shape, np.uint32)
    for i, plane in enumerate(planes):
        word |= plane.view(np.uint8).astype(np.uint32) << np.uint32(8 * i)
    return word.view(np.int32)
