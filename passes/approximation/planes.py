"""Weights of more than eight bits: two planes of int8 that meet in one accumulator.

``w = 2^8 * high + low``. The high planes of all addends are summed first, shifted to the left once,
and the low planes are summed onto that, so a second plane costs its products and one shift of the
accumulators. (After the bit-slicing of Umuroglu et al., "BISMO", section 2, with slices of a byte.)
"""

from typing import cast

import numpy as np

from vtac.passes.approximation.integers import Array

PLANE_BITS = 8

Limits = tuple[int, int]
"""The least and the largest integer that weights may take."""

ONE_PLANE: Limits = (-128, 127)
TWO_PLANES: Limits = (-(127 << PLANE_BITS) - 128, (127 << PLANE_BITS) + 127)


def stored(weights: Array) -> Array:
    """Whole numbers as int8 if they fit, else as int32, which ``split`` takes apart."""
    fits = ONE_PLANE[0] <= weights.min(initial=0) and weights.max(initial=0) <= ONE_PLANE[1]
    return weights.astype(np.int8 if fits else np.int32)


def split(weights: Array) -> tuple[Array | None, Array]:
    """The high plane (None for int8 weights) and the low plane, both int8."""
    if weights.dtype == np.int8:
        return None, weights
    low = weights.astype(np.int8)  # the residue modulo 2^8 that is nearest to 0
    return ((weights - low) >> PLANE_BITS).astype(np.int8), low


def magnitudes(weights: Array) -> Array:
    """Bound on what each weight adds to a partial sum, per unit of its operand."""
    high, low = split(weights)
    if high is None:
        return cast(Array, np.abs(low.astype(np.int16)))
    return cast(Array, np.abs(low.astype(np.int64)) + (np.abs(high.astype(np.int64)) << PLANE_BITS))
