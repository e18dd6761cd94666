"""The integers of a sum: weights, shifts, biases, bounds, and the proof that nothing overflows.

With ``q = clamp((acc + c) >> s, lo, hi)`` and no multiplier, one step of accumulator channel c
stands for ``scale_out * 2^-s[c]``. A core with weights takes its weight scales from that:
``scale_w[c] = scale_out / scale_in * 2^-s[c]``, the odd factor absorbed in the weights. s[c] is
what suits the weights (``shifts``); with two planes of them (``planes``) it is eight more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from xdsl.ir import SSAValue

from vtac.dialects.context import Array
from vtac.dialects.target import TIMING_PRESETS, TimingPreset
from vtac.passes.graph.quantize.forms import Form
from vtac.passes.graph.quantize.groups import Sum
from vtac.passes.graph.quantize.network import (
    Network,
    channels_of,
)
from vtac.passes.graph.quantize.planes import (
    ONE_PLANE,
    TWO_PLANES,
    magnitudes,
    stored,
)
from vtac.passes.graph.quantize.scales import Obstacle, Scale
from vtac.passes.graph.quantize.shifts import (
    LARGEST_SHIFT,
    RealWeights,
    any_of_block,
    choose_shifts,
)

Sharing = Literal["channel", "block", "auto"]
Requantise = Literal["auto", "shift", "multiply", "exact"]

LARGEST_INT32 = 2**31 - 1
LARGEST_INT8 = 128
"""Magnitude of int8's most negative value."""

SHARED_NOISE_LIMIT = 2.5
"""``auto`` shares shifts in a layer where the estimated noise power of its channels, from rounded
weights and their requantisation, grows to at most this multiple on average: 4 is one bit."""

ROUNDING_NOISE = 1 / 12
"""Power of the noise of rounding to whole steps, in steps squared."""

OVERFLOW = "a partial sum could leave int32"


@dataclass(frozen=True)
class ShiftPolicy:
    """How sums return to int8.

    sharing: one shift a channel, one a block of ``block`` channels, or whichever costs little.
    requantise, multiplies: by which method, on a target that multiplies or not.
    timing: the target's rates.
    """

    sharing: Sharing = "channel"
    block: int = 1
    requantise: Requantise = "auto"
    multiplies: bool = False
    timing: TimingPreset = TIMING_PRESETS["chisel-pynq"]

    def multiplies_in(self, group: Sum) -> bool:
        """Whether a sum is multiplied by the ratio of its scales."""
        if self.requantise == "auto":
            return self.multiplies and group.is_rounded
        return self.requantise == "multiply" or (self.requantise == "exact" and self.multiplies)


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
        """What the op reads after the bias, by name, in its order."""
        return {
            "least": self.least,
            "most": self.most,
            "multiplier": self.multiplier,
            "offset": self.offset,
        }


@dataclass(frozen=True, eq=False)
class Layer:
    """A sum with its numbers. Vectors have one entry a channel.

    weights: of each form of the sum, int8, or int32 where they need two planes. steps: the real
    value of an accumulator step.
    amounts: left shifts of the skips, in their order. bias: whole numbers, rounding term and offset
    included. offset: what zero points contribute to the bias, of the operands and the result.
    shift, lo, hi, scale: of the requantisation; scale is None where int32 leaves. inner: of each
    form of a product (``products``). reach: the largest magnitude of such a product.
    rescaling: where the target multiplies; the rounding term is then part of it, not of the bias.
    """

    group: Sum
    weights: Sequence[Array]
    steps: Array
    amounts: Sequence[Array]
    bias: Array
    offset: Array
    shift: Array
    lo: int
    hi: int
    scale: Scale | None
    inner: Sequence["Inner"] = ()
    reach: float = 0.0
    rescaling: Rescaling | None = None

    @property
    def rounding(self) -> Array:
        """The rounding term in the bias: half of what the shift divides by."""
        halves = (self.shift > 0) & (self.rescaling is None)
        return np.where(halves, np.ldexp(1.0, self.shift - 1), 0.0)


@dataclass(frozen=True, eq=False)
class Inner:
    """What happens to the products of one form before the forms are multiplied with each other.

    bias: whole numbers, one a channel, added; lo, hi: bounds to clamp to, if any.
    """

    bias: Array
    lo: int | None
    hi: int | None


def shifted(
    network: Network, group: Sum, scales: Mapping[SSAValue, Scale], policy: ShiftPolicy
) -> Layer:
    """The integers of a sum that ends in a shift. Raises Obstacle where there are none."""
    scale = scales[group.root.results[0]]
    channels = channels_of(group.root.results[0])
    if group.forms:
        layer = _with_weights(network, group, scales, policy)
    else:
        step = _common_step(group, scales)
        shift = np.full(channels, scale.doublings_from(step), np.int64)
        layer = _finish(network, group, scales, [], shift)
        if not proof_holds(layer).all():
            raise Obstacle(group, OVERFLOW)
    return layer


def _common_step(group: Sum, scales: Mapping[SSAValue, Scale]) -> Scale:
    """The step of accumulators without weights: the pooling's, or the finest of all values."""
    values = [scales[value] for value in (*group.skips, group.root.results[0])]
    if group.pooling is not None:
        step = scales[group.pooling.x].divided(group.pooling.divisor)
    else:
        step = min(values, key=lambda scale: scale.exponent)
    if any(value.exponent < step.exponent for value in values):
        raise Obstacle(group, "an addend has finer steps than the pooling beside it")
    if values[-1].exponent - step.exponent > LARGEST_SHIFT:
        raise Obstacle(group, f"its addends need a shift above {LARGEST_SHIFT}")
    return step


def _with_weights(
    network: Network, group: Sum, scales: Mapping[SSAValue, Scale], policy: ShiftPolicy
) -> Layer:
    """Shifts as large as the weights, and then the proof, allow."""
    scale, real = scales[group.root.results[0]], [network.weights(form) for form in group.forms]
    least = max([0, *(scale.doublings_from(scales[skip]) for skip in group.skips)])
    rows = [
        w.reshape(len(w), -1) / (scale.value / scales[form.operand].value)
        for form, w in zip(group.forms, real, strict=True)
    ]
    parts = _within_limits(group, policy, rows, least)
    shift, block = _policy_shifts(parts, least, network, group, scales, policy)
    while True:
        weights = [
            stored(part.rounded(shift)).reshape(w.shape)
            for part, w in zip(parts, real, strict=True)
        ]
        layer = _finish(network, group, scales, weights, shift)
        failing = any_of_block(~proof_holds(layer), block)
        if not failing.any():
            return layer
        if (shift[failing] <= least).any():
            raise Obstacle(group, OVERFLOW)
        shift = shift - failing


def _within_limits(
    group: Sum, policy: ShiftPolicy, rows: Sequence[Array], least: int
) -> list[RealWeights]:
    """The weights of each form, and how far their integers may go: one plane, or two.

    Two where all shall be exact, and for given scales where a form that only changes the scale has
    no exact weights of 8 bits, or where weights would need a shift to the left.
    """
    lowest = np.full(len(rows[0]), least)
    parts = []
    for form, of_form in zip(group.forms, rows, strict=True):
        part = RealWeights(of_form)
        fits = least <= LARGEST_SHIFT and bool(part.fit(lowest).all())
        two = policy.requantise == "exact" or (group.is_rounded and not fits)
        if not form.multiplies and group.is_rounded:
            two = two or not _is_exact(part, least)
        # The high planes of what is compared would have to be compared with the low ones.
        if two and group.join == "add":
            part = RealWeights(of_form, TWO_PLANES)
        if least > LARGEST_SHIFT or not part.fit(lowest).all():
            raise Obstacle(group, "its weights do not reach the finer steps of an addend")
        parts.append(part)
    return parts


def _is_exact(weights: RealWeights, least: int) -> bool:
    """Whether some shift makes integers of real weights without rounding."""
    return not weights.errors(choose_shifts(weights, least, 1)).any()


def _policy_shifts(
    parts: Sequence[RealWeights],
    least: int,
    network: Network,
    group: Sum,
    scales: Mapping[SSAValue, Scale],
    policy: ShiftPolicy,
) -> tuple[Array, int]:
    """The shifts of this layer, and how many channels share one.

    parts: the weights of each form.
    """
    together = _with_equal_limits(parts)
    alone = _smallest_shifts(together, least, 1)
    if policy.sharing == "channel":
        return alone, 1
    shared = _smallest_shifts(together, least, policy.block)
    if policy.sharing == "auto":
        powers = [_power(network, form.operand, scales) for form in group.forms]
        noise: Any = ROUNDING_NOISE
        more: Any = ROUNDING_NOISE
        for part, power in zip(parts, powers, strict=True):
            noise = noise + part.errors(alone) * power
            more = more + part.errors(shared) * power
        growth = more / noise
        if growth.mean() > SHARED_NOISE_LIMIT:
            return alone, 1
    return shared, policy.block


def _with_equal_limits(parts: Sequence[RealWeights]) -> list[RealWeights]:
    """The weights of all forms, those with the same limits side by side."""
    together = []
    for limits in {part.limits for part in parts}:
        within = [part for part in parts if part.limits == limits]
        rows = [part.rows for part in within]
        alone = len(within) == 1
        together.append(within[0] if alone else RealWeights(np.concatenate(rows, axis=1), limits))
    return together


def _smallest_shifts(parts: Sequence[RealWeights], least: int, block: int) -> Array:
    """The largest shifts that suit all of several weights."""
    shifts = [choose_shifts(part, least, block) for part in parts]
    return cast(Array, np.minimum.reduce(shifts))


def _power(network: Network, operand: SSAValue, scales: Mapping[SSAValue, Scale]) -> float:
    """The mean square of an operand in its steps, taken as spread evenly over its range."""
    step = scales[operand].value
    lo, hi = network.range_of(operand) or (-127 * step, 127 * step)
    return (lo * lo + lo * hi + hi * hi) / 3 / step**2


def _finish(
    network: Network,
    group: Sum,
    scales: Mapping[SSAValue, Scale],
    weights: Sequence[Array],
    shift: Array,
) -> Layer:
    """Everything that follows from weights and shifts."""
    scale = scales[group.root.results[0]]
    steps = np.ldexp(scale.value, -shift)
    amounts = [shift - scale.doublings_from(scales[skip]) for skip in group.skips]
    bias = np.rint(real_bias(network, group) / steps)
    rounding = np.where(shift > 0, np.ldexp(1.0, shift - 1), 0.0)
    offset = offset_of(group, scales, weights, amounts) + np.ldexp(float(scale.zero_point), shift)
    bias = bias + rounding + offset
    lo, hi = integer_bound(group.lo, scale, -128), integer_bound(group.hi, scale, 127)
    return Layer(group, weights, steps, amounts, bias, offset, shift, lo, hi, scale)


def offset_of(
    group: Sum,
    scales: Mapping[SSAValue, Scale],
    weights: Sequence[Array],
    amounts: Sequence[Array],
) -> Array:
    """What takes the zero points of a sum's operands out of it again, one number a channel."""
    offset: Any = np.zeros(channels_of(group.root.results[0]))
    if group.pooling is not None:
        offset = offset - scales[group.pooling.x].zero_point * group.pooling.count
    count = len(group.forms) if group.join == "add" else 1
    for form, w in zip(group.forms[:count], weights[:count], strict=True):
        offset = offset + form_offset(form, w, scales)
    for skip, amount in zip(group.skips, amounts, strict=True):
        offset = offset - np.ldexp(float(scales[skip].zero_point), amount)
    return cast(Array, offset)


def form_offset(form: Form, weights: Array, scales: Mapping[SSAValue, Scale]) -> Array:
    """What takes the zero point of a form's operand out of its products, one number a channel.

    The bias of a sum has it for all forms; of a maximum for the first, whose share the others are
    brought to.
    """
    rows = weights.reshape(len(weights), -1)
    return cast(Array, -scales[form.operand].zero_point * rows.sum(axis=1, dtype=np.int64))


def with_weights(
    layer: Layer, place: int, weights: Array, scales: Mapping[SSAValue, Scale]
) -> Layer:
    """An added form's weights exchanged for others; its operand's zero point leaves as before."""
    form, before = layer.group.forms[place], layer.weights[place]
    more = form_offset(form, weights, scales) - form_offset(form, before, scales)
    all_weights = [*layer.weights]
    all_weights[place] = weights
    bias, offset = layer.bias + more, layer.offset + more
    return replace(layer, weights=all_weights, bias=bias, offset=offset)


def pad_value(form: Form, scales: Mapping[SSAValue, Scale]) -> int:
    """The stored integer that windows of a form read outside its operand."""
    return integer_bound(form.outside, scales[form.operand], 0)


def form_offsets(layer: Layer, scales: Mapping[SSAValue, Scale]) -> list[Array]:
    """``form_offset`` of all forms of a layer."""
    pairs = zip(layer.group.forms, layer.weights, strict=True)
    return [form_offset(form, weights, scales) for form, weights in pairs]


def integer_bound(bound: float, scale: Scale, otherwise: int) -> int:
    """A real bound as a stored value; int8's own where it lies outside."""
    if np.isinf(bound):
        return otherwise
    return int(np.clip(np.rint(bound / scale.value) + scale.zero_point, -128, 127))


def real_bias(network: Network, group: Sum) -> Array:
    """The sum of all constant addends, one number a channel, as enlarged as the result is."""
    factors = network.factors.get(group.root.results[0], 1.0)
    return cast(Array, group.bias * factors)


def proof_holds(layer: Layer) -> Array:
    """For each channel, whether no order of additions can leave int32."""
    return cast(Array, np.abs(layer.bias) <= largest_bias(layer))


def largest_bias(layer: Layer) -> Array:
    """For each channel the largest magnitude of a bias with which no sum can leave int32.

    Any partial sum is at most the sum of the magnitudes of all terms: products with inputs of
    magnitude 128, shifted addends of magnitude 128, and the bias with its rounding term.
    """
    terms: Any = np.zeros(len(layer.bias))
    if layer.group.join == "mul":
        return cast(Array, terms + LARGEST_INT32 - layer.reach)
    for weights in layer.weights:
        rows = magnitudes(weights).reshape(len(weights), -1)
        terms = terms + LARGEST_INT8 * rows.sum(axis=1)
    if layer.group.pooling is not None:
        terms = terms + LARGEST_INT8 * float(layer.group.pooling.count)
    for amount in layer.amounts:
        terms = terms + np.ldexp(float(LARGEST_INT8), amount)
    return cast(Array, LARGEST_INT32 - terms)


def dense_result(network: Network, group: Sum, scales: Mapping[SSAValue, Scale]) -> Layer:
    """A last dense layer: its accumulators are the result, so weight scales are free.

    Where the proof fails (a bias much larger than all products), coarser steps make it hold.
    """
    (form,) = group.forms
    real, bias = network.weights(form), real_bias(network, group)
    rows = real.reshape(real.shape[0], -1)
    scale_in = scales[form.operand].value
    given = network.given_rows(form)
    units = natural_scales(rows) if given is None else given
    zero = ~rows.any(axis=1)
    # A channel of zeros is its bias: 2^20 steps of it are as exact as float32 needs.
    exponents = np.frexp(np.where(bias == 0, 1.0, bias) / scale_in)[1]
    units = np.where(zero, np.ldexp(1.0, exponents - 20), units)
    shift = np.zeros(len(rows), np.int64)
    while True:
        whole = np.rint(rows / units[:, None])
        limits = ONE_PLANE if given is None else TWO_PLANES
        steps = scale_in * units
        weights = [stored(np.clip(whole, *limits)).reshape(real.shape)]
        offset = offset_of(group, scales, weights, [])
        integers = np.rint(bias / steps) + offset
        layer = Layer(group, weights, steps, [], integers, offset, shift, -128, 127, None)
        failing = ~proof_holds(layer)
        if not failing.any():
            return layer
        units = np.where(failing, 2 * units, units)


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
