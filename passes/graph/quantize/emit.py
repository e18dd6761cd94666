"""Turns a plan into ops: integers where the groups were, and the border to what stays float."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FloatAttr, StringAttr, TensorType, f64, i8, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from vtac.dialects.context import Array, Stored
from vtac.dialects.graph import (
    AddBiasOp,
    AddOp,
    ClipOp,
    ConstantOp,
    DequantizeOp,
    FakeQuantizeOp,
    Given,
    MaxOp,
    MinOp,
    MulOp,
    QuantizeOp,
    ShiftLeftOp,
    SumPoolOp,
    UpsampleOp,
    WeightedOp,
    given_by,
    least_byte,
    moved,
    pad_property,
    shape_of,
)
from vtac.passes.graph.quantize.contraction_numbers import ContractionNumbers
from vtac.passes.graph.quantize.contractions import Contraction
from vtac.passes.graph.quantize.emit_contraction import emit_contraction
from vtac.passes.graph.quantize.endings import Inserter
from vtac.passes.graph.quantize.forms import Form, product_op
from vtac.passes.graph.quantize.groups import PassThrough
from vtac.passes.graph.quantize.numbers import Inner, Layer, form_offsets, pad_value
from vtac.passes.graph.quantize.plan import QuantisationPlan
from vtac.passes.graph.quantize.planes import PLANE_BITS, split
from vtac.passes.graph.quantize.rules import computes
from vtac.passes.graph.quantize.rules.pooling import Pooling
from vtac.passes.graph.reasons import NOTE, keep_on_host

_JOINS: Mapping[str, Callable[..., Operation]] = {
    "add": AddOp,
    "max": MaxOp,
    "min": MinOp,
    "mul": MulOp,
}


def emit(plan: QuantisationPlan) -> list[Stored]:
    """Rewrite the plan's function: integer groups, quantize and dequantize, reasons.

    What stands for the float values that became integers, in order of execution.
    """
    for op, reason in plan.reasons.items():
        if computes(op):
            keep_on_host(op, reason)
    emitter = _Emitter(plan)
    for group in plan.groups:
        if isinstance(group, PassThrough):
            emitter.pass_through(group)
        elif isinstance(group, Contraction):
            emitter.contraction(plan.contractions[group])
        else:
            emitter.sum(plan.layers[group])
    emitter.leave()
    stored = emitter.stored()
    for group in reversed(plan.groups):
        for op in group.covered:
            Rewriter.erase_op(op, safe_erase=False)
    _clean(plan.network.block)
    return stored


def _clean(block: Block) -> None:
    """Erase unread ops; quantise values directly instead of after the network's own rounding."""
    for op in reversed(list(block.ops)):
        if isinstance(op, ConstantOp | FakeQuantizeOp | DequantizeOp) and not op.results[0].uses:
            Rewriter.erase_op(op)
        elif isinstance(op, QuantizeOp):
            rounded = op.x.owner
            if isinstance(rounded, FakeQuantizeOp) and given_by(rounded) == _given_of(op):
                op.operands[0] = rounded.x


def _leaves_as(op: Operation, scale: Given, stored: SSAValue) -> bool:
    """Whether an op quantises a value to the integers that are already stored for it."""
    if not isinstance(op, QuantizeOp) or op.result.type != stored.type:
        return False
    return _given_of(op) == scale


def _given_of(op: QuantizeOp) -> Given | None:
    """How a quantisation rounds, as int8 would store it."""
    low = least_byte(op.result.type)
    return None if low is None else Given(op.scale.value.data, op.zero_point.value.data - 128 - low)


class _Emitter:
    """Inserts the integer form of each group before its root; nothing is removed here."""

    def __init__(self, plan: QuantisationPlan):
        self.plan = plan
        self.int8: dict[SSAValue, SSAValue] = {}
        self.reals: dict[SSAValue, SSAValue] = {}

    def pass_through(self, group: PassThrough) -> None:
        """The same op over int8."""
        op = group.root
        same = moved(op, [self.as_int8(group.inputs[0], op)], i8)
        self._define(op.results[0], self._insert(same, op, op))

    def contraction(self, numbers: ContractionNumbers) -> None:
        """A product of two activations."""
        result = numbers.group.root.results[0]
        value = emit_contraction(numbers, self.plan.network, self.as_int8)
        if numbers.scale is None:
            self.reals[result] = value
            result.replace_all_uses_with(value)
        else:
            self._define(result, value)

    def sum(self, layer: Layer) -> None:
        """Accumulators, and what ends them."""
        group, root = layer.group, layer.group.root
        source = group.core or root
        acc = self._accumulators(layer)
        result = root.results[0]
        inserter = Inserter(self.plan.network, root)
        if layer.scale is None:
            real = inserter.dequantised(acc, layer.bias, layer.steps.tolist(), result, source)
            self.reals[result] = real
            result.replace_all_uses_with(real)
            return
        end, bounds = layer.rescaling or layer.shift, (layer.lo, layer.hi)
        made = inserter.requantised(acc, layer.bias, end, layer.scale, bounds, source)
        if root in self.plan.notes and layer.rescaling is None:
            made.owner.attributes[NOTE] = StringAttr(self.plan.notes[root])  # type: ignore[union-attr]
        self._define(result, made)

    def as_int8(self, value: SSAValue, before: Operation) -> SSAValue:
        """A float value as int8: what a group left, or quantised where it is first read."""
        made = value.owner
        if isinstance(made, DequantizeOp) and least_byte(made.x.type) == -128:
            return made.x  # integers that the network was given, at this scale
        if value not in self.int8:
            scale = self.plan.scales[value]
            op = QuantizeOp(value, scale.value, scale.zero_point, _integer_type(value, i8))
            before.parent_block().insert_op_before(op, before)  # type: ignore[union-attr]
            op.result.name_hint = value.name_hint
            self.int8[value] = op.result
        return self.int8[value]

    def leave(self) -> None:
        """Dequantise int8 values for the float ops that read them."""
        covered = {op for group in self.plan.groups for op in group.covered}
        for group in self.plan.groups:
            value = group.root.results[0]
            if all(use.operation in covered for use in value.uses) or value not in self.int8:
                continue
            stored = self.int8[value]
            scale = self.plan.scales[value]
            for use in list(value.uses):
                if _leaves_as(use.operation, Given(scale.value, scale.zero_point), stored):
                    use.operation.results[0].replace_all_uses_with(stored)
                    Rewriter.erase_op(use.operation)
            if all(use.operation in covered for use in value.uses):
                continue
            real = DequantizeOp(stored, [scale.value], scale.zero_point, value.type)
            real.location = group.root.location
            self.plan.network.block.insert_op_before(real, group.root)
            real.result.name_hint = value.name_hint
            value.replace_all_uses_with(real.result)

    def stored(self) -> list[Stored]:
        """What stands for each float value that has become integers."""
        covered: dict[SSAValue, Collection[Operation]] = {
            group.root.results[0]: group.covered for group in self.plan.groups
        }
        found = []
        for value, result in {**self.int8, **self.reals}.items():
            scale = None if value in self.reals else self.plan.scales[value]
            found.append(
                Stored(
                    value,
                    result,
                    None if scale is None else scale.value,
                    0 if scale is None else scale.zero_point,
                    self.plan.network.factors.get(value),
                    tuple(covered.get(value, ())),
                )
            )
        return found

    def _accumulators(self, layer: Layer) -> SSAValue:
        """The sum of the core and the shifted addends, as int32.

        The high planes of weights come first, and are shifted before the low ones are added.
        """
        group, root = layer.group, layer.group.root
        type = _integer_type(root.results[0], i32)
        planes = [split(weights) for weights in layer.weights]
        high = [
            self._product(form, plane, root, False)
            for form, (plane, _) in zip(group.forms, planes, strict=True)
            if plane is not None
        ]
        terms: list[SSAValue] = []
        if high:
            bits = np.full(len(layer.bias), PLANE_BITS, np.int32)
            up = ShiftLeftOp(self._total(high, root), self._constant(bits, "plane", root), type)
            terms.append(self._insert(up, root, root))
        if group.pooling is not None:
            zero = self.plan.scales[group.pooling.x].zero_point
            pooled = _sum_pool(group.pooling, self.as_int8(group.pooling.x, root), type, zero)
            terms.append(self._insert(pooled, root, group.pooling.source))
        for form, (_, low) in zip(group.forms, planes, strict=True):
            terms.append(self._product(form, low, root, group.join == "mul"))
        for value, amount in zip(group.skips, layer.amounts, strict=True):
            x = self.as_int8(value, root)
            vector = self._constant(amount.astype(np.int32), "amount", root)
            terms.append(self._insert(ShiftLeftOp(x, vector, type), root, root))
        if group.join in ("max", "min"):
            self._share_offset(layer, terms)
        for place, inner in enumerate(layer.inner):
            terms[place] = self._limited(inner, terms[place], root)
        return self._total(terms, root, _JOINS[group.join])

    def _product(self, form: Form, weights: Array, root: Operation, spread: bool) -> SSAValue:
        """The sums of products of a form with one plane of its weights."""
        x, type = self.as_int8(form.operand, root), _integer_type(root.results[0], i32)
        if spread:
            x = self._spread(x, form, root)
        w = self._constant(weights, _weights_name(form), root)
        outside = pad_value(form, self.plan.scales) if form.is_padded else 0
        product = product_op(form, x, w, type, outside)
        return self._insert(product, root, form.source)

    def _total(
        self, terms: list[SSAValue], root: Operation, join: Callable[..., Operation] = AddOp
    ) -> SSAValue:
        total = terms[0]
        for term in terms[1:]:
            total = self._insert(join(total, term, term.type), root, root)
        return total

    def _limited(self, inner: Inner, term: SSAValue, root: Operation) -> SSAValue:
        """One factor of a product."""
        if inner.bias.any():
            bias = self._constant(inner.bias.astype(np.int32), "offset", root)
            term = self._insert(AddBiasOp(term, bias, term.type), root, root)
        if inner.lo is not None and inner.hi is not None:
            lo, hi = FloatAttr(float(inner.lo), f64), FloatAttr(float(inner.hi), f64)
            clip = ClipOp(term, term.type, min=lo, max=hi)
            term = self._insert(clip, root, root)
        return term

    def _spread(self, x: SSAValue, form: Form, root: Operation) -> SSAValue:
        """An operand repeated over space to the extents of its group's result."""
        before, after = shape_of(x) or (), shape_of(form.result) or ()
        factors = [1, 1, *(n // m for n, m in zip(after[2:], before[2:], strict=True))]
        if set(factors) == {1}:
            return x
        shape = [n * factor for n, factor in zip(before, factors, strict=True)]
        copies = UpsampleOp(x, factors, TensorType(i8, shape))
        return self._insert(copies, root, form.source)

    def _share_offset(self, layer: Layer, terms: list[SSAValue]) -> None:
        """Bring accumulators that are compared to the offset of the first."""
        root, offsets = layer.group.root, form_offsets(layer, self.plan.scales)
        for place in range(1, len(terms)):
            more = (offsets[place] - offsets[0]).astype(np.int32)
            if more.any():
                bias = self._constant(more, "offset", root)
                moved = AddBiasOp(terms[place], bias, terms[place].type)
                terms[place] = self._insert(moved, root, root)

    def _constant(self, array: Array, hint: str, before: Operation) -> SSAValue:
        return Inserter(self.plan.network, before).constant(array, hint)

    def _insert(self, op: Operation, before: Operation, source: Operation) -> SSAValue:
        return Inserter(self.plan.network, before).insert(op, source)

    def _define(self, value: SSAValue, stored: SSAValue) -> None:
        stored.name_hint = value.name_hint
        self.int8[value] = stored


def _integer_type(value: SSAValue, element: Attribute) -> TensorType[Any]:
    return TensorType(element, shape_of(value) or ())


def _sum_pool(pooling: Pooling, x: SSAValue, type: Attribute, zero_point: int) -> Operation:
    """The sums of a pooling; pads are the zero point where they count."""
    counts = pooling.pads_count and any(pooling.pads)
    return SumPoolOp(
        x,
        type,
        kernel=pooling.kernel,
        strides=pooling.strides,
        pads=pooling.pads,
        dilations=pooling.dilations,
        **pad_property(zero_point if counts else 0),
    )


def _weights_name(form: Form) -> str:
    source = form.source
    if isinstance(source, WeightedOp):
        return source.weights.name_hint or "weights"
    return "selection"
