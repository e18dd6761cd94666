"""Biases corrected after the activation: channel means of the quantised network match the float's.

Rounding weights and clamping shift the mean of a channel, and the shift adds up over layers. The
network runs on a few batches of samples as it will run in integers, layer by layer, each on the
inputs that the corrected layers before it leave; then a layer's bias moves until the mean of each
channel of its result, relu and clip included, is the float network's (docs/quantisation.md; after
Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", section
4.2, whose correction stands before the activation).

Needs observations (`vtac.dialects.context.Observations`); what they cannot follow stays as it was.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Attribute, Block, Operation, SSAValue

from vtac.dialects.context import Array, Observations
from vtac.dialects.graph import ConstantOp, shape_of
from vtac.passes.graph.quantize.contraction_numbers import ContractionNumbers, product_of
from vtac.passes.graph.quantize.contractions import Contraction
from vtac.passes.graph.quantize.forms import Form, product_op
from vtac.passes.graph.quantize.groups import PassThrough
from vtac.passes.graph.quantize.numbers import (
    Inner,
    Layer,
    Rescaling,
    form_offsets,
    largest_bias,
    pad_value,
    proof_holds,
    with_weights,
)
from vtac.passes.graph.quantize.plan import QuantisationPlan
from vtac.passes.graph.quantize.planes import ONE_PLANE, TWO_PLANES
from vtac.passes.graph.quantize.rounding import MOST_INPUTS, Moments, alike, round_together
from vtac.passes.graph.quantize.rules.pooling import Pooling

ROUNDS = 16
"""Steps towards equal means, at most; each moves a bias by what the mean is off."""

CLOSE = 1 / 64
"""Means this close, in steps of the result, are equal."""

_AT_ONCE = 4
"""Batches of which all windows are in memory together."""

Batches = Sequence[Array]


def correct_biases(plan: QuantisationPlan, observed: Observations) -> QuantisationPlan:
    """The plan with corrected biases; weights, shifts and scales stay."""
    return _Correction(plan, observed).run()


def round_unseen(plan: QuantisationPlan) -> QuantisationPlan:
    """The plan with weights rounded together where there are no observations (`rounding.alike`)."""

    def assumed(form: Form, weights: Array) -> Array:
        return alike(form.group, weights[0].size)

    layers = {
        group: _rounded_together(plan, layer, assumed) for group, layer in plan.layers.items()
    }
    return replace(plan, layers=layers)


def _rounded_together(
    plan: QuantisationPlan, layer: Layer, covariance: Callable[[Form, Array], Array | None]
) -> Layer:
    """The layer with weights whose errors cancel, where its scales are given.

    Only weights that a shift is to rescale: those for a multiplier are the network's own.
    covariance: [groups, K, K] of what a form's weights meet; None where too little is known.
    """
    if not (layer.group.is_rounded and _is_rescaled(layer)):
        return layer
    chosen = layer
    for place, (form, weights) in enumerate(zip(layer.group.forms, layer.weights, strict=True)):
        if not form.multiplies or weights[0].size > MOST_INPUTS:
            continue
        if (found := covariance(form, weights)) is not None:
            chosen = _with_errors_cancelled(plan, chosen, place, found)
    return chosen if proof_holds(chosen).all() else layer


def _is_rescaled(layer: Layer) -> bool:
    """Whether weights stand for others in a sum that ends in a shift."""
    return layer.rescaling is None and layer.scale is not None and layer.group.join == "add"


def _in_steps(plan: QuantisationPlan, form: Form, layer: Layer) -> Array:
    """The real weights of a form, in units of the stored ones."""
    real = plan.network.weights(form)
    unit = layer.steps / plan.scales[form.operand].value
    return cast(Array, real / unit.reshape(-1, *(1 for _ in real.shape[1:])))


def _with_errors_cancelled(
    plan: QuantisationPlan, layer: Layer, place: int, covariance: Array
) -> Layer:
    """The layer with the weights of one form rounded together."""
    form, weights = layer.group.forms[place], layer.weights[place]
    limits = ONE_PLANE if weights.dtype == np.int8 else TWO_PLANES
    real, before = (
        array.reshape(len(weights), -1) for array in (_in_steps(plan, form, layer), weights)
    )
    rows = round_together(real, before, covariance, limits)
    whole = rows.reshape(weights.shape).astype(weights.dtype)
    return with_weights(layer, place, whole, plan.scales)


class _Correction:
    """Forward over the function as planned. Stored integers are kept as float32."""

    def __init__(self, plan: QuantisationPlan, observed: Observations):
        self.plan, self.observed = plan, observed
        self.stored: dict[SSAValue, Batches] = {}
        self.reals: dict[SSAValue, Batches] = {}
        self.layers = dict(plan.layers)
        for place, argument in enumerate(plan.network.block.args):
            self.reals[argument] = [batch[place] for batch in observed.batches]
        for value in (value for group in plan.contractions for value in group.inputs):
            if (array := plan.network.constant(value)) is not None:
                self.reals[value] = [array] * len(observed.batches)

    def run(self) -> QuantisationPlan:
        """Correct every layer whose operands are known."""
        covered = {op for group in self.plan.groups for op in group.covered}
        roots = {group.root: group for group in self.plan.groups}
        needed = self._needed(covered)
        last = self._last_readers()
        for op in self.plan.network.block.ops:
            if op in roots:
                group = roots[op]
                if all(self._is_known(value) for value in group.inputs):
                    if isinstance(group, PassThrough):
                        self._pass_through(group)
                    elif isinstance(group, Contraction):
                        self._contraction(self.plan.contractions[group])
                    else:
                        self._sum(self.layers[group])
            elif op not in covered and op in needed:
                self._float_op(op)
            for value in last.get(op, ()):
                self.stored.pop(value, None)
                self.reals.pop(value, None)
        return replace(self.plan, layers=self.layers)

    def _needed(self, covered: set[Operation]) -> set[Operation]:
        """Float ops on whose results a group depends."""
        needed: set[Operation] = set()
        for op in reversed(list(self.plan.network.block.ops)):
            readers = {use.operation for result in op.results for use in result.uses}
            if op not in covered and readers & (needed | covered):
                needed.add(op)
        return needed

    def _last_readers(self) -> dict[Operation, list[SSAValue]]:
        """For each op, the values of which it is the last reader."""
        last: dict[SSAValue, Operation] = {}
        for op in self.plan.network.block.ops:
            last.update(dict.fromkeys(op.operands, op))
        for group in self.plan.groups:
            for value in group.inputs:
                # A group reads its operands at its root, which comes last of its ops.
                if last[value] in group.covered:
                    last[value] = group.root
        readers: dict[Operation, list[SSAValue]] = {}
        for value, op in last.items():
            readers.setdefault(op, []).append(value)
        return readers

    def _is_known(self, value: SSAValue) -> bool:
        return value in self.stored or value in self.reals

    def _integers(self, value: SSAValue) -> Batches:
        """A value as stored integers: what a group left, or quantised."""
        if value in self.stored:
            return self.stored[value]
        scale, zero = np.float32(self.plan.scales[value].value), self.plan.scales[value].zero_point
        return [np.clip(np.rint(x / scale) + zero, -128, 127) for x in self.reals[value]]

    def _real(self, value: SSAValue) -> Batches | None:
        """The real number that a value stands for, as float ops read it."""
        if value in self.stored:
            scale = self.plan.scales[value]
            step = np.float32(scale.value)
            return [(x - scale.zero_point) * step for x in self.stored[value]]
        array = self.plan.network.constant(value)
        if array is not None:
            return [array] * len(self.observed.batches)
        return self.reals.get(value)

    def _float_op(self, op: Operation) -> None:
        if isinstance(op, ConstantOp):
            return
        operands = [self._real(value) for value in op.operands]
        known = [operand for operand in operands if operand is not None]
        if len(known) < len(operands):
            return
        # An op without operands, such as a random generator, has results in each batch too.
        count = len(self.observed.batches)
        batches = [[operand[index] for operand in known] for index in range(count)]
        results = self.observed.evaluate(op, batches)
        for place, result in enumerate(op.results):
            self.reals[result] = [batch[place] for batch in results]

    def _pass_through(self, group: PassThrough) -> None:
        results = self.observed.evaluate(group.root, [[x] for x in self._integers(group.inputs[0])])
        self.stored[group.root.results[0]] = [batch[0] for batch in results]

    def _contraction(self, numbers: ContractionNumbers) -> None:
        """The result of a product, as real numbers where the accumulators leave."""
        group = numbers.group
        a, b = (self._integers(value) for value in group.inputs)
        results = [product_of(numbers, *batch) for batch in zip(a, b, strict=True)]
        kept = self.reals if numbers.scale is None else self.stored
        kept[group.root.results[0]] = results

    def _sum(self, layer: Layer) -> None:
        """Correct a layer, and leave its result."""
        group = layer.group
        result = group.root.results[0]
        layer = _rounded_together(self.plan, layer, self._covariance)
        sums = self._accumulators(layer)
        if group.is_rounded:
            layer = self._as_given(layer, sums)
        elif not _only_moves(layer) and (mean := self.plan.network.mean(result)) is not None:
            layer = _corrected(layer, sums, mean)
        self.layers[group] = layer
        if layer.scale is not None:
            self.stored[result] = [_requantised(layer, acc) for acc in sums]

    def _as_given(self, layer: Layer, sums: Sequence[Array]) -> Layer:
        """The layer with the bias that brings it nearest to what it is with unrounded weights.

        Where scales are given, float means of rounded values say little. But what the rounding of
        weights costs is known on the operands that the layer reads; its average where nothing is
        clamped goes into the bias.
        """
        if not _is_rescaled(layer):
            return layer
        total, count = np.zeros(len(layer.bias)), np.zeros(len(layer.bias))
        pairs = zip(layer.group.forms, layer.weights, strict=True)
        errors = [self._rounding_errors(form, weights, layer) for form, weights in pairs]
        for batch, acc in enumerate(sums):
            result = _requantised(layer, acc)
            free = (result > layer.lo) & (result < layer.hi)
            error = sum((form[batch] for form in errors), start=np.zeros_like(acc))
            around = tuple(axis for axis in range(acc.ndim) if axis != 1)
            total += np.where(free, error, 0.0).sum(axis=around, dtype=np.float64)
            count += free.sum(axis=around)
        moved = layer.bias + np.rint(total / np.maximum(count, 1))
        allowed = np.abs(moved) <= largest_bias(layer)
        return replace(layer, bias=np.where(allowed, moved, layer.bias))

    def _covariance(self, form: Form, weights: Array) -> Array | None:
        """Covariance of the inputs in a form's windows; None where too few were observed."""
        products = weights[0].size
        # Weights of an identity make a result of all that a window reads.
        one = np.eye(products, dtype=np.float32).reshape(products, *weights.shape[1:])
        each = np.tile(one, (form.group, *(1 for _ in weights.shape[1:])))
        op = _products(form, each.shape)
        inputs = self._less(form.operand, pad_value(form, self.plan.scales))
        moments = Moments(form.group, products)
        for start in range(0, len(inputs), _AT_ONCE):
            batches = [[x, each] for x in inputs[start : start + _AT_ONCE]]
            for results in self.observed.evaluate(op, batches):
                moments.add(results[0])
        return moments.covariance() if moments.suffice else None

    def _rounding_errors(self, form: Form, weights: Array, layer: Layer) -> list[Array]:
        """What the rounding of a form's weights costs its sums, in steps of the accumulators."""
        wrong = _in_steps(self.plan, form, layer) - weights
        op = _products(form, wrong.shape)
        scales = self.plan.scales
        outside = pad_value(form, scales)
        inputs = self._less(form.operand, outside)
        results = self.observed.evaluate(op, [[x, wrong.astype(np.float32)] for x in inputs])
        share = (outside - scales[form.operand].zero_point) * _sums(wrong)
        return [batch[0] + _channels(share, batch[0]) for batch in results]

    def _accumulators(self, layer: Layer) -> list[Array]:
        """The sums of products and shifted addends, without biases, in each batch."""
        group = layer.group
        addends = [self._form(*pair) for pair in zip(group.forms, layer.weights, strict=True)]
        if group.pooling is not None:
            addends.append(self._pooled(group.pooling))
        for value, amount in zip(group.skips, layer.amounts, strict=True):
            factor = np.ldexp(1.0, amount).astype(np.float32)
            addends.append([x * _channels(factor, x) for x in self._integers(value)])
        if group.join in ("max", "min"):
            self._share_offset(layer, addends)
        for place, inner in enumerate(layer.inner):
            addends[place] = [_limited(inner, x) for x in addends[place]]
        join = _JOINS[group.join]
        totals = addends[0]
        for addend in addends[1:]:
            totals = [join(total, more) for total, more in zip(totals, addend, strict=True)]
        return totals

    def _share_offset(self, layer: Layer, addends: list[list[Array]]) -> None:
        """Bring addends that are compared to the offset of the first."""
        offsets = form_offsets(layer, self.plan.scales)
        for addend, offset in zip(addends[1:], offsets[1:], strict=True):
            more = (offset - offsets[0]).astype(np.float32)
            addend[:] = [x + _channels(more, x) for x in addend]

    def _pooled(self, pooling: Pooling) -> list[Array]:
        zero = self.plan.scales[pooling.x].zero_point
        inputs = self._less(pooling.x, zero)
        results = self.observed.evaluate(pooling.source, [[x] for x in inputs])
        divisor, share = np.float32(pooling.divisor), np.float32(zero * pooling.count)
        return [np.rint(batch[0] * divisor) + share for batch in results]

    def _form(self, form: Form, weights: Array) -> list[Array]:
        op = _products(form, weights.shape)
        outside = pad_value(form, self.plan.scales)
        inputs = self._less(form.operand, outside)
        results = self.observed.evaluate(op, [[x, weights.astype(np.float32)] for x in inputs])
        share = outside * _sums(weights)
        return [batch[0] + _channels(share, batch[0]) for batch in results]

    def _less(self, value: SSAValue, outside: int) -> Batches:
        """Stored integers less the one in the padding, so that 0 pads them."""
        integers = self._integers(value)
        return [x - np.float32(outside) for x in integers] if outside else integers


def _products(form: Form, weights: Sequence[int]) -> Operation:
    """A form as an op over floats, for weights of a shape [O, C/group, kernel...]."""
    types: list[Attribute] = [form.operand.type, TensorType(f32, weights)]
    x, w = Block(arg_types=types).args
    batch, _, *space = shape_of(form.result) or ()
    return product_op(form, x, w, TensorType(f32, [batch, weights[0], *space]))


def _sums(weights: Array) -> Array:
    """The sum of all weights of each output channel."""
    return cast(Array, weights.reshape(len(weights), -1).sum(axis=1, dtype=np.float32))


_JOINS = {"add": np.add, "max": np.maximum, "min": np.minimum, "mul": np.multiply}


def _limited(inner: Inner, x: Array) -> Array:
    """One factor of a product."""
    moved = x + _channels(inner.bias.astype(np.float32), x)
    return moved if inner.lo is None else cast(Array, np.clip(moved, inner.lo, inner.hi))


def _channels(vector: Array, like: Array) -> Array:
    return vector.reshape(-1, *(1 for _ in like.shape[2:]))


def _requantised(layer: Layer, acc: Array) -> Array:
    """``clamp((acc + bias) >> shift, lo, hi)``, but for sums above 2^24, which float32 rounds."""
    if layer.rescaling is not None:
        return _rescaled(layer, layer.rescaling, acc)
    steps = np.ldexp(1.0, -layer.shift).astype(np.float32)
    shifted = acc + _channels(layer.bias.astype(np.float32), acc)
    shifted *= _channels(steps, acc)
    np.floor(shifted, out=shifted)
    return cast(Array, np.clip(shifted, layer.lo, layer.hi, out=shifted))


def _rescaled(layer: Layer, numbers: Rescaling, acc: Array) -> Array:
    """What ``graph.rescale`` makes of sums."""
    least, most, multiplier, offset = (
        _channels(vector, acc) for vector in numbers.vectors.values()
    )
    total = np.clip(acc + _channels(layer.bias, acc), least, most) * multiplier + offset
    shifted = np.floor(np.ldexp(total, -numbers.shift))
    return cast(Array, np.clip(shifted, layer.lo, layer.hi).astype(np.float32))


def _only_moves(layer: Layer) -> bool:
    """Whether the layer selects integers of its operands and rounds nothing.

    Its errors are those of its operands, which are corrected already. A correction by whole steps
    would make it compute, where it otherwise costs nothing (``raise-moves``).
    """
    group = layer.group
    if (
        group.core is not None
        or group.join != "add"
        or layer.amounts
        or layer.rescaling is not None
    ):
        return False
    for form, weights in zip(group.forms, layer.weights, strict=True):
        one = np.ldexp(1.0, layer.shift).reshape(-1, *(1 for _ in weights.shape[1:]))
        if form.multiplies or not ((weights == 0) | (weights == one)).all():
            return False
    return True


def _channel_means(array: Array) -> Array:
    around = tuple(axis for axis in range(array.ndim) if axis != 1)
    return cast(Array, array.mean(axis=around, dtype=np.float64))


def _mean(layer: Layer, sums: Sequence[Array]) -> Array:
    """The mean of each channel of the result, in real units."""
    means = []
    for acc in sums:
        if layer.scale is None:
            means.append((_channel_means(acc) + layer.bias) * layer.steps)
        else:
            stored = _channel_means(_requantised(layer, acc))
            means.append((stored - layer.scale.zero_point) * layer.scale.value)
    return cast(Array, np.mean(means, axis=0))


def _corrected(layer: Layer, sums: Sequence[Array], mean: Array) -> Layer:
    """The layer with the bias for which its channels have these means.

    A step moves the bias by what the mean is off. Behind a clamp the mean moves by less, so that
    steps never overshoot. A channel whose sums could leave int32 then keeps its bias.
    """
    largest = largest_bias(layer)
    for _ in range(ROUNDS):
        wrong = mean - _mean(layer, sums)
        moved = layer.bias + np.rint(wrong / layer.steps)
        moved = np.where(np.abs(moved) <= largest, moved, layer.bias)
        if np.array_equal(moved, layer.bias):
            break
        layer = replace(layer, bias=moved)
        if layer.scale is not None and np.abs(wrong).max() < CLOSE * layer.scale.value:
            break
    return layer
