"""The physical shape and the layout of parameters in lanes.

Weights of a product with a group are diagonal: an element is 0 where the group of its row differs
from that of its column.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vtac.dialects.context import Array
from vtac.dialects.te import Dimension, Layout, Row
from vtac.passes.te.lanes.choices import Lane, LaneChoice, Subscripts

LaneAxes = tuple[tuple[int | None, int], ...]
"""Axes of a lane: dimensions of the tensor, or None for one that the tensor does not have."""


@dataclass(frozen=True)
class LanePlacement:
    """How a tensor lies in elements of ``size``.

    rows, columns: the axes of the lanes. equal: pairs of places, in rows and in columns, that must
    have the same value for an element not to be 0. dropped: dimensions of one block, left out.
    """

    rows: LaneAxes
    columns: LaneAxes
    size: tuple[int, int]
    equal: tuple[tuple[int, int], ...] = ()
    dropped: frozenset[int] = frozenset()

    def without(self, dimensions: frozenset[int]) -> "LanePlacement":
        """The placement without some dimensions."""
        return replace(self, dropped=dimensions)

    def shape(self, logical: Sequence[int]) -> tuple[int, ...]:
        """The physical shape: for each dimension as many blocks as needed, then the lanes."""
        return (*self._blocks(logical).values(), *self.size)

    def pack(self, array: Array, repeats_last: bool = False) -> Array:
        """A constant in lanes; lanes beyond its shape hold zeros, or else repeat the last entry."""
        if repeats_last:
            counts = self._counts
            pads = [(0, -size % counts.get(dim, 1)) for dim, size in enumerate(array.shape)]
            array = np.pad(array, pads, mode="edge")
        return self.layout(Layout.plain("", array.shape)).pack(array)

    @property
    def _counts(self) -> dict[int, int]:
        """How many values of each dimension lie in a lane."""
        return {dim: count for dim, count in (*self.rows, *self.columns) if dim is not None}

    def _blocks(self, logical: Sequence[int]) -> dict[int, int]:
        """The number of blocks of each dimension that is kept."""
        counts = self._counts
        return {
            dim: -(-size // counts.get(dim, 1))
            for dim, size in enumerate(logical)
            if dim not in self.dropped
        }

    def layout(self, known: Layout) -> Layout:
        """The layout of a tensor that is put into lanes; ``known`` is the one it has."""
        shape = known.physical
        blocks = self._blocks(shape)
        dimensions = [Dimension(((f"d{d}", n),), n) for d, n in blocks.items()]
        places = {dim: place for place, dim in enumerate(blocks)}
        terms = [[(places[dim], 1)] if dim in places else [] for dim in range(len(shape))]
        place, first = len(blocks), []
        for name, axes, size in zip("rc", (self.rows, self.columns), self.size, strict=True):
            named = tuple((f"{name}{i}", count) for i, (_, count) in enumerate(axes))
            dimensions.append(Dimension(named, size))
            first.append(place)
            for dim, count in axes:
                if dim is not None:
                    terms[dim] = [(p, count if p < len(blocks) else c) for p, c in terms[dim]]
                    terms[dim].append((place, 1))
                place += 1
        zeros = [Row.of([(first[0] + r, 1), (first[1] + c, -1)]) for r, c in self.equal]
        return known.within(dimensions, [Row.of(t) for t in terms], zeros)


def _axes(lane: Lane, read: Subscripts, rest: int) -> LaneAxes:
    """The axes of a lane of a compute in one operand; without any, ``rest`` equal values."""
    found = tuple((read.alone.get(v) if v in read.used else None, count) for v, count in lane)
    return found or ((None, rest),)


def place_operand(
    choice: LaneChoice, number: int, read: Subscripts, batch: int, block: int
) -> LanePlacement:
    """The placement of an operand that is a parameter."""
    rows = _axes(choice.rows, read, batch)
    if choice.depth is None:
        return LanePlacement(rows, _axes(choice.columns, read, block), (batch, block))
    # A depth without an axis is a single value: all other lanes must be 0.
    depth = _axes(choice.depth, read, 1)
    if number == choice.activations:
        return LanePlacement(rows, depth, (batch, block))
    return place_weights(choice, read, depth, block)


def place_weights(
    choice: LaneChoice, read: Subscripts, depth: LaneAxes, block: int
) -> LanePlacement:
    """The placement of weights: the group, first in both lanes, is the same in both."""
    rows = _axes(choice.columns, read, block)
    if choice.group is None:
        return LanePlacement(rows, depth, (block, block))
    return LanePlacement(rows, ((None, depth[0][1]), *depth[1:]), (block, block), ((0, 0),))


def place_constant(choice: LaneChoice, block: int) -> LanePlacement:
    """The placement of a factor that is a single number."""
    rows: LaneAxes = tuple((None, count) for _, count in choice.columns) or ((None, block),)
    depth: LaneAxes = tuple((None, count) for _, count in choice.depth or ()) or ((None, 1),)
    equal = () if choice.group is None else ((0, 0),)
    return LanePlacement(rows, depth, (block, block), equal)


def place_result(choice: LaneChoice, batch: int, block: int) -> LanePlacement:
    """The placement of a result; of lanes that repeat one value only the first is looked at."""
    return LanePlacement(
        choice.rows or ((None, 1),), choice.columns or ((None, 1),), (batch, block)
    )
