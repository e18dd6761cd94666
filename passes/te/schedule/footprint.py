"""How much of each tensor one tile needs: extents, for many tilings at once.

A tiling gives each axis of the root, before its lanes, the extent of a tile. All extents are NumPy
arrays with one entry per tiling, so that a search asks about thousands in a few array operations.
What a stage must provide follows from the subscripts of its readers, as in Halide's bounds
inference; positions do not matter, only extents, cut to the tensor.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from math import gcd, prod
from typing import Any

import numpy as np

from vtac.dialects.target import Target
from vtac.dialects.te import LANES, Row, loaded_steps, shaped
from vtac.passes.te.schedule.structure import ScheduledStage, StageRole, Structure, axes_of_row

Extents = np.ndarray[Any, np.dtype[np.int64]]

Flags = np.ndarray[Any, np.dtype[np.bool_]]

Regions = Mapping[int, Sequence[Extents]]
"""For each stage, by number, the extents of its spatial axes before the lanes."""


def volume(extents: Sequence[Extents], one: Extents) -> Extents:
    """Product of extents; ``one`` gives the number of tilings."""
    total = one
    for extent in extents:
        total = total * extent
    return total


def transfers(
    window: Sequence[Extents],
    shape: Sequence[int],
    one: Extents,
    steps: Sequence[int] = (),
    *,
    any_order: bool = False,
) -> tuple[Extents, Extents]:
    """Instructions and rows with which DMA moves a window of a tensor, lanes left out.

    A row is contiguous in memory. An instruction repeats it at one distance: along a dimension, and
    along those outside it that go on at the same distance. Where a scratchpad keeps the order of
    dimensions, that is the last dimension that is no part of the row; in ``any_order`` the one that
    begins the longest such run. shape: of the tensor. steps: how far apart the elements are that
    are moved; ``window`` counts these.
    """
    strides = [prod(shape[dim + 1 :]) * step for dim, step in enumerate(steps or [1] * len(shape))]
    row, is_open, is_first = one, one > 0, one > 0
    rows, longest = one, one
    for dim in reversed(range(len(shape))):
        extent, is_single = window[dim], window[dim] == 1
        in_row = is_open & (row == strides[dim])
        row = np.where(in_row, row * extent, row)
        is_open = in_row | (is_open & is_single)
        begins = ~(in_row | is_single)
        rows = np.where(begins, rows * extent, rows)
        if any_order or (begins & is_first).any():
            run = _run(window[: dim + 1], strides)
            counts = begins if any_order else begins & is_first
            longest = np.where(counts, np.maximum(longest, run), longest)
        is_first = is_first & ~begins
    return rows // longest, rows


def _run(window: Sequence[Extents], strides: Sequence[int]) -> Extents:
    """Elements at one distance along the last of some dimensions and those that continue it."""
    *outer, run = window
    reach, is_open = run * strides[len(outer)], run > 0
    for dim in reversed(range(len(outer))):
        goes_on = is_open & (reach == strides[dim])
        run, reach = (np.where(goes_on, size * outer[dim], size) for size in (run, reach))
        is_open = goes_on | (is_open & (outer[dim] == 1))
    return run


def steps_of(stage: ScheduledStage, operand: int, target: Target) -> list[int]:
    """How far apart the elements are that loads of an operand bring, dimensions before the lanes.

    A load leaves out what lies between.
    """
    read, extents = stage.reads[operand], stage.compute.extents
    rows = read.rows[:-LANES]
    moving = [[by for variable, by in row.terms if extents[variable] > 1] for row in rows]
    steps = [max(gcd(*factors), 1) for factors in moving]
    if stage.role is not StageRole.PRODUCT or operand != stage.activations:
        return steps
    return loaded_steps(target, shaped(read.value).get_shape()[:-LANES], steps)


def window(
    stage: ScheduledStage,
    operand: int,
    region: Sequence[Extents],
    taps: Sequence[Extents],
    steps: Sequence[int] = (),
) -> list[Extents]:
    """Extents that a stage reads of an operand, dimensions before the lanes.

    region: extents of the stage's spatial axes. taps: those of its reduction axes. Both without
    lanes, which are whole elements on both sides. steps: only these elements of a dimension count.
    """
    read = stage.reads[operand]
    spatial = len(region)
    shape = shaped(read.value).get_shape()[:-LANES]
    windows = []
    for row, size, step in zip(read.rows[:-LANES], shape, steps or [1] * len(shape), strict=True):
        total = np.ones_like(region[0])
        for variable, coefficient in row.terms:
            if variable < spatial:
                total = total + abs(coefficient) * (region[variable] - 1) // step
            elif (tap := variable - spatial - LANES) >= 0:
                total = total + abs(coefficient) * (taps[tap] - 1) // step
        windows.append(np.minimum(total, -(-size // step)))
    return windows


def regions_of(structure: Structure, tile: Sequence[Extents]) -> Regions:
    """What each stage computes in one tile of the root.

    Where several reads want different parts of a stage, that is the hull of these parts.
    """
    regions: dict[int, list[Extents]] = {root.number: list(tile) for root in structure.roots}
    starts = {root.number: [np.zeros_like(size) for size in tile] for root in structure.roots}

    def need(value: Any, first: Sequence[Extents], extents: Sequence[Extents]) -> None:
        maker = structure.stage_of(value)
        if maker is None:
            return
        number = maker.number
        if number not in regions:
            starts[number], regions[number] = list(first), list(extents)
            return
        known = list(zip(starts[number], regions[number], strict=True))
        starts[number] = [np.minimum(a, b) for (a, _), b in zip(known, first, strict=True)]
        regions[number] = [
            np.minimum(np.maximum(a + n, b + m) - start, size)
            for (a, n), b, m, start, size in zip(
                known, first, extents, starts[number], maker.extents, strict=True
            )
        ]

    for stage in reversed(structure.stages):
        region, first = regions[stage.number], starts[stage.number]
        need(stage.init, first, region)
        if stage.role is StageRole.PRODUCT:
            continue
        taps = [np.full_like(region[0], extent) for extent in stage.taps]
        for number, read in enumerate(stage.reads):
            if structure.stage_of(read.value) is not None:
                extents = window(stage, number, region, taps)
                need(read.value, _starts(stage, number, first, region, taps), extents)
    return regions


def _starts(
    stage: ScheduledStage,
    operand: int,
    first: Sequence[Extents],
    region: Sequence[Extents],
    taps: Sequence[Extents],
) -> list[Extents]:
    """Where the window of an operand starts, seen from the start of the tile of the root."""
    spatial, found = len(region), list[Extents]()
    for row in stage.reads[operand].rows[:-LANES]:
        start = np.full_like(region[0], row.constant)
        for variable, by in row.terms:
            tap = variable - spatial - LANES
            if variable < spatial:
                start = start + by * first[variable]
            extent = region[variable] if variable < spatial else taps[tap] if tap >= 0 else 1
            start = start + min(by, 0) * (extent - 1)
        found.append(start)
    return found


def axes_of_operand(stage: ScheduledStage, operand: int, own: Sequence[set[int]]) -> set[int]:
    """The axes of the root that move an operand's window; along one element nothing moves."""
    read = stage.reads[operand]
    axes: set[int] = set()
    for row, size in zip(read.rows[:-LANES], shaped(read.value).get_shape(), strict=False):
        axes |= axes_of_row(row, own) if size > 1 else set()
    return axes


Range = tuple[int, int]
"""Start and length."""


def ranges_of(sizes: Sequence[int]) -> list[Range]:
    """The ranges of tiles that follow each other."""
    starts = accumulate(sizes, initial=0)
    return [(start, size) for start, size in zip(starts, sizes, strict=False)]


def range_of_row(row: Row, ranges: Sequence[Range], size: int, step: int = 1) -> Range:
    """What a subscript covers of [0, size) while each variable runs over its range.

    step: only every ``step``-th element counts; starts and lengths are numbers of these.
    """
    low = high = row.constant
    for variable, by in row.terms:
        start, length = ranges[variable]
        ends = by * start, by * (start + length - 1)
        low, high = low + min(ends), high + max(ends)
    low, high = max(low, 0), min(high, size - 1)
    first = row.constant % step
    low, high = -(-(low - first) // step), (high - first) // step
    return low, max(high - low + 1, 0)


class TileRegions:
    """What each stage computes for one tile of the root: ranges of its axes before the lanes."""

    def __init__(self, structure: Structure):
        self._structure = structure
        self._known: dict[tuple[Range, ...], dict[int, list[Range]]] = {}
        self._ranges: dict[object, Range] = {}
        self._needs = [(stage, list(self._needs_of(stage))) for stage in structure.stages]

    @property
    def followers(self) -> frozenset[int]:
        """The stages, by number, that compute exactly a tile's own elements, root included."""
        found = {root.number for root in self._structure.roots}
        others = set[int]()
        for stage, needs in reversed(self._needs):
            for maker, rows in needs:
                is_own = rows is None and stage.number in found - others
                (found if is_own else others).add(maker)
        return frozenset(found - others)

    def at(self, tile: Sequence[Range]) -> dict[int, list[Range]]:
        """By number of the stage."""
        key = tuple(tile)
        if key not in self._known:
            self._known[key] = self._find(key)
        return self._known[key]

    def _needs_of(
        self, stage: ScheduledStage
    ) -> Iterator[tuple[int, Sequence[tuple[Row, int]] | None]]:
        """The stages that a stage reads, and subscripts and sizes, or None for its own elements."""
        same = stage.own_rows
        reads = [] if stage.role is StageRole.PRODUCT else [(r.value, r.rows) for r in stage.reads]
        if stage.init is not None:
            reads.append((stage.init, same))
        for value, rows in reads:
            maker = self._structure.stage_of(value)
            if maker is not None:
                sizes = shaped(value).get_shape()[:-LANES]
                pairs = list(zip(rows[:-LANES], sizes, strict=True))
                yield maker.number, None if tuple(rows) == same else pairs

    def _range(self, row: Row, variables: Sequence[Range], size: int) -> Range:
        key = (row.terms, row.constant, size, *(variables[v] for v, _ in row.terms))
        if key not in self._ranges:
            self._ranges[key] = range_of_row(row, variables, size)
        return self._ranges[key]

    def _find(self, tile: tuple[Range, ...]) -> dict[int, list[Range]]:
        regions = {root.number: list(tile) for root in self._structure.roots}
        for stage, needs in reversed(self._needs):
            region = regions[stage.number]
            variables: list[Range] = []
            for maker, rows in needs:
                ranges = region
                if rows is not None:
                    taps = [(0, extent) for extent in stage.taps]
                    variables = variables or variables_of(stage, region, taps)
                    ranges = [self._range(row, variables, size) for row, size in rows]
                known = regions.get(maker)
                regions[maker] = ranges if known is None else list(map(_hull, known, ranges))
        return regions


def _hull(one: Range, other: Range) -> Range:
    low = min(one[0], other[0])
    return low, max(sum(one), sum(other)) - low


def variables_of(
    stage: ScheduledStage, region: Sequence[Range], taps: Sequence[Range]
) -> list[Range]:
    """The ranges of all variables of a stage, lanes left at 0."""
    return [*region, *[(0, 1)] * LANES, *taps, (0, 1)]
