"""The ops of softmaxes in integers (`softmax`), those of several heads together.

What belongs to a row alone is computed for many heads at once, each in lanes of its own: the last
steps of the maximum, and the reciprocal of the sum. Products with constant matrices bring the
numbers of a head into its lanes and spread them again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from xdsl.dialects.builtin import FloatAttr, TensorType, f64, i8, i32
from xdsl.ir import SSAValue

from vtac.dialects.graph import (
    BatchMatMulOp,
    ClipOp,
    MaxOp,
    MulOp,
    MultiplyShiftOp,
    RequantizeOp,
    ShiftRightByOp,
    known_extents,
)
from vtac.passes.graph.softmax.softmax import (
    GAIN_BITS,
    GUESS,
    NEWTON_STEPS,
    OCTAVE_BITS,
    RAISED,
    RECIPROCAL_BITS,
    VERTEX,
    Ending,
    Softmax,
)
from vtac.passes.graph.streams.fine import LARGEST_WEIGHT, FineValue, OpDraft, Part


class Scores(Protocol):
    """The scores of one head, whose ops may be made several times."""

    def parts(self, draft: OpDraft) -> list[Part]:
        """Ops for the accumulators [rows, keys]."""
        ...


def matmul(draft: OpDraft, a: SSAValue, b: SSAValue) -> SSAValue:
    """One product of activations, int8 [rows, inner] by int8 [columns, inner]."""
    type = TensorType(i32, [known_extents(a)[0], known_extents(b)[0]])
    return draft.insert(BatchMatMulOp(a, b, 1, type))


@dataclass(frozen=True, eq=False)
class Head:
    """The exponentials of one head, and where the numbers of its rows are.

    lane: of the head. octaves, reciprocal: k and x of `Softmax`, for all lanes.
    """

    exponentials: FineValue
    lane: int
    octaves: SSAValue
    reciprocal: FineValue


@dataclass(frozen=True, eq=False)
class Emitter:
    """Makes the ops of heads of one kind. lanes: of an element."""

    numbers: Softmax
    lanes: int
    draft: OpDraft

    def heads(self, scores: Sequence[Scores]) -> list[Head]:
        """The exponentials of each head, and what divides their products."""
        found, few = [], self._few
        for start in range(0, len(scores), few):
            some = scores[start : start + few]
            largest = self._largest(some)
            for place, each in enumerate(some):
                found.append(self._exponentials(each, largest, place))
        heads = []
        for start in range(0, len(found), self.lanes):
            some_found = found[start : start + self.lanes]
            # The sums are computed twice: accumulators that two kernels read would leave as int32.
            octaves = self._byte(self._octaves(self._sums(some_found)))
            reciprocal = self.draft.planes(self._reciprocal(self._sums(some_found)), 0, 0, 1.0)
            for lane, e in enumerate(some_found):
                heads.append(Head(e, lane, octaves, reciprocal))
        return heads

    def result(self, head: Head, values: SSAValue, ending: Ending, scale: float) -> RequantizeOp:
        """Shares times values, int8 [D, keys], in int8 of this scale, [rows, D]."""
        draft, e = self.draft, head.exponentials
        columns = known_extents(values)[0]
        own = np.zeros((columns, self.lanes))
        own[:, head.lane] = 1
        assert e.low is not None, "exponentials have two planes"
        product = draft.gathered(
            [(matmul(draft, e.high, values), 8), (matmul(draft, e.low, values), 0)]
        )
        y = draft.insert(ShiftRightByOp(product, draft.product(head.octaves, own)))
        x = draft.gathered(draft.sums(head.reciprocal, own))
        y = draft.insert(MulOp(y, x, y.type))
        return self._rounded(y, ending, scale)

    @property
    def _few(self) -> int:
        """How many heads share the last steps of their maxima, and in how many lanes each ends in
        one of them."""
        return 1 << (self.lanes.bit_length() - 1) // 2

    def _largest(self, scores: Sequence[Scores]) -> SSAValue:
        """m of some heads, each in `lanes` / `_few` lanes."""
        few, lanes, keys = self._few, self.lanes, self.numbers.keys
        own = lanes // few
        eye = np.eye(keys)
        blocks = [
            eye[[key if key < keys else 0 for key in range(start, start + lanes)]]
            for start in range(0, keys, lanes)
        ]
        found = []
        for each in scores:
            z = self.draft.gathered(each.parts(self.draft))
            h = self._byte(z, 1 << self.numbers.coarse >> 1, self.numbers.coarse)
            found.append(self._byte(self._most([self.draft.product(h, one) for one in blocks])))
        turns = []
        for turn in range(few):
            parts: list[Part] = []
            for head, each_found in enumerate(found):
                some = np.zeros((lanes, lanes))
                some[head * own + np.arange(own), turn * own + np.arange(own)] = 1
                parts.append((self.draft.product(each_found, some), 0))
            turns.append(self.draft.gathered(parts))
        joined = self._byte(self._most(turns))
        turned = []
        for turn in range(own):
            some = np.zeros((lanes, lanes))
            lane = np.arange(lanes)
            some[lane, lane // own * own + (lane + turn) % own] = 1
            turned.append(self.draft.product(joined, some))
        return self._byte(self._most(turned))

    def _most(self, values: Sequence[SSAValue]) -> SSAValue:
        found = values[0]
        for value in values[1:]:
            found = self.draft.insert(MaxOp(found, value, found.type))
        return found

    def _exponentials(self, scores: Scores, largest: SSAValue, place: int) -> FineValue:
        """e of one head."""
        numbers, draft = self.numbers, self.draft
        own = self.lanes // self._few
        # 2^a spread over the lanes that hold m, and shifted where they do not suffice.
        weight_bits = LARGEST_WEIGHT.bit_length() - 1
        lane_bits = min(max(numbers.coarse - weight_bits, 0), own.bit_length() - 1)
        weight_bits = min(weight_bits, numbers.coarse - lane_bits)
        spread = np.zeros((numbers.keys, self.lanes))
        spread[:, place * own : place * own + (1 << lane_bits)] = -(1 << weight_bits)
        rest = numbers.coarse - lane_bits - weight_bits
        z = draft.gathered([*scores.parts(draft), (draft.product(largest, spread), rest)])
        multiplier, shift = numbers.scaling
        lo, hi = (FloatAttr(float(bound), f64) for bound in numbers.bounds)
        d = draft.insert(MultiplyShiftOp(z, -multiplier, numbers.offset, shift))
        d = draft.insert(ClipOp(d, d.type, min=lo, max=hi))
        n = draft.insert(MultiplyShiftOp(d, 1, 0, OCTAVE_BITS))
        whole = draft.insert(MultiplyShiftOp(n, -(1 << OCTAVE_BITS), VERTEX))
        u = draft.total([d, whole])
        square = draft.plus(draft.insert(MulOp(u, u, u.type)), RAISED)
        return draft.planes(draft.insert(ShiftRightByOp(square, n)), 0, 0, 1.0)

    def _sums(self, exponentials: Sequence[FineValue]) -> SSAValue:
        """S of some heads, each in a lane of its own."""
        parts = []
        for lane, e in enumerate(exponentials):
            ones = np.zeros((self.lanes, self.numbers.keys))
            ones[lane] = 1
            parts += self.draft.sums(e, ones)
        least = FloatAttr(float(1 << self.numbers.sum_bits), f64)
        total = self.draft.gathered(parts)
        return self.draft.insert(ClipOp(total, total.type, min=least))

    def _bits(self, s: SSAValue) -> tuple[SSAValue, list[SSAValue]]:
        """Sums before the last step of the search for k, and what each step shifts by."""
        draft, found = self.draft, list[SSAValue]()
        for bits in self.numbers.searched:
            if found:
                s = draft.insert(ShiftRightByOp(s, found[-1]))
            more = draft.insert(MultiplyShiftOp(s, 1, 0, self.numbers.sum_bits + bits))
            more = draft.insert(ClipOp(more, more.type, max=FloatAttr(1.0, f64)))
            if bits > 1:
                more = draft.insert(MultiplyShiftOp(more, bits))
            found.append(more)
        return s, found

    def _octaves(self, total: SSAValue) -> SSAValue:
        """k."""
        return self.draft.plus(self.draft.total(self._bits(total)[1]), self.numbers.product_shift)

    def _reciprocal(self, total: SSAValue) -> SSAValue:
        """x."""
        draft, bits = self.draft, self.numbers.sum_bits
        s, found = self._bits(total)
        s = draft.insert(ShiftRightByOp(s, found[-1]))
        slope = draft.insert(MultiplyShiftOp(s, -GUESS[1], (1 << bits) - 1, bits))
        x = draft.plus(slope, GUESS[0])
        for _ in range(NEWTON_STEPS):
            h = draft.insert(MultiplyShiftOp(draft.insert(MulOp(s, x, s.type)), 1, 0, bits))
            rest = draft.insert(MultiplyShiftOp(h, -1, 2 << RECIPROCAL_BITS))
            x = draft.insert(MulOp(x, rest, x.type))
            x = draft.insert(MultiplyShiftOp(x, 1, 0, RECIPROCAL_BITS))
        half = 1 << (GAIN_BITS - 1)
        return draft.insert(MultiplyShiftOp(x, self.numbers.gain[0], half, GAIN_BITS))

    def _byte(self, acc: SSAValue, bias: int = 0, shift: int = 0) -> SSAValue:
        zeros = np.zeros(known_extents(acc)[1], np.int64)
        return self._rounded(acc, Ending(zeros + bias, zeros + shift), 1.0).result

    def _rounded(self, acc: SSAValue, ending: Ending, scale: float) -> RequantizeOp:
        draft, type = self.draft, TensorType(i8, known_extents(acc))
        bias = draft.vector(acc, ending.bias, "bias")
        shift = draft.vector(acc, ending.shift, "shift")
        op = RequantizeOp(acc, bias, shift, type, lo=ending.lo, hi=ending.hi, scale=scale)
        draft.insert(op)
        return op
