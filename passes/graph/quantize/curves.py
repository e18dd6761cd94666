"""Functions of one int8 value as sums of clamped lines, for machines that cannot multiply.

::

    q = clamp((sum_k clip(w_k (x - x_k), 0, h_k) + c) >> s, lo, hi)

x_0 = -128 < x_1 < ... are whole numbers, w_k int8, and ``h_k = w_k (x_{k+1} - x_k)``, so that one
line begins where the line before it ends (bounds change places where w_k < 0). s is the largest
shift for which all slopes fit int8. All 256 values of x are known, so the largest distance from the
function is too: it is found by evaluating them.

Lines are fitted from left to right: each is as long as some whole slope stays within a tolerance
(O'Rourke, "An on-line algorithm for fitting straight lines between data ranges"; here each line
begins at the end of the one before).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log2
from typing import cast

import numpy as np

from vtac.dialects.context import Array
from vtac.passes.graph.quantize.groups import Sum
from vtac.passes.graph.quantize.layer import LARGEST_INT8, OVERFLOW, Layer, Term, make_layer
from vtac.passes.graph.quantize.numbers import Draft
from vtac.passes.graph.quantize.scales import Obstacle, Scale
from vtac.passes.graph.quantize.shifts import LARGEST_SHIFT

Curve = Callable[[Array], Array]
"""A function of one variable, on arrays of float64."""

STORED = np.arange(-128, 128)
"""All values of int8."""

MOST_PIECES = 8
"""The most lines of one function."""

TOLERANCES = (0.25, 0.375, 0.5, 0.75, 1.0)
"""How far lines may lie from the function, in steps of the result: the first that suffices."""

STEEPEST = 127
"""The largest weight of a line."""


@dataclass(frozen=True)
class Piece:
    """A line over the stored integers ``first`` to ``last``, with a whole slope."""

    first: int
    last: int
    slope: int

    @property
    def height(self) -> int:
        """By what the sum grows along the line."""
        return self.slope * (self.last - self.first)

    def at(self, stored: Array) -> Array:
        """What the line adds to the sum."""
        low, high = sorted((0, self.height))
        return cast(Array, np.clip(self.slope * (stored - self.first), low, high))


def number_curve(draft: Draft) -> Layer:
    """Choose the lines of a function. Raises Obstacle where they are too many or too steep."""
    (term,), group, result = draft.terms, draft.group, draft.scale
    assert result is not None and group.curve is not None, "a function ends in int8"
    real = group.curve(_reals(term.scale))
    wanted = (real - real[0]) / result.value
    steepest = float(np.abs(np.diff(wanted)).max())
    if steepest > STEEPEST:
        raise Obstacle(group, "its slope is too steep for its result's scale")
    shift = min(floor(log2(STEEPEST / steepest)), 16) if steepest else 0
    pieces = _fewest(np.ldexp(wanted, shift), 2.0**shift)
    if pieces is None:
        what = f"{MOST_PIECES} lines do not come within a step of the result's scale"
        raise Obstacle(group, what)
    terms = [_line(term, piece) for piece in pieces]
    reach = sum(4 * LARGEST_INT8 * abs(piece.slope) for piece in pieces)
    channels = np.zeros(draft.channels)
    layer = make_layer(
        group,
        terms,
        channels + real[0],
        channels + np.ldexp(result.value, -shift),
        np.full(draft.channels, shift, np.int64),
        result,
        offset=channels,
        reach=channels + reach,
    )
    if shift > LARGEST_SHIFT or layer.overflows.any():
        raise Obstacle(group, OVERFLOW)
    return layer


def curve_error(layer: Layer) -> float:
    """How far the lines lie from the function at any stored integer, before rounding; real units.

    What the clamp of the result cuts off does not count.
    """
    group, result = layer.group, layer.scale
    assert isinstance(group, Sum) and group.curve is not None and result is not None
    real = group.curve(_reals(layer.terms[0].scale))
    sums = sum((_evaluated(term) for term in layer.terms), start=np.zeros(len(STORED)))
    found = layer.constant[0] + sums * layer.steps[0]
    low, high = ((end - result.zero_point) * result.value for end in (layer.lo, layer.hi))
    return float(np.abs(np.clip(found, low, high) - np.clip(real, low, high)).max())


def steepest_slope(layer: Layer) -> float:
    """By what an error of the operand grows at most."""
    step = float(layer.terms[0].scale.value)
    steepest = max(float(np.abs(term.weights).max()) for term in layer.terms)
    return steepest * float(layer.steps[0]) / step


def note(layer: Layer) -> str:
    """What stands for the function, and its error."""
    assert layer.scale is not None
    steps = curve_error(layer) / layer.scale.value
    count = len(layer.terms)
    return f"{count} line{'s' * (count > 1)}, at most {steps:.2f} steps of its result off"


def _reals(scale: Scale) -> Array:
    """What all values of int8 stand for."""
    return (STORED - scale.zero_point) * scale.value


def _fewest(wanted: Array, step: float) -> Sequence[Piece] | None:
    for tolerance in TOLERANCES:
        pieces = fitted(wanted, tolerance * step)
        if pieces is not None and len(pieces) <= MOST_PIECES:
            return pieces
    return None


def fitted(wanted: Array, tolerance: float) -> list[Piece] | None:
    """Lines with whole slopes from ``wanted[0]``, each as long as the tolerance allows.

    wanted: float64 [256], of each stored integer. None where no whole slope leads on. Lines of
    slope 0 add nothing and are left out, but for the only one.
    """
    pieces: list[Piece] = []
    start, value = 0, float(wanted[0])
    while start < len(wanted) - 1:
        runs = np.arange(1, len(wanted) - start)
        rest = wanted[start + 1 :] - value
        least = np.maximum.accumulate(np.ceil((rest - tolerance) / runs).clip(min=-STEEPEST))
        most = np.minimum.accumulate(np.floor((rest + tolerance) / runs).clip(max=STEEPEST))
        length = int((least <= most).sum())  # bounds only tighten
        if length == 0:
            return None
        best = rest[length - 1] / length
        slope = int(np.clip(round(best), ceil(least[length - 1]), floor(most[length - 1])))
        pieces.append(Piece(start - 128, start + length - 128, slope))
        start, value = start + length, value + slope * length
    return [piece for piece in pieces if piece.slope] or pieces[:1]


def _line(term: Term, piece: Piece) -> Term:
    weighed = term.with_weights(np.full(term.shape, float(piece.slope)))
    low, high = sorted((0, piece.height))
    added = np.full(len(weighed.weights), -piece.slope * piece.first)
    return replace(weighed, added=added, bounds=(low, high))


def _evaluated(term: Term) -> Array:
    """What a line adds to the sum for each stored integer."""
    assert term.added is not None and term.bounds is not None, "a line"
    slope = float(term.weights.reshape(-1)[0])
    return cast(Array, np.clip(slope * STORED + term.added[0], *term.bounds))
