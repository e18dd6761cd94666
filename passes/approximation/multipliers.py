"""Multipliers: a ratio of steps as an integer and a shift, in 32 bits.

The result is ``(clamp(acc, least, most) * multiplier + offset) >> shift`` (Jacob et al., section
2.2): the clamp keeps the product in int32 and, as it lies where the result meets its own bounds, is
the clamp of the result too.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from vtac.passes.approximation.integers import LARGEST_INT32, LARGEST_SHIFT, Array


@dataclass(frozen=True, eq=False)
class Rescaling:
    """The numbers of a ``graph.rescale``: whole numbers as float64 [C], and one shift."""

    least: Array
    most: Array
    multiplier: Array
    offset: Array
    shift: int

    @property
    def vectors(self) -> dict[str, Array]:
        """The operands of the op after the bias, by name, in its order."""
        names = ("least", "most", "multiplier", "offset")
        return {name: getattr(self, name) for name in names}


def rescaling_of(ratios: Array, zero_point: int, lo: int, hi: int) -> Rescaling:
    """The multiplier for ratios of the accumulators' steps to the result's.

    The shift is the largest for which every product and sum fits int32: clamped accumulators have
    results within one step of [lo, hi].
    """
    shift = LARGEST_SHIFT
    while True:
        multiplier = np.rint(np.ldexp(ratios, shift))
        offset = np.ldexp(zero_point + 0.5, shift) if shift else float(zero_point)
        if multiplier.max(initial=0) <= LARGEST_INT32:
            least, most = _limits(multiplier, offset, shift, lo, hi)
            products = np.stack([least * multiplier, most * multiplier])
            largest = max(np.abs(products).max(initial=0), np.abs(products + offset).max(initial=0))
            if max(largest, abs(offset)) <= LARGEST_INT32:
                break
        assert shift > 0, "int8 fits int32"
        shift -= 1
    offsets = np.full(len(ratios), offset)
    return Rescaling(least, most, multiplier, offsets, shift)


def _limits(multiplier: Array, offset: float, shift: int, lo: int, hi: int) -> tuple[Array, Array]:
    """The least and the largest accumulator of each channel whose result lies within the bounds.

    Where a channel's results skip a bound, the accumulator's result lies one beyond it.
    """
    safe: Any = np.maximum(multiplier, 1)
    least = np.ceil((np.ldexp(float(lo), shift) - offset) / safe)
    most = np.ceil((np.ldexp(hi + 1.0, shift) - offset) / safe) - 1
    skips = multiplier > np.ldexp(1.0, shift)
    least, most = np.where(skips, least - 1, least), np.where(skips, most + 1, most)
    least = np.clip(np.where(multiplier > 0, least, 0), -LARGEST_INT32, LARGEST_INT32)
    return least, np.clip(np.where(multiplier > 0, most, 0), -LARGEST_INT32, LARGEST_INT32)
