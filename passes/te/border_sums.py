"""What the padding adds to a product, if it is not 0: the analysis of ``te-correct-borders``.

Products whose operand is read outside its shape, and there is a number z: what is added there is z
times a sum of weights, one for each set of taps that lie outside. These depend on the output only
near the ends of an axis.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from xdsl.ir import BlockArgument

from vtac.dialects.context import Array
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import ComputeOp, KernelOp, Read, Row, shaped

LANES = 2


@dataclass(frozen=True)
class Side:
    """The outputs along an axis for which taps lie outside, as two loops: ends, places at an end.

    axis: of the stage; None where the taps alone decide. outside: [outputs, taps...], which taps
    lie outside. starts: the first output at each end. count: outputs at an end.
    """

    axis: int | None
    outside: Array
    starts: tuple[int, ...]
    count: int

    @staticmethod
    def of(axis: int | None, outside: Array) -> "Side":
        """From which taps lie outside for each output of the axis: some do at its ends."""
        at_border = outside.reshape(len(outside), -1).any(axis=1)
        extent = len(at_border)
        if at_border.all():
            return Side(axis, outside, (0,), extent)
        before, after = int(np.argmin(at_border)), int(np.argmin(at_border[::-1]))
        count = max(before, after)
        starts = [0] * bool(before) + [extent - count] * bool(after)
        return Side(axis, outside, tuple(starts), count)

    @property
    def extents(self) -> tuple[int, int]:
        """Of the two loops."""
        return len(self.starts), self.count

    @cached_property
    def places(self) -> list[Array]:
        """The taps outside in each turn of the loops; none where an output comes again."""
        found: dict[int, Array] = {}
        turns = [start + place for start in self.starts for place in range(self.count)]
        return [
            np.zeros_like(self.outside[turn]) if turn in found else found.setdefault(turn, taps)
            for turn, taps in ((turn, self.outside[turn]) for turn in turns)
        ]

    def row(self, end: int, place: int) -> Row:
        """0 for the output that a turn of the loops, two variables, stands for."""
        assert self.axis is not None
        distance = self.starts[-1] - self.starts[0]
        return Row.of([(self.axis, 1), (end, -distance), (place, -1)], -self.starts[0])


@dataclass(frozen=True)
class PaddedProduct:
    """A product that reads a number other than 0 outside one operand.

    where: for messages. x: the number of that operand. sides: one for each subscript that may lie
    outside. taps: the reduction axes that move these, as variables.
    """

    compute: ComputeOp
    where: str
    x: int
    sides: Sequence[Side]
    taps: Sequence[int]

    @staticmethod
    def of(kernel: KernelOp, compute: ComputeOp) -> "PaddedProduct":
        """Raises `CompileError` where the padding's share does not follow from the weights."""
        where = f'te.kernel @{kernel.sym_name.data}, stage "{compute.label.data}"'
        (x, *others) = [number for number, read in enumerate(compute.reads) if read.outside]
        weights, rank = compute.reads[1 - x], len(compute.spatial)
        variables = [row.variable for row in weights.rows]
        if others or weights.outside is not None:
            raise refusal(where, "both its operands are read outside")
        if not isinstance(weights.value, BlockArgument) or None in variables:
            raise refusal(where, "its weights are no parameter that is read axis by axis")
        if variables[-LANES:] != [rank - 1, len(compute.extents) - 1]:
            raise refusal(where, "it has not the lanes of the GEMM core")
        leaving = list(_leaving(compute, compute.reads[x]))
        taps = sorted({v for row, _ in leaving for v, _ in row.terms if v >= rank})
        sides = [_side(compute, row, size, taps, where) for row, size in leaving]
        axes = [side.axis for side in sides if side.axis is not None]
        if len(set(axes)) < len(axes) or set(axes) & set(variables):
            raise refusal(where, "an axis leads outside in two subscripts, or moves the weights")
        return PaddedProduct(compute, where, x, sides, taps)

    @property
    def weights(self) -> Read:
        """The other operand."""
        return self.compute.reads[1 - self.x]

    @property
    def kept(self) -> list[int]:
        """The stage's axes on which weights depend; the lane is the last."""
        rank = len(self.compute.spatial)
        own = [row.variable for row in self.weights.rows[:-LANES]]
        return [v for v in own if v is not None and v < rank] + [rank - 1]

    def sums(self, weights: Array) -> Array:
        """The weights summed over all but taps: [kept..., taps...]."""
        variables = [row.variable for row in self.weights.rows]
        order = [*self.kept, *(tap for tap in self.taps if tap in variables)]
        rest = tuple(dim for dim, v in enumerate(variables) if v not in order)
        left = [v for v in variables if v in order]
        sums: Array = weights.sum(axis=rest, dtype=np.int64)
        sums = sums.transpose([left.index(v) for v in order])
        for place, tap in enumerate(self.taps, start=len(self.kept)):
            if tap not in variables:
                sums = np.expand_dims(sums, place)
        extents = self.compute.extents
        unseen = {*range(len(self.compute.spatial), len(extents))} - {*variables, *self.taps}
        shape = *sums.shape[: len(self.kept)], *(extents[tap] for tap in self.taps)
        return np.broadcast_to(sums * prod(extents[v] for v in unseen), shape)

    def correction(self, sums: Array, sides: Sequence[Side]) -> Array:
        """What outputs at the border of all these dimensions get: [kept..., loops of sides...].

        Of the terms of ``1 - in in ... = out + out - out out + ...`` (the inclusion-exclusion
        principle) that of these dimensions.
        """
        outside = self.compute.reads[self.x].outside
        assert outside is not None
        kept = len(self.kept)
        masks: list[Array] = [np.ones(sums.shape[kept:], np.bool_)]
        for side in sides:
            masks = [mask & place for mask in masks for place in side.places]
        axes = tuple(range(kept, sums.ndim))
        found = np.stack([(sums * mask).sum(axis=axes) for mask in masks], axis=-1)
        extents = [extent for side in sides for extent in side.extents]
        factor = outside if len(sides) % 2 else -outside
        return (factor * found).reshape(*sums.shape[:kept], *extents)


def _leaving(compute: ComputeOp, read: Read) -> Iterator[tuple[Row, int]]:
    """The subscripts that may lie outside their dimension, and its size."""
    for row, size in zip(read.rows, shaped(read.value).get_shape(), strict=True):
        low, high = row.interval(compute.extents)
        if low < 0 or high >= size:
            yield row, size


def _side(compute: ComputeOp, row: Row, size: int, taps: Sequence[int], where: str) -> Side:
    """Where a subscript lies outside."""
    axes = [v for v, _ in row.terms if v < len(compute.spatial)]
    if row.divisor > 1 or len(axes) > 1:
        raise refusal(where, "a subscript that leads outside has several axes")
    variables = [*(axes or [None]), *taps]
    extents = [1 if v is None else compute.extents[v] for v in variables]
    index = np.full(extents, row.constant)
    for variable, by in row.terms:
        along = [1] * index.ndim
        along[variables.index(variable)] = -1
        index += (by * np.arange(compute.extents[variable])).reshape(along)
    return Side.of(axes[0] if axes else None, (index < 0) | (index >= size))


def refusal(where: str, what: str) -> CompileError:
    """Why a product cannot have padding other than 0."""
    hint = "Padding other than 0 needs constant weights, and an axis for each padded dimension."
    return CompileError(Problem(where, what, hint))
