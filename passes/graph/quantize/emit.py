"""Turns a plan into ops: integer ops in place of groups, with conversions at borders to float
ops."""

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
    MultiplyShiftOp,
    QuantizeOp,
    ReshapeOp,
    ShiftLeftOp,
    UpsampleOp,
    WeightedOp,
    given_by,
    least_byte,
    moved,
    shape_of,
)
from vtac.dialects.graph.ranges import range_of, set_range
from vtac.passes.approximation.gates import PLANE_BITS, Gate
from vtac.passes.approximation.planes import PLANE_BITS as WEIGHT_BITS
from vtac.passes.approximation.planes import split
from vtac.passes.graph.float_groups.contractions import Contraction
from vtac.passes.graph.float_groups.forms import Form, product_op
from vtac.passes.graph.float_groups.groups import PassThrough, Sum
from vtac.passes.graph.float_groups.rules import computes
from vtac.passes.graph.quantize.emit_contraction import emit_contraction
from vtac.passes.graph.quantize.endings import Inserter
from vtac.passes.graph.quantize.layer import Layer, Term
from vtac.passes.graph.quantize.plan import QuantisationPlan
from vtac.passes.graph.reasons import NOTE, Reason, ReasonKind, keep_on_host

ENLARGES = Reason(
    "it enlarges channels of small values before they are rounded", ReasonKind.NUMBERS
)

_JOINS: Mapping[str, Callable[..., Operation]] = {
    "add": AddOp,
    "max": MaxOp,
    "min": MinOp,
    "mul": MulOp,
    "curve": AddOp,
}


def emit(plan: QuantisationPlan) -> list[Stored]:
    """Rewrite the plan's function: integer groups, quantize and dequantize, reasons.

    Returns the values that stand for float values which became integers, in order of execution.
    """
    for op, reason in plan.reasons.items():
        if computes(op):
            keep_on_host(op, reason)
    emitter = _Emitter(plan)
    for group in plan.groups:
        if isinstance(group, PassThrough):
            emitter.pass_through(group)
        elif isinstance(group, Contraction):
            emitter.contraction(group, plan.layers[group])
        else:
            emitter.sum(group, plan.layers[group])
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
    """The scale of a quantisation, converted to storage as int8."""
    low = least_byte(op.result.type)
    return None if low is None else Given(op.scale.value.data, op.zero_point.value.data - 128 - low)


class _Emitter:
    """Inserts the integer form of each group before its root; nothing is removed here."""

    def __init__(self, plan: QuantisationPlan):
        self.plan = plan
        self.int8: dict[SSAValue, SSAValue] = {}
        self.reals: dict[SSAValue, SSAValue] = {}

    def pass_through(self, group: PassThrough) -> None:
        """Insert the same op over int8; reshapes of reshapes become one."""
        op, x = group.root, self.as_int8(group.inputs[0], group.root)
        if isinstance(op, ReshapeOp) and isinstance(x.owner, ReshapeOp):
            inserter, shape = Inserter(self.plan.network, op), shape_of(op.result) or ()
            self._define(op.result, inserter.reshaped(x, shape, op))
            return
        same = moved(op, [x], i8)
        self._define(op.results[0], self._insert(same, op, op))

    def contraction(self, group: Contraction, layer: Layer) -> None:
        """Insert the product of two activations, and what makes its result int8."""
        value = emit_contraction(layer, group, self.plan, self.as_int8)
        self._leave(layer, value)

    def sum(self, group: Sum, layer: Layer) -> None:
        """Insert the ops that compute the accumulators of a sum, and what makes them int8."""
        root, acc = group.root, self._accumulators(group, layer)
        inserter = Inserter(self.plan.network, root)
        made = inserter.ended(acc, layer, root.results[0], group.core or root)
        if root in self.plan.notes:
            made.owner.attributes[NOTE] = StringAttr(self.plan.notes[root])  # type: ignore[union-attr]
        self._leave(layer, made)

    def _leave(self, layer: Layer, made: SSAValue) -> None:
        """Note the value that replaces the result of a group: integers, or real numbers."""
        result = layer.group.root.results[0]
        if layer.scale is None:
            self.reals[result] = made
            if (limits := range_of(result)) is not None:
                set_range(made, *limits)
            result.replace_all_uses_with(made)
        else:
            self._define(result, made)

    def as_int8(self, value: SSAValue, before: Operation) -> SSAValue:
        """A float value as int8: the result of a group, or a value quantised where it is first
        read."""
        made = value.owner
        if isinstance(made, DequantizeOp) and least_byte(made.x.type) == -128:
            return made.x  # the network's input already holds integers of this scale
        if value not in self.int8:
            scale, read = self.plan.scales[value], value
            factors = self.plan.network.factors.get(value)
            if factors is not None:
                wide = self._constant(factors.astype(np.float32), "factors", before)
                read = self._insert(MulOp(value, wide, value.type), before, before)
                keep_on_host(read.owner, ENLARGES)  # type: ignore[arg-type]
            op = QuantizeOp(read, scale.value, scale.zero_point, _integer_type(value, i8))
            before.parent_block().insert_op_before(op, before)  # type: ignore[union-attr]
            op.result.name_hint = value.name_hint
            self.int8[value] = op.result
        return self.int8[value]

    def leave(self) -> None:
        """Dequantise int8 values for the float ops that read them."""
        covered = self.plan.covered
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
            factors = self.plan.network.factors.get(value, np.ones(1))
            steps = (scale.value / factors).tolist()
            real = DequantizeOp(stored, steps, scale.zero_point, value.type)
            real.location = group.root.location
            self.plan.network.block.insert_op_before(real, group.root)
            real.result.name_hint = value.name_hint
            value.replace_all_uses_with(real.result)

    def stored(self) -> list[Stored]:
        """For each float value that has become integers, the value that stands for it."""
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

    def _accumulators(self, group: Sum, layer: Layer) -> SSAValue:
        """The sum of all addends, as int32.

        The high planes of weights come first, and are shifted before the low ones are added.
        """
        root = group.root
        if layer.gate is not None:
            return self._gated(layer.terms[0], layer.gate, root)
        high, made = [], []
        for term in layer.terms:
            plane = None if term.form.plain else split(term.weights)[0]
            if plane is not None:
                high.append(self._product(term, plane, root))
        if high:
            bits = np.full(len(layer.bias), WEIGHT_BITS, np.int32)
            made.append(self._shifted(self._total(high, root), bits, "plane", root))
        for term in layer.terms:
            if term.form.plain:
                acc = self._plain(term, root)
            else:
                acc = self._product(term, split(term.weights)[1], root, group.join == "mul")
            made.append(acc)
        if group.join != "add":
            pairs = zip(layer.terms, made, strict=True)
            made = [self._limited(term, acc, root) for term, acc in pairs]
        return self._total(made, root, _JOINS[group.join])

    def _gated(self, term: Term, gate: Gate, root: Operation) -> SSAValue:
        """``K x + n ((max(n, -h) + h)^3 - K)`` with ``n = -|x|`` (`gates`).

        That is ``2 K max(x, 0) + c (c + h)^3`` with ``c = max(n, -h)``, since the cube is 0 where n
        is below -h.
        """

        def limited(acc: SSAValue, least: int) -> SSAValue:
            return self._insert(ClipOp(acc, acc.type, min=FloatAttr(float(least), f64)), root, root)

        above = limited(self._weighed(term, 1, root), 0)
        factor = (gate.high << PLANE_BITS) + gate.low
        linear = self._insert(MultiplyShiftOp(above, factor), root, root)
        amounts = np.full(len(term.weights), gate.bits + 1, np.int32)
        linear = self._shifted(linear, amounts, "amount", root)
        pair = [self._weighed(term, weight, root) for weight in (1, -1)]
        below = limited(self._total(pair, root, MinOp), -gate.height)
        height = np.full(len(term.weights), gate.height, np.int32)
        offset = self._constant(height, "offset", root)
        raised = self._insert(AddBiasOp(below, offset, below.type), root, root)
        product = self._total([raised, raised, raised, below], root, MulOp)
        return self._total([linear, product], root)

    def _weighed(self, term: Term, weight: int, root: Operation) -> SSAValue:
        """The operand of a term times one number."""
        weights = np.full_like(term.weights, weight)
        return self._product(term, weights, root)

    def _product(
        self, term: Term, weights: Array, root: Operation, spread: bool = False
    ) -> SSAValue:
        """The sums of products of a term with one plane of its weights."""
        form = term.form
        x, type = self.as_int8(form.operand, root), _integer_type(root.results[0], i32)
        if spread:
            x = self._spread(x, form, root)
        w = self._constant(weights, _weights_name(form), root)
        outside = term.outside if form.is_padded else 0
        return self._insert(product_op(form, x, w, type, outside), root, form.source)

    def _plain(self, term: Term, root: Operation) -> SSAValue:
        """The sums of a plain term, shifted."""
        form, x = term.form, self.as_int8(term.form.operand, root)
        amounts = np.log2(term.weights.reshape(len(term.weights), -1)[:, 0]).astype(np.int32)
        if form.is_pooling:
            type, outside = _integer_type(root.results[0], i32), term.outside
            pool = product_op(form, x, x, type, outside if form.is_padded else 0)
            x = self._insert(pool, root, form.source)
            if not amounts.any():
                return x
        return self._shifted(x, amounts, "amount", root)

    def _shifted(self, x: SSAValue, amounts: Array, name: str, root: Operation) -> SSAValue:
        type = _integer_type(root.results[0], i32)
        shift = ShiftLeftOp(x, self._constant(amounts, name, root), type)
        return self._insert(shift, root, root)

    def _total(
        self, terms: list[SSAValue], root: Operation, join: Callable[..., Operation] = AddOp
    ) -> SSAValue:
        total = terms[0]
        for term in terms[1:]:
            total = self._insert(join(total, term, term.type), root, root)
        return total

    def _limited(self, term: Term, acc: SSAValue, root: Operation) -> SSAValue:
        """The products of a term, with the added constant, clamped."""
        if term.added is not None and term.added.any():
            bias = self._constant(term.added.astype(np.int32), "offset", root)
            acc = self._insert(AddBiasOp(acc, bias, acc.type), root, root)
        if term.bounds is not None:
            lo, hi = (FloatAttr(float(bound), f64) for bound in term.bounds)
            acc = self._insert(ClipOp(acc, acc.type, min=lo, max=hi), root, root)
        return acc

    def _spread(self, x: SSAValue, form: Form, root: Operation) -> SSAValue:
        """An operand repeated over space to the extents of its group's result."""
        before, after = shape_of(x) or (), shape_of(form.result) or ()
        factors = [1, 1, *(n // m for n, m in zip(after[2:], before[2:], strict=True))]
        if set(factors) == {1}:
            return x
        shape = [n * factor for n, factor in zip(before, factors, strict=True)]
        copies = UpsampleOp(x, factors, TensorType(i8, shape))
        return self._insert(copies, root, form.source)

    def _constant(self, array: Array, hint: str, before: Operation) -> SSAValue:
        return Inserter(self.plan.network, before).constant(array, hint)

    def _insert(self, op: Operation, before: Operation, source: Operation) -> SSAValue:
        return Inserter(self.plan.network, before).insert(op, source)

    def _define(self, value: SSAValue, stored: SSAValue) -> None:
        stored.name_hint = value.name_hint
        self.int8[value] = stored


def _integer_type(value: SSAValue, element: Attribute) -> TensorType[Any]:
    return TensorType(element, shape_of(value) or ())


def _weights_name(form: Form) -> str:
    source = form.source
    if isinstance(source, WeightedOp):
        return source.weights.name_hint or "weights"
    return "selection"
