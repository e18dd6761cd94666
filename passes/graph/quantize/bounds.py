"""How far the quantised network may lie from the float one: a proven bound, and an estimate.

Layer by layer, in real units and one number a channel. The bound is of worst cases, the estimate a
root mean square; they differ in how errors add up (``error_models``). The bound holds for every
input for which all float values stay inside their ranges; then saturation moves no value away from
the real one, since clamping to an interval that contains it cannot. What remains is rounding:
of inputs (half a step), weights, biases and clip's bounds (exactly known), and of each
requantisation (half a step, nothing where the shift is 0). float32's own rounding in the network
that we compare with is small, but counted.
"""

from typing import cast

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import ConstantOp, HostOp
from vtac.passes.graph.quantize.contraction_numbers import contraction_errors
from vtac.passes.graph.quantize.contractions import Contraction
from vtac.passes.graph.quantize.error_models import (
    FLOAT32_STEP,
    SLACK_STEPS,
    ErrorModel,
    Range,
    host_error,
)
from vtac.passes.graph.quantize.forms import Form
from vtac.passes.graph.quantize.groups import Group, PassThrough, Sum
from vtac.passes.graph.quantize.numbers import Layer, Rescaling, pad_value, real_bias
from vtac.passes.graph.quantize.plan import QuantisationPlan
from vtac.passes.graph.quantize.products import product_errors
from vtac.passes.graph.quantize.rules import rule_of
from vtac.passes.graph.quantize.rules.rule import ErrorContext, largest, magnitude
from vtac.passes.graph.quantize.scales import Scale

Bound = Array | None
"""One error a channel (or one for all); None where nothing is known."""


def output_errors(plan: QuantisationPlan, model: ErrorModel) -> list[Bound]:
    """The error of each value that the function returns, as float64 [C] or [1], in real units."""
    errors = value_errors(plan, model, None)
    last = plan.network.block.last_op
    return [errors[v] for v in last.operands] if isinstance(last, ReturnOp) else []


MANY_WEIGHTS = 1 << 22
"""The most weights of a form whose errors are found at once and remembered."""

Remembered = dict[tuple[Layer, Form], tuple[Array, Array]]
"""For a form of a layer: its weights as `ErrorModel.folded` returns them, and its own error."""


def value_errors(
    plan: QuantisationPlan, model: ErrorModel, remembered: Remembered | None
) -> dict[SSAValue, Bound]:
    """The error of each value of the function.

    remembered: of forms seen before with the same model; for plans that share most layers. They
    are as large as the weights; None: nothing is kept.
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
        covered = {op for group in self.plan.groups for op in group.covered}
        roots = {group.root: group for group in self.plan.groups}
        self.errors.update((argument, np.zeros(1)) for argument in self.network.block.args)
        for op in self.network.block.ops:
            if op in roots:
                self.errors[op.results[0]] = self._group(roots[op])
            elif op not in covered:
                bound = self._float_op(op)
                self.errors.update((result, bound) for result in op.results)
        return self.errors

    def _stored(self, value: SSAValue) -> Bound:
        """The error of a value as a group reads it."""
        error = self.errors[value]
        if error is None or value in self.int8 or self.network.given(value) is not None:
            return error
        step = np.full(1, self.plan.scales[value].value)
        return self.model.total([error, step * (self.model.rounding + SLACK_STEPS)])

    def _group(self, group: Group) -> Bound:
        if isinstance(group, PassThrough):
            error, rule = self._stored(group.inputs[0]), rule_of(group.root)
            assert rule is not None
            return None if error is None else rule.error(group.root, [error], self.around)
        if isinstance(group, Contraction):
            return self._contraction(group)
        layer = self.plan.layers[group]
        planned = layer.group
        errors = [self._stored(value) for value in planned.skips]
        if planned.pooling is not None:
            error = self._stored(planned.pooling.x)
            count, divisor = planned.pooling.count, planned.pooling.divisor
            errors.append(None if error is None else self.model.summed(error, count) / divisor)
        if group.join == "mul":
            errors += self._group_product(layer)
        else:
            pairs = zip(planned.forms, layer.weights, strict=True)
            errors += [self._form(layer, form, weights) for form, weights in pairs]
        known = [error for error in errors if error is not None]
        if len(known) < len(errors):
            return None
        stored_bias = (layer.bias - layer.rounding - layer.offset) * layer.steps
        known.append(np.abs(real_bias(self.network, group) - stored_bias))
        if layer.scale is not None:
            alone = 0.0 if group.is_rounded else self.model.rounding
            rounding = np.where(layer.shift > 0, alone, 0.0) + SLACK_STEPS
            known += [layer.scale.value * rounding, np.full(1, self._clip_error(layer))]
        if layer.rescaling is not None and layer.scale is not None:
            known.append(_multiplier_error(layer.steps, layer.scale, layer.rescaling))
        return self._clamped(group, layer, self.model.total(known))

    def _clamped(self, group: Sum, layer: Layer, error: Array) -> Array:
        """The error of a sum's result, from that of the sum."""
        lo, hi = group.lo, group.hi
        if group.is_rounded and layer.scale is not None:
            # The network rounds too, and a small error before may lead to another integer.
            error = self.model.both_rounded(error, layer.scale.value)
            least, most = self.network.range_of(group.root.results[0]) or (lo, hi)
            lo, hi = max(lo, least), min(hi, most)
        free = self.around.free(group.root.results[0], group.lo)
        return self.model.clamped(error, self.network.range_of(group.unclamped), (lo, hi), free)

    def _contraction(self, group: Contraction) -> Bound:
        of_a, of_b = (self._stored(value) for value in group.inputs)
        if of_a is None or of_b is None:
            return None
        a, b = (self._values(value) for value in group.inputs)
        numbers = self.plan.contractions[group]
        powers = (self.network.power(group.a.value), self.network.power(group.b.value))
        known = contraction_errors(numbers, (of_a, of_b), (a, b), self.model, powers)
        if (scale := numbers.scale) is None:
            return self.model.total(known)
        known.append(np.full(1, scale.value * SLACK_STEPS))
        if (rescaling := numbers.rescaling) is None:
            return self.model.total(known)
        steps = np.full(len(numbers.bias), numbers.step)
        known.append(largest(_multiplier_error(steps, scale, rescaling)))
        return self.model.both_rounded(self.model.total(known), scale.value)

    def _clip_error(self, layer: Layer) -> float:
        """How far the stored bounds lie from the real ones, where int8 reaches these."""
        assert layer.scale is not None
        step, zero, moved = layer.scale.value, layer.scale.zero_point, 0.0
        for real, stored in ((layer.group.lo, layer.lo), (layer.group.hi, layer.hi)):
            if (-128 - zero) * step <= real <= (127 - zero) * step:
                moved = max(moved, abs(real - (stored - zero) * step))
        return moved

    def _group_product(self, layer: Layer) -> list[Bound]:
        first, second = (form.operand for form in layer.group.forms)
        of_first, of_second = self._stored(first), self._stored(second)
        if of_first is None or of_second is None:
            return [None]
        ranges = self._values(first), self._values(second)
        errors = of_first, of_second
        return [*product_errors(self.network, layer, errors, ranges, self.model, self.plan.scales)]

    def _form(self, layer: Layer, form: Form, weights: Array) -> Bound:
        """Errors of inputs through the stored weights, and of weights through the inputs."""
        error = self._stored(form.operand)
        if error is None:
            return None
        lo, hi = self._values(form.operand)
        values = min(lo, form.outside), max(hi, form.outside)
        if form.outside:
            scale = self.plan.scales[form.operand]
            lies = (pad_value(form, self.plan.scales) - scale.zero_point) * scale.value
            error = np.maximum(error, abs(lies - form.outside))
        if form.group == 1 and weights.size > MANY_WEIGHTS:
            return self._large_form(layer, form, weights, values, error)
        known = {} if self.remembered is None else self.remembered
        if (layer, form) not in known:
            real = self.network.weights(form)
            unit = layer.steps / self.plan.scales[form.operand].value
            known[layer, form] = self._own(form, real, unit, weights, values)
        folded, own = known[layer, form]
        return self.model.total([self.model.through(folded, error), own])

    def _large_form(
        self, layer: Layer, form: Form, weights: Array, values: Range, error: Array
    ) -> Array:
        """The error of a form with many weights, channel by channel, so that it needs no memory."""
        real = self.network.weights(form)
        unit = layer.steps / self.plan.scales[form.operand].value
        found, count = [], max(1, MANY_WEIGHTS * len(weights) // (8 * weights.size))
        for start in range(0, len(weights), count):
            rows = slice(start, start + count)
            folded, own = self._own(form, real[rows], unit[rows], weights[rows], values)
            found.append(self.model.total([self.model.through(folded, error), own]))
        return np.concatenate(found)

    def _own(
        self, form: Form, real: Array, unit: Array, weights: Array, values: Range
    ) -> tuple[Array, Array]:
        """The weights of a form, folded, and what their own errors cost with these values.

        real, unit, weights: the real weights of some channels, the steps of their stored weights,
        and these.
        """
        stored = weights * unit.reshape(-1, *[1] * (real.ndim - 1))
        power = self.network.power(form.operand)
        wrong = self.model.wrong(real - stored, values, power)
        own = self.model.total([wrong, _float_error(real, magnitude(values))])
        return self.model.folded(stored, form.group), own

    def _values(self, value: SSAValue) -> Range:
        """Between which real numbers a value that is read as int8 lies."""
        step = 128 * self.plan.scales[value].value
        return self.network.range_of(value) or (-step, step)

    def _power(self, op: HostOp) -> float | None:
        return self.network.power(op.outputs[0]) if len(op.outputs) == 1 else None

    def _float_op(self, op: Operation) -> Bound:
        """The error behind an op that stays float, from the errors of its operands."""
        errors = [self.errors[operand] for operand in op.operands]
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


def _multiplier_error(steps: Array, scale: Scale, numbers: Rescaling) -> Array:
    """What rounding a multiplier to an integer adds at most, anywhere between the clamps."""
    exact = np.ldexp(steps / scale.value, numbers.shift)
    largest = np.maximum(np.abs(numbers.least), np.abs(numbers.most))
    off = np.abs(numbers.multiplier - exact) * largest * np.ldexp(1.0, -numbers.shift)
    return cast(Array, np.minimum(off, 255) * scale.value)


def _float_error(weights: Array, magnitude: float) -> Array:
    """Rounding of a float32 sum of products."""
    terms = np.abs(weights).reshape(len(weights), -1)
    return cast(Array, FLOAT32_STEP * (terms.shape[1] + 2) * terms.sum(axis=1) * magnitude)
