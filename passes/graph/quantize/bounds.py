"""How far the quantised network may lie from the float one: a proven bound, and an estimate.

Errors are propagated layer by layer, in real units, as one number per channel. The bound is of
worst cases, the estimate a root mean square; they differ in how errors add up (``error_models``).
The bound holds for every input for which all float values stay inside their ranges; then saturation
moves no value away from the real one, since clamping to an interval that contains it cannot. What
remains is rounding: of inputs (half a step), of weights, biases and clip's bounds (known exactly),
and of each requantisation (half a step, nothing where the shift is 0). float32's own rounding in
the network that we compare with is small, but counted.
"""

from collections.abc import Mapping
from typing import cast

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import ConstantOp, HostOp
from vtac.passes.approximation.error_models import FLOAT32_STEP, SLACK_STEPS, ErrorModel, Range
from vtac.passes.approximation.multipliers import Rescaling
from vtac.passes.graph.float_groups.contractions import Contraction
from vtac.passes.graph.float_groups.forms import per_channel
from vtac.passes.graph.float_groups.groups import Group, PassThrough, Sum
from vtac.passes.graph.float_groups.rules import rule_of
from vtac.passes.graph.float_groups.rules.host import host_error
from vtac.passes.graph.float_groups.rules.rule import ErrorContext, largest, magnitude
from vtac.passes.graph.quantize.curves import curve_error, steepest_slope
from vtac.passes.graph.quantize.layer import Layer, Term
from vtac.passes.graph.quantize.plan import QuantisationPlan
from vtac.passes.graph.quantize.products import second_factor
from vtac.passes.graph.quantize.scales import Scale

Bound = Array | None
"""One error per channel (or one for all); None where nothing is known."""


def output_errors(plan: QuantisationPlan, model: ErrorModel) -> list[Bound]:
    """The error of each value that the function returns, as float64 [C] or [1], in real units."""
    errors = value_errors(plan, model, None)
    last = plan.network.block.last_op
    if not isinstance(last, ReturnOp):
        return []
    int8, factors = {group.root.results[0] for group in plan.groups}, plan.network.factors
    found = [(errors[v], factors.get(v) if v in int8 else None) for v in last.operands]
    return [e if f is None or e is None else e / f for e, f in found]


MANY_WEIGHTS = 1 << 22
"""The most weights of an addend whose errors are remembered."""

_AT_ONCE = 1 << 16
"""Weights whose errors are found together where they are not remembered."""

Remembered = dict[tuple[Layer, Term], tuple[Array, Array]]
"""For an addend of a layer: its weights as `ErrorModel.folded` returns them, and its own error."""


def value_errors(
    plan: QuantisationPlan, model: ErrorModel, remembered: Remembered | None
) -> dict[SSAValue, Bound]:
    """The error of each value of the function.

    remembered: errors of addends seen before with the same model, for plans that share most layers.
    They take as much memory as the weights; None keeps nothing.
    """
    return _Errors(plan, model, remembered).run()


class _Errors:
    """Propagates errors forward through the float function, along the groups of a plan."""

    def __init__(self, plan: QuantisationPlan, model: ErrorModel, remembered: Remembered | None):
        self.plan = plan
        self.remembered = remembered
        self.model = model
        self.network = plan.network
        self.around = ErrorContext(model, plan.network)
        self.errors: dict[SSAValue, Bound] = {}
        self.int8 = {g.root.results[0] for g in plan.groups if g.root.results[0] in plan.scales}

    def run(self) -> dict[SSAValue, Bound]:
        self.errors.update((argument, np.zeros(1)) for argument in self.network.block.args)
        for step in self.plan.steps():
            if isinstance(step, Operation):
                bound = self._float_op(step)
                self.errors.update((result, bound) for result in step.results)
            else:
                self.errors[step.root.results[0]] = self._group(step)
        return self.errors

    def _stored(self, value: SSAValue) -> Bound:
        """The error of a value as a group reads it."""
        error = self.errors[value]
        if error is None or value in self.int8 or self.network.given(value) is not None:
            return error
        error = error * self.network.factors.get(value, 1.0)
        step = np.full(1, self.plan.scales[value].value)
        return self.model.total([error, step * (self.model.rounding + SLACK_STEPS)])

    def _real(self, value: SSAValue) -> Bound:
        """The error of a value as float ops read it."""
        error, factors = self.errors[value], self.network.factors.get(value)
        if error is None or factors is None or value not in self.int8:
            return error
        return cast(Array, error / factors)

    def _group(self, group: Group) -> Bound:
        stored = {value: self._stored(value) for value in group.inputs}
        known = {value: error for value, error in stored.items() if error is not None}
        if len(known) < len(stored):
            return None
        if isinstance(group, PassThrough):
            rule = rule_of(group.root)
            assert rule is not None
            return rule.error(group.root, list(known.values()), self.around)
        layer = self.plan.layers[group]
        if isinstance(group, Contraction):
            errors = self._contraction(group, known)
        elif group.join == "mul":
            errors = self._product(group, layer, known)
        elif group.join == "curve":
            (error,) = known.values()
            errors = [error * steepest_slope(layer), np.full(1, curve_error(layer))]
        else:
            errors = [self._term(layer, term, known[term.form.operand]) for term in layer.terms]
        total = self.model.total([*errors, *self._ending(layer)])
        if isinstance(group, Sum):
            return self._clamped(group, layer, total)
        total = largest(total)  # only the reader knows which columns are channels
        scale = layer.scale
        rounded = group.is_rounded and scale is not None
        return self.model.both_rounded(total, scale.value) if rounded and scale else total

    def _ending(self, layer: Layer) -> list[Array]:
        """The errors of the constant, of requantisation and of its bounds."""
        errors, scale = [layer.bias_error], layer.scale
        if scale is not None:
            alone = 0.0 if layer.group.is_rounded else self.model.rounding
            errors.append(scale.value * (np.where(layer.shift > 0, alone, 0.0) + SLACK_STEPS))
            errors.append(np.full(1, _clip_error(layer, scale)))
            if layer.rescaling is not None:
                errors.append(_multiplier_error(layer.steps, scale, layer.rescaling))
        return errors

    def _clamped(self, group: Sum, layer: Layer, error: Array) -> Array:
        """The error of a sum's result, from that of the sum."""
        lo, hi = group.lo, group.hi
        if group.is_rounded and layer.scale is not None:
            # The network rounds too, so a small error before it may lead to another integer.
            error = self.model.both_rounded(error, layer.scale.value)
            least, most = self.network.range_of(group.root.results[0]) or (lo, hi)
            lo, hi = max(lo, least), min(hi, most)
        free = self.around.free(group.root.results[0], group.lo)
        return self.model.clamped(error, self.network.range_of(group.unclamped), (lo, hi), free)

    def _contraction(self, group: Contraction, errors: Mapping[SSAValue, Array]) -> list[Array]:
        """The errors of sums of products of two operands that err."""
        a, b = group.inputs
        of_a, of_b = (float(errors[value].max()) for value in (a, b))
        most_a, most_b = (magnitude(self._values(value)) for value in (a, b))
        ones = np.full((1, group.inner), group.factor)
        wrong, power = self.model.wrong, self.network.power
        products = group.inner * most_a * most_b * group.factor
        return [
            wrong(ones * of_a, self._values(b), power(b)),
            wrong(ones * of_b, self._values(a), power(a)),
            wrong(ones * of_a, (-of_b, of_b), of_b**2),
            np.full(1, FLOAT32_STEP * (group.inner + 4) * products),
        ]

    def _product(self, group: Sum, layer: Layer, errors: Mapping[SSAValue, Array]) -> list[Array]:
        """The errors of a product of two values that err, and of the weight of the first."""
        first, second = layer.terms
        of_a, of_b = (errors[term.form.operand] for term in layer.terms)
        a, b = (magnitude(self._values(term.form.operand)) for term in layer.terms)
        _, unit = second_factor(group, second)
        real, stored = first.real.reshape(-1), first.weights.reshape(-1)
        wrong = np.abs(stored * layer.steps / (first.scale.value * unit) - real)
        if group.gate is not None:
            of_b = self.model.total([of_b * group.gate[0], np.full(1, unit)])
            b = 1.0
        real = np.abs(real)
        return [real * of_a * b, real * of_b * a, real * of_a * of_b, wrong * a * b]

    def _term(self, layer: Layer, term: Term, error: Array) -> Array:
        """Errors of inputs through the stored weights, and of weights through the inputs."""
        form, (lo, hi) = term.form, self._values(term.form.operand)
        values = min(lo, form.outside), max(hi, form.outside)
        if form.outside:
            lies = (term.outside - term.scale.zero_point) * term.scale.value
            error = np.maximum(error, abs(lies - form.outside))
        known = {} if self.remembered is None else self.remembered
        if form.group == 1 and (self.remembered is None or term.weights.size > MANY_WEIGHTS):
            return self._in_parts(layer, term, values, error)
        if (layer, term) not in known:
            power = self.network.power(form.operand)
            every = slice(None)
            known[layer, term] = self._own(term, term.real, layer.steps, every, values, power)
        folded, own = known[layer, term]
        return self.model.total([self.model.through(folded, error), own])

    def _in_parts(self, layer: Layer, term: Term, values: Range, error: Array) -> Array:
        """The error of a term, some channels at a time, so that the memory used stays in a
        cache."""
        real, channels = term.real, len(term.weights)
        power = self.network.power(term.form.operand)
        found, count = [], max(1, _AT_ONCE * channels // term.weights.size)
        for start in range(0, channels, count):
            rows = slice(start, start + count)
            folded, own = self._own(term, real, layer.steps, rows, values, power)
            found.append(self.model.total([self.model.through(folded, error), own]))
        return np.concatenate(found)

    def _own(
        self,
        term: Term,
        real: Array,
        steps: Array,
        rows: slice,
        values: Range,
        power: float | None,
    ) -> tuple[Array, Array]:
        """The folded weights of some channels, and the errors of sums that their rounding causes.

        real: the real weights of all channels. steps: of the accumulators. values, power: the range
        and the mean square of the operand.
        """
        unit = per_channel(steps[rows] / term.scale.value, real.ndim - 1)
        real, stored = real[rows], term.weights[rows] * unit
        wrong = self.model.wrong(real - stored, values, power)
        own = self.model.total([wrong, _float_error(real, magnitude(values))])
        return self.model.folded(stored, term.form.group), own

    def _values(self, value: SSAValue) -> Range:
        """The range of real numbers of a value that is read as int8."""
        step = 128 * self.plan.scales[value].value
        return self.network.range_of(value) or (-step, step)

    def _power(self, op: HostOp) -> float | None:
        return self.network.power(op.outputs[0]) if len(op.outputs) == 1 else None

    def _float_op(self, op: Operation) -> Bound:
        """The error behind an op that stays float, from the errors of its operands."""
        errors = [self._real(operand) for operand in op.operands]
        known = [error for error in errors if error is not None]
        if len(known) < len(errors):
            return None
        if isinstance(op, ConstantOp) or not any(error.any() for error in known):
            return np.zeros(1)
        if isinstance(op, HostOp) and len(op.inputs) == 1 and not op.captured:
            most, power = magnitude(self.network.range_of(op.inputs[0])), self._power(op)
            return host_error(op, known[0], most, power, self.model)
        rule = rule_of(op)
        return None if rule is None else rule.error(op, known, self.around)


def _clip_error(layer: Layer, scale: Scale) -> float:
    """How far the stored bounds lie from the real ones, where int8 reaches these."""
    step, zero, moved = scale.value, scale.zero_point, 0.0
    for real, stored in ((layer.group.lo, layer.lo), (layer.group.hi, layer.hi)):
        if (-128 - zero) * step <= real <= (127 - zero) * step:
            moved = max(moved, abs(real - (stored - zero) * step))
    return moved


def _multiplier_error(steps: Array, scale: Scale, numbers: Rescaling) -> Array:
    """The largest error that rounding a multiplier to an integer causes between the clamps."""
    exact = np.ldexp(steps / scale.value, numbers.shift)
    largest = np.maximum(np.abs(numbers.least), np.abs(numbers.most))
    off = np.abs(numbers.multiplier - exact) * largest * np.ldexp(1.0, -numbers.shift)
    return cast(Array, np.minimum(off, 255) * scale.value)


def _float_error(weights: Array, magnitude: float) -> Array:
    """Bound for the rounding error of a float32 sum of products."""
    terms = np.abs(weights).reshape(len(weights), -1)
    return cast(Array, FLOAT32_STEP * (terms.shape[1] + 2) * terms.sum(axis=1) * magnitude)
