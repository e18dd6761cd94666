"""Whether tilings fit the machine, and what they cost: one order of loops, all tilings at once."""

from collections.abc import Container, Mapping, Sequence
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
    steps_of,
    transfers,
    volume,
    window,
)
from vtac.passes.te.schedule.plan import Plan, ProductPlan, even
from vtac.passes.te.schedule.structure import LANES, Kind, Stage
from vtac.passes.te.schedule.tilings import Tilings, micro_ops

MICRO_OP_SHARE = 4
"""One instruction may use this part of the micro-op buffer: two slots a buffer need variants."""

VARIANTS = 8
"""Address variants of an instruction at most: two slots for each of three operands."""

MEMORIES = (Memory.INP, Memory.WGT, Memory.ACC)
"""The scratchpads of a kernel, in the order of ``Plan.slots``."""


@dataclass(frozen=True)
class Reductions:
    """How the products of each tiling accumulate.

    taps: for each product, by number, the tiles of its reduction axes.
    whole: whether activations and weights are loaded for the whole reduction at once.
    """

    taps: Mapping[int, Sequence[Extents]]
    whole: tuple[Flags, Flags]


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
    """Everything about one order of the tile loops (axes of the root, outermost first).

    Extents and counts are arrays with an entry a tiling.
    """

    def __init__(
        self, tilings: Tilings, target: Target, order: Sequence[int], reductions: Reductions
    ):
        self.tilings, self.target, self.order, self.reductions = tilings, target, order, reductions
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
        taps, turns = [self.one * extent for extent in stage.taps], self.one
        if stage.kind is Kind.PRODUCT:
            whole = self.reductions.whole[memory is Memory.WGT]
            used = {v for row in stage.reads[operand].rows for v, _ in row.terms}
            turns = np.where(whole, self.one, self._turns(stage, used))
            tiles = self.reductions.taps[stage.number]
            taps = [np.where(whole, *both) for both in zip(taps, tiles, strict=True)]
        steps = steps_of(stage, operand)
        extents = window(stage, operand, self.tilings.regions[stage.number], taps, steps)
        shape = shaped(stage.compute.inputs[operand]).get_shape()[:-LANES]
        shape = [-(-size // step) for size, step in zip(shape, steps, strict=True)]
        times = self._repetitions(stage, operand, turns)
        # Where no loop moves the window, the operand is loaded before all loops, and wholly.
        extents = [
            np.where(times > 1, extent, size) for extent, size in zip(extents, shape, strict=True)
        ]
        instructions, rows = transfers(extents, shape, self.one, steps)
        return Load(memory, volume(extents, self.one), times, instructions, rows)

    def _turns(self, stage: Stage, used: Container[int]) -> Extents:
        """Turns of a product's loops over reduction tiles, down to the last that moves ``used``."""
        spatial = len(stage.compute.spatial)
        inside: Flags = self.one < 0
        total = self.one
        for tap in reversed(range(len(stage.taps))):
            turns = -(-stage.taps[tap] // self.reductions.taps[stage.number][tap])
            inside = inside | (turns > 1) if spatial + tap in used else inside
            total = total * np.where(inside, turns, self.one)
        return total

    def _repetitions(self, stage: Stage, operand: int, reduction: Extents) -> Extents:
        """How often an operand is loaded: once a turn of the innermost loop that moves it."""
        axes: set[int] = set()
        for row in stage.reads[operand].rows[:-LANES]:
            axes |= axes_of_row(row, self.tilings.axes[stage.number])
        inside: Flags = reduction > 1
        turns: list[Extents] = [reduction]
        for axis in reversed(self.order):
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
            taps = self.reductions.taps[stage.number]
            found.append(micro_ops([*self.tilings.regions[stage.number], *taps]))
        return found

    def _all_turns(self, stage: Stage) -> Extents:
        return self._turns(stage, range(len(stage.compute.extents)))

    def _work(self, slots: Mapping[Memory, Extents]) -> Work:
        gemm, alu = self._gemm_micro_ops, self.tilings.alu_micro_ops
        compute, instructions, gemms = self.none, self.none, self.none
        rates = Rates.of(self.target)
        for stage in self.structure.stages:
            busy, count = self._stage_work(stage, rates)
            compute = compute + busy + count * rates.instruction
            instructions = instructions + count
            if stage.kind is Kind.PRODUCT:
                gemms = gemms + self._all_turns(stage) * self.tilings.tiles
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
            busy: Extents = (total * taps * share).astype(np.int64) + total * starts
            return busy, gemms * self._all_turns(stage) + tiles * starts
        if stage.kind is Kind.REDUCTION:
            return total * (1 + immediate + register * taps), 3 * tiles
        if stage.intrinsic == "copy":
            return total * immediate, tiles
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
        activations, weights = self.reductions.whole
        return Plan(
            tiles=[
                even(extent, int(size[index]))
                for extent, size in zip(self.structure.root.extents, self.tilings.tile, strict=True)
            ],
            order=list(self.order),
            products={
                number: ProductPlan(
                    [
                        even(extent, int(size[index]))
                        for extent, size in zip(
                            self.structure.stages[number].taps, taps, strict=True
                        )
                    ],
                    (bool(activations[index]), bool(weights[index])),
                )
                for number, taps in self.reductions.taps.items()
            },
            slots=(int(inp[index]), int(wgt[index]), int(acc[index])),
            cycles=int(cost[index]),
        )
