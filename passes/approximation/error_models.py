"""How errors add up: in the worst case, and as expected.

The worst case adds magnitudes: every rounding errs by half a step, all in the same direction. The
result is a proven bound, but it grows so fast with depth that it is useless for deep networks. The
expected error adds powers, as if roundings were independent and uniformly distributed over a step
(Widrow, "Statistical analysis of amplitude-quantized sampled-data systems"): a root mean square.
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from vtac.passes.approximation.integers import Array

Range = tuple[float, float]
"""The smallest and the largest element of a value."""

FLOAT32_STEP = 2.0**-23
"""Upper bound of the relative rounding error of one float32 operation."""

SLACK_STEPS = 2.0**-12
"""Error that QuantizeLinear's float32 division and a scale rounded to float32 add, in steps."""

LARGEST = 1e100
"""Errors of products grow no further. Over thousands of layers they would leave the range of
floating-point numbers, and their squares sooner."""

_SMALL = 0.25
"""Deviations, in steps, below which no error reaches a whole step."""


class WorstCase:
    """Bounds that no element's error exceeds: one number per channel, in real units.

    Methods take and return such errors. rounding: the error of rounding to whole steps, in steps.
    """

    rounding = 0.5

    def total(self, errors: Sequence[Array]) -> Array:
        """The error of a sum of values: the sum of their errors."""
        return sum(errors[1:], start=errors[0])

    def summed(self, error: Array, count: int) -> Array:
        """The error of a sum of ``count`` elements of a channel."""
        return error * count

    def folded(self, weights: Array, groups: int) -> Array:
        """Magnitudes of weights [O, I, ...] for `through`: [groups, O / groups, I]."""
        return _folded(np.abs(weights), groups)

    def through(self, folded: Array, error: Array) -> Array:
        """The error of sums of weights times values that have an error."""
        return np.minimum(_through(folded, error), LARGEST)

    def wrong(self, weights: Array, values: Range, power: float | None) -> Array:
        """The error of sums of products whose weights have the errors ``weights``.

        values, power: the range and the mean square (if known) of the values that they are
        multiplied with. The bound assumes that every value is the largest.
        """
        largest = max(abs(values[0]), abs(values[1]))
        return cast(Array, np.abs(weights).reshape(len(weights), -1).sum(axis=1) * largest)

    def both_rounded(self, error: Array, step: float) -> Array:
        """How far apart values lie that differ by ``error`` and are then both rounded to steps."""
        return cast(Array, error + step)

    def clamped(
        self, error: Array, values: Range | None, bounds: Range, free: Array | None
    ) -> Array:
        """The error of values that are clamped to bounds, which moves no two of them apart.

        values: their range before. free: the share of each channel that is not clamped, if known.
        """
        return error

    def picked(self, error: Array, before: Array, after: Array) -> Array:
        """The error of maxima, which is at most that of the values.

        before, after: the shares of values, and of their maxima, that are not clamped.
        """
        return error

    def softmax(self, error: float, power: float | None) -> float:
        """The error behind a softmax. power: the mean square of its results, if known.

        The bound follows from p' / (1 - p') <= p / (1 - p) * exp(2 * error), p' being the erring
        result.
        """
        return float(np.tanh(error / 2))

    def normalised(self, beta: float, size: float, share: float) -> float:
        """By what an error grows in LRN's ``x / B^beta``, as a multiple of the largest ``B^-beta``.

        share: how much of B can be squares, of ``size`` elements. This is the sum of the magnitudes
        of all derivatives: 1 for the element itself, and at most ``beta * (1 + sqrt(size))`` times
        the share for all terms of B's derivative.
        """
        return float(1 + beta * (1 + size**0.5) * share)


class Expected:
    """The root mean square of independent errors. Methods mean the same as those of `WorstCase`."""

    rounding = 12**-0.5

    def total(self, errors: Sequence[Array]) -> Array:
        """The root of the sum of squares."""
        powers: Any = sum((np.square(error) for error in errors[1:]), start=np.square(errors[0]))
        return cast(Array, np.sqrt(powers))

    def summed(self, error: Array, count: int) -> Array:
        """The error of a sum of ``count`` elements: squares add up, so a mean errs less than its
        elements."""
        return cast(Array, error * count**0.5)

    def folded(self, weights: Array, groups: int) -> Array:
        """Powers."""
        return _folded(np.square(weights), groups)

    def through(self, folded: Array, error: Array) -> Array:
        """The root of the sum of all powers."""
        return np.minimum(np.sqrt(_through(folded, np.square(error))), LARGEST)

    def wrong(self, weights: Array, values: Range, power: float | None) -> Array:
        """As in `WorstCase`.

        An unknown mean square is taken as that of values spread evenly over their range, which
        overestimates it.
        """
        lo, hi = values
        if power is None:
            power = (lo * lo + lo * hi + hi * hi) / 3
        return cast(
            Array, np.sqrt(np.square(weights).reshape(len(weights), -1).sum(axis=1) * power)
        )

    def both_rounded(self, error: Array, step: float) -> Array:
        """Two values e steps apart, e < 1, are rounded one step apart with the probability e: what
        is small before has the power e, not e squared, behind it.

        In general e^2 + t (1 - t), with t the fraction of e; the mean for a normal e of deviation s
        is s^2 + 1/6 - sum of exp(-2 (pi k s)^2) / (pi k)^2 (the cosine series of t (1 - t)).
        """
        deviation = error / step
        power = np.square(deviation) + 1 / 6
        for k in range(1, 4):
            power -= np.exp(-2 * np.square(np.pi * k * deviation)) / (np.pi * k) ** 2
        small = deviation < _SMALL
        return cast(Array, step * np.sqrt(np.where(small, deviation * (2 / np.pi) ** 0.5, power)))

    def clamped(
        self, error: Array, values: Range | None, bounds: Range, free: Array | None
    ) -> Array:
        """Clamped elements have no error any more.

        Where their share is unknown, it is taken as the share of the range that lies outside the
        bounds, but at most half, since channels differ. In a network of relus this keeps errors in
        proportion to values, layer by layer.
        """
        if free is not None:
            return cast(Array, error * np.sqrt(free))
        if values is None or values[0] >= values[1]:
            return error
        (lo, hi), (least, most) = values, bounds
        inside = max(0.0, min(hi, most) - max(lo, least))
        return cast(Array, error * max(0.5, inside / (hi - lo)) ** 0.5)

    def picked(self, error: Array, before: Array, after: Array) -> Array:
        """Clamped values have no error, and fewer of the maxima than of the values are clamped."""
        grown = np.divide(after, before, out=np.ones_like(after), where=before > 0)
        return cast(Array, error * np.sqrt(np.maximum(grown, 1.0)))

    def softmax(self, error: float, power: float | None) -> float:
        """For a normal error e of variance v, exp(e) - 1 has the mean square exp(2 v) - 2 exp(v /
        2) + 1; the relative error of the divisor is no larger.
        """
        worst = float(np.tanh(error / 2))
        if power is None or error > 1:
            return worst
        missed = np.exp(2 * error**2) - 2 * np.exp(error**2 / 2) + 1
        return min(worst, float(np.sqrt(2 * power * missed)))

    def normalised(self, beta: float, size: float, share: float) -> float:
        """The length of the vector of all derivatives, where one element has all of the share."""
        return max(1.0, 2 * beta * share - 1)


ErrorModel = WorstCase | Expected
"""One of the two ways in which errors add up."""


def free_of_zero(mean: Array, power: Array) -> Array:
    """The share of a relu's results that are above 0, from their mean and their mean square.

    The share is at least mean^2 / power (Cauchy-Schwarz inequality). For normal numbers of which
    half are above 0 it is pi / 2 times that; from there up to a share of 1 the estimate is within a
    fifth.
    """
    ratio = np.divide(np.square(mean), power, out=np.zeros_like(power), where=power > 0)
    return cast(Array, np.minimum(np.pi / 2 * ratio, 1.0))


def _folded(weights: Array, groups: int) -> Array:
    """Weights [O, I, ...], summed over all but channels: [groups, O / groups, I]."""
    outputs, inputs = weights.shape[:2]
    apart = weights.reshape(groups, outputs // groups, inputs, -1)
    return cast(Array, apart @ np.ones(apart.shape[3]))


def _through(folded: Array, errors: Array) -> Array:
    """Sums of products, one per output channel, of folded weights and errors [groups * I]."""
    groups, outputs, inputs = folded.shape
    column = np.broadcast_to(errors, (groups * inputs,)).reshape(groups, inputs, 1)
    return cast(Array, (folded @ column).reshape(groups * outputs))
