"""Turns a product of two activations into ops.

The operands become matrices of int8 whose rows are as long as the inner extent, the entries of the
batch one below the other (``graph.batch_matmul``). Where that moves elements, the host moves them:
it packs the operands anyway. Entries get as many rows as fill the target's lanes.

Where the network puts a dimension of the batch between rows and columns of the result, as attention
joins its heads, there is one product for each entry along it, and their results are concatenated
along the columns. If columns fill whole blocks, the accelerator does so at no cost, and the layer
that reads the result can follow in the same launch.
"""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import TensorType, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from vtac.dialects.graph import (
    AddOp,
    BatchMatMulOp,
    ConcatOp,
    DequantizeOp,
    GemmOp,
    PadOp,
    QuantizeOp,
    ShiftLeftOp,
    SliceOp,
    SubOp,
    TransposeOp,
    UpsampleOp,
    shape_of,
)
from vtac.dialects.target import Target
from vtac.passes.graph.float_groups.contractions import Contraction, Operand
from vtac.passes.graph.quantize.endings import Inserter
from vtac.passes.graph.quantize.layer import Layer
from vtac.passes.graph.quantize.plan import QuantisationPlan
from vtac.passes.graph.quantize.scales import Scale
from vtac.passes.graph.reasons import Reason, ReasonKind, keep_on_host

MOST_PRODUCTS = 64
"""The most products whose results are put side by side."""

ARRANGES = Reason("the host does it as it packs the matrices of a product", ReasonKind.LAYOUT)


def emit_contraction(
    layer: Layer,
    group: Contraction,
    plan: QuantisationPlan,
    as_int8: Callable[[SSAValue, Operation], SSAValue],
) -> SSAValue:
    """Insert the ops before the group's root; returns the value that stands for its result.

    The value is int8, or real where the accumulators leave. as_int8: a function that gives a value
    as integers, before an op.
    """
    return _Emitter(layer, group, plan).run(as_int8)


class _Emitter:
    """Inserts ops before the root of one group.

    beside: the dimensions of the batch, by number, whose entries stand side by side in the result;
    others: the rest of them. batch: the extents of the batch of one product. entries: how many
    products of matrices it is, over these. products: how many such there are. lanes: how many rows
    of either operand an element holds, where each entry needs whole ones.
    """

    def __init__(self, layer: Layer, group: Contraction, plan: QuantisationPlan):
        self.layer, self.group, self.network = layer, group, plan.network
        self.scales = [plan.scales[value] for value in group.inputs]
        self.inserter = Inserter(plan.network, group.root)
        self.columns = self.group.b.shape[-2]
        batch, target = self.group.batch, plan.network.target
        self.beside = self._side_by_side(target)
        self.others = [axis for axis in range(len(batch)) if axis not in self.beside]
        # With a single matrix on the right, all matrices on the left together are one matrix.
        self.batch = [] if prod(self.group.b.batch) == 1 else [batch[axis] for axis in self.others]
        self.entries = prod(self.batch)
        self.products = prod(batch[axis] for axis in self.beside)
        self.lanes = (1, 1) if target is None or self.entries == 1 else _lanes(target)

    def _side_by_side(self, target: Target | None) -> list[int]:
        """The dimensions of the batch that the result has between rows and columns.

        There are none where concatenating the columns would not be free: of no whole blocks, of
        batches that broadcast, or of numbers that leave as int32.
        """
        group, batch = self.group, self.group.batch
        rank, order = len(batch), list(group.order)
        if target is None or self.layer.scale is None or order[-1:] != [rank + 1]:
            return []
        behind = order[order.index(rank) + 1 : -1]
        if order != [axis for axis in range(rank) if axis not in behind] + [
            rank,
            *behind,
            rank + 1,
        ]:
            return []
        rows = group.a.shape[-2] * prod(batch[axis] for axis in range(rank) if axis not in behind)
        broadcasts = list(group.a.batch) != batch or list(group.b.batch) != batch
        if broadcasts or self.columns % target.block or rows % target.batch:
            return []
        return behind if 1 < prod(batch[axis] for axis in behind) <= MOST_PRODUCTS else []

    def run(self, as_int8: Callable[[SSAValue, Operation], SSAValue]) -> SSAValue:
        operands, source = (self.group.a, self.group.b), self.group.source
        a, b = (
            [self._rows(plane, operand, lane) for plane in self._stored(operand, scale, as_int8)]
            for operand, scale, lane in zip(operands, self.scales, self.lanes, strict=True)
        )
        made = []
        for number in range(self.products):
            planes = [self._part(plane, number, False) for plane in a]
            acc = self._accumulators(planes, self._part(b[0], number, True))
            made.append(self.inserter.ended(acc, self.layer, source.result, source))
        if len(made) == 1:
            return self._leave(made[0])
        parts = [self._without_padding(value) for value in made]
        rows = (shape_of(parts[0]) or ())[0]
        type = self._like(parts[0], [rows, self.columns * len(parts)])
        joined = self._insert(ConcatOp(parts, 1, type))
        return self._reshaped(joined, shape_of(self.group.root.results[0]) or ())

    def _part(self, x: SSAValue, number: int, on_host: bool) -> SSAValue:
        """The rows of one product."""
        if self.products == 1:
            return x
        rows, inner = shape_of(x) or (0, 0)
        rows //= self.products
        type = self._like(x, [rows, inner])
        return self._insert(SliceOp(x, [rows * number, 0], [1, 1], type), on_host)

    def _stored(
        self, operand: Operand, scale: Scale, as_int8: Callable[[SSAValue, Operation], SSAValue]
    ) -> list[SSAValue]:
        """An operand as int8, or as two planes, the high one first; a constant is rounded here."""
        array = self.network.constant(operand.value)
        if array is not None:
            steps = np.rint(array.astype(np.float64) / scale.value) + scale.zero_point
            stored = np.clip(steps, -128, 127).astype(np.int8)
            return [self.inserter.constant(stored, "constant")]
        if not scale.low_bits:
            return [as_int8(operand.value, self.group.root)]
        x, coarse = operand.value, float(np.ldexp(scale.value, scale.low_bits))
        type = TensorType(i8, shape_of(x) or ())
        high = self._insert(QuantizeOp(x, coarse, 0, type))
        real = self._insert(DequantizeOp(high, [coarse], 0, x.type))
        rest = self._insert(SubOp(x, real, x.type), True)
        return [high, self._insert(QuantizeOp(rest, scale.value, 0, type))]

    def _accumulators(self, planes: Sequence[SSAValue], b: SSAValue) -> SSAValue:
        """The sums of products, and those with constants that take zero points out again.

        planes: the first operand, or its high and its low plane.
        """
        a = planes[-1]
        rows, inner = shape_of(a) or (0, 0)
        type = TensorType(i32, [rows, self.columns])
        of_a, of_b = (scale.zero_point for scale in self.scales)
        terms = []
        if len(planes) > 1:
            high = self._insert(BatchMatMulOp(planes[0], b, self.entries, type))
            terms.append(self._shifted(high, self.scales[0].low_bits))
        if of_b:
            factor, doubled = _negated(of_b)
            w = self.inserter.constant(
                np.full((self.columns, inner), factor, np.int8), "zero_point"
            )
            sums = self._insert(GemmOp(a, w, None, type, trans_b=True))
            terms.append(self._shifted(sums, 1) if doubled else sums)
        if of_a:
            factor, doubled = _negated(of_a)
            zeros = np.full((rows, inner), factor, np.int8)
            w = self.inserter.constant(zeros, "zero_point")
            sums = self._insert(BatchMatMulOp(w, b, self.entries, type))
            terms.append(self._shifted(sums, 1) if doubled else sums)
        terms.append(self._insert(BatchMatMulOp(a, b, self.entries, type)))
        total = terms[0]
        for term in terms[1:]:
            total = self._insert(AddOp(total, term, type))
        return total

    def _shifted(self, sums: SSAValue, amount: int) -> SSAValue:
        amounts = self.inserter.constant(np.full(self.columns, amount, np.int32), "amount")
        return self._insert(ShiftLeftOp(sums, amounts, sums.type))

    def _rows(self, x: SSAValue, operand: Operand, lane: int) -> SSAValue:
        """An operand as [products * entries * rows, inner], each entry's rows padded to whole
        lanes."""
        *own, rows, inner = operand.shape
        order = list(operand.order)
        if self.beside:
            order = [order[axis] for axis in (*self.beside, *self.others)] + order[-2:]
        x = self._reordered(x, order)
        if self.batch and not self.beside and own != self.batch and prod(own) != self.entries:
            aligned = [1] * (len(self.batch) - len(own)) + own
            factors = [all // one for all, one in zip(self.batch, aligned, strict=True)]
            x = self._reshaped(x, [*aligned, rows, inner])
            shape = [*self.batch, rows, inner]
            x = self._insert(UpsampleOp(x, [*factors, 1, 1], self._like(x, shape)), True)
            own = self.batch
        missing, matrices = -rows % lane, prod(own)
        if missing:
            x = self._reshaped(x, [matrices, rows, inner])
            shape = [matrices, rows + missing, inner]
            x = self._insert(PadOp(x, [0, 0, 0, 0, missing, 0], 0.0, self._like(x, shape)), True)
        return self._reshaped(x, [matrices * (rows + missing), inner])

    def _without_padding(self, x: SSAValue) -> SSAValue:
        """A result without the rows that only fill lanes."""
        rows = self.group.a.shape[-2]
        if self.entries > 1 and rows % self.lanes[0]:
            x = self._reshaped(x, [self.entries, rows + -rows % self.lanes[0], self.columns])
            shape = [self.entries, rows, self.columns]
            x = self._insert(SliceOp(x, [0, 0, 0], [1, 1, 1], self._like(x, shape)), True)
            x = self._reshaped(x, [self.entries * rows, self.columns])
        return x

    def _leave(self, x: SSAValue) -> SSAValue:
        """The result in the shape and order that it has in the float network."""
        x = self._without_padding(x)
        x = self._reshaped(x, shape_of(self.group.source.result) or ())
        return self._reordered(x, self.group.order)

    def _reordered(self, x: SSAValue, order: Sequence[int]) -> SSAValue:
        if list(order) == sorted(order):
            return x
        shape = [(shape_of(x) or ())[axis] for axis in order]
        return self._insert(TransposeOp(x, order, self._like(x, shape)), True)

    def _reshaped(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        return self.inserter.reshaped(x, shape, self.group.source, ARRANGES)

    @staticmethod
    def _like(x: SSAValue, shape: Sequence[int]) -> Attribute:
        assert isinstance(x.type, TensorType)
        return TensorType(x.type.element_type, shape)

    def _insert(self, op: Operation, arranges: bool = False) -> SSAValue:
        if arranges:
            keep_on_host(op, ARRANGES)
        return self.inserter.insert(op, self.group.source)


def _lanes(target: Target) -> tuple[int, int]:
    """How many rows an element holds, of activations and of weights."""
    return target.batch, target.block


def _negated(zero: int) -> tuple[int, bool]:
    """The int8 factor that removes a zero point from a sum, and whether its product is to be
    doubled."""
    return (64, True) if zero == -128 else (-zero, False)
