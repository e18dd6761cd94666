"""Layer normalisation of rows in integers, on a machine whose ALU multiplies.

The GEMM core sums over channels: with a matrix of ones, every lane of an element gets the sum of
its row. So the mean, and then the sum of squares V, stand in all lanes of one block, and products
with constant matrices spread them over all channels again::

    d = t - mean(t)                            found twice, which costs less than to store it
    V = sum of (d / 2)^2 / 2^13                each square has 16 bits, two planes
    r = 2^14 / sqrt(V / 4^g)                   by Newton steps, after V = m 4^(z + g), 1 <= m < 4
    y = (d ((r W) >> b) + bias) >> s           W: the scale of each channel, 11 bits on all lanes

Kim et al., "I-BERT: Integer-only BERT Quantization" (2021), section 3.5, find the root by Newton's
iteration with divisions; without divisions the reciprocal root is the better target, and counting
thresholds ``V >= 4^k`` finds its exponent.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from xdsl.dialects.builtin import FloatAttr, TensorType, f64, i8
from xdsl.ir import SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    ClipOp,
    MulOp,
    MultiplyShiftOp,
    RequantizeOp,
    ShiftRightByOp,
    known_extents,
)
from vtac.dialects.graph.wide import MOST_FINE
from vtac.passes.graph.streams.fine import FineValue, OpDraft

MEAN_BITS = 14
"""Of the factor that divides a sum by the number of channels."""

ROOT_BITS = 14
"""Of the reciprocal root of a number from 1 to 4."""

SQUARE_BITS = 13
"""That the square of half a difference is shifted by, so that it has 16 bits."""

MANTISSA_BITS = 13
"""Of the number itself, which has two bits more before the point."""

FIRST_GUESS = 17472, 2496
"""a and b: the first guess ``a - (b m >> MANTISSA_BITS)`` of ``2^ROOT_BITS / sqrt(m)``.

``(a - b m) sqrt(m)`` has the same value at 1 and at 4 if a = 7 b, and is largest at 7/3; b is such
that both extremes are equally far from 1."""

NEWTON_STEPS = 2
"""They bring the first guess, 9 % off at most, to 2^-12."""

OCTAVES_BELOW = 3
"""Powers of four between the sum of squares that is expected and the smallest one that is told
apart: a row whose deviation is less than 1/8 of the usual one counts as if it were 1/8."""

LARGEST_EXPONENT = 7
"""4 to the power of this is the largest lower bound that is an immediate."""

LARGEST_WEIGHT = 127


@dataclass(frozen=True, eq=False)
class LayerNorm:
    """The numbers of a layer normalisation.

    channels, lanes: of a row, and of an element. multiplier: t is so many times the operand, which
    is more than 1 where the operand has one plane. step: of t. scale, bias: real
    numbers, float64 [channels], by which normalised rows are multiplied, and which are added.
    epsilon: added to the variance. power: the mean square that rows are expected to have. result:
    the step of the low plane of the result.
    """

    channels: int
    lanes: int
    multiplier: int
    step: float
    scale: Array
    bias: Array
    epsilon: float
    power: float
    result: float

    @cached_property
    def low_exponent(self) -> int:
        """g: sums of squares count as 4^g at least."""
        usual = self.channels * self.power / self._square_step
        wanted = int(np.floor(np.log(max(usual, 1.0)) / np.log(4))) - OCTAVES_BELOW
        least = (self._bits + MANTISSA_BITS - 29) // 2
        return min(max(wanted, least, 0), LARGEST_EXPONENT)

    @property
    def _square_step(self) -> float:
        """The real value of a step of squares."""
        return float(4 * self.step**2 * 2**SQUARE_BITS)

    @cached_property
    def _bits(self) -> int:
        """Bits of the largest sum of squares."""
        return (self.channels * MOST_FINE + self.added).bit_length()

    @property
    def thresholds(self) -> int:
        """How many powers of four above 4^g a sum of squares can reach."""
        return max((self._bits - 1) // 2 - self.low_exponent, 0)

    @property
    def added(self) -> int:
        """Epsilon's share of the sum of squares."""
        return round(self.epsilon * self.channels / self._square_step)

    @property
    def mean_shift(self) -> int:
        """By how much a sum over channels is shifted before it is multiplied."""
        return self.channels.bit_length() - 1

    @property
    def mean_factor(self) -> int:
        """The multiplier that makes a shifted sum the mean."""
        return round(2.0 ** (self.mean_shift + MEAN_BITS) / self.channels)

    @property
    def weight_shift(self) -> int:
        """b: bits that the product of the root and a weight loses, so that all fits int32."""
        return self.low_exponent + 4

    @cached_property
    def shift(self) -> int:
        """s: of the result's low plane."""
        return int(np.floor(np.log2(self._largest_gain * self._unit)))

    @property
    def _unit(self) -> float:
        """The result's steps, times the gain, that one step of the product stands for, inverted."""
        halves = 2 + SQUARE_BITS + 2 * (ROOT_BITS + self.low_exponent - self.weight_shift)
        return float(2.0 ** (halves / 2) * self.result / np.sqrt(self.channels))

    @property
    def _largest_gain(self) -> float:
        return LARGEST_WEIGHT * self.lanes / max(float(np.abs(self.scale).max()), 2.0**-60)

    @cached_property
    def weights(self) -> Array:
        """W: a whole number for each channel."""
        gain = 2.0**self.shift / self._unit
        return cast(Array, np.rint(self.scale * gain).astype(np.int64))

    @cached_property
    def matrix(self) -> Array:
        """The weights spread over the lanes of an element, int8 [channels, lanes]."""
        share, rest = np.divmod(np.abs(self.weights), self.lanes)
        spread = share[:, None] + (np.arange(self.lanes) < rest[:, None])
        return cast(Array, (spread * np.sign(self.weights)[:, None]).astype(np.int8))

    @property
    def offset(self) -> Array:
        """The bias in steps of the products."""
        return cast(Array, np.rint(np.ldexp(self.bias / self.result, self.shift)))

    def refusal(self) -> str | None:
        """Why there are no such integers; None if there are."""
        if not 0 < self.shift <= 22:
            return "its result is too coarse or too fine for the products"
        # A square is at most a step and a half above its share of V, which is 4^g at least.
        most = 2 + np.sqrt(2.0 ** (2 + SQUARE_BITS) * (1 + 1.5 / 4.0**self.low_exponent))
        most *= 1.01 * 2.0 ** (ROOT_BITS + self.low_exponent)
        # One more for the rounding of the weighed root, with the largest difference.
        product = most * np.abs(self.weights).max() / 2.0**self.weight_shift + 2**15
        if product + np.abs(self.offset).max() + 2.0 ** (self.shift + 8) >= 2**31:
            return "its products could leave int32"
        if self.channels >= 1 << 15:
            return "a sum over its channels could leave int32"
        return None

    def at(self, planes: Array) -> Array:
        """The result in steps of its low plane, for rows t [..., channels].

        Magnitudes are at most `sums.LARGEST`.
        """
        t = planes.astype(np.int64)
        sums = t.sum(axis=-1, keepdims=True)
        half = 1 << self.mean_shift >> 1
        mean = ((sums + half) >> self.mean_shift) * self.mean_factor
        d = t - ((mean + (1 << (MEAN_BITS - 1))) >> MEAN_BITS)
        square = (np.square(d >> 1) + (1 << (SQUARE_BITS - 1))) >> SQUARE_BITS
        total = square.sum(axis=-1, keepdims=True) + self.added
        root = self._root(np.maximum(total, 4**self.low_exponent))
        root = (root * self.weights) >> self.weight_shift
        products = d * root + self.offset.astype(np.int64) + (1 << self.shift >> 1)
        return cast(Array, np.clip(products >> self.shift, -MOST_FINE, MOST_FINE))

    def _root(self, total: Array) -> Array:
        """``2^(ROOT_BITS + g) / sqrt(total)``."""
        z, w = np.zeros_like(total), total >> 2 * self.low_exponent
        for _ in range(self.thresholds):
            w = w >> 2
            z = z + np.minimum(w, 1)
        left = MANTISSA_BITS - 2 * self.low_exponent
        m = (total << max(left, 0) >> max(-left, 0)) >> (2 * z)
        start, slope = FIRST_GUESS
        r = ((m * -slope) >> MANTISSA_BITS) + start
        for _ in range(NEWTON_STEPS):
            q = (((r * r) >> ROOT_BITS) * m) >> ROOT_BITS
            r = (r * ((3 << MANTISSA_BITS) - q) + (1 << MANTISSA_BITS)) >> ROOT_BITS
        return cast(Array, r >> z)

    def emit(self, draft: OpDraft, x: FineValue, wide: bool) -> FineValue:
        """Append the ops. wide: whether the result has two planes; else it is the high one,
        rounded."""
        lanes, ones = self.lanes, np.ones((self.lanes, self.channels))
        every = np.ones(self.channels)
        first = np.zeros((self.channels, lanes))
        first[:, 0] = 1
        half = 1 << self.mean_shift >> 1
        sums = draft.gathered(draft.sums(x, self.multiplier * ones))
        sums = self._scale(draft, sums, 1, half, self.mean_shift)
        product = self._scale(draft, sums, self.mean_factor)
        mean = draft.planes(product, 1 << (MEAN_BITS - 1), MEAN_BITS, self.step)

        def centred() -> SSAValue:
            parts = [*draft.whole(x, self.multiplier * every), *draft.sums(mean, -first)]
            return draft.gathered(parts)

        once = self._scale(draft, centred(), shift=1)
        square = draft.insert(MulOp(once, once, once.type))
        squares = draft.planes(square, 1 << (SQUARE_BITS - 1), SQUARE_BITS, 1.0)
        total = draft.gathered(draft.sums(squares, ones))
        root = draft.planes(self._emit_root(draft, total), 0, 0, 1.0)
        factor = draft.gathered(draft.sums(root, self.matrix))
        factor = self._scale(draft, factor, shift=self.weight_shift)
        whole = centred()
        product = draft.insert(MulOp(whole, factor, whole.type))
        if wide:
            bias = self.offset + (1 << self.shift >> 1)
            return draft.planes(product, bias, self.shift, self.result, MOST_FINE)
        bias, shift = self.offset + (1 << self.shift + 7), self.shift + 8
        scale, type = 256 * self.result, TensorType(i8, known_extents(product))
        addends = draft.vector(product, bias, "bias")
        amounts = draft.vector(product, shift, "shift")
        op = RequantizeOp(product, addends, amounts, type, lo=-128, hi=127, scale=scale)
        return FineValue(draft.insert(op), None, np.array([scale]))

    def _emit_root(self, draft: OpDraft, total: SSAValue) -> SSAValue:
        total = draft.plus(total, self.added)
        least = FloatAttr(float(4**self.low_exponent), f64)
        total = draft.insert(ClipOp(total, total.type, min=least))
        one = FloatAttr(1.0, f64)
        w, z = self._scale(draft, total, shift=2 * self.low_exponent), None
        for _ in range(self.thresholds):
            w = self._scale(draft, w, shift=2)
            bit = draft.insert(ClipOp(w, w.type, max=one))
            z = bit if z is None else draft.total([z, bit])
        left = MANTISSA_BITS - 2 * self.low_exponent
        m = draft.shifted(total, left) if left > 0 else self._scale(draft, total, shift=-left)
        if z is not None:
            m = draft.insert(ShiftRightByOp(m, draft.total([z, z])))
        start, slope = FIRST_GUESS
        r = draft.plus(self._scale(draft, m, -slope, 0, MANTISSA_BITS), start)
        for _ in range(NEWTON_STEPS):
            q = self._scale(draft, draft.insert(MulOp(r, r, r.type)), shift=ROOT_BITS)
            q = self._scale(draft, draft.insert(MulOp(q, m, m.type)), shift=ROOT_BITS)
            rest = self._scale(draft, q, -1, 3 << MANTISSA_BITS)
            r = draft.insert(MulOp(r, rest, r.type))
            r = self._scale(draft, r, 1, 1 << MANTISSA_BITS, ROOT_BITS)
        return r if z is None else draft.insert(ShiftRightByOp(r, z))

    @staticmethod
    def _scale(
        draft: OpDraft, acc: SSAValue, multiplier: int = 1, offset: int = 0, shift: int = 0
    ) -> SSAValue:
        if (multiplier, offset, shift) == (1, 0, 0):
            return acc
        return draft.insert(MultiplyShiftOp(acc, multiplier, offset, shift))
