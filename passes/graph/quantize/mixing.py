"""Chooses the layers that get weights of two planes in networks with given scales.

Given scales have arbitrary ratios, and without a multiplier only shifts follow the sums: the
weights carry the rest of the ratio, so they are no integers. Rounded to int8 they (one *plane*, one
pass over the products) give results that differ from the network's here and there. Weights of 16
bits (two planes, `planes`) hardly do, at the price of the second's products.

In a network that rounds itself a small error costs most in the first layers: where two values that
hardly differ are rounded, few results differ, but by a whole step
(`error_models.Expected.both_rounded`), and every further rounding spreads that. So planes are added
where the estimated error of the accelerator's results falls most per added cycle, one layer at a
time, as long as that is worth it, the error is larger than a step of int8, and a budget lasts:
mixed precision by sensitivity and cost (Dong et al., "HAWQ", section 3), with the quantiser's own
error model for the sensitivity. One choice may make another worth more (errors of the second layer
count once the first has none), so gains are estimated anew in each step, for the layers that
promised most before.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from vtac.dialects.graph import shape_of
from vtac.passes.approximation.error_models import Expected
from vtac.passes.approximation.planes import split
from vtac.passes.graph.float_groups.groups import Sum
from vtac.passes.graph.quantize.bounds import Remembered, value_errors
from vtac.passes.graph.quantize.layer import Layer, Term
from vtac.passes.graph.quantize.numbers import ShiftPolicy
from vtac.passes.graph.quantize.plan import QuantisationPlan
from vtac.passes.graph.quantize.requantisation import number
from vtac.passes.graph.quantize.scales import Obstacle

MORE_CYCLES = 0.15
"""Second planes add at most this share of the estimated cycles of all layers."""

NEAR = 1 / 256
"""Results whose errors are smaller than this share of their range (root mean square; a step of
int8) get no more second planes."""

WORTH = 0.5
"""A second plane that adds one percent of cycles must lower the error's power by so many
percent."""

_IMMEDIATES = 3
"""ALU operations with an immediate for each vector of results: a shift and two bounds."""

_AT_ONCE = 16
"""Layers looked at again in each step but the first: those that promised most before."""


@dataclass(frozen=True, eq=False)
class _Gain:
    """What a second plane brings to a layer.

    layer: the layer with it. cycles: the cycles that it adds. power: the error's power with it.
    a_cycle: by which share each of these cycles lowers the power. Both are as last estimated.
    """

    group: Sum
    layer: Layer
    cycles: float
    power: float = 0.0
    a_cycle: float = 0.0


def mix_planes(plan: QuantisationPlan, policy: ShiftPolicy) -> QuantisationPlan:
    """The plan with second planes where they are worth most, and notes that say so.

    Only for ``auto`` on a target that does not multiply, and layers with given scales.
    """
    if policy.requantise != "auto" or policy.multiplies:
        return plan
    return _Choice(plan, policy).run()


class _Choice:
    """Adds one second plane after the other, the best first.

    leaving: the values whose errors count.
    """

    def __init__(self, plan: QuantisationPlan, policy: ShiftPolicy):
        self.plan, self.policy = plan, policy
        self.remembered: Remembered = {}
        self.leaving = list(_leaving(plan))

    def run(self) -> QuantisationPlan:
        found = self._candidates()
        if not found:
            return self.plan
        notes: dict[Operation, str] = {}
        sums = [layer for group, layer in self.plan.layers.items() if isinstance(group, Sum)]
        total = sum(self._cycles(layer) for layer in sums)
        left = MORE_CYCLES * total
        power = self._power(self.plan)
        looked_at = len(found)
        near = len(self.leaving) * NEAR**2
        while power > near and (found := [gain for gain in found if gain.cycles <= left]):
            found.sort(key=lambda gain: gain.a_cycle, reverse=True)
            found[:looked_at] = [self._estimated(gain, power) for gain in found[:looked_at]]
            best = max(found[:looked_at], key=lambda gain: gain.a_cycle)
            if best.a_cycle * total < WORTH:
                break
            self.plan = self._with(best)
            found.remove(best)
            left -= best.cycles
            notes[best.group.root] = _note(best, power, total)
            power, looked_at = best.power, _AT_ONCE
        return replace(self.plan, notes={**self.plan.notes, **notes})

    def _candidates(self) -> list[_Gain]:
        """Layers that have a second plane to gain."""
        found = []
        exact = replace(self.policy, requantise="exact")
        for group, layer in self.plan.layers.items():
            if not isinstance(group, Sum) or not group.is_rounded:
                continue
            try:
                finer = number(self.plan.network, group, self.plan.scales, exact)
            except Obstacle:
                continue
            more = self._cycles(finer) - self._cycles(layer)
            if more > 0:
                found.append(_Gain(group, finer, more))
        return found

    def _with(self, gain: _Gain) -> QuantisationPlan:
        return replace(self.plan, layers={**self.plan.layers, gain.group: gain.layer})

    def _estimated(self, gain: _Gain, before: float) -> _Gain:
        """The gain of a second plane, estimated again. before: the error's power without it."""
        power = self._power(self._with(gain))
        return replace(gain, power=power, a_cycle=(1 - power / before) / gain.cycles)

    def _power(self, plan: QuantisationPlan) -> float:
        """The power of the errors of all values that leave, each in units of its range."""
        errors = value_errors(plan, Expected(), self.remembered)
        total = 0.0
        for value in self.leaving:
            error = errors[value]
            if error is not None:
                lo, hi = plan.network.range_of(value) or (0.0, 1.0)
                total += float(np.mean(np.square(error))) / (hi - lo or 1.0) ** 2
        return total

    def _cycles(self, layer: Layer) -> float:
        """Rough cycles of a layer: its products, block by block, or the loads of its weights."""
        block, timing = self.policy.block, self.policy.timing
        batch, channels, *space = shape_of(layer.group.root.results[0]) or ()
        blocks = -(-channels // block)
        products, plain, high = 0, 0, False
        for term in layer.terms:
            if term.form.plain:
                plain += prod(term.weights.shape[2:])
                continue
            planes = 1 if split(term.weights)[0] is None else 2
            high |= planes == 2
            products += planes * self._blocks_read(term)
        loads = blocks * products * block * block / timing.port_bytes
        steps = (products + plain) * timing.gemm_cycles + timing.alu_register_cycles
        steps += (_IMMEDIATES + high) * timing.alu_immediate_cycles
        return max(batch * prod(space) * blocks * steps, loads)

    def _blocks_read(self, term: Term) -> int:
        """Blocks of input channels that one block of results takes, over all taps.

        The host lays out the taps of what it makes as channels (`fold-first-layer`), so that these
        fill their blocks.
        """
        form, block = term.form, self.policy.block
        taps: int = prod(term.weights.shape[2:])
        outputs = len(term.weights) // form.group
        inputs: int = term.weights.shape[1]
        read = min(form.group, -(-block // outputs)) * inputs
        if form.group == 1 and form.operand.owner not in self.plan.covered:
            return -(-taps * read // block)
        return taps * -(-read // block)


def _leaving(plan: QuantisationPlan) -> Iterable[SSAValue]:
    """Results of groups that others than groups read, or the network returns."""
    for group in plan.groups:
        result = group.root.results[0]
        if any(use.operation not in plan.covered for use in result.uses):
            yield result


def _note(gain: _Gain, before: float, total: float) -> str:
    """A note for users: what the plane gains and costs."""
    return (
        "weights of two planes: the estimated error of the result falls by"
        f" {1 - (gain.power / before) ** 0.5:.1%}, for {gain.cycles / total:.1%} more cycles"
    )
