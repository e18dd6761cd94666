"""Turns a product of two activations into ops.

The operands become matrices of int8 whose rows are as long as the inner extent, the entries of the
batch one below the other (``graph.batch_matmul``). Where that moves elements, the host moves them:
it packs the operands anyway. Entries get as many rows as fill the target's lanes.
"""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Attribute, Operation, SSAValue

from vtac.dialects.graph import (
    AddOp,
    BatchMatMulOp,
    GemmOp,
    PadOp,
    ReshapeOp,
    ShiftLeftOp,
    SliceOp,
    TransposeOp,
    UpsampleOp,
    shape_of,
)
from vtac.dialects.target import Target
from vtac.passes.graph.quantize.contractions import Contraction, Operand
from vtac.passes.graph.quantize.endings import Inserter
from vtac.passes.graph.quantize.layer import Layer
from vtac.passes.graph.quantize.plan import QuantisationPlan
from vtac.passes.graph.quantize.scales import Scale
from vtac.passes.graph.reasons import Reason, ReasonKind, keep_on_host

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

    entries: how many products of matrices there are, over the dimensions ``batch``. lanes: how many
    rows of either operand an element holds, where each entry needs whole ones.
    """

    def __init__(self, layer: Layer, group: Contraction, plan: QuantisationPlan):
        self.layer, self.group, self.network = layer, group, plan.network
        self.scales = [plan.scales[value] for value in group.inputs]
        self.inserter = Inserter(plan.network, group.root)
        batch = self.group.batch
        # With a single matrix on the right, all matrices on the left together are one matrix.
        self.batch = [] if prod(self.group.b.batch) == 1 else batch
        self.entries = prod(self.batch)
        target = plan.network.target
        self.lanes = (1, 1) if target is None or self.entries == 1 else _lanes(target)
        self.columns = self.group.b.shape[-2]

    def run(self, as_int8: Callable[[SSAValue, Operation], SSAValue]) -> SSAValue:
        operands, source = (self.group.a, self.group.b), self.group.source
        a, b = (
            self._rows(self._stored(operand, scale, as_int8), operand, lane)
            for operand, scale, lane in zip(operands, self.scales, self.lanes, strict=True)
        )
        acc = self._accumulators(a, b)
        return self._leave(self.inserter.ended(acc, self.layer, source.result, source))

    def _stored(
        self, operand: Operand, scale: Scale, as_int8: Callable[[SSAValue, Operation], SSAValue]
    ) -> SSAValue:
        """An operand as int8; a constant operand is rounded here."""
        array = self.network.constant(operand.value)
        if array is None:
            return as_int8(operand.value, self.group.root)
        steps = np.rint(array.astype(np.float64) / scale.value) + scale.zero_point
        return self.inserter.constant(np.clip(steps, -128, 127).astype(np.int8), "constant")

    def _accumulators(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The sums of products, and those with constants that take zero points out again."""
        rows, inner = shape_of(a) or (0, 0)
        type = TensorType(i32, [rows, self.columns])
        of_a, of_b = (scale.zero_point for scale in self.scales)
        terms = []
        if of_b:
            factor, doubled = _negated(of_b)
            w = self.inserter.constant(
                np.full((self.columns, inner), factor, np.int8), "zero_point"
            )
            sums = self._insert(GemmOp(a, w, None, type, trans_b=True))
            terms.append(self._doubled(sums) if doubled else sums)
        if of_a:
            factor, doubled = _negated(of_a)
            zeros = np.full((rows, inner), factor, np.int8)
            w = self.inserter.constant(zeros, "zero_point")
            sums = self._insert(BatchMatMulOp(w, b, self.entries, type))
            terms.append(self._doubled(sums) if doubled else sums)
        terms.append(self._insert(BatchMatMulOp(a, b, self.entries, type)))
        total = terms[0]
        for term in terms[1:]:
            total = self._insert(AddOp(total, term, type))
        return total

    def _doubled(self, sums: SSAValue) -> SSAValue:
        ones = self.inserter.constant(np.ones(self.columns, np.int32), "one")
        return self._insert(ShiftLeftOp(sums, ones, sums.type))

    def _rows(self, x: SSAValue, operand: Operand, lane: int) -> SSAValue:
        """An operand as [entries * rows, inner], each entry's rows padded to whole lanes."""
        *own, rows, inner = operand.shape
        x = self._reordered(x, operand.order)
        if self.batch and list(own) != self.batch and prod(own) != self.entries:
            aligned = [1] * (len(self.batch) - len(own)) + own
            factors = [all // one for all, one in zip(self.batch, aligned, strict=True)]
            x = self._reshaped(x, [*aligned, rows, inner])
            shape = [*self.batch, rows, inner]
            x = self._insert(UpsampleOp(x, [*factors, 1, 1], self._like(x, shape)), True)
            own = self.batch
        missing = -rows % lane
        if missing:
            x = self._reshaped(x, [self.entries, rows, inner])
            shape = [self.entries, rows + missing, inner]
            x = self._insert(PadOp(x, [0, 0, 0, 0, missing, 0], 0.0, self._like(x, shape)), True)
        return self._reshaped(x, [prod(own) * (rows + missing), inner])

    def _leave(self, x: SSAValue) -> SSAValue:
        """The result in the shape and order that it has in the float network."""
        group = self.group
        rows = group.a.shape[-2]
        if self.entries > 1 and rows % self.lanes[0]:
            x = self._reshaped(x, [self.entries, rows + -rows % self.lanes[0], self.columns])
            shape = [self.entries, rows, self.columns]
            x = self._insert(SliceOp(x, [0, 0, 0], [1, 1, 1], self._like(x, shape)), True)
        x = self._reshaped(x, shape_of(group.source.result) or ())
        return self._reordered(x, group.order)

    def _reordered(self, x: SSAValue, order: Sequence[int]) -> SSAValue:
        if list(order) == sorted(order):
            return x
        shape = [(shape_of(x) or ())[axis] for axis in order]
        return self._insert(TransposeOp(x, order, self._like(x, shape)), True)

    def _reshaped(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        if tuple(shape) == shape_of(x):
            return x
        return self._insert(ReshapeOp(x, self._like(x, shape)), True)

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
