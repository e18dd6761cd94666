"""Whether tilings fit the machine, and what they cost: one variant, many tilings at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from vtac.dialects.target import Memory, Target
from vtac.dialects.te import shaped
from vtac.passes.te.schedule.cost import Rates, Work, cycles
from vtac.passes.te.schedule.footprint import (
    Extents,
    Flags,
    axes_of_row,
    transfers,
    volume,
    window,
)
from vtac.passes.te.schedule.plan import Plan, ProductPlan
from vtac.passes.te.schedule.structure import LANES, Kind, Stage
from vtac.passes.te.schedule.tilings import Tilings, micro_ops

MICRO_OP_SHARE = 4
"""One instruction may use this part of the micro-op buffer: two slots a buffer need variants."""

VARIANTS = 8
"""Address variants of an instruction at most: two slots for each of three operands."""

MEMORIES = (Memory.INP, Memory.WGT, Memory.ACC)
"""The scratchpads of a kernel, in the order of ``Plan.slots``."""


@dataclass(frozen=True)
class Variant:
    """What is the same for a whole array of tilings.

    order: axes of the root, outermost tile loop first.
    taps: for each product, by number, the tiles of its reduction axes.
    whole: whether activations and weights are loaded for the whole reduction at once.
    """

    order: Sequence[int]
    taps: Mapping[int, Sequence[int]]
    whole: tuple[bool, bool]


@dataclass(frozen=True)
class Load:
    """An operand that is loaded.

    window: elements of one load. times: how often. instructions, rows: of one load.
    """

    memory: Memory
    window: Extents
    times: Extents
    instructions: Extents
    rows: Extents


class Evaluation:
    """Everything about one variant. Extents and counts are arrays with an entry a tiling."""

    def __init__(self, tilings: Tilings, target: Target, variant: Variant):
        self.tilings, self.target, self.variant = tilings, target, variant
        self.structure = tilings.structure
        self.one, self.none = tilings.one, tilings.none

    @cached_property
    def loads(self) -> list[Load]:
        """Every operand that comes from main memory."""
        found: list[Load] = []
        for stage in self.structure.stages:
            if stage.kind is Kind.PRODUCT:
                found.append(self._load(stage, stage.activations, Memory.INP))
                found.append(self._load(stage, stage.weights, Memory.WGT))
            else:
                found += [
                    self._load(stage, number, Memory.ACC)
                    for number in self.structure.vectors(stage)
                ]
        return found

    def _load(self, stage: Stage, operand: int, memory: Memory) -> Load:
        whole = memory is Memory.ACC or self.variant.whole[memory is Memory.WGT]
        tiles = stage.taps if whole else self.variant.taps[stage.number]
        taps = [self.one * extent for extent in tiles]
        extents = window(stage, operand, self.tilings.regions[stage.number], taps)
        shape = shaped(stage.compute.inputs[operand]).get_shape()[:-LANES]
        reduction = 1
        if not whole:
            used = {v for row in stage.reads[operand].rows for v, _ in row.terms}
            reduction = _times(stage, tiles, used)
        times = self._repetitions(stage, operand, reduction)
        # Where no loop moves the window, the operand is loaded before all loops, and wholly.
        extents = [
            np.where(times > 1, extent, size) for extent, size in zip(extents, shape, strict=True)
        ]
        instructions, rows = transfers(extents, shape, self.one)
        return Load(memory, volume(extents, self.one), times, instructions, rows)

    def _repetitions(self, stage: Stage, operand: int, reduction: int) -> Extents:
        """How often an operand is loaded: once a turn of the innermost loop that moves it."""
        axes: set[int] = set()
        for row in stage.reads[operand].rows[:-LANES]:
            axes |= axes_of_row(row, self.tilings.axes[stage.number])
        inside: Flags = self.one * reduction > 1
        turns: list[Extents] = [self.one * reduction]
        for axis in reversed(self.variant.order):
            inside = inside | (self.tilings.trips[axis] > 1) if axis in axes else inside
            turns.append(np.where(inside, self.tilings.trips[axis], self.one))
        return volume(turns, self.one)

    def _need(self, memory: Memory, slots: int) -> Extents:
        """Elements of a memory with up to that many slots a buffer."""
        loads = [load for load in self.loads if load.memory is memory]
        total = sum((np.minimum(load.times, slots) * load.window for load in loads), self.none)
        if memory is Memory.ACC:
            contexts: Extents = np.minimum(self.tilings.tiles, slots)
            return total + contexts * self.tilings.accumulators
        return total

    def needs(self) -> dict[Memory, int]:
        """What the first tiling needs of each memory, one slot a buffer."""
        return {memory: int(self._need(memory, 1)[0]) for memory in MEMORIES}

    def _slots(self, memory: Memory) -> Extents:
        """Slots of a memory's buffers: two, or one, or 0 where not even that fits."""
        depth = self.target.depth(memory)
        fits = [self._need(memory, slots) <= depth for slots in (2, 1)]
        return np.where(fits[0], 2, np.where(fits[1], 1, 0))

    @cached_property
    def _gemm_micro_ops(self) -> list[Extents]:
        """Micro-ops of one instruction of each product."""
        found = []
        for stage in self.structure.products:
            taps = [self.one * size for size in self.variant.taps[stage.number]]
            found.append(micro_ops([*self.tilings.regions[stage.number], *taps]))
        return found

    def _work(self, slots: Mapping[Memory, Extents]) -> Work:
        gemm, alu = self._gemm_micro_ops, self.tilings.alu_micro_ops
        compute, instructions, gemms = self.none, self.none, self.none
        rates = Rates.of(self.target)
        for stage in self.structure.stages:
            busy, count = self._stage_work(stage, rates)
            compute = compute + busy + count * rates.instruction
            instructions = instructions + count
            if stage.kind is Kind.PRODUCT:
                turns = _times(stage, self.variant.taps[stage.number])
                gemms = gemms + turns * self.tilings.tiles
        loaded, load_rows, first = self.none, self.none, self.none
        for load in self.loads:
            size = load.window * self.target.element_bytes(load.memory)
            loaded, first = loaded + size * load.times, first + size
            load_rows = load_rows + load.rows * load.times
            instructions = instructions + load.instructions * load.times
        root = self.structure.root
        stores = len(self.structure.roots)
        per_gemm = sum(gemm, self.none)
        store_instructions, store_rows = transfers(self.tilings.tile, root.extents, self.one)
        return Work(
            compute=compute,
            loaded=loaded,
            load_rows=load_rows,
            first_load=first,
            stored=self.tilings.total(root) * stores,
            store_rows=store_rows * self.tilings.tiles * stores,
            last_store=volume(self.tilings.tile, self.one) * stores,
            instructions=instructions + store_instructions * self.tilings.tiles * stores,
            micro_ops=per_gemm * np.minimum(VARIANTS, gemms) + 2 * sum(alu, self.none),
            micro_ops_again=per_gemm * gemms + sum(alu, self.none) * self.tilings.tiles,
            load_overlaps=(slots[Memory.INP] > 1) & (slots[Memory.WGT] > 1),
            store_overlaps=slots[Memory.ACC] > 1,
        )

    def _stage_work(self, stage: Stage, rates: Rates) -> tuple[Extents, Extents]:
        """Cycles and instructions over all tiles."""
        immediate, register = rates.alu
        total, tiles, taps = self.tilings.total(stage), self.tilings.tiles, prod(stage.taps)
        if stage.kind is Kind.STORE:
            return self.none, self.none
        if stage.kind is Kind.PRODUCT:
            starts = stage.in_place is None
            share, gemms = self.tilings.border(stage)
            turns = _times(stage, self.variant.taps[stage.number])
            busy: Extents = (total * taps * share).astype(np.int64) + total * starts
            return busy, gemms * turns + tiles * starts
        if stage.kind is Kind.REDUCTION:
            return total * (1 + immediate + register * taps), 3 * tiles
        rate = immediate if stage.intrinsic.endswith("_imm") else register
        if stage.in_place is None:
            return total * (1 + register + rate), 3 * tiles
        return total * rate, tiles

    def best(self) -> Plan | None:
        """The cheapest tiling that fits, if any."""
        slots = {memory: self._slots(memory) for memory in MEMORIES}
        fits: Flags = np.logical_and.reduce([found > 0 for found in slots.values()])
        limit = max(self.target.uop_entries // MICRO_OP_SHARE, 1)
        for count in (*self._gemm_micro_ops, *self.tilings.alu_micro_ops):
            fits &= count <= limit
        for load in self.loads:
            # One load of the whole buffer can lose its data (Chisel).
            fits &= load.window < self.target.depth(load.memory)
        if not fits.any():
            return None
        cost = np.where(
            fits, cycles(self._work(slots), Rates.of(self.target), self.target), np.iinfo(int).max
        )
        index = int(np.argmin(cost))
        inp, wgt, acc = slots.values()
        return Plan(
            tile=[int(size[index]) for size in self.tilings.tile],
            order=list(self.variant.order),
            products={
                number: ProductPlan(tuple(taps), self.variant.whole)
                for number, taps in self.variant.taps.items()
            },
            slots=(int(inp[index]), int(wgt[index]), int(acc[index])),
            cycles=int(cost[index]),
        )


def _times(stage: Stage, tiles: Sequence[int], used: set[int] | None = None) -> int:
    """Turns of the loops over reduction tiles, from the outermost to the last that is used."""
    turns = [-(-extent // size) for extent, size in zip(stage.taps, tiles, strict=True)]
    spatial = len(stage.compute.spatial)
    last = max(
        (n for n, count in enumerate(turns) if count > 1 and (used is None or spatial + n in used)),
        default=-1,
    )
    total = 1
    for count in turns[: last + 1]:
        total *= count
    return total
