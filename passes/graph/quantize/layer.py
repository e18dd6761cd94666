"""A layer: a group with its integers, and the proof that its accumulators do not overflow.

Accumulators of int32 take the sum of all addends (`Term`) and a bias. They end in one of three
ways: a shift, ``q = clamp((acc + c) >> s, lo, hi)``; a multiplier (`Rescaling`); or unchanged,
where the host reads int32. docs/quantisation.md states the arithmetic.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from vtac.dialects.context import Array
from vtac.passes.approximation import planes
from vtac.passes.approximation.integers import LARGEST_INT8, LARGEST_INT32
from vtac.passes.approximation.multipliers import Rescaling
from vtac.passes.graph.float_groups.contractions import Contraction
from vtac.passes.graph.float_groups.forms import Form, per_channel
from vtac.passes.graph.float_groups.groups import Sum
from vtac.passes.graph.float_groups.network import Network
from vtac.passes.graph.quantize.scales import Scale

if TYPE_CHECKING:
    from vtac.passes.approximation.gates import Gate

OVERFLOW = "a partial sum could leave int32"


@dataclass(frozen=True, eq=False)
class Term:
    """An addend of a sum with its integers.

    form: the addend in real numbers; if it is plain, its weights are powers of two, and a shift
    replaces them. scale: of the stored operand. network: holds the real weights. shape: of the
    weights, [O, C, kernel...]. weights: the integers that stand for them, int8, or int32 where they
    need two planes (`planes`); empty until they are chosen. added: whole numbers [C], added to the
    products before these meet the other terms; None for nothing. bounds: between which the sum is
    then clamped.
    """

    form: Form
    scale: Scale
    network: Network
    shape: Sequence[int]
    weights: Array = field(default_factory=lambda: np.zeros(0, np.int8))
    added: Array | None = None
    bounds: tuple[int, int] | None = None

    def with_weights(self, weights: Array) -> "Term":
        """The term with these whole numbers as weights, in any shape of as many elements."""
        kept = weights if self.form.plain else planes.stored(weights)
        return replace(self, weights=kept.reshape(self.shape))

    @property
    def real(self) -> Array:
        """The real weights, float64. They are not kept, since they take more memory than all
        else."""
        return self.network.weights(self.form)

    @property
    def outside(self) -> int:
        """The integer that windows read outside the operand."""
        return self.scale.stored(self.form.outside, 0)

    @cached_property
    def sums(self) -> Array:
        """The sum of all weights of each output channel, [O]."""
        return cast(Array, self.weights.reshape(len(self.weights), -1).sum(axis=1, dtype=np.int64))

    @property
    def offset(self) -> Array:
        """The numbers to add to the products to remove the share of the operand's zero point,
        [O]."""
        return -self.scale.zero_point * self.sums

    @property
    def magnitudes(self) -> Array:
        """The sum of the magnitudes of all weights of each output channel, [O]."""
        each = np.abs(self.weights) if self.form.plain else planes.magnitudes(self.weights)
        return cast(Array, each.reshape(len(each), -1).sum(axis=1))

    def in_steps(self, steps: Array) -> Array:
        """The real weights in units of the stored ones. steps: of the accumulators, [O]."""
        return cast(Array, self.real / per_channel(steps / self.scale.value, len(self.shape) - 1))


@dataclass(frozen=True, eq=False)
class Layer:
    """A group with its integers. Vectors have one entry per channel.

    terms: of a sum. steps: the real value of an accumulator step, [C] or [1]. constant: the real
    number that is added to each channel. bias: the same in whole steps, with the rounding term and
    the offset. offset: the contribution of zero points, those of the operands and of the result, to
    the bias. reach: the largest magnitude of any partial sum without the bias. shift, lo, hi,
    scale: of the requantisation; scale is None where int32 leaves. rescaling: where the target
    multiplies; the rounding term is then part of it, not of the bias. gate: of a function that
    gates its operand.
    """

    group: Sum | Contraction
    terms: Sequence[Term]
    steps: Array
    constant: Array
    bias: Array
    offset: Array
    reach: Array
    shift: Array
    lo: int
    hi: int
    scale: Scale | None
    rescaling: Rescaling | None
    gate: "Gate | None" = None

    @property
    def rounding(self) -> Array:
        """The rounding term in the bias: half of what the shift divides by."""
        halves = (self.shift > 0) & (self.rescaling is None)
        return np.where(halves, np.ldexp(1.0, self.shift - 1), 0.0)

    @property
    def largest_bias(self) -> Array:
        """The largest magnitude of a bias with which no order of additions can leave int32."""
        return LARGEST_INT32 - self.reach

    @property
    def overflows(self) -> Array:
        """For each channel, whether some partial sum might leave int32."""
        return cast(Array, np.abs(self.bias) > self.largest_bias)

    @property
    def bias_error(self) -> Array:
        """How far the stored constant lies from the real one, in real units."""
        stored = (self.bias - self.rounding - self.offset) * self.steps
        return cast(Array, np.abs(self.constant - stored))

    def with_weights(self, place: int, weights: Array) -> "Layer":
        """The layer with other weights for one addend of a sum; the offset follows the weights."""
        before = self.terms[place]
        after = before.with_weights(weights)
        terms = [*self.terms[:place], after, *self.terms[place + 1 :]]
        more = after.offset - before.offset
        reach = self.reach + LARGEST_INT8 * (after.magnitudes - before.magnitudes)
        bias, offset = self.bias + more, self.offset + more
        return replace(self, terms=terms, bias=bias, offset=offset, reach=reach)


def make_layer(
    group: Sum | Contraction,
    terms: Sequence[Term],
    constant: Array,
    steps: Array,
    shift: Array,
    scale: Scale | None,
    *,
    offset: Array,
    reach: Array,
    rescaling: Rescaling | None = None,
    gate: "Gate | None" = None,
) -> Layer:
    """The layer whose bias and bounds follow from the arguments.

    offset: the contribution of the operands' zero points to the bias.
    """
    if scale is not None and rescaling is None:
        offset = offset + np.ldexp(float(scale.zero_point), shift)
    bounds = (-128, 127) if scale is None else scale.bounds(group.lo, group.hi)
    bias = np.rint(constant / steps) + offset
    layer = Layer(
        group, terms, steps, constant, bias, offset, reach, shift, *bounds, scale, rescaling, gate
    )
    return replace(layer, bias=bias + layer.rounding)
