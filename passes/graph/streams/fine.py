"""Real numbers as rows of integers in one or two int8 planes, and ops over accumulators of rows.

With two planes, ``real = step (256 high + low)``: 16 bits, as a stream needs that many layers add
to. The rows are those of a matrix [rows, channels].
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import TensorType, i8, i32
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    AddBiasOp,
    AddOp,
    ConvOp,
    GemmOp,
    RequantizePlanesOp,
    ReshapeOp,
    ShiftLeftOp,
    known_extents,
)
from vtac.passes.graph.constants import new_constant

LARGEST_WEIGHT = 127
"""Of one plane of weights."""

PLANE_BITS = 7
"""Bits of the low plane of weights."""

TOLERANCE = 2.0**-9
"""The largest relative error of a factor that one plane of weights may have."""


Part = tuple[SSAValue, int]
"""Accumulators, and the bits by which they are still to be shifted to the left."""


@dataclass(frozen=True, eq=False)
class FineValue:
    """Integers that stand for the rows of a float value.

    high, low: int8 [rows, channels]; without low, high is all. steps: the real value of a step of
    the lowest plane, float64 [channels] or [1].
    """

    high: SSAValue
    low: SSAValue | None
    steps: Array

    @property
    def step(self) -> float | None:
        """The step of all channels; None if they differ."""
        return float(self.steps[0]) if (self.steps == self.steps[0]).all() else None


@dataclass
class OpDraft:
    """Ops that are made but not inserted yet, all at the location of ``source``.

    place: before which op those that are made next will be inserted.
    """

    ctx: Context
    source: Operation
    place: Operation
    placed: list[tuple[Operation, Operation]] = field(default_factory=list)

    @property
    def made(self) -> list[Operation]:
        """The ops."""
        return [op for op, _ in self.placed]

    def insert(self, op: Operation) -> SSAValue:
        """Add an op; its first result."""
        op.location = self.source.location
        self.placed.append((op, self.place))
        return op.results[0]

    @contextmanager
    def before(self, place: Operation) -> Iterator[None]:
        """Let what is made inside be inserted before another op."""
        usual, self.place = self.place, place
        yield
        self.place = usual

    def commit(self) -> None:
        """Insert the ops."""
        for op, place in self.placed:
            block = place.parent
            assert block is not None
            block.insert_op_before(op, place)

    def drop(self) -> None:
        """Erase the ops."""
        for op in reversed(self.made):
            op.drop_all_references()
            op.erase(safe_erase=False)

    def constant(self, array: Array, hint: str) -> SSAValue:
        """A constant."""
        return self.insert(new_constant(self.ctx, array, hint, self.source))

    def vector(self, acc: SSAValue, numbers: Array | int, hint: str) -> SSAValue:
        """A constant with a number for each channel of accumulators."""
        channels = known_extents(acc)[1]
        array = np.broadcast_to(np.asarray(numbers), (channels,)).astype(np.int32)
        return self.constant(array, hint)

    def as_rows(self, x: SSAValue) -> SSAValue:
        """Integers as a matrix of rows."""
        while isinstance(x.owner, ReshapeOp):
            x = x.owner.x
        return self.reshaped(x, rows_of(x))

    def reshaped(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        """A tensor under another shape."""
        assert isinstance(x.type, TensorType)
        if tuple(x.type.get_shape()) == tuple(shape):
            return x
        return self.insert(ReshapeOp(x, TensorType(x.type.element_type, shape)))

    def product(self, x: SSAValue, weights: Array) -> SSAValue:
        """Rows times a matrix [outputs, channels] of int8."""
        rows = known_extents(x)[0]
        w = self.constant(weights.astype(np.int8), "weights")
        return self.insert(GemmOp(x, w, None, TensorType(i32, [rows, len(weights)]), trans_b=True))

    def weighed(self, x: SSAValue, weights: Array) -> SSAValue:
        """Each channel times its number, int8 [channels]."""
        rows, channels = known_extents(x)
        w = self.constant(weights.astype(np.int8).reshape(-1, 1), "factors")
        type = TensorType(i32, [rows, channels])
        return self.insert(
            ConvOp(x, w, None, type, strides=[], pads=[], dilations=[], group=channels)
        )

    def shifted(self, acc: SSAValue, bits: int) -> SSAValue:
        """Accumulators to the left."""
        if not bits:
            return acc
        return self.insert(ShiftLeftOp(acc, self.vector(acc, bits, "amount"), acc.type))

    def plus(self, acc: SSAValue, numbers: Array | int) -> SSAValue:
        """Accumulators and a number per channel."""
        if not np.any(numbers):
            return acc
        return self.insert(AddBiasOp(acc, self.vector(acc, numbers, "offset"), acc.type))

    def total(self, terms: Sequence[SSAValue]) -> SSAValue:
        """The sum of accumulators."""
        acc = terms[0]
        for term in terms[1:]:
            acc = self.insert(AddOp(acc, term, acc.type))
        return acc

    def gathered(self, parts: Sequence[Part]) -> SSAValue:
        """The sum of accumulators that are still to be shifted, by Horner's rule: what is shifted
        most comes first, and what else is shifted as much joins it before."""
        by_shift: dict[int, list[SSAValue]] = {}
        for acc, bits in parts:
            by_shift.setdefault(bits, []).append(acc)
        before, *others = sorted(by_shift, reverse=True)
        acc = self.total(by_shift[before])
        for bits in others:
            acc = self.total([self.shifted(acc, before - bits), *by_shift[bits]])
            before = bits
        return self.shifted(acc, before)

    def scaled(self, x: SSAValue, factors: Array, bits: int = 0) -> list[Part]:
        """``factors * x << bits``, with factors rounded as `rounded_factors` does."""
        high, low, more = planes_of_factors(factors)
        parts = [(self.weighed(x, low), bits + more)]
        if high is not None:
            parts.append((self.weighed(x, high), bits + more + PLANE_BITS))
        return parts

    def whole(self, value: FineValue, factors: Array) -> list[Part]:
        """``factors * (256 high + low)``."""
        if value.low is None:
            return self.scaled(value.high, factors)
        return [*self.scaled(value.high, factors, 8), *self.scaled(value.low, factors)]

    def sums(self, value: FineValue, weights: Array) -> list[Part]:
        """``256 high + low`` times a matrix of weights."""
        if value.low is None:
            return [(self.product(value.high, weights), 0)]
        return [(self.product(value.high, weights), 8), (self.product(value.low, weights), 0)]

    def planes(
        self, acc: SSAValue, bias: Array | int, shift: int, step: float, bound: int | None = None
    ) -> FineValue:
        """Accumulators in two planes: ``(acc + bias) >> shift``.

        bound: clamps the magnitude; None where what is known of the accumulators bounds it.
        """
        addends = self.vector(acc, bias, "bias")
        amounts = self.vector(acc, shift, "shift")
        type = TensorType(i8, known_extents(acc))
        op = RequantizePlanesOp(acc, addends, amounts, type, step, bound)
        self.insert(op)
        return FineValue(op.high, op.low, np.array([step]))


def planes_of_factors(factors: Array) -> tuple[Array | None, Array, int]:
    """Whole numbers near positive factors: ``(high 2^PLANE_BITS + low) 2^bits``.

    There is no high plane where the low one has no factor that is off by more than `TOLERANCE`.
    Factors of both planes are off by less, but by up to one half where they are below 256.
    """
    largest = float(factors.max())
    bits = max(0, int(np.ceil(np.log2(largest / LARGEST_WEIGHT))))
    whole = np.rint(np.ldexp(factors, -bits))
    wrong = np.abs(np.ldexp(whole, bits) - factors) / factors
    if whole.max() <= LARGEST_WEIGHT and wrong.max() <= TOLERANCE:
        return None, whole.astype(np.int8), bits
    most = (LARGEST_WEIGHT << PLANE_BITS) - 1
    bits = max(0, int(np.ceil(np.log2(largest / most))))
    whole = np.rint(np.ldexp(factors, -bits))
    high = np.floor(np.ldexp(whole, -PLANE_BITS) + 0.5)
    low = whole - np.ldexp(high, PLANE_BITS)
    return high.astype(np.int8), low.astype(np.int8), bits


def rounded_factors(factors: Array) -> Array:
    """The whole numbers that stand for factors, as float64."""
    high, low, bits = planes_of_factors(factors)
    whole = low.astype(np.float64)
    if high is not None:
        whole = whole + np.ldexp(high.astype(np.float64), PLANE_BITS)
    return cast(Array, np.ldexp(whole, bits))


def rows_of(value: SSAValue) -> tuple[int, int]:
    """The shape of a tensor as a matrix whose columns are its last dimension."""
    *outer, channels = known_extents(value)
    return int(np.prod(outer, dtype=np.int64)), channels
