"""Chooses the quantisation step of each row of weights: the real number that the integer 1 stands
for."""

from typing import cast

import numpy as np

from vtac.passes.approximation.integers import Array

_CANDIDATES = np.arange(64, 128)
"""Candidates for the largest factor of an addition; the one that suits the other factors is
taken."""


def natural_scales(rows: Array) -> Array:
    """The step of each row [C, K]: a power of two where that is exact, else max |w| / 127.

    It is exact where all weights of the row are multiples of the smallest power of two by which
    they fit int8, as integers are.
    """
    need = np.maximum(rows.max(axis=1) / 127, -rows.min(axis=1) / 128)
    fractions, exponents = np.frexp(np.where(need > 0, need, 1.0))
    powers = np.ldexp(1.0, np.where(fractions == 0.5, exponents - 1, exponents))
    steps = rows / powers[:, None]
    exact = (steps == np.rint(steps)).all(axis=1)
    return np.where(exact, powers, np.where(need > 0, np.abs(rows).max(axis=1) / 127, 1.0))


def finest(rows: Array) -> Array:
    """The steps by which the largest weight of each row becomes 127."""
    largest = np.abs(rows).max(axis=1, initial=0)
    return np.where(largest > 0, largest, 127.0) / 127


def common_steps(rows: Array) -> Array:
    """Steps by which the real weights of each channel [C, K] are nearly integers.

    The largest weight of a channel becomes exactly one of the candidates: the one for which the
    channel's other weights are nearest to integers.
    """
    largest = 127 * finest(rows)
    best, error = largest / 127, np.full(len(rows), np.inf)
    for candidate in _CANDIDATES[::-1]:
        steps = largest / candidate
        whole = rows / steps[:, None]
        wrong = np.abs(whole - np.rint(whole)).max(axis=1) / candidate
        best = np.where(wrong < error, steps, best)
        error = np.minimum(wrong, error)
    return cast(Array, best)
