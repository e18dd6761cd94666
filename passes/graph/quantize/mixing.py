"""Which layers take weights of two planes where the network brings its scales along.

One pass of rescaled weights is off by their rounding; two planes are not, at the price of the
second's products. In a network that rounds itself a small error costs most in the first layers:
where two values that hardly differ are rounded, few results differ, but by a whole step
(`error_models.Expected.both_rounded`), and every further rounding spreads that. So the planes go
where the estimated error of what the accelerator leaves falls most for each cycle that is added,
one layer at a time, as long as that is worth it and a budget lasts: mixed precision by sensitivity
and cost (Dong et al., "HAWQ", section 3), with the quantiser's own error model for the sensitivity.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from vtac.dialects.graph import shape_of
from vtac.passes.graph.quantize.bounds import Remembered, value_errors
from vtac.passes.graph.quantize.error_models import Expected
from vtac.passes.graph.quantize.groups import Sum
from vtac.passes.graph.quantize.network import summed_elements
from vtac.passes.graph.quantize.numbers import Layer, ShiftPolicy
from vtac.passes.graph.quantize.plan import Plan
from vtac.passes.graph.quantize.planes import split
from vtac.passes.graph.quantize.requantisation import number_sum
from vtac.passes.graph.quantize.scales import Obstacle

MORE_CYCLES = 0.2
"""Second planes add at most this share of the cycles that all layers take, as estimated here."""

WORTH = 0.5
"""A percent of cycles must take away at least so many percent of the error's power."""

_EPILOGUE = 5
"""Steps of the ALU for each vector of results: bias, shift and bounds."""

_LOADED = 8
"""Bytes of weights loaded in a cycle."""

_AT_ONCE = 16
"""Layers looked at again in each step: those that promised most before."""


@dataclass(frozen=True, eq=False)
class _Gain:
    """A second plane for a layer: the cycles it adds, and the error's power with it."""

    group: Sum
    layer: Layer
    cycles: float
    power: float

    def a_cycle(self, before: float) -> float:
        """The share of the power before that a cycle takes away."""
        return (1 - self.power / before) / self.cycles


def mix_planes(plan: Plan, policy: ShiftPolicy) -> Plan:
    """The plan with second planes where they are worth most, and notes that say so.

    Only for ``auto`` on a target that does not multiply, and layers with given scales.
    """
    if policy.requantise != "auto" or policy.multiplies:
        return plan
    return _Choice(plan, policy).run()


class _Choice:
    def __init__(self, plan: Plan, policy: ShiftPolicy):
        self.plan, self.policy = plan, policy
        self.remembered: Remembered = {}
        self.leaving = list(_leaving(plan))

    def run(self) -> Plan:
        notes: dict[Operation, str] = {}
        total = sum(_cycles(layer, self.policy.block) for layer in self.plan.layers.values())
        left = MORE_CYCLES * total
        power = self._power(self.plan)
        found = [self._measured(gain) for gain in self._candidates()] if power else []
        while found := [gain for gain in found if gain.cycles <= left]:
            found.sort(key=lambda gain: gain.a_cycle(power), reverse=True)
            found[:_AT_ONCE] = map(self._measured, found[:_AT_ONCE])
            best = max(found, key=lambda gain: gain.a_cycle(power))
            if best.a_cycle(power) * total < WORTH:
                break
            self.plan = self._with(best)
            found.remove(best)
            left -= best.cycles
            notes[best.group.root] = _note(best, power, total)
            power = best.power
        return replace(self.plan, notes={**self.plan.notes, **notes})

    def _candidates(self) -> list[_Gain]:
        """Layers that have a second plane to gain."""
        found = []
        exact = replace(self.policy, requantise="exact")
        for group, layer in self.plan.layers.items():
            if not isinstance(group, Sum) or not group.is_rounded or layer.rescaling is not None:
                continue
            try:
                finer = number_sum(self.plan.network, group, self.plan.scales, exact)
            except Obstacle:
                continue
            more = _cycles(finer, self.policy.block) - _cycles(layer, self.policy.block)
            if more > 0:
                found.append(_Gain(group, finer, more, 0.0))
        return found

    def _with(self, gain: _Gain) -> Plan:
        return replace(self.plan, layers={**self.plan.layers, gain.group: gain.layer})

    def _measured(self, gain: _Gain) -> _Gain:
        return replace(gain, power=self._power(self._with(gain)))

    def _power(self, plan: Plan) -> float:
        """The power of the errors of all values that leave, each in units of its range."""
        errors = value_errors(plan, Expected(), self.remembered)
        total = 0.0
        for value in self.leaving:
            error = errors[value]
            if error is not None:
                lo, hi = plan.network.range_of(value) or (0.0, 1.0)
                total += float(np.mean(np.square(error))) / (hi - lo or 1.0) ** 2
        return total


def _leaving(plan: Plan) -> Iterable[SSAValue]:
    """Results of groups that others than groups read, or the network returns."""
    covered = {op for group in plan.groups for op in group.covered}
    for group in plan.groups:
        result = group.root.results[0]
        if any(use.operation not in covered for use in result.uses):
            yield result


def _cycles(layer: Layer, block: int) -> float:
    """What a layer takes, roughly: its products, block by block, or the loads of their weights."""
    batch, channels, *space = shape_of(layer.group.root.results[0]) or ()
    blocks = -(-channels // block)
    products = 0
    pooling, high = layer.group.pooling, False
    if pooling is not None:
        products += summed_elements(pooling)
    for form, weights in zip(layer.group.forms, layer.weights, strict=True):
        outputs, inputs = len(weights) // form.group, weights.shape[1]
        read = min(form.group, -(-block // outputs)) * inputs
        planes = 1 if split(weights)[0] is None else 2
        high |= planes == 2
        products += planes * prod(weights.shape[2:]) * -(-read // block)
    loads = blocks * products * block * block / _LOADED
    steps = products + len(layer.group.skips) + _EPILOGUE + high
    return max(batch * prod(space) * blocks * steps, loads)


def _note(gain: _Gain, before: float, total: float) -> str:
    """For people: what it brings and costs."""
    return (
        "weights of two planes: the estimated error of the result falls by"
        f" {1 - (gain.power / before) ** 0.5:.1%}, for {gain.cycles / total:.1%} more cycles"
    )
