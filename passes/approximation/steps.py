"""Steps of weights: numbers of which the real weights of a row are nearly whole multiples."""

from typing import cast

import numpy as np

from vtac.passes.approximation.integers import Array

_CANDIDATES = np.arange(64, 128)
"""Candidates for the largest factor of an addition; the one that suits the other factors is
taken."""


def natural_scales(rows: Array) -> Array:
    """The scale of each row's largest weight: max |w| / 127, or a power of two that loses nothing.

    Where all weights of a row are multiples of the smallest power of two that covers them, that
    power is the scale: integer weights stay exact.
    """
    need = np.maximum(rows.max(axis=1) / 127, -rows.min(axis=1) / 128)
    fractions, exponents = np.frexp(np.where(need > 0, need, 1.0))
    powers = np.ldexp(1.0, np.where(fractions == 0.5, exponents - 1, exponents))
    steps = rows / powers[:, None]
    exact = (steps == np.rint(steps)).all(axis=1)
    return np.where(exact, powers, np.where(need > 0, np.abs(rows).max(axis=1) / 127, 1.0))


def finest(rows: Array) -> Array:
    """Steps of which the largest weight of each row has 127."""
    largest = np.abs(rows).max(axis=1, initial=0)
    return np.where(largest > 0, largest, 127.0) / 127


def common_steps(rows: Array) -> Array:
    """Steps of which the real weights of each channel [C, K] are whole multiples, nearly.

    A candidate is the number of steps of a channel's largest weight, exactly. The candidate is
    taken for which the other weights are nearest to integers.
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
