"""The share of padding other than 0 in products: the analysis of ``te-correct-borders``.

Where a product reads an operand outside its shape and finds the number z there, the padding adds z
times a sum of weights: one sum for each set of taps that lie outside. The set differs between
outputs only near the ends of an axis.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.ir import BlockArgument

from vtac.dialects.context import Array
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import LANES, ComputeOp, KernelOp, Read, Row, shaped


@dataclass(frozen=True)
class Side:
    """Strips of outputs along an axis for which the same taps lie outside, as loops over them.

    axis: of the stage; None where the taps alone decide. length: outputs of a strip. starts: the
    first output at each end of the axis. masks: for each end and each of the strips that follow it,
    [ends, strips, taps...], which taps lie outside; none where there is no such strip.
    """

    axis: int | None
    length: int
    starts: tuple[int, ...]
    masks: Array

    @property
    def extents(self) -> tuple[int, int]:
        """The extents of the two loops."""
        ends, strips, *_ = self.masks.shape
        return ends, strips

    def row(self, end: int, strip: int) -> Row:
        """The place in its strip of an output, if that is the strip of two loop variables."""
        assert self.axis is not None
        distance = self.starts[-1] - self.starts[0]
        terms = [(self.axis, 1), (end, -distance), (strip, -self.length)]
        return Row.of(terms, -self.starts[0])


def sides_of(axis: int | None, outside: Array) -> Iterator[Side]:
    """Strips of each length, those that follow each other together, two such groups in one.

    outside: [outputs, taps...], which taps lie outside.
    """
    changes = (outside[1:] != outside[:-1]).any(axis=tuple(range(1, outside.ndim)))
    starts = [0, *(int(place) + 1 for place in np.flatnonzero(changes))]
    lengths = np.diff([*starts, len(outside)]).tolist()
    strips = [(s, n) for s, n in zip(starts, lengths, strict=True) if outside[s].any()]
    for length in sorted({n for _, n in strips}):
        groups: list[list[int]] = []
        for start in (s for s, n in strips if n == length):
            if groups and groups[-1][-1] + length == start:
                groups[-1].append(start)
            else:
                groups.append([start])
        for pair in (groups[place : place + 2] for place in range(0, len(groups), 2)):
            yield _side_of(axis, outside, length, pair)


def _side_of(axis: int | None, outside: Array, length: int, groups: list[list[int]]) -> Side:
    """Strips of one length in one or two groups; the second, if shorter, has gaps before it."""
    count = max(map(len, groups))
    masks = np.zeros((len(groups), count, *outside.shape[1:]), np.bool_)
    starts = [group[0] for group in groups]
    for end, group in enumerate(groups):
        gap = (count - len(group)) * bool(end)
        starts[end] -= gap * length
        masks[end, gap : gap + len(group)] = outside[group]
    return Side(axis, length, tuple(starts), masks)


@dataclass(frozen=True)
class PaddedProduct:
    """A product that reads a number other than 0 outside one operand.

    where: for messages. x: the number of that operand. sides: for each subscript that may lie
    outside, the strips where it does. taps: the reduction axes that move these, as variables.
    """

    compute: ComputeOp
    where: str
    x: int
    sides: Sequence[Sequence[Side]]
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
        sides = [list(_sides(compute, row, size, taps, where)) for row, size in leaving]
        axes = [strips[0].axis for strips in sides if strips[0].axis is not None]
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
        """The correction of outputs in strips of all these dimensions: [kept..., loops of
        sides...].

        It is the term of these dimensions in ``1 - in in ... = out + out - out out + ...`` (the
        inclusion-exclusion principle).
        """
        outside = self.compute.reads[self.x].outside
        assert outside is not None
        kept = len(self.kept)
        masks: list[Array] = [np.ones(sums.shape[kept:], np.bool_)]
        for side in sides:
            own = side.masks.reshape(-1, *side.masks.shape[2:])
            masks = [mask & strip for mask in masks for strip in own]
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


def _sides(
    compute: ComputeOp, row: Row, size: int, taps: Sequence[int], where: str
) -> Iterator[Side]:
    """The strips of outputs for which a subscript lies outside."""
    axes = [v for v, _ in row.terms if v < len(compute.spatial)]
    if row.divisor > 1 or len(axes) > 1:
        raise refusal(where, "a subscript that leads outside has several axes")
    variables: list[int | None] = [axes[0] if axes else None, *taps]
    extents = [1 if v is None else compute.extents[v] for v in variables]
    index = np.full(extents, row.constant)
    for variable, by in row.terms:
        along = [1] * index.ndim
        along[variables.index(variable)] = -1
        index += (by * np.arange(compute.extents[variable])).reshape(along)
    yield from sides_of(axes[0] if axes else None, (index < 0) | (index >= size))


def refusal(where: str, what: str) -> CompileError:
    """Why a product cannot have padding other than 0."""
    hint = "Padding other than 0 needs constant weights, and an axis for each padded dimension."
    return CompileError(Problem(where, what, hint))
