"""What the buffers of a tiling need of the scratchpads: the one answer to whether it fits.

`emit` asks for a buffer for each operand that is loaded and for each accumulator; lowering makes
one buffer each time its loop turns, of which at most as many as there are slots lie side by side,
and gives all of them the size of the largest (`vta-allocate`). Here the same sizes follow from the
subscripts. They are all taken to be in use at the same time; where two products of a kernel follow
each other, `vta-allocate` may find room for more. Nothing else can be refused: `te-to-vta` cuts
instructions with more micro-ops than the micro-op buffer holds, and loads that are larger than one
transfer may be.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from vtac.dialects.target import Memory, Target
from vtac.dialects.te import LANES, Row, shaped
from vtac.passes.te.schedule.footprint import (
    Range,
    TileRegions,
    axes_of_operand,
    range_of_row,
    ranges_of,
    steps_of,
    variables_of,
)
from vtac.passes.te.schedule.structure import ScheduledStage, StageRole, Structure
from vtac.passes.te.schedule.tiling import Reduction, Tiling, even

MEMORIES = (Memory.INP, Memory.WGT, Memory.ACC)
"""The scratchpads of a kernel, in the order of ``Tiling.slots``."""


class _Dimension(NamedTuple):
    """A dimension of an operand.

    what: the stage, the operand and the dimension, by number. row: its subscript. size: its length.
    step: every so many of its elements are loaded.
    """

    what: tuple[int, int, int]
    row: Row
    size: int
    step: int


def _parts_of(stage: ScheduledStage, operand: int, target: Target) -> list[_Dimension]:
    """The dimensions of an operand before the lanes."""
    read = stage.reads[operand]
    shape, steps = shaped(read.value).get_shape()[:-LANES], steps_of(stage, operand, target)
    return [
        _Dimension((stage.number, operand, place), *part)
        for place, part in enumerate(zip(read.rows[:-LANES], shape, steps, strict=True))
    ]


class BufferNeeds:
    """The elements of each scratchpad that tilings of one kernel need.

    What tilings have in common is computed once.
    """

    def __init__(self, structure: Structure, target: Target, regions: TileRegions):
        self.structure, self.target, self.regions = structure, target, regions
        self.axes = structure.root_axes
        self._operands = [
            (stage, operand, memory)
            for stage in structure.stages
            for operand, memory in operands_of(structure, stage)
        ]
        self._moving = {
            (stage.number, operand): axes_of_operand(stage, operand, self.axes[stage.number])
            for stage, operand, _ in self._operands
        }
        self._parts = {
            (stage.number, operand): _parts_of(stage, operand, target)
            for stage, operand, _ in self._operands
        }
        self._lengths: dict[object, int] = {}
        self._loads: dict[object, tuple[int, int]] = {}

    def moving(self, stage: ScheduledStage, operand: int) -> set[int]:
        """The axes of the root that move what is loaded of an operand."""
        return self._moving[stage.number, operand]

    def fits(self, tiling: Tiling) -> bool:
        """Whether every buffer finds its place."""
        return all(need <= self.target.depth(memory) for memory, need in self.needs(tiling).items())

    def problem(self, tiling: Tiling) -> str | None:
        """What does not fit: needs and depths of the scratchpads that are too small."""
        parts = [
            f"{need} elements of {memory.name} ({memory.name} has {self.target.depth(memory)})"
            for memory, need in self.needs(tiling).items()
            if need > self.target.depth(memory)
        ]
        return f"it needs {', '.join(parts)}" if parts else None

    def needs(self, tiling: Tiling) -> Mapping[Memory, int]:
        """Elements of each scratchpad, slots included.

        Exact where no axis of the root moves a window along two of its dimensions; else the product
        of what the dimensions need at most, which may be more than any one tile has.
        """
        slots = dict(zip(MEMORIES, tiling.slots, strict=True))
        needs = dict.fromkeys(MEMORIES, 0)
        for stage, operand, memory in self._operands:
            size, turns = self._load(stage, operand, tiling)
            needs[memory] += min(turns, slots[memory]) * size
        turns = prod(len(sizes) for sizes in tiling.tiles)
        needs[Memory.ACC] += min(turns, slots[Memory.ACC]) * self._accumulators(tiling)
        return needs

    def turns(self, tiling: Tiling) -> Mapping[Memory, int]:
        """For each scratchpad, how often the buffer in it that is filled most often is filled."""
        turns = dict.fromkeys(MEMORIES, 1)
        turns[Memory.ACC] = prod(len(sizes) for sizes in tiling.tiles)
        for stage, operand, memory in self._operands:
            turns[memory] = max(turns[memory], self._load(stage, operand, tiling)[1])
        return turns

    def _load(self, stage: ScheduledStage, operand: int, tiling: Tiling) -> tuple[int, int]:
        """Elements of the largest load of an operand, and how often it is loaded."""
        reduction = tiling.products.get(stage.number)
        accumulation = None if reduction is None else reduction.key
        is_kept = (stage.number, operand) in tiling.kept
        key = stage.number, operand, tuple(tiling.cut), tuple(tiling.tiles), accumulation, is_kept
        found = self._loads.get(key)
        if found is None:
            found = self._loads[key] = self._find_load(stage, operand, tiling)
        return found

    def _find_load(self, stage: ScheduledStage, operand: int, tiling: Tiling) -> tuple[int, int]:
        moving = self._moving[stage.number, operand]
        around = [place for place, axis in enumerate(tiling.cut, 1) if axis in moving]
        if (stage.number, operand) in tiling.kept:
            around = []
        reduction = tiling.products.get(stage.number)
        cut = 0 if reduction is None else reduction.around(stage, operand)
        loops = tiling.cut if cut else tiling.cut[: max(around, default=0)]
        turns = prod(len(tiling.tiles[axis]) for axis in loops)
        if reduction is not None:
            turns *= prod(len(reduction.cuts[axis]) for axis in reduction.loops[:cut])
        parts = self._parts[stage.number, operand]
        if not around and not cut:  # loaded before all loops, and wholly
            return prod(-(-part.size // part.step) for part in parts), 1
        taps = [[(0, extent)] for extent in stage.taps]
        for axis in reduction.loops[:cut] if reduction is not None else ():
            assert reduction is not None
            taps[axis] = ranges_of(reduction.cuts[axis])
        return prod(self._length(stage, part, taps, tiling) for part in parts), turns

    def _length(
        self,
        stage: ScheduledStage,
        part: "_Dimension",
        taps: Sequence[Sequence[Range]],
        tiling: Tiling,
    ) -> int:
        """The longest that a dimension of a load gets."""
        own, row = self.axes[stage.number], part.row
        axes = sorted({axis for v, _ in row.terms if v < len(own) for axis in own[v]})
        first = len(own) + LANES
        used = [v - first for v, _ in row.terms if 0 <= v - first < len(taps)]
        tiles = tuple(tuple(tiling.tiles[axis]) for axis in axes)
        key = (part.what, tiles, tuple(tuple(taps[tap]) for tap in used))
        found = self._lengths.get(key)
        if found is None:
            found = 0
            at: list[Range] = [parts[0] for parts in taps]
            for region in self._regions(stage, axes, tiling):
                for chosen in product(*(taps[tap] for tap in used)):
                    for tap, taken in zip(used, chosen, strict=True):
                        at[tap] = taken
                    ranges = variables_of(stage, region, at)
                    found = max(found, range_of_row(row, ranges, part.size, part.step)[1])
            self._lengths[key] = found
        return found

    def _regions(
        self, stage: ScheduledStage, axes: Sequence[int], tiling: Tiling
    ) -> Iterator[Sequence[Range]]:
        """What a stage computes in the tiles along some axes of the root."""
        tiles = [ranges_of(sizes) for sizes in tiling.tiles]
        tile = [ranges[0] for ranges in tiles]
        for chosen in product(*(tiles[axis] for axis in axes)):
            for axis, part in zip(axes, chosen, strict=True):
                tile[axis] = part
            yield self.regions.at(tile)[stage.number]

    def _accumulators(self, tiling: Tiling) -> int:
        """Elements for the values of one tile, buffers shared where stages work in place."""
        buffers: dict[int, int] = {}
        for stage in self.structure.stages:
            if stage.role is not StageRole.STORE:
                size = self._values(stage, tiling)
                buffers[stage.buffer] = max(buffers.get(stage.buffer, 0), size)
        return sum(buffers.values())

    def _values(self, stage: ScheduledStage, tiling: Tiling) -> int:
        """Elements that a stage computes in its largest tile: all, where there is a single one."""
        if not tiling.cut:
            return prod(stage.extents)
        total = 1
        for axis, own in enumerate(self.axes[stage.number]):
            axes = sorted(own)
            key = (stage.number, axis, tuple(tuple(tiling.tiles[at]) for at in axes))
            found = self._lengths.get(key)
            if found is None:
                regions = self._regions(stage, axes, tiling)
                found = self._lengths[key] = max(region[axis][1] for region in regions)
            total *= found
        return total


def operands_of(structure: Structure, stage: ScheduledStage) -> list[tuple[int, Memory]]:
    """The operands of a stage that come from main memory, by number, and where they go."""
    if stage.role is StageRole.PRODUCT:
        return [(stage.activations, Memory.INP), (stage.weights, Memory.WGT)]
    return [(number, Memory.ACC) for number in structure.vectors(stage)]


def smallest(structure: Structure) -> Tiling:
    """The tiling with tiles of one element and one buffer of each kind."""
    return Tiling(
        tiles=[even(extent, 1) for extent in structure.root.extents],
        order=range(len(structure.root.extents)),
        products={
            stage.number: Reduction([even(extent, 1) for extent in stage.taps], (False, False))
            for stage in structure.products
        },
        slots=(1, 1, 1),
    )
