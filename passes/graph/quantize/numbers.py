"""The integers of a group: weights, shifts, biases, bounds.

With ``q = clamp((acc + c) >> s, lo, hi)`` and no multiplier, one step of accumulator channel c
stands for ``scale_out * 2^-s[c]``. The weight scales of a core with weights follow: ``scale_w[c] =
scale_out / scale_in * 2^-s[c]``, the odd factor absorbed in the weights. s[c] is chosen to suit the
weights (``shifts``); with two planes (``planes``) it is eight more.

Given scales of a residual addition have arbitrary ratios. An addend that a shift cannot bring to
the accumulators' step is multiplied by a diagonal matrix, by integers of as many bits as it takes;
the weights of a mean contain its divisor and the change of scale.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from vtac.dialects.context import Array
from vtac.dialects.target import TIMING_PRESETS, TimingPreset
from vtac.passes.approximation.integers import LARGEST_INT8, LARGEST_SHIFT
from vtac.passes.approximation.multipliers import Rescaling
from vtac.passes.approximation.planes import ONE_PLANE, TWO_PLANES
from vtac.passes.approximation.shifts import (
    RealWeights,
    any_of_block,
    choose_shifts,
    smallest_shifts,
    with_equal_limits,
)
from vtac.passes.approximation.steps import natural_scales
from vtac.passes.graph.float_groups.forms import per_channel
from vtac.passes.graph.float_groups.groups import Sum
from vtac.passes.graph.float_groups.network import Network, channels_of, is_dense
from vtac.passes.graph.quantise_options import Requantise, Sharing
from vtac.passes.graph.quantize.layer import OVERFLOW, Layer, Term, make_layer
from vtac.passes.graph.quantize.scales import Obstacle, Scale

SHARED_NOISE_LIMIT = 2.5
"""``auto`` shares shifts in a layer where the estimated noise power of its channels, from rounded
weights and their requantisation, grows to at most this multiple on average: 4 is one bit."""

ROUNDING_NOISE = 1 / 12
"""Power of the noise of rounding to whole steps, in steps squared."""


@dataclass(frozen=True)
class ShiftPolicy:
    """How sums return to int8.

    sharing: one shift per channel, one per block of ``block`` channels, or whichever costs little.
    requantise, multiplies: by which method, on a target that multiplies or not.
    timing: the target's rates.
    """

    sharing: Sharing = "channel"
    block: int = 1
    requantise: Requantise = "auto"
    multiplies: bool = False
    timing: TimingPreset = TIMING_PRESETS["chisel-pynq"]

    @property
    def gains_by_blocks(self) -> bool:
        """Whether a shift that is equal in all lanes of a block saves cycles on the target."""
        return self.block > 1 and self.timing.alu_register_cycles > self.timing.alu_immediate_cycles

    def multiplies_in(self, group: Sum) -> bool:
        """Whether a sum is multiplied by the ratio of its scales."""
        if self.requantise == "auto":
            return self.multiplies and group.is_rounded
        return self.requantise == "multiply" or (self.requantise == "exact" and self.multiplies)


class Draft:
    """A sum whose integers are still to be chosen.

    terms: its addends without integers. constant: the real number that is added to each channel,
    enlarged as the result is. scale: of the result, None where int32 leaves.
    """

    def __init__(
        self, network: Network, group: Sum, scales: Mapping[SSAValue, Scale], policy: ShiftPolicy
    ):
        self.network, self.group, self.policy = network, group, policy
        result = group.root.results[0]
        self.channels = channels_of(result)
        self.scale = None if group.leaves_int32 else scales[result]
        self.constant = group.bias * network.factors.get(result, 1.0)
        self.terms = [
            Term(form, scales[form.operand], network, network.shape_of_weights(form))
            for form in group.forms
        ]

    def layer(
        self, terms: Sequence[Term], steps: Array, shift: Array, rescaling: Rescaling | None = None
    ) -> Layer:
        """The layer of terms with integers, whose accumulators have these steps."""
        offset: Any = np.zeros(self.channels)
        reach: Any = np.zeros(self.channels)
        if self.group.join == "mul":
            reach = reach + np.prod([_largest_factor(term) for term in terms])
        else:
            reach = reach + sum(LARGEST_INT8 * term.magnitudes for term in terms)
            counted = terms
            if self.group.join != "add":  # the offset of every term is brought to that of the first
                counted, first = terms[:1], terms[0].offset
                terms = [terms[0], *(replace(x, added=x.offset - first) for x in terms[1:])]
            offset = offset + sum(term.offset for term in counted)
        return make_layer(
            self.group,
            terms,
            self.constant,
            steps,
            shift,
            self.scale,
            offset=offset,
            reach=reach,
            rescaling=rescaling,
        )


def _largest_factor(term: Term) -> float:
    """The largest magnitude that one factor of a product can have."""
    if term.bounds is not None:
        return term.bounds[1]
    assert term.added is not None, "factors have no offset"
    products = term.magnitudes * (LARGEST_INT8 + abs(term.scale.zero_point))
    return float((products + np.abs(term.added - term.offset)).max())


def shifted(draft: Draft) -> Layer:
    """The integers of a sum that ends in a shift. Raises Obstacle where there are none.

    Shifts are as large as the weights, and then the proof, allow.
    """
    scale = draft.scale
    assert scale is not None, "a sum that leaves int32 has no shift"
    terms, doublings, least = _addends(draft)
    parts = [_real_weights(draft, term, least) for term in terms if not term.form.plain]
    shift: Array = np.full(draft.channels, least, np.int64)
    block: int | Array = 1
    if parts:
        weighed = [term for term in terms if not term.form.plain]
        shift, block = _policy_shifts(draft, weighed, parts, least)
    while True:
        rounded = iter([part.rounded(shift) for part in parts])
        powers = iter([np.ldexp(1.0, shift - exponent) for exponent in doublings])
        integers = [
            term.with_weights(_spread(next(powers), term) if term.form.plain else next(rounded))
            for term in terms
        ]
        layer = draft.layer(integers, np.ldexp(scale.value, -shift), shift)
        failing = any_of_block(layer.overflows, block)
        if not failing.any():
            return layer
        if (shift[failing] <= least).any():
            raise Obstacle(draft.group, OVERFLOW)
        shift = shift - failing


def natural_shifts(draft: Draft) -> tuple[Array, list[Term]]:
    """The largest shift of each channel by itself, and the terms with weights that it suits."""
    terms, _, least = _addends(draft)
    weighed = [term for term in terms if not term.form.plain]
    parts = with_equal_limits([_real_weights(draft, term, least) for term in weighed])
    return smallest_shifts(parts, least, 1), weighed


def _addends(draft: Draft) -> tuple[list[Term], list[int], int]:
    """The terms of a sum that ends in a shift; the doublings of the plain ones; the least shift."""
    scale, terms, doublings = draft.scale, [], []
    assert scale is not None
    for term in draft.terms:
        unit = term.scale.divided(term.form.divisor)
        if term.form.plain and scale.is_tied(unit):
            doublings.append(scale.doublings_from(unit))
        elif term.form.plain:
            term = replace(term, form=replace(term.form, plain=False))
        terms.append(term)
    least = max(0, *doublings, 0)
    if least > LARGEST_SHIFT:
        raise Obstacle(draft.group, f"its addends need a shift above {LARGEST_SHIFT}")
    return terms, doublings, least


def _spread(powers: Array, term: Term) -> Array:
    """One number per channel as all weights of that channel."""
    return np.broadcast_to(per_channel(powers, len(term.shape) - 1), tuple(term.shape))


def _real_weights(draft: Draft, term: Term, least: int) -> RealWeights:
    """The weights of a term, and how far their integers may go: one plane, or two.

    There are two planes where everything is to be exact. With given scales there are two as well
    where a form that only changes the scale has no exact weights of 8 bits, or where weights would
    need a shift to the left. So do the weights of a part of a dense layer's operand with the
    coarser scale (`split_channels`): in one plane, those of the other parts would lose steps.
    """
    scale, group = draft.scale, draft.group
    assert scale is not None
    rows = term.real.reshape(term.shape[0], -1)
    rows /= scale.value / term.scale.value
    lowest, part = np.full(len(rows), least), RealWeights(rows)
    two = draft.policy.requantise == "exact" or _is_coarse_part(draft, term)
    if group.is_rounded and not two:
        two = not part.fit(lowest).all()
        if not term.form.multiplies:  # no shift is sure to make integers of them without rounding
            two = two or bool(part.errors(choose_shifts(part, least, 1)).any())
    # The high planes of what is compared would have to be compared with the low ones.
    if two and group.join == "add":
        part = RealWeights(rows, TWO_PLANES)
    if not part.fit(lowest).all():
        raise Obstacle(group, "its weights do not reach the finer steps of an addend")
    return part


def _is_coarse_part(draft: Draft, term: Term) -> bool:
    """Whether a dense layer reads other parts of its operand at half the scale of this or less."""
    core = draft.group.core
    if term.form.source is not core or not is_dense(core):
        return False
    parts = [x.scale.value for x in draft.terms if x.form.source is core]
    return 2 * min(parts) <= term.scale.value


def _policy_shifts(
    draft: Draft, terms: Sequence[Term], parts: Sequence[RealWeights], least: int
) -> tuple[Array, int | Array]:
    """The shifts of this layer, and which channels share one (see `choose_shifts`).

    terms, parts: the terms with weights, and these weights.
    """
    policy, together = draft.policy, with_equal_limits(parts)
    blocks = draft.network.blocks.get(draft.group.root)
    if blocks is not None:
        return smallest_shifts(together, least, blocks), blocks
    alone = smallest_shifts(together, least, 1)
    if policy.sharing == "channel":
        return alone, 1
    shared = smallest_shifts(together, least, policy.block)
    if policy.sharing == "auto":
        powers = [operand_power(draft.network, term) for term in terms]
        noise: Any = ROUNDING_NOISE
        more: Any = ROUNDING_NOISE
        for part, power in zip(parts, powers, strict=True):
            noise = noise + part.errors(alone) * power
            more = more + part.errors(shared) * power
        growth = more / noise
        if growth.mean() > SHARED_NOISE_LIMIT:
            return alone, 1
    return shared, policy.block


def operand_power(network: Network, term: Term) -> float:
    """The mean square of an operand in its steps, taken as spread evenly over its range."""
    step = term.scale.value
    lo, hi = network.range_of(term.form.operand) or (-127 * step, 127 * step)
    return (lo * lo + lo * hi + hi * hi) / 3 / step**2


def dense_result(draft: Draft) -> Layer:
    """A last dense layer: its accumulators are the result, so weight scales are free.

    Where the proof fails (a bias much larger than all products), coarser steps make it hold.
    """
    (term,) = draft.terms
    rows, step = term.real.reshape(term.shape[0], -1), term.scale.value
    given = draft.network.given_rows(term.form)
    units = natural_scales(rows) if given is None else given
    # A channel of zero weights is just its bias: 2^20 steps of it are as exact as float32 needs.
    exponents = np.frexp(np.where(draft.constant == 0, 1.0, draft.constant) / step)[1]
    units = np.where(rows.any(axis=1), units, np.ldexp(1.0, exponents - 20))
    limits = ONE_PLANE if given is None else TWO_PLANES
    while True:
        weights = np.clip(np.rint(rows / units[:, None]), *limits)
        shift = np.zeros(len(rows), np.int64)
        layer = draft.layer([term.with_weights(weights)], step * units, shift)
        failing = layer.overflows
        if not failing.any():
            return layer
        units = np.where(failing, 2 * units, units)
