"""The shift of each output channel, from its real weights alone.

A stored weight is the real one times ``2^shift``, rounded. The shift is the largest that clips no
weight, or one more where clipping lowers the squared error; channels may share theirs in blocks.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import cast

import numpy as np

from vtac.passes.approximation.integers import LARGEST_SHIFT, Array
from vtac.passes.approximation.planes import ONE_PLANE, Limits

_AT_ONCE = 1 << 16
"""Weights whose errors are computed together: few enough to stay in a processor's cache."""


class RealWeights:
    """The real weights of each output channel, and what it costs to round them.

    rows: [O, K] in units of scale_out / scale_in, so that the stored weight is ``rows * 2^shift``.
    limits: of the stored weights.
    """

    def __init__(self, rows: Array, limits: Limits = ONE_PLANE):
        self.rows = rows
        self.limits = limits
        self._errors = np.full((LARGEST_SHIFT + 1, len(rows)), np.nan)

    @cached_property
    def extremes(self) -> Array:
        """Smallest and largest weight of each channel, [O, 2]."""
        return np.stack([self.rows.min(axis=1), self.rows.max(axis=1)], axis=1)

    def fit(self, shift: Array) -> Array:
        """Whether no weight of a channel is clipped at its shift."""
        steps = np.rint(self.extremes * np.ldexp(1.0, shift)[:, None])
        return cast(Array, (steps[:, 0] >= self.limits[0]) & (steps[:, 1] <= self.limits[1]))

    def rounded(self, shift: Array) -> Array:
        """Stored weights, as int32: halves to even, saturating."""
        whole = np.empty(self.rows.shape, np.int32)
        count = max(1, _AT_ONCE // max(1, self.rows.shape[1]))
        for start in range(0, len(whole), count):
            some = slice(start, start + count)
            whole[some] = _rounded(self.rows[some], shift[some], self.limits)
        return whole

    def clipped(self, shift: Array) -> Array:
        """The squared error of each channel's largest or smallest weight, whichever is more: the
        least that `errors` can be."""
        error = _rounded(self.extremes, shift, self.limits)
        error *= np.ldexp(1.0, -shift)[:, None]
        error -= self.extremes
        return cast(Array, np.square(error, out=error).max(axis=1))

    def errors(self, shift: Array, wanted: Array | bool = True) -> Array:
        """Sum of squared errors of each channel's weights, in the unit of ``rows`` squared.

        The error of a channel depends on its own shift only, and is computed once per shift; NaN
        where it is neither known nor wanted.
        """
        channels = np.arange(len(self.rows))
        missing = np.flatnonzero(np.isnan(self._errors[shift, channels]) & wanted)
        count = max(1, _AT_ONCE // max(1, self.rows.shape[1]))
        for start in range(0, len(missing), count):
            some = missing[start : start + count]
            rows, of_some = self.rows[some], shift[some]
            error = _rounded(rows, of_some, self.limits)
            error *= np.ldexp(1.0, -of_some)[:, None]
            error -= rows
            self._errors[of_some, some] = np.square(error, out=error).sum(axis=1)
        return cast(Array, self._errors[shift, channels])


def _rounded(rows: Array, shift: Array, limits: Limits) -> Array:
    steps = rows * np.ldexp(1.0, shift)[:, None]
    np.rint(steps, out=steps)
    return cast(Array, np.clip(steps, *limits, out=steps))


def choose_shifts(weights: RealWeights, least: int, block: int | Array) -> Array:
    """The shift of each output channel, equal in each block of channels.

    block: so many neighbours form a block; or the number of the block of each channel.
    least: lower bound, at which the weights must fit. A channel of zeros only takes ``least``,
    unless it shares.
    """
    largest = np.abs(weights.extremes).max(axis=1)
    with np.errstate(divide="ignore"):
        exact = np.floor(np.log2((weights.limits[1] + 1) / largest))
    shift = np.where(largest > 0, np.clip(exact, least, LARGEST_SHIFT), LARGEST_SHIFT)
    shift = _smallest(shift.astype(np.int64), block)
    zero = _smallest((largest == 0).astype(np.int64), block).astype(bool)
    shift = np.where(zero, least, shift)
    # 128 is not an int8, and -128.5 rounds.
    unfit = any_of_block(~weights.fit(shift), block)
    shift = np.where(unfit & (shift > least), shift - 1, shift)
    more = np.minimum(shift + 1, LARGEST_SHIFT)
    errors = weights.errors(shift)
    # What the largest weights alone lose by clipping often says that nothing is gained.
    at_most = _total(errors - weights.clipped(more), block)
    gain = np.where(at_most > 0, errors - weights.errors(more, at_most > 0), -1.0)
    return np.where((_total(gain, block) > 0) & ~zero, more, shift)


def with_equal_limits(parts: Sequence[RealWeights]) -> list[RealWeights]:
    """The weights of all forms, those with the same limits side by side."""
    together = []
    for limits in {part.limits for part in parts}:
        within = [part for part in parts if part.limits == limits]
        rows = [part.rows for part in within]
        alone = len(within) == 1
        together.append(within[0] if alone else RealWeights(np.concatenate(rows, axis=1), limits))
    return together


def smallest_shifts(parts: Sequence[RealWeights], least: int, block: int | Array) -> Array:
    """The largest shifts that suit all of several weights."""
    shifts = [choose_shifts(part, least, block) for part in parts]
    return cast(Array, np.minimum.reduce(shifts))


def any_of_block(flags: Array, block: int | Array) -> Array:
    """Whether any channel of the block has the flag, at each of its channels."""
    return _smallest(-flags.astype(np.int64), block) < 0


def _smallest(values: Array, block: int | Array) -> Array:
    """The minimum of each block, at each of its channels."""
    return _per_block(np.minimum, values, block)


def _total(values: Array, block: int | Array) -> Array:
    """The sum of each block, at each of its channels."""
    return _per_block(np.add, values, block)


def _per_block(operation: np.ufunc, values: Array, block: int | Array) -> Array:
    """A reduction of each block, at each of its channels."""
    numbers = np.arange(len(values)) // block if isinstance(block, int) else block
    order = np.argsort(numbers, kind="stable")
    first = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    sizes = np.diff(first, append=len(values))
    reduced = np.empty_like(values)
    reduced[order] = np.repeat(operation.reduceat(values[order], first), sizes)
    return reduced
