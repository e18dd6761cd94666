"""The integers of functions of one int8 value: a sum of clamped lines, or a gate.

On machines that multiply, a function that gates its operand takes a cube (`gates`) where lines
would be many. Otherwise::

    q = clamp((sum_k clip(w_k x - a_k, 0, h_k) + c) >> s, lo, hi)

with the clamped lines of `lines`. s is the largest shift for which all slopes fit int8.
"""

from collections.abc import Callable
from dataclasses import replace
from math import floor, log2
from typing import cast

import numpy as np

from vtac.dialects.context import Array
from vtac.passes.approximation.gates import TOLERANCE, fitted_gate
from vtac.passes.approximation.integers import LARGEST_INT8, LARGEST_SHIFT, STORED
from vtac.passes.approximation.lines import MOST_PIECES, STEEPEST, TOLERANCES, Piece, fewest_lines
from vtac.passes.graph.float_groups.groups import Sum
from vtac.passes.graph.quantize.layer import OVERFLOW, Layer, Term, make_layer
from vtac.passes.graph.quantize.numbers import Draft
from vtac.passes.graph.quantize.scales import Obstacle, Scale
from vtac.passes.graph.reasons import Reason, ReasonKind

Curve = Callable[[Array], Array]
"""A function of one variable, on arrays of float64."""

CHEAP_PIECES = 3
"""Where the target multiplies, more lines than these cost more than a gate (`gates`)."""

WAY_OUT = "Train with Relu, LeakyRelu or HardSwish instead, or quantise over a smaller range."


def number_curve(draft: Draft) -> Layer:
    """Choose the lines of a function. Raises Obstacle where they are too many or too steep."""
    (term,), group, result = draft.terms, draft.group, draft.scale
    assert result is not None and group.curve is not None, "a function ends in int8"
    real = group.curve(_reals(term.scale))
    if not np.isfinite(real).all():
        raise Obstacle(group, "its function is not finite for all integers of its operand")
    wanted = (real - real[0]) / result.value
    steepest = float(np.abs(np.diff(wanted)).max())
    if steepest > STEEPEST:
        raise Obstacle(group, "its slope is too steep for its result's scale")
    shift = min(floor(log2(STEEPEST / steepest)), 16) if steepest else 0
    lines = fewest_lines(np.ldexp(wanted, shift), 2.0**shift)
    gate = _number_gate(draft) if lines is None or len(lines.pieces) > CHEAP_PIECES else None
    if gate is not None:
        return gate
    if lines is None:
        most = TOLERANCES[-1]
        what = f"{MOST_PIECES} lines do not come within {most} steps of the result's scale"
        raise Obstacle(group, Reason(what, ReasonKind.NUMBERS, WAY_OUT))
    terms = [_line(term, piece) for piece in lines.pieces]
    reach = sum(4 * LARGEST_INT8 * abs(piece.slope) for piece in lines.pieces)
    unit = float(np.ldexp(result.value, -shift))
    channels = np.zeros(draft.channels)
    layer = make_layer(
        group,
        terms,
        channels + real[0] + lines.base * unit,
        channels + unit,
        np.full(draft.channels, shift, np.int64),
        result,
        offset=channels,
        reach=channels + reach,
    )
    if shift > LARGEST_SHIFT or layer.overflows.any():
        raise Obstacle(group, OVERFLOW)
    return layer


def _number_gate(draft: Draft) -> Layer | None:
    """The integers of a function that gates its operand; None if it is none, or too far off."""
    (term,), group, result = draft.terms, draft.group, draft.scale
    if not draft.policy.multiplies or group.curve is None or result is None:
        return None
    if term.scale.zero_point or result.zero_point:
        return None
    wanted = group.curve(STORED * term.scale.value) / result.value
    slope = float(wanted[-1] - wanted[1]) / float(STORED[-1] - STORED[1])
    if not np.isfinite(wanted).all() or slope <= 0:
        return None
    gate, shift, wrong = fitted_gate(wanted, slope)
    if wrong > TOLERANCE:
        return None
    channels = np.zeros(draft.channels)
    return make_layer(
        group,
        [term.with_weights(np.ones(term.shape))],
        channels,
        channels + float(np.ldexp(result.value, -shift)),
        np.full(draft.channels, shift, np.int64),
        result,
        offset=channels,
        reach=channels + LARGEST_INT8 * (gate.curvature + max(gate.curvature, gate.height**3)),
        gate=gate,
    )


def curve_error(layer: Layer) -> float:
    """How far the lines lie from the function at any stored integer, before rounding; real units.

    What the clamp of the result cuts off does not count.
    """
    found, real = _both(layer)
    return float(np.abs(found - real).max())


def steepest_slope(layer: Layer) -> float:
    """By what an error of the operand grows at most, in the function or in the lines."""
    step = float(layer.terms[0].scale.value)
    return max(float(np.abs(np.diff(values)).max()) for values in _both(layer)) / step


def _both(layer: Layer) -> tuple[Array, Array]:
    """For each stored integer what the lines make of it and what the function does, clamped."""
    group, result = layer.group, layer.scale
    assert isinstance(group, Sum) and group.curve is not None and result is not None
    real = group.curve(_reals(layer.terms[0].scale))
    if layer.gate is not None:
        sums = layer.gate.at(STORED)
    else:
        sums = sum((_evaluated(term) for term in layer.terms), start=np.zeros(len(STORED)))
    found = layer.constant[0] + sums * layer.steps[0]
    low, high = ((end - result.zero_point) * result.value for end in (layer.lo, layer.hi))
    return np.clip(found, low, high), np.clip(real, low, high)


def note(layer: Layer) -> str:
    """What stands for the function, and its error."""
    assert layer.scale is not None
    steps = curve_error(layer) / layer.scale.value
    count = len(layer.terms)
    shape = "a gate" if layer.gate is not None else f"{count} line{'s' * (count > 1)}"
    return f"{shape}, at most {steps:.2f} steps of its result off"


def _reals(scale: Scale) -> Array:
    """What all values of int8 stand for."""
    return (STORED - scale.zero_point) * scale.value


def _line(term: Term, piece: Piece) -> Term:
    weighed = term.with_weights(np.full(term.shape, float(piece.slope)))
    added = np.full(len(weighed.weights), -piece.start)
    return replace(weighed, added=added, bounds=piece.bounds)


def _evaluated(term: Term) -> Array:
    """What a line adds to the sum for each stored integer."""
    assert term.added is not None and term.bounds is not None, "a line"
    slope = float(term.weights.reshape(-1)[0])
    return cast(Array, np.clip(slope * STORED + term.added[0], *term.bounds))
