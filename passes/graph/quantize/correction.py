"""Biases corrected after the activation: channel means of the quantised network match the float's.

Rounding weights and clamping shift the mean of a channel, and the shift adds up over layers. The
network runs on a few batches of samples as it will run in integers, layer by layer, each on the
inputs that the corrected layers before it leave; then a layer's bias moves until the mean of each
channel of its result, relu and clip included, is the float network's (docs/quantisation.md; after
Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction", section
4.2, whose correction stands before the activation).

Needs observations (`vtac.dialects.context.Observations`); layers whose operands were not observed
are not corrected.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Attribute, Block, Operation, SSAValue

from vtac.dialects.context import Array, Observations
from vtac.dialects.graph import ConstantOp, shape_of
from vtac.passes.approximation.multipliers import Rescaling
from vtac.passes.approximation.planes import ONE_PLANE, TWO_PLANES
from vtac.passes.approximation.rounding import (
    MOST_INPUTS,
    Moments,
    alike,
    batches_apart,
    round_together,
)
from vtac.passes.graph.float_groups.contractions import Contraction, Operand
from vtac.passes.graph.float_groups.forms import Form, per_channel, product_op
from vtac.passes.graph.float_groups.groups import Group, PassThrough, Sum
from vtac.passes.graph.quantize.layer import Layer, Term
from vtac.passes.graph.quantize.plan import QuantisationPlan

ROUNDS = 16
"""Most steps towards equal means; each moves a bias by the difference of the means."""

CLOSE = 1 / 64
"""Means this close, in steps of the result, are equal."""

_AT_ONCE = 4
"""Batches whose windows are in memory at the same time."""

Batches = Sequence[Array]


def correct_biases(plan: QuantisationPlan, observed: Observations) -> QuantisationPlan:
    """The plan with corrected biases; weights, shifts and scales stay."""
    return _Correction(plan, observed).run()


def round_unseen(plan: QuantisationPlan) -> QuantisationPlan:
    """The plan with weights rounded together where there are no observations (`rounding.alike`)."""

    def assumed(term: Term) -> Array:
        return alike(term.form.group, term.weights[0].size)

    layers = {
        group: _rounded_together(layer, assumed) if group.is_rounded else layer
        for group, layer in plan.layers.items()
    }
    return replace(plan, layers=layers)


def _rounded_together(layer: Layer, covariance: Callable[[Term], Array | None]) -> Layer:
    """The layer with weights whose errors cancel.

    Only weights of sums that end in a shift change: those for a multiplier are the network's own.
    covariance: [groups, K, K] of a term's inputs; None where none were observed.
    """
    if not _is_rescaled(layer):
        return layer
    chosen = layer
    for place, term in enumerate(layer.terms):
        if not term.form.multiplies or term.weights[0].size > MOST_INPUTS:
            continue
        if (found := covariance(term)) is not None:
            limits = ONE_PLANE if term.weights.dtype == np.int8 else TWO_PLANES
            before = term.weights.reshape(len(term.weights), -1)
            real = term.in_steps(layer.steps).reshape(before.shape)
            chosen = chosen.with_weights(place, round_together(real, before, found, limits))
    return layer if chosen.overflows.any() else chosen


def _is_rescaled(layer: Layer) -> bool:
    """Whether the sum ends in a shift and its weights were rescaled."""
    summed = isinstance(layer.group, Sum) and layer.group.join == "add"
    return summed and layer.rescaling is None and layer.scale is not None


class _Correction:
    """Executes the function as planned, from the front. Stored integers are kept as float32."""

    def __init__(self, plan: QuantisationPlan, observed: Observations):
        self.plan, self.observed = plan, observed
        self.stored: dict[SSAValue, Batches] = {}
        self.reals: dict[SSAValue, Batches] = {}
        self.layers = dict(plan.layers)
        for place, argument in enumerate(plan.network.block.args):
            self.reals[argument] = [batch[place] for batch in observed.batches]
        products = [group for group in plan.groups if isinstance(group, Contraction)]
        for value in (value for group in products for value in group.inputs):
            if (array := plan.network.constant(value)) is not None:
                self.reals[value] = [array] * len(observed.batches)

    def run(self) -> QuantisationPlan:
        """Correct every layer whose operands are known."""
        needed, last = self._needed(self.plan.covered), self._last_readers()
        for step in self.plan.steps():
            if isinstance(step, Operation):
                if step in needed:
                    self._float_op(step)
            elif all(self._is_known(value) for value in step.inputs):
                self._group(step)
            for value in last.get(step if isinstance(step, Operation) else step.root, ()):
                self.stored.pop(value, None)
                self.reals.pop(value, None)
        return replace(self.plan, layers=self.layers)

    def _group(self, group: Group) -> None:
        """Leave the result of a group, corrected if it is a sum."""
        if isinstance(group, PassThrough):
            self._pass_through(group)
            return
        layer = self.layers[group]
        if isinstance(group, Contraction):
            results = self._contraction(group, layer)
        else:
            layer, results = self._sum(group, layer)
            self.layers[group] = layer
        kept = self.reals if layer.scale is None else self.stored
        if results:
            kept[group.root.results[0]] = results

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
        scale = self.plan.scales[value]
        step, zero = np.float32(scale.value), scale.zero_point
        factors = self._factors(value)
        return [
            np.clip(np.rint(x * factors / step) + zero, *scale.range) for x in self.reals[value]
        ]

    def _factors(self, value: SSAValue) -> Array:
        """By what the channels of a value are enlarged, in a shape that broadcasts."""
        factors = self.plan.network.factors.get(value, np.ones(1)).astype(np.float32)
        return factors.reshape(-1, *(1 for _ in (shape_of(value) or ())[2:]))

    def _real(self, value: SSAValue) -> Batches | None:
        """The real numbers that a value stands for, as float ops read it."""
        if value in self.stored:
            scale = self.plan.scales[value]
            step = np.float32(scale.value) / self._factors(value)
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

    def _contraction(self, group: Contraction, layer: Layer) -> Batches:
        """The result of a product, as real numbers where the accumulators leave."""
        results = []
        operands = [
            self._rows(x, value) for x, value in zip((group.a, group.b), group.inputs, strict=True)
        ]
        zeros = prod(self.plan.scales[value].zero_point for value in group.inputs)
        for left, right in zip(*operands, strict=True):
            products = left @ right.swapaxes(-1, -2) - group.inner * zeros
            rows = products.reshape(-1, products.shape[-1])
            if layer.scale is None:
                rows = (rows + layer.bias) * layer.steps
            else:
                rows = _requantised(layer, rows)
            shape = shape_of(group.source.result) or ()
            results.append(rows.reshape(shape).transpose(group.order).astype(np.float32))
        return results

    def _rows(self, operand: Operand, value: SSAValue) -> Batches:
        """Stored integers less their zero point, as matrices of rows in float64."""
        zero = self.plan.scales[value].zero_point
        batches = [x.astype(np.float64) - zero for x in self._integers(value)]
        return [x.transpose(operand.order).reshape(operand.shape) for x in batches]

    def _sum(self, group: Sum, layer: Layer) -> tuple[Layer, Batches]:
        """The corrected layer, and its results if they are integers."""
        if group.is_rounded or group.root in self.plan.network.blocks:
            layer = _rounded_together(layer, self._covariance)
        sums = self._accumulators(group, layer)
        mean = self.plan.network.mean(group.root.results[0])
        if group.is_rounded:
            layer = self._as_given(layer, sums)
        elif mean is not None and not _only_moves(group, layer):
            layer = _corrected(layer, sums, mean)
        return layer, [] if layer.scale is None else [_requantised(layer, acc) for acc in sums]

    def _as_given(self, layer: Layer, sums: Sequence[Array]) -> Layer:
        """The layer with a bias that makes up for the rounding of its weights.

        Where scales are given, the float means of rounded values say little. But the error that
        rounding the weights causes is known on the operands that the layer reads; its average over
        elements that are not clamped goes into the bias.
        """
        if not _is_rescaled(layer):
            return layer
        total, count = np.zeros(len(layer.bias)), np.zeros(len(layer.bias))
        errors = [self._rounding_errors(term, layer) for term in layer.terms if not term.form.plain]
        for batch, acc in enumerate(sums):
            result = _requantised(layer, acc)
            free = (result > layer.lo) & (result < layer.hi)
            error = sum((term[batch] for term in errors), start=np.zeros_like(acc))
            around = tuple(axis for axis in range(acc.ndim) if axis != 1)
            total += np.where(free, error, 0.0).sum(axis=around, dtype=np.float64)
            count += free.sum(axis=around)
        moved = layer.bias + np.rint(total / np.maximum(count, 1))
        allowed = np.abs(moved) <= layer.largest_bias
        return replace(layer, bias=np.where(allowed, moved, layer.bias))

    def _covariance(self, term: Term) -> Array | None:
        """Covariance of the inputs in a term's windows; None where none was observed."""
        form, products = term.form, term.weights[0].size
        # A convolution by the identity gives the elements that a window reads.
        one = np.eye(products, dtype=np.float32).reshape(products, *term.weights.shape[1:])
        each = np.tile(one, (form.group, *(1 for _ in term.weights.shape[1:])))
        op = _products(form, each.shape)
        inputs = self._less(form.operand, term.outside)
        moments = Moments(form.group, products)
        _, _, *space = shape_of(form.result) or ()
        inputs = inputs[:: batches_apart(len(inputs), prod(space), products)]
        for start in range(0, len(inputs), _AT_ONCE):
            batches = [[x, each] for x in inputs[start : start + _AT_ONCE]]
            for results in self.observed.evaluate(op, batches):
                moments.add(results[0])
        return moments.covariance() if moments.count else None

    def _rounding_errors(self, term: Term, layer: Layer) -> Batches:
        """The errors of a term's sums due to rounded weights, in steps of the accumulators."""
        wrong = term.in_steps(layer.steps) - term.weights
        return self._sums(term, wrong, term.outside - term.scale.zero_point)

    def _accumulators(self, group: Sum, layer: Layer) -> list[Array]:
        """The sums of all addends, without the bias, in each batch."""
        if layer.gate is not None:
            (term,) = layer.terms
            stored = self._integers(term.form.operand)
            return [layer.gate.at(x).astype(np.float32) for x in stored]
        join = _JOINS[group.join]
        addends = [self._addend(term) for term in layer.terms]
        return [reduce(join, batch) for batch in zip(*addends, strict=True)]

    def _addend(self, term: Term) -> Batches:
        """The products of one term, with the added constant, clamped."""
        if term.form.plain and not term.form.is_pooling:
            factor = term.weights.reshape(-1).astype(np.float32)
            return [x * _channels(factor, x) for x in self._integers(term.form.operand)]
        sums = self._sums(term, term.weights, term.outside)
        if term.added is not None:
            more = np.broadcast_to(term.added, (len(term.weights),)).astype(np.float32)
            sums = [acc + _channels(more, acc) for acc in sums]
        return sums if term.bounds is None else [np.clip(acc, *term.bounds) for acc in sums]

    def _sums(self, term: Term, weights: Array, outside: int) -> list[Array]:
        """The products of a term's inputs with some weights, in each batch.

        outside: the number that windows read in the padding.
        """
        op = _products(term.form, weights.shape)
        inputs = self._less(term.form.operand, term.outside)
        small = weights.astype(np.float32)
        share = outside * weights.reshape(len(weights), -1).sum(axis=1, dtype=np.float32)
        results = self.observed.evaluate(op, [[x, small] for x in inputs])
        return [batch[0] + _channels(share, batch[0]) for batch in results]

    def _less(self, value: SSAValue, outside: int) -> Batches:
        """Stored integers minus that of the padding, so that the padding is 0."""
        integers = self._integers(value)
        return [x - np.float32(outside) for x in integers] if outside else integers


def _products(form: Form, weights: Sequence[int]) -> Operation:
    """A form as an op over floats, for weights of a shape [O, C/group, kernel...]."""
    types: list[Attribute] = [form.operand.type, TensorType(f32, weights)]
    x, w = Block(arg_types=types).args
    batch, _, *space = shape_of(form.result) or ()
    return product_op(form, x, w, TensorType(f32, [batch, weights[0], *space]))


_JOINS = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "curve": np.add,
}


def _channels(vector: Array, like: Array) -> Array:
    return per_channel(vector, like.ndim - 2)


def _requantised(layer: Layer, acc: Array) -> Array:
    """``clamp((acc + bias) >> shift, lo, hi)``, but for sums above 2^24, which float32 rounds."""
    if layer.rescaling is not None:
        return _rescaled(layer, layer.rescaling, acc)
    steps = np.ldexp(1.0, -layer.shift).astype(np.float32)
    shifted = acc + _channels(layer.bias.astype(acc.dtype), acc)
    shifted *= _channels(steps, acc)
    np.floor(shifted, out=shifted)
    return cast(Array, np.clip(shifted, layer.lo, layer.hi, out=shifted))


def _rescaled(layer: Layer, numbers: Rescaling, acc: Array) -> Array:
    """The result of ``graph.rescale`` for sums."""
    least, most, multiplier, offset = (
        _channels(vector, acc) for vector in numbers.vectors.values()
    )
    total = np.clip(acc + _channels(layer.bias, acc), least, most) * multiplier + offset
    shifted = np.floor(np.ldexp(total, -numbers.shift))
    return cast(Array, np.clip(shifted, layer.lo, layer.hi).astype(np.float32))


def _only_moves(group: Sum, layer: Layer) -> bool:
    """Whether the layer selects integers of its operands and rounds nothing.

    Its errors are those of its operands, which are corrected already. A correction by whole steps
    would make it compute, where it otherwise costs nothing (``raise-moves``).
    """
    if group.core is not None or group.join != "add" or layer.rescaling is not None:
        return False
    for term in layer.terms:
        one = per_channel(np.ldexp(1.0, layer.shift), term.weights.ndim - 1)
        if term.form.plain or term.form.multiplies:
            return False
        if not ((term.weights == 0) | (term.weights == one)).all():
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


def _mean_of_some(layer: Layer, sums: Sequence[Array], channels: Array) -> Array:
    """The means of those channels of the result that have the flag."""
    if layer.rescaling is not None or 2 * channels.sum() > len(channels):
        return _mean(layer, sums)[channels]
    vectors = layer.bias, layer.steps, layer.shift
    bias, steps, shift = (np.broadcast_to(x, channels.shape)[channels] for x in vectors)
    some = replace(layer, bias=bias, steps=steps, shift=shift)
    return _mean(some, [acc[:, channels] for acc in sums])


def _corrected(layer: Layer, sums: Sequence[Array], mean: Array) -> Layer:
    """The layer with the bias for which its channels have these means.

    A step moves the bias by the difference of the means. Behind a clamp the mean moves by less, so
    steps never overshoot. A channel whose sums could then leave int32 keeps its old bias. What a
    step leaves as it is stays so, and most channels are done after a few steps.
    """
    largest, found = layer.largest_bias, np.empty(len(mean))
    moving = np.ones(len(mean), np.bool_)
    for _ in range(ROUNDS):
        found[moving] = _mean_of_some(layer, sums, moving)
        wrong = mean - found
        moved = layer.bias + np.rint(wrong / layer.steps)
        moved = np.where(np.abs(moved) <= largest, moved, layer.bias)
        moving = moved != layer.bias
        if not moving.any():
            break
        layer = replace(layer, bias=moved)
        if layer.scale is not None and np.abs(wrong).max() < CLOSE * layer.scale.value:
            break
    return layer
