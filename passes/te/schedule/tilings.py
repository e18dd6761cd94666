"""Many tilings of one kernel, and what holds for them however its products are loaded."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from vtac.passes.te.schedule.border import border_ranges, inside_share
from vtac.passes.te.schedule.footprint import Extents, Regions, regions_of, volume
from vtac.passes.te.schedule.structure import ScheduledStage, StageRole, Structure


class Tilings:
    """Tiles of the root: one array per axis, with one entry per tiling.

    trips: turns of the tile loop of each axis. tiles: number of tiles. regions: what each stage
    computes in one. axes: the axes of the root that move each axis of each stage.
    """

    def __init__(self, structure: Structure, tile: Sequence[Extents]):
        self.structure, self.tile = structure, tile
        self.one = np.ones_like(tile[0])
        self.none = np.zeros_like(tile[0])
        extents = structure.root.extents
        self.trips = [-(-extent // size) for extent, size in zip(extents, tile, strict=True)]
        self.tiles = volume(self.trips, self.one)
        # A single tile has no loop to compute anything in: stages are computed wholly.
        self.regions: Regions = {
            number: [
                np.where(self.tiles > 1, extent, size)
                for extent, size in zip(region, structure.stages[number].extents, strict=True)
            ]
            for number, region in regions_of(structure, tile).items()
        }
        self.axes = structure.root_axes
        self._totals = {stage.number: self._total(stage) for stage in structure.stages}

    def total(self, stage: ScheduledStage) -> Extents:
        """Elements of a stage computed over all tiles, those computed twice counted twice."""
        return self._totals[stage.number]

    def _total(self, stage: ScheduledStage) -> Extents:
        total, seen = self.one, set[int]()
        for own, region, extent in zip(
            self.axes[stage.number], self.regions[stage.number], stage.extents, strict=True
        ):
            turns = volume([self.trips[axis] for axis in own], self.one)
            grows = len(own) != 1 or np.any(region != self.tile[next(iter(own))])
            total = total * (region * turns if grows else extent)
            seen |= own
        rest = [turns for axis, turns in enumerate(self.trips) if axis not in seen]
        return total * volume(rest, self.one)

    def border(self, stage: ScheduledStage) -> tuple[float, Extents]:
        """Share of a product's points inside, and its instructions if its reduction is one tile."""
        return self._borders[stage.number]

    @cached_property
    def _borders(self) -> Mapping[int, tuple[float, Extents]]:
        return {
            stage.number: (inside_share(stage), self._instructions(stage))
            for stage in self.structure.products
        }

    def _instructions(self, stage: ScheduledStage) -> Extents:
        """Several tiles of a dimension share the instructions that are due to its border."""
        total = self.tiles.astype(np.float64)
        for row, ranges in border_ranges(stage):
            moving = {
                axis
                for variable, _ in row.terms
                if variable < len(stage.extents)
                for axis in self.axes[stage.number][variable]
            }
            turns = volume([self.trips[axis] for axis in moving], self.one)
            total = total * (1 + (ranges - 1) / turns)
        found: Extents = np.ceil(total).astype(np.int64)
        return found

    @cached_property
    def accumulators(self) -> Extents:
        """Elements of ACC for the values of one tile, buffers shared where stages work in place."""
        buffers: dict[int, Extents] = {}
        for stage in self.structure.stages:
            if stage.role is not StageRole.STORE:
                size = volume(self.regions[stage.number], self.one)
                buffers[stage.buffer] = np.maximum(buffers.get(stage.buffer, size), size)
        return sum(buffers.values(), self.none)

    @cached_property
    def alu_micro_ops(self) -> list[Extents]:
        """Micro-ops of one instruction of each stage, started or computed by the ALU."""
        found = []
        for stage in self.structure.stages:
            if stage.role is not StageRole.STORE:
                taps = stage.taps if stage.role is StageRole.REDUCTION else ()
                extents = [self.one * size for size in taps]
                found.append(micro_ops([*self.regions[stage.number], *extents]))
        return found


def micro_ops(extents: Sequence[Extents]) -> Extents:
    """Micro-ops of an instruction whose loops take the two largest extents."""
    largest, second, total = extents[0], np.ones_like(extents[0]), extents[0]
    for extent in extents[1:]:
        second = np.maximum(second, np.minimum(largest, extent))
        largest = np.maximum(largest, extent)
        total = total * extent
    return total // (largest * second)
