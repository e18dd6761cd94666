"""The integers of a sum on a target that multiplies: weights as they are, and a multiplier.

One step of accumulator channel c stands for ``scale_in * scale_w[c]``, so the integer weights of a
quantised network are kept as they are. The result is ``(clamp(acc + bias, least, most) * multiplier
+ offset) >> shift`` (Jacob et al., section 2.2, in 32 bits): the clamp keeps the product in int32
and, as it lies where the result meets its own bounds, is the clamp of the result too.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from vtac.dialects.context import Array
from vtac.passes.approximation.integers import LARGEST_INT8
from vtac.passes.approximation.multipliers import rescaling_of
from vtac.passes.approximation.planes import ONE_PLANE, PLANE_BITS, TWO_PLANES
from vtac.passes.approximation.steps import common_steps, finest, natural_scales
from vtac.passes.graph.quantize.layer import OVERFLOW, Layer, Term
from vtac.passes.graph.quantize.numbers import Draft
from vtac.passes.graph.quantize.scales import Obstacle

CLOSE = 1 / 32
"""Two bytes for the factors of an addition suffice where they move no sum by more steps of the
result than this."""


def multiplied(draft: Draft) -> Layer:
    """The integers of a sum that ends in a multiplication. Raises Obstacle where there are none.

    Weights take as many bits as they need, and as int32 sums of them allow.
    """
    assert draft.scale is not None, "a sum that leaves int32 is not multiplied"
    terms = [replace(x, form=replace(x.form, plain=x.form.is_pooling)) for x in draft.terms]
    for more in range(_more_bits(draft, terms), -1, -1):
        steps = _steps(draft, terms, more)
        layer = _layer(draft, terms, _whole_multipliers(draft, steps) if more else steps)
        if not layer.overflows.any():
            return layer
    raise Obstacle(draft.group, OVERFLOW)


def _layer(draft: Draft, terms: Sequence[Term], steps: Array) -> Layer:
    """The layer whose accumulators have these steps."""
    scale = draft.scale
    assert scale is not None
    terms = [_with_integers(draft, term, steps) for term in terms]
    bounds = scale.bounds(draft.group.lo, draft.group.hi)
    rescaling = rescaling_of(steps / scale.value, scale.zero_point, *bounds)
    return draft.layer(terms, steps, np.full(len(steps), rescaling.shift, np.int64), rescaling)


def _whole_multipliers(draft: Draft, steps: Array) -> Array:
    """The next larger steps whose ratios to the result's step are multipliers, without rounding.

    The finer the steps of accumulators, the fewer bits int32 leaves for the multiplier.
    """
    scale = draft.scale
    assert scale is not None
    bounds = scale.bounds(draft.group.lo, draft.group.hi)
    shift = rescaling_of(steps / scale.value, scale.zero_point, *bounds).shift
    multipliers = np.ceil(np.ldexp(steps / scale.value, shift))
    return cast(Array, np.ldexp(multipliers, -shift) * scale.value)


def _more_bits(draft: Draft, terms: Sequence[Term]) -> int:
    """How many bits more than eight the weights need for what the network itself computes.

    It rounds sums of integers. Weights whose steps are not one per result channel, and addends with
    steps in a ratio that no two bytes have, would move too many sums to the next integer.
    """
    wished = draft.group.is_rounded or draft.policy.requantise == "exact"
    if not wished or draft.group.join != "add" or any(term.form.plain for term in terms):
        return 0
    products = [term.form for term in terms if term.form.multiplies]
    if products:
        return PLANE_BITS if any(map(draft.network.lacks_rows, products)) else 0
    assert draft.scale is not None
    rows = _rows(draft, terms)
    steps = common_steps(rows)[:, None]
    lost = np.abs(np.rint(rows / steps) * steps - rows).sum(axis=1) * LARGEST_INT8
    return PLANE_BITS if lost.max(initial=0) > CLOSE * draft.scale.value else 0


def _rows(draft: Draft, terms: Sequence[Term]) -> Array:
    """What one step of each operand adds to each channel [C, K], in real numbers."""
    rows = [term.real.reshape(draft.channels, -1) * term.scale.value for term in terms]
    return np.concatenate(rows, axis=1)


def _steps(draft: Draft, terms: Sequence[Term], more: int) -> Array:
    """The real value of an accumulator's step in each channel, float64.

    more: so many bits more than eight for weights that have no steps of their own.
    """
    for term in terms:
        if term.form.plain:
            return np.full(draft.channels, term.scale.value / term.form.divisor)
        if term.form.multiplies:
            given = draft.network.given_rows(term.form)
            if given is None:
                rows = term.real.reshape(draft.channels, -1)
                given = np.ldexp(finest(rows), -more) if more else natural_scales(rows)
            return cast(Array, given * term.scale.value)
    steps = common_steps(_rows(draft, terms))
    return cast(Array, np.ldexp(steps, -more))


def _with_integers(draft: Draft, term: Term, steps: Array) -> Term:
    """The term with the integers nearest to its real weights."""
    whole = np.rint(term.in_steps(steps))
    low, high = TWO_PLANES if draft.group.join == "add" else ONE_PLANE
    if whole.min(initial=0) < low or whole.max(initial=0) > high:
        what = "an addend has much larger steps than the products beside it"
        raise Obstacle(draft.group, what)
    return term.with_weights(whole)
