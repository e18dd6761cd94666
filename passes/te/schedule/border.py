"""What the border of a tensor does to a product: taps that fall outside are left out.

The outputs for which a tap lies inside form a rectangle, and each rectangle is an instruction of
its own: less work, more instructions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

import numpy as np

from vtac.dialects.te import LANES, Row, shaped
from vtac.passes.te.schedule.footprint import Flags, Range
from vtac.passes.te.schedule.structure import ScheduledStage


def inside_share(stage: ScheduledStage) -> float:
    """The share of a product's points that lie inside."""
    return prod(float(np.mean(inside)) for _, inside in _bordered(stage))


def border_ranges(stage: ScheduledStage) -> Iterator[tuple[Row, int]]:
    """For each subscript that may leave its tensor: how many different ranges of outputs taps have.

    If the dimension is one tile, so many instructions share its taps.
    """
    for row, inside in _bordered(stage):
        ranges = np.unique(inside[:, inside.any(axis=0)], axis=1)
        yield row, max(ranges.shape[1], 1)


def _bordered(stage: ScheduledStage) -> Iterator[tuple[Row, Flags]]:
    """The subscripts that may leave their tensor, each with a table [outputs, taps] that says
    where the subscript is inside."""
    spatial = len(stage.compute.spatial)
    for read in stage.reads:
        if read.outside is None:
            continue
        shape = shaped(read.value).get_shape()
        for row, size in zip(read.rows[:-LANES], shape[:-LANES], strict=True):
            low, high = row.interval(stage.compute.extents)
            if low >= 0 and high < size:
                continue
            at = [np.zeros(1, np.int64), np.zeros(1, np.int64)]
            for variable, coefficient in row.terms:
                steps = coefficient * np.arange(stage.compute.extents[variable])
                side = variable >= spatial
                at[side] = np.add.outer(at[side], steps).ravel()
            index = np.add.outer(at[0], at[1]) + row.constant
            yield row, (index >= 0) & (index < size)


@dataclass
class Border:
    """A subscript of a product that may leave its tensor: one axis of outputs, and some taps.

    axis, by: the axis of the stage, and its coefficient. taps: reduction axes with coefficients.
    The subscript is inside in [low, high), taken without its constant. reach: what taps add, from
    and to.
    """

    axis: int
    by: int
    taps: tuple[tuple[int, int], ...]
    low: int
    high: int
    reach: Range
    _known: dict[tuple[Range, ...], tuple[int, int]] = field(default_factory=dict)

    def place(self, outputs: Range) -> object:
        """A key that is equal for ranges of outputs with equal borders: the length of a range that
        no border cuts, else the range itself."""
        first, last = outputs[0] * self.by, (sum(outputs) - 1) * self.by
        low, high = min(first, last) + self.reach[0], max(first, last) + self.reach[1]
        return outputs[1] if low >= self.low and high < self.high else outputs

    def inside(self, region: Sequence[Range], taps: Sequence[Range]) -> tuple[int, int]:
        """For some outputs and taps: how many pairs of them lie inside the tensor, and how many
        different ranges of outputs the taps have."""
        key = (region[self.axis], *(taps[tap] for tap, _ in self.taps))
        if key not in self._known:
            self._known[key] = self._inside(*key)
        return self._known[key]

    def _inside(self, outputs: Range, *taps: Range) -> tuple[int, int]:
        ranges = set[Range]()
        points, (first, count) = 0, outputs
        for at in product(*(range(start, start + length) for start, length in taps)):
            offset = sum(by * index for (_, by), index in zip(self.taps, at, strict=True))
            ends = (self.low - offset, self.high - 1 - offset)
            start, end = ends if self.by > 0 else (-ends[1], -ends[0])
            start = max(first, -(-start // abs(self.by)))
            end = min(first + count - 1, end // abs(self.by))
            if start <= end:
                points += end - start + 1
                ranges.add((start, end))
        return points, len(ranges)


def borders_of(stage: ScheduledStage) -> list[Border]:
    """The subscripts of a product that may leave their tensors, as far as they have one axis."""
    found = []
    spatial = len(stage.compute.spatial)
    for read in stage.reads:
        shape = shaped(read.value).get_shape()
        for row, size in zip(read.rows[:-LANES], shape[:-LANES], strict=True):
            low, high = row.interval(stage.compute.extents)
            axes = [term for term in row.terms if term[0] < spatial]
            if read.outside is None or (low >= 0 and high < size) or len(axes) != 1:
                continue
            taps = tuple((v - spatial, by) for v, by in row.terms if v >= spatial)
            ends = [by * (stage.taps[tap] - 1) for tap, by in taps]
            reach = sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)
            found.append(Border(*axes[0], taps, -row.constant, size - row.constant, reach))
    return found
