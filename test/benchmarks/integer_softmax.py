"""A softmax in integers, and the product with values behind it, for a machine that multiplies.

It is what ``bench_softmax.py`` measures; the compiler leaves a softmax to the host
(docs/transformers.md). With t the scores in 2^-8 octaves, in 16 bits (``t = 256 high + low``)::

    m = max of high over the keys    products that select blocks and turn lanes, and maxima
    d = t - 256 m = 256 q + r        q <= 0 a whole number, r from 0 to 255
    e = (a (r + b)^2 + c) >> -q      in 16 bits, after Kim et al., "I-BERT", section 3.4
    S = sum of e, O = e V            products with ones and with the values
    y = (O >> n) x                   S = s 2^n; Newton steps find x = 2^27 / s

I-BERT subtracts the maximum itself and divides by the sum. Here m is the maximum to half an octave,
which int8 holds, and the division is postponed behind the product with the values (Milakov and
Gimelshein, "Online normalizer calculation for softmax").
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FloatAttr, TensorType, f64, i8
from xdsl.ir import SSAValue

from vtac.dialects.graph import (
    ClipOp,
    MaxOp,
    MulOp,
    MultiplyShiftOp,
    RequantizeOp,
    ShiftRightByOp,
    known_extents,
)
from vtac.passes.graph.streams.fine import Draft, FineValue

Array = np.ndarray[Any, np.dtype[Any]]

OCTAVE_BITS = 8
LARGEST = 16000
"""Of t: 62 octaves."""
MASKED = -(2**15)
"""What is added to t where a key is masked."""
FARTHEST = 18 << OCTAVE_BITS
"""Behind so many octaves below the maximum, the exponential is 0."""
ONE = 16100
"""The exponential of 0."""
SUM_BITS = 13
"""Sums of exponentials have one bit more at least."""
RECIPROCAL_BITS = 14
GUESS = 23870, 8192
"""The first guess of the reciprocal, ``GUESS[0] - (s GUESS[1] >> 13)``, is 4 % off at most."""
CURVE_BITS = 16


def curve() -> tuple[int, int, int]:
    """a, b, c with ``(a (r + b)^2 + c) >> CURVE_BITS`` near ``ONE 2^(r / 256)``, r below 256."""
    r = np.arange(256.0)
    wanted = ONE * np.exp2(r / 256)
    weights = 1 / wanted
    square, linear, constant = np.polyfit(r, wanted, 2, w=weights)
    b = round(linear / (2 * square))
    scale = 2.0**CURVE_BITS
    offset = constant - square * b * b
    return round(square * scale), b, round(offset * scale) + (1 << (CURVE_BITS - 1))


@dataclass(frozen=True)
class Softmax:
    """The numbers of a softmax over ``keys`` scores.

    step: the real value of a step of the int32 scores. reach: their largest magnitude. mask: for
    each key whether it is left out. finer: bits of the result below the steps of the values.
    """

    keys: int
    step: float
    reach: int
    mask: Array
    finer: int = 0
    lanes: int = 16

    @property
    def scaling(self) -> tuple[int, int]:
        """Multiplier and shift that make t of scores."""
        ratio = self.step * np.log2(np.e) * 2**OCTAVE_BITS
        shift = int(np.floor(np.log2(2.0**30 / (self.reach * ratio))))
        shift = min(shift, 30)
        return round(ratio * 2.0**shift), shift

    @property
    def levels(self) -> int:
        """Powers of two that a sum can lie above the least."""
        return 2 + int(np.ceil(np.log2(self.keys)))

    @property
    def shift(self) -> int:
        """Of the result."""
        return SUM_BITS + RECIPROCAL_BITS - 6 - self.finer

    def exponentials(self, scores: Array) -> Array:
        """e for scores [..., keys]."""
        multiplier, shift = self.scaling
        t = (scores * multiplier + (1 << shift >> 1)) >> shift
        t = np.clip(t + np.where(self.mask, MASKED, 0), -LARGEST, LARGEST)
        m = ((t + 128) >> 8).max(axis=-1, keepdims=True)
        d = np.maximum(t - 256 * m, -FARTHEST)
        q = d >> OCTAVE_BITS
        a, b, c = curve()
        return (((d - 256 * q + b) ** 2 * a + c) >> CURVE_BITS) >> -q

    @staticmethod
    def _reciprocal(s: Array) -> Array:
        x = GUESS[0] - ((s * GUESS[1]) >> SUM_BITS)
        for _ in range(2):
            h = (s * x) >> SUM_BITS
            x = (x * ((2 << RECIPROCAL_BITS) - h)) >> RECIPROCAL_BITS
        return x

    def at(self, scores: Array, values: Array) -> Array:
        """The result, int8 [..., D], for scores [..., keys] and values int8 [keys, D]."""
        e = self.exponentials(scores.astype(np.int64))
        total, product = e.sum(axis=-1, keepdims=True), e @ values.astype(np.int64)
        assert max(np.abs(product).max(), total.max()) < 2**31, "a sum leaves int32"
        n = np.zeros_like(total)
        w = total >> SUM_BITS
        for _ in range(self.levels):
            w = w >> 1
            n += np.minimum(w, 1)
        x = self._reciprocal(total >> n)
        y = ((product >> n) >> 6) * x + (1 << self.shift >> 1)
        return np.clip(y >> self.shift, -128, 127).astype(np.int8)

    def emit(self, draft: Draft, scores: SSAValue, values: Array) -> SSAValue:
        """The ops of `at` for scores of one head, int32 [rows, keys]."""
        multiplier, shift = self.scaling
        t = draft.insert(MultiplyShiftOp(scores, multiplier, 1 << shift >> 1, shift))
        t = draft.plus(t, np.where(self.mask, MASKED, 0))
        fine = draft.planes(t, 0, 0, 1.0, LARGEST)
        e = draft.planes(self._emit_exponentials(draft, fine), 0, 0, 1.0)
        first = np.zeros((values.shape[1], self.lanes))
        first[:, 0] = 1
        # The sum is found twice, since accumulators do not leave a kernel.
        n = draft.product(self.byte(draft, self._emit_exponent(draft, self._sum(draft, e))), first)
        x = self._emit_reciprocal(draft, self._sum(draft, e))
        x = draft.gathered(draft.sums(draft.planes(x, 0, 0, 1.0), first))
        product = draft.gathered(draft.sums(e, values.T))
        y = draft.insert(ShiftRightByOp(product, n))
        y = draft.insert(MultiplyShiftOp(y, 1, 0, 6))
        y = draft.insert(MulOp(y, x, y.type))
        return self.byte(draft, y, 1 << self.shift >> 1, self.shift)

    def _emit_exponentials(self, draft: Draft, fine: FineValue) -> SSAValue:
        spread = np.zeros((self.keys, self.lanes))
        spread[:, 0] = -1
        largest = self._emit_largest(draft, fine.high)
        d = draft.gathered(
            [*draft.whole(fine, np.ones(self.keys)), (draft.product(largest, spread), 8)]
        )
        d = draft.insert(ClipOp(d, d.type, min=FloatAttr(float(-FARTHEST), f64)))
        q = draft.insert(MultiplyShiftOp(d, 1, 0, OCTAVE_BITS))
        r = draft.total([d, draft.insert(MultiplyShiftOp(q, -256))])
        a, b, c = curve()
        u = draft.plus(r, b)
        p = draft.insert(MulOp(u, u, u.type))
        p = draft.insert(MultiplyShiftOp(p, a, c, CURVE_BITS))
        return draft.insert(ShiftRightByOp(p, draft.insert(MultiplyShiftOp(q, -1))))

    def _emit_largest(self, draft: Draft, high: SSAValue) -> SSAValue:
        """The largest of each row of int8, in all lanes of one block."""
        keys, lanes = self.keys, self.lanes
        eye = np.eye(keys)
        blocks = [
            eye[[key if key < keys else 0 for key in range(start, start + lanes)]]
            for start in range(0, keys, lanes)
        ]
        found = self._largest(draft, high, blocks)
        turns = [np.roll(np.eye(lanes), turn, axis=1) for turn in range(lanes)]
        step = 1 << (lanes.bit_length() - 1) // 2
        found = self._largest(draft, found, turns[::step])
        return self._largest(draft, found, turns[:step])

    def _largest(self, draft: Draft, x: SSAValue, matrices: list[Array]) -> SSAValue:
        found = draft.product(x, matrices[0])
        for matrix in matrices[1:]:
            other = draft.product(x, matrix)
            found = draft.insert(MaxOp(found, other, found.type))
        return self.byte(draft, found)

    def _sum(self, draft: Draft, e: FineValue) -> SSAValue:
        return draft.gathered(draft.sums(e, np.ones((self.lanes, self.keys))))

    def _emit_exponent(self, draft: Draft, total: SSAValue) -> SSAValue:
        """n: by how many powers of two sums are above the least."""
        w, n = draft.insert(MultiplyShiftOp(total, 1, 0, SUM_BITS)), None
        for _ in range(self.levels):
            w = draft.insert(MultiplyShiftOp(w, 1, 0, 1))
            bit = draft.insert(ClipOp(w, w.type, max=FloatAttr(1.0, f64)))
            n = bit if n is None else draft.total([n, bit])
        assert n is not None, "there are two levels at least"
        return n

    def _emit_reciprocal(self, draft: Draft, total: SSAValue) -> SSAValue:
        """x."""
        s = draft.insert(ShiftRightByOp(total, self._emit_exponent(draft, total)))
        slope = draft.insert(MultiplyShiftOp(s, -GUESS[1], (1 << SUM_BITS) - 1, SUM_BITS))
        x = draft.plus(slope, GUESS[0])
        for _ in range(2):
            h = draft.insert(MultiplyShiftOp(draft.insert(MulOp(s, x, s.type)), 1, 0, SUM_BITS))
            rest = draft.insert(MultiplyShiftOp(h, -1, 2 << RECIPROCAL_BITS))
            x = draft.insert(MulOp(x, rest, x.type))
            x = draft.insert(MultiplyShiftOp(x, 1, 0, RECIPROCAL_BITS))
        return x

    @staticmethod
    def byte(draft: Draft, acc: SSAValue, bias: int = 0, shift: int = 0) -> SSAValue:
        type = TensorType(i8, known_extents(acc))
        addends, amounts = draft.vector(acc, bias, "bias"), draft.vector(acc, shift, "shift")
        op = RequantizeOp(acc, addends, amounts, type, lo=-128, hi=127, scale=1.0)
        return draft.insert(op)
