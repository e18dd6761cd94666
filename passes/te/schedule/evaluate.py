"""A first estimate of many tilings at once, by a formula: one order of loops. It only prunes."""

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

import numpy as np

from vtac.dialects.target import Memory, Target
from vtac.dialects.te import LANES, Point, Value, shaped
from vtac.passes.te.schedule.columns import Column, PointColumns
from vtac.passes.te.schedule.cost import KernelWork, Rates, cycles
from vtac.passes.te.schedule.fits import MEMORIES
from vtac.passes.te.schedule.footprint import (
    Extents,
    Flags,
    axes_of_operand,
    steps_of,
    transfers,
    volume,
    window,
)
from vtac.passes.te.schedule.space import Space
from vtac.passes.te.schedule.structure import ScheduledStage, StageRole
from vtac.passes.te.schedule.tilings import micro_ops

MICRO_OP_SHARE = 4
"""One instruction may use this part of the micro-op buffer: two slots a buffer need variants."""

VARIANTS = 8
"""Address variants of an instruction at most: two slots for each of three operands."""

PIECES = 6
"""Number of pieces in which the formula takes the end of a tile to be computed and stored."""

ALIKE = 2
"""How many points with the same tile, but other reductions, are simulated at most."""

LIKE = 40
"""Points that are searched for different tiles, for each point that is wanted."""

NEVER = np.iinfo(np.int64).max
"""The cost of a point that is not to be chosen."""

Index: TypeAlias = tuple[Any, ...]
"""The place of a point in an array of all, one number per dimension."""

_ONE = np.ones((1, 1), np.int64)
"""What broadcasts to any number of points."""


@dataclass(frozen=True)
class OperandLoad:
    """An operand that is loaded.

    window: elements of one load. times: how often. instructions: of one load. reordered: whether
    these would be more if the scratchpad kept the order of dimensions.
    """

    memory: Memory
    window: Extents
    times: Extents
    instructions: Extents
    reordered: Flags


class FormulaCosts:
    """Everything about one order of the tile loops (axes of the root, outermost first).

    Extents and counts are arrays that broadcast to one with an entry per point.
    """

    def __init__(self, space: Space, columns: PointColumns, target: Target, order: Sequence[int]):
        self.space, self.columns, self.target, self.order = space, columns, target, order
        self.tilings, self.reductions = columns.tilings, columns.reductions
        self.structure = space.structure
        self.one, self.none = self.tilings.one, self.tilings.none

    @cached_property
    def loads(self) -> list[OperandLoad]:
        """Every operand that comes from main memory."""
        found: list[OperandLoad] = []
        for stage in self.structure.stages:
            if stage.role is StageRole.PRODUCT:
                found.append(self._load(stage, stage.activations, Memory.INP))
                found.append(self._load(stage, stage.weights, Memory.WGT))
            else:
                found += [
                    self._load(stage, number, Memory.ACC)
                    for number in self.structure.vectors(stage)
                ]
        return found

    def _load(self, stage: ScheduledStage, operand: int, memory: Memory) -> OperandLoad:
        taps, turns = [_ONE * extent for extent in stage.taps], _ONE
        if stage.role is StageRole.PRODUCT:
            whole = self.reductions.whole[memory is Memory.WGT]
            windows = self.reductions.windows or memory is Memory.WGT
            used = stage.taps_of(operand, windows)
            turns = np.where(whole, _ONE, self._turns(stage, used))
            tiles = self.reductions.taps[stage.number]
            taps = [
                np.where(whole, extent, tile) if tap in used else extent
                for tap, (extent, tile) in enumerate(zip(taps, tiles, strict=True))
            ]
        steps = steps_of(stage, operand, self.target)
        known = self.reductions.extents
        if (stage.number, operand) not in known:
            region = self.tilings.regions[stage.number]
            known[stage.number, operand] = window(stage, operand, region, taps, steps)
        extents = known[stage.number, operand]
        shape = shaped(stage.compute.inputs[operand]).get_shape()[:-LANES]
        sizes = [-(-size // step) for size, step in zip(shape, steps, strict=True)]
        times = self._repetitions(stage, operand, turns)
        # Where no loop moves the window, the operand is loaded before all loops, and wholly.
        extents = [
            np.where(times > 1, extent, size) for extent, size in zip(extents, sizes, strict=True)
        ]
        instructions = in_order = self.one
        if memory is not Memory.WGT:  # constants are packed in the order in which they are loaded
            instructions, _ = transfers(extents, shape, self.one, steps)
            in_order = instructions
        if memory is Memory.INP:
            instructions, _ = transfers(extents, shape, self.one, steps, any_order=True)
        reordered = instructions < in_order
        return OperandLoad(memory, volume(extents, self.one), times, instructions, reordered)

    def _last_store(self, rates: Rates) -> Extents:
        """Elements stored when all else is done; pieces of a tile cost instructions instead."""
        tile = volume(self.tilings.tile, self.one)
        if not self.structure.epilogue:
            return tile
        cost = PIECES * len(self.structure.epilogue) * rates.instruction // rates.store
        return np.minimum(tile, tile // PIECES + cost)

    def _turns(
        self, stage: ScheduledStage, used: Collection[int], without: Collection[int] = ()
    ) -> Extents:
        """Turns of a product's loops over reduction tiles, down to the last that moves ``used``."""
        key = stage.number, frozenset(used), frozenset(without)
        if key not in self.reductions.turns:
            self.reductions.turns[key] = self._find_turns(stage, used, without)
        return self.reductions.turns[key]

    def _find_turns(
        self, stage: ScheduledStage, used: Container[int], without: Container[int]
    ) -> Extents:
        inside: Flags = _ONE < 0
        total = _ONE
        for tap in reversed([tap for tap in range(len(stage.taps)) if tap not in without]):
            turns = -(-stage.taps[tap] // self.reductions.taps[stage.number][tap])
            inside = inside | (turns > 1) if tap in used else inside
            total = total * np.where(inside, turns, _ONE)
        return total

    def _repetitions(self, stage: ScheduledStage, operand: int, reduction: Extents) -> Extents:
        """How often an operand is loaded: once a turn of the innermost loop that moves it."""
        axes = axes_of_operand(stage, operand, self.tilings.axes[stage.number])
        inside: Flags = reduction > 1
        turns: list[Extents] = [reduction]
        for axis in reversed(self.order):
            inside = inside | (self.tilings.trips[axis] > 1) if axis in axes else inside
            turns.append(np.where(inside, self.tilings.trips[axis], self.one))
        return volume(turns, self.one)

    def need(self, memory: Memory, slots: int) -> Extents:
        """Elements of a memory with up to that many slots a buffer."""
        loads = [load for load in self.loads if load.memory is memory]
        total = sum((np.minimum(load.times, slots) * load.window for load in loads), self.none)
        if memory is Memory.ACC:
            contexts: Extents = np.minimum(self.tilings.tiles, slots)
            return total + contexts * self.tilings.accumulators
        return total

    def _slots(self, memory: Memory) -> Extents:
        """Slots of a memory's buffers: two, or one, or 0 where not even that fits."""
        depth = self.target.depth(memory)
        fits = [self.need(memory, slots) <= depth for slots in (2, 1)]
        return np.where(fits[0], 2, np.where(fits[1], 1, 0))

    @cached_property
    def _gemm_micro_ops(self) -> list[Extents]:
        """Micro-ops of one instruction of each product."""
        found = []
        for stage in self.structure.products:
            taps = self.reductions.taps[stage.number]
            found.append(micro_ops([*self.tilings.regions[stage.number], *taps]))
        return found

    def _all_turns(self, stage: ScheduledStage) -> Extents:
        return self._turns(stage, range(len(stage.taps)))

    def _work(self, slots: Mapping[Memory, Extents]) -> KernelWork:
        gemm, alu = self._gemm_micro_ops, self.tilings.alu_micro_ops
        compute, other, instructions, gemms = self.none, self.none, self.none, self.none
        rates = Rates.of(self.target)
        for stage in self.structure.stages:
            busy, count = self._stage_work(stage, rates)
            busy = busy + count * rates.instruction
            compute, instructions = compute + busy, instructions + count
            if stage.role is StageRole.PRODUCT:
                gemms = gemms + self._all_turns(stage) * self.tilings.tiles
            else:
                other = other + busy
        loaded, loads, first = self.none, self.none, self.none
        for load in self.loads:
            readers = self.structure.readers_by(load.memory)
            size = load.window * (self.target.element_bytes(load.memory) * readers)
            loaded, first = loaded + size * load.times, first + size
            loads = loads + load.instructions * load.times
            instructions = instructions + load.instructions * load.times
        root = self.structure.root
        stores = len(self.structure.roots)
        per_gemm = sum(gemm, self.none)
        store_instructions, store_rows = transfers(self.tilings.tile, root.extents, self.one)
        return KernelWork(
            compute=compute,
            loaded=loaded,
            loads=loads,
            first_load=first,
            stored=self.tilings.total(root) * stores,
            store_rows=store_rows * self.tilings.tiles * stores,
            last_store=self._last_store(rates) * stores,
            chunks=np.maximum(gemms, self.tilings.tiles),
            tiles=self.tilings.tiles,
            other=other,
            instructions=instructions + store_instructions * self.tilings.tiles * stores,
            micro_ops=per_gemm * np.minimum(VARIANTS, gemms) + 2 * sum(alu, self.none),
            micro_ops_again=per_gemm * gemms + sum(alu, self.none) * self.tilings.tiles,
            load_overlaps=(slots[Memory.INP] > 1) & (slots[Memory.WGT] > 1),
            store_overlaps=slots[Memory.ACC] > 1,
        )

    def _stage_work(self, stage: ScheduledStage, rates: Rates) -> tuple[Extents, Extents]:
        """Cycles and instructions over all tiles."""
        immediate, register = rates.alu
        total, tiles, taps = self.tilings.total(stage), self.tilings.tiles, prod(stage.taps)
        if stage.role is StageRole.STORE:
            return self.none, self.none
        if stage.role is StageRole.PRODUCT:
            starts = stage.in_place is None
            share, gemms = self.tilings.border(stage)
            points: Extents = (total * taps * share).astype(np.int64) + total * starts
            # Taps that are cut share out the instructions that are due to the border.
            windows, turns = stage.windows, self._all_turns(stage)
            plain = self._turns(stage, set(range(len(stage.taps))) - windows, windows)
            gemms = np.maximum(gemms * plain, tiles * turns) + tiles * starts
            return points * rates.gemm, gemms
        if stage.role is StageRole.REDUCTION:
            begun = stage.in_place is not None
            start, before = (0, 0) if begun else (rates.gemm + immediate, 2)
            return total * (start + register * taps), (1 + before) * tiles
        if stage.copies:
            cycles, instructions = rates.copy
            return total * cycles, instructions * tiles
        rate = immediate if stage.has_immediate else register
        if stage.in_place is None:
            return total * (rates.gemm + register + rate), 3 * tiles
        region = self.tilings.regions[stage.number]
        return total * rate, tiles * volume([region[axis] for axis in stage.table_axes], self.one)

    def best(self, count: int) -> list[tuple[int, Point]]:
        """The cheapest points that may fit, the best first, each with its cost.

        At most so many of those whose inputs lie in their own order, and of the others, which are
        often like one of them with rows and columns exchanged.
        """
        slots = {memory: self._slots(memory) for memory in MEMORIES}
        fits: Flags = np.ones(self.columns.shape, np.bool_)
        for found in slots.values():
            fits &= found > 0
        limit = max(self.target.uop_entries // MICRO_OP_SHARE, 1)
        for needed in (*self._gemm_micro_ops, *self.tilings.alu_micro_ops):
            fits &= needed <= limit
        for load in self.loads:
            # One load of the whole buffer can lose its data (Chisel).
            fits &= load.window < self.target.depth(load.memory)
        if not fits.any():
            return []
        cost = np.where(fits, cycles(self._work(slots), Rates.of(self.target), self.target), NEVER)
        reordered: Flags = np.zeros(self.columns.shape, np.bool_)
        for load in self.loads:
            reordered |= load.reordered
        cheapest = [
            point
            for kind in (~reordered, reordered)
            if kind.any()
            for point in self._cheapest(np.where(kind, cost, NEVER), count, slots)
        ]
        return sorted(cheapest, key=lambda point: point[0])

    def _cheapest(
        self, cost: Extents, count: int, slots: Mapping[Memory, Extents]
    ) -> list[tuple[int, Point]]:
        """The cheapest points, at most so many, few of them with the same tile."""
        seen: dict[tuple[int, ...], int] = {}
        points: list[tuple[int, Point]] = []
        for number in _smallest(cost.ravel(), count * LIKE):
            if len(points) == count:
                break
            index = np.unravel_index(number, cost.shape)
            tile = tuple(int(_at(size, index)) for size in self.tilings.tile)
            seen[tile] = seen.get(tile, 0) + 1
            if cost[index] < NEVER and seen[tile] <= ALIKE:
                points.append((int(cost[index]), self._point(index, slots)))
        return points

    def _point(self, index: Index, slots: Mapping[Memory, Extents]) -> Point:
        """The values of the knobs at one index of the columns."""
        values: dict[str, Value] = {
            name: bool(_at(column, index)) if column.dtype == np.bool_ else int(_at(column, index))
            for name, column in self.columns.values.items()
        }
        names = self.space.axes
        values["order"] = tuple(names[axis] for axis in self.order)
        for memory, column in slots.items():
            values[f"slots.{memory.name.lower()}"] = int(_at(column, index))
        return self.space.with_values({}, values)


def _at(column: Column, index: Index) -> Any:
    """The entry of a column that broadcasts to the index's shape."""
    places = zip(index, column.shape, strict=True)
    return column[tuple(0 if size == 1 else place for place, size in places)]


def _smallest(costs: Extents, count: int) -> Extents:
    """Indices of the ``count`` smallest costs, in rising order; of equal costs the first."""
    if count >= len(costs):
        return np.argsort(costs, kind="stable")
    (among,) = np.nonzero(costs <= np.partition(costs, count - 1)[count - 1])
    return among[np.argsort(costs[among], kind="stable")][:count]
