"""Plays a plan through: when the three modules work, load by load and tile by tile.

The formula of `cost` ranks thousands of tilings; it does not see where a module waits for another.
A rehearsal walks the loops of one plan as they will run and keeps three clocks, of the load module,
the compute module and the store module. A load waits until the last reader of its slot is done, a
product for its loads, a tile for the store of the tile whose accumulators it takes over. What each
takes is what the formula says (`Rates`), with the borders of tensors counted exactly. A plan that
cannot beat another one any more is not played to its end.
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate, product
from math import prod

import numpy as np

from vtac.dialects.target import Memory, Target
from vtac.dialects.te import LANES, Row, shaped
from vtac.passes.te.schedule.border import borders_of
from vtac.passes.te.schedule.cost import Rates
from vtac.passes.te.schedule.footprint import (
    Range,
    TileRegions,
    axes_of_operand,
    range_of_row,
    steps_of,
    transfers,
    variables_of,
)
from vtac.passes.te.schedule.plan import Plan, ProductPlan, even
from vtac.passes.te.schedule.structure import ScheduledStage, StageRole, Structure


@dataclass(frozen=True)
class _Step:
    """One tile of a reduction: what is loaded for it, and the instructions of the product.

    fills: operands (0 activations, 1 weights) and what their loads take. points: the cycles without
        what instructions cost. kernel, micro_ops: a number for the micro-ops, the slots left aside,
        and how many there are.
    """

    fills: Sequence[tuple[int, int]]
    points: int
    cycles: int
    kernel: int
    micro_ops: int


@dataclass(frozen=True)
class _Loader:
    """What loads of one operand have in common.

    rows, shape, steps: of its dimensions before the lanes, the subscript, the size, and the step
    between the elements that are loaded, of which there are `sizes`. variables: those of the stage
    on which the window depends. outputs: those of them that are spatial. known, known_whole: the
    cycles of a load, by the ranges of those; the whole reduction at once where only outputs matter.
    """

    rows: Sequence[Row]
    shape: Sequence[int]
    steps: tuple[int, ...]
    sizes: tuple[int, ...]
    variables: Sequence[int]
    outputs: Sequence[int]
    known: dict[tuple[Range, ...], int] = field(default_factory=dict)
    known_whole: dict[tuple[Range, ...], int] = field(default_factory=dict)

    @staticmethod
    def of(stage: ScheduledStage, operand: int) -> "_Loader":
        """That of a stage's operand."""
        read = stage.reads[operand]
        rows = read.rows[:-LANES]
        shape, steps = shaped(read.value).get_shape()[:-LANES], tuple(steps_of(stage, operand))
        sizes = tuple(-(-size // step) for size, step in zip(shape, steps, strict=True))
        variables = list(dict.fromkeys(variable for row in rows for variable, _ in row.terms))
        outputs = [variable for variable in variables if variable < len(stage.extents)]
        return _Loader(rows, shape, steps, sizes, variables, outputs)


class Rehearsals:
    """Rehearses plans of one kernel; what they have in common is worked out once."""

    def __init__(self, structure: Structure, target: Target):
        self.structure, self.target = structure, target
        self.rates = Rates.of(target)
        self.axes = structure.root_axes
        self.regions = TileRegions(structure)
        self.borders = {s.number: borders_of(s) for s in structure.products}
        self._known: dict[object, tuple[int, bool]] = {}
        self._steps: dict[object, dict[object, list[_Step]]] = {}
        self._levels: dict[tuple[int, int], set[int]] = {}
        self._stores: dict[tuple[int, ...], int] = {}
        self._loaders: dict[tuple[int, int], _Loader] = {}
        self._alus: dict[object, int] = {}
        self._kernels: dict[object, int] = {}

    def cycles(self, plan: Plan, limit: int | None = None) -> int:
        """The cycles that a plan takes, from launch to the last store.

        Where they reach the limit: some number from the limit on that they reach, too.
        """
        key = plan.loops, plan.slots, plan.piece
        found, is_whole = self._known.get(key, (0, False))
        if not is_whole and (limit is None or found < limit):
            found, is_whole = self._known[key] = _Rehearsal(self, plan).run(limit)
        return found

    @cached_property
    def work(self) -> tuple[int, int, Set[int]]:
        """What the compute module has to do under every plan.

        The cycles of products, and the cycles per element of the root; both of those stages that
        compute exactly the elements of a tile of the root, whose numbers come last.
        """
        points, rate, stages = 0, 0, self.regions.followers
        for stage in (self.structure.stages[number] for number in stages):
            if stage.kind is StageRole.PRODUCT:
                region = [(0, extent) for extent in stage.extents]
                whole = ProductPlan([(extent,) for extent in stage.taps], (True, True))
                steps = self.steps(stage, region, whole, self.known_steps(stage, whole))
                points += sum(step.points for step in steps)
                rate += self.rates.gemm * (stage.in_place is None)
            elif stage.kind is not StageRole.STORE:
                rate += self._alu(stage, [1] * len(stage.extents))[0]
        return points, rate, stages

    def load(
        self, stage: ScheduledStage, operand: int, memory: Memory, ranges: Sequence[Range]
    ) -> int:
        """The cycles of loading an operand, the stage's variables being in these ranges."""
        loader = self._loader(stage, operand)
        key = tuple([ranges[variable] for variable in loader.variables])
        found = loader.known.get(key)
        if found is None:
            parts = zip(loader.rows, loader.shape, loader.steps, strict=True)
            window = tuple(range_of_row(row, ranges, size, by)[1] for row, size, by in parts)
            # Constants are packed in the order in which they are loaded; weights are.
            is_packed = memory is Memory.WGT
            count = 1 if is_packed else _transfers(window, loader.sizes, loader.steps)[0]
            beats = prod(window) * self.target.element_bytes(memory) // self.rates.beat
            found = loader.known[key] = beats + count * self.rates.load
        return found

    def load_whole(
        self, stage: ScheduledStage, operand: int, memory: Memory, region: Sequence[Range]
    ) -> int:
        """The cycles of loading what an operand gives to a region, for all of the reduction."""
        loader = self._loader(stage, operand)
        key = tuple([region[variable] for variable in loader.outputs])
        found = loader.known_whole.get(key)
        if found is None:
            ranges = variables_of(stage, region, [(0, extent) for extent in stage.taps])
            found = loader.known_whole[key] = self.load(stage, operand, memory, ranges)
        return found

    def _loader(self, stage: ScheduledStage, operand: int) -> _Loader:
        loader = self._loaders.get((stage.number, operand))
        if loader is None:
            loader = self._loaders[stage.number, operand] = _Loader.of(stage, operand)
        return loader

    def axes_moving(self, stage: ScheduledStage, operand: int) -> set[int]:
        """The axes of the root that move what is loaded of an operand."""
        key = stage.number, operand
        if key not in self._levels:
            self._levels[key] = axes_of_operand(stage, operand, self.axes[stage.number])
        return self._levels[key]

    def store(self, extents: Sequence[int]) -> int:
        """The cycles of storing a part of a result."""
        key = tuple(extents)
        if key not in self._stores:
            instructions, rows = _transfers(key, self.structure.root.extents)
            requests = rows * -(-prod(key) // (rows * self.rates.burst))
            cycles = prod(key) * self.rates.store + requests * self.rates.row
            self._stores[key] = cycles + instructions
        return self._stores[key]

    def alu(self, stage: ScheduledStage, extents: Sequence[int]) -> int:
        """The cycles of an operation of the ALU on a region of these extents."""
        key = (stage.number, *extents)
        if key not in self._alus:
            cycles, instructions = self._alu(stage, extents)
            self._alus[key] = cycles + instructions * self.rates.instruction
        return self._alus[key]

    def _alu(self, stage: ScheduledStage, extents: Sequence[int]) -> tuple[int, int]:
        immediate, register = self.rates.alu
        elements, rate = prod(extents), immediate if stage.has_immediate else register
        if stage.kind is StageRole.REDUCTION:
            taps = elements * register * prod(stage.taps)
            is_started = stage.in_place is not None
            start = elements * (self.rates.gemm + immediate)
            return (taps, 1) if is_started else (taps + start, 3)
        if stage.copies:
            cycles, instructions = self.rates.copy
            return elements * cycles, instructions
        if stage.in_place is None:
            return elements * (self.rates.gemm + register + rate), 3
        return elements * rate, prod(extents[axis] for axis in stage.table_axes)

    def known_steps(self, stage: ScheduledStage, plan: ProductPlan) -> dict[object, list[_Step]]:
        """What `steps` has found for a product under one plan."""
        return self._steps.setdefault((stage.number, *plan.cuts, plan.whole, plan.windows), {})

    def steps(
        self,
        stage: ScheduledStage,
        region: Sequence[Range],
        plan: ProductPlan,
        known: dict[object, list[_Step]],
    ) -> list[_Step]:
        """The tiles of a product's reduction for one region of its axes; known: `known_steps`."""
        at: list[object] = [length for _, length in region]
        for border in self.borders[stage.number]:
            at[border.axis] = border.place(region[border.axis])
        key = tuple(at)
        found = known.get(key)
        if found is None:
            found = known[key] = list(self._make_steps(stage, region, plan))
        return found

    def _make_steps(
        self, stage: ScheduledStage, region: Sequence[Range], plan: ProductPlan
    ) -> Iterator[_Step]:
        bordered = {tap for border in self.borders[stage.number] for tap, _ in border.taps}
        tiles = [
            _ranges(sizes) if tap in bordered else [(0, size) for size in sizes]
            for tap, sizes in enumerate(plan.cuts)
        ]
        known: dict[object, _Step] = {}
        operands = [(stage.activations, Memory.INP), (stage.weights, Memory.WGT)]
        around = [plan.around(stage, operand) for operand, _ in operands]
        before: tuple[int, ...] | None = None
        loops = plan.loops
        taps = [ranges[0] for ranges in tiles]
        for index in product(*(range(len(tiles[tap])) for tap in loops)):
            for tap, turn in zip(loops, index, strict=True):
                taps[tap] = tiles[tap][turn]
            changed = -1 if before is None else _first_change(before, index)
            before = index
            key = (*taps, *(place > changed for place in around))
            if key not in known:
                fills = []
                for number, (operand, memory) in enumerate(operands):
                    if around[number] and around[number] > changed:
                        used = list(taps)
                        for tap in loops[around[number] :]:
                            used[tap] = 0, stage.taps[tap]
                        ranges = variables_of(stage, region, used)
                        fills.append((number, self.load(stage, operand, memory, ranges)))
                known[key] = self._step(stage, region, taps, fills)
            yield known[key]

    def _step(
        self,
        stage: ScheduledStage,
        region: Sequence[Range],
        taps: Sequence[Range],
        fills: Sequence[tuple[int, int]],
    ) -> _Step:
        outputs, rest = [length for _, length in region], [length for _, length in taps]
        extents = list(outputs)
        points, instructions, enumerated, at = 1, 1, 1, list[object]()
        for border in self.borders[stage.number]:
            inside, ranges = border.inside(region, taps)
            points, instructions = points * inside, instructions * ranges
            outputs[border.axis] = 1
            at += [inside, ranges, *(taps[tap] for tap, _ in border.taps)]
            for tap, _ in border.taps:
                enumerated *= rest[tap]
                rest[tap] = 1
        points *= prod(outputs) * prod(rest) * self.rates.gemm
        cycles = points + instructions * self.rates.instruction
        extents = sorted(extents + rest)
        kernel = self._kernels.setdefault((stage.number, *extents, *at), len(self._kernels))
        return _Step(fills, points, cycles, kernel, enumerated * prod(extents[:-2]))


@dataclass
class _Operand:
    """An operand that is loaded: where in the loops, and when its slots are free again.

    level: how many tile loops move it. cut: how many reduction loops are around its load. place:
    the slot in use. ready, used: when what is in it was loaded, and last read. ends: when what was
    in each slot before was last read.
    """

    stage: ScheduledStage
    number: int
    memory: Memory
    level: int
    cut: int
    slots: int
    ready: int = 0
    used: int = 0
    place: int = -1
    ends: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.ends = [0] * self.slots

    def take(self) -> int:
        """Go on to the next slot; returns when its last reader is done."""
        self.ends[self.place] = self.used
        self.place = (self.place + 1) % self.slots
        return self.ends[self.place]


@lru_cache(maxsize=1 << 14)
def _transfers(
    window: tuple[int, ...], shape: tuple[int, ...], steps: tuple[int, ...] = ()
) -> tuple[int, int]:
    """Instructions and rows of one transfer."""
    extents = [np.array([extent]) for extent in window]
    instructions, rows = transfers(extents, shape, np.ones(1, np.int64), steps)
    return int(instructions[0]), int(rows[0])


@dataclass
class _MicroOps:
    """Kernels of micro-ops, in stretches that the buffer holds (``vta-plan-microops``)."""

    entries: int
    loads: int = 1
    words: int = 0
    first: int = 0
    used: int = 0
    kernels: set[object] = field(default_factory=set)

    def add(self, kernel: object, count: int) -> None:
        """An instruction has this kernel of so many micro-ops, which is not there yet."""
        if self.used + count > self.entries and self.kernels:
            self.kernels.clear()
            self.loads, self.used = self.loads + 1, 0
        self.kernels.add(kernel)
        self.used += count
        self.words += count
        self.first += count if self.loads == 1 else 0


class _Rehearsal:
    """One plan: the clocks of the three modules as its loops run."""

    def __init__(self, known: Rehearsals, plan: Plan):
        self.known, self.structure, self.plan = known, known.structure, plan
        self.rates = known.rates
        self.load = self.compute = self.store = self.rates.launch
        self.loops = [axis for axis in plan.order if len(plan.tiles[axis]) > 1]
        self.operands = {s.number: list(self._operands(s)) for s in self.structure.stages}
        self.epilogue = self.structure.epilogue if plan.piece is not None else ()
        ending = {stage.number for stage in self.epilogue}
        self.stages = [
            (stage, self.operands[stage.number], stage.number in ending)
            for stage in self.structure.stages
        ]
        self.left, self.rate, self.followers = known.work
        self.left += self.rate * prod(self.structure.root.extents)
        self.steps = {number: self._steps_of(number) for number in self.plan.products}
        self.stored: list[int] = []
        self.ends: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        self.micro_ops = _MicroOps(known.target.uop_entries)
        self.waited = -1

    def run(self, limit: int | None) -> tuple[int, bool]:
        """All tiles, one after the other: the cycles, and whether they are those of all tiles.

        They are not where a part is sure to lead to `limit` or more: what was computed, and what is
        left of the work that nothing spares.
        """
        before: tuple[int, ...] | None = None
        for index, tile in self._tiles():
            changed = -1 if before is None else _first_change(before, index)
            before = index
            self._tile(tile, changed)
            if limit is not None and self.compute + self.left >= limit:
                return self.compute + self.left, False
        uops = self.micro_ops
        again = (uops.loads - 1) * self.rates.load + self._words(uops.words - uops.first)
        first = max(self.rates.load + self._words(uops.first) - self.waited, 0)
        return max(self.compute, self.store) + again + first, True

    def _words(self, count: int) -> int:
        return 4 * count // self.rates.beat

    def _tiles(self) -> Iterator[tuple[tuple[int, ...], list[Range]]]:
        """The tiles of the root: the turns of the loops, and a range for each axis."""
        tiles = [_ranges(sizes) for sizes in self.plan.tiles]
        tile = [ranges[0] for ranges in tiles]
        for index in product(*(range(len(tiles[axis])) for axis in self.loops)):
            for axis, turn in zip(self.loops, index, strict=True):
                tile[axis] = tiles[axis][turn]
            yield index, tile

    def _operands(self, stage: ScheduledStage) -> Iterator[_Operand]:
        inp, wgt, acc = self.plan.slots
        places = [(number, Memory.ACC, acc) for number in self.structure.vectors(stage)]
        plan = self.plan.products.get(stage.number)
        if plan is not None:
            places = [(stage.activations, Memory.INP, inp), (stage.weights, Memory.WGT, wgt)]
        for number, memory, slots in places:
            axes = self.known.axes_moving(stage, number)
            level = max((i + 1 for i, axis in enumerate(self.loops) if axis in axes), default=0)
            cut = 0 if plan is None else plan.around(stage, number)
            yield _Operand(stage, number, memory, level, cut, slots if level or cut else 1)

    def _steps_of(self, number: int) -> tuple[ProductPlan, dict[object, list[_Step]]]:
        """How a product accumulates, and the steps of it that are known."""
        plan = self.plan.products[number]
        return plan, self.known.known_steps(self.structure.stages[number], plan)

    def _tile(self, tile: list[Range], changed: int) -> None:
        regions = self.known.regions.at(tile)
        contexts = self.plan.slots[2] if self.loops else 1
        if len(self.stored) >= contexts:
            self.compute = max(self.compute, self.stored[-contexts])
        context = len(self.stored) % contexts
        for stage, operands, is_ending in self.stages:
            region = regions[stage.number]
            for operand in operands:
                if not operand.cut and (changed < 0 or changed < operand.level):
                    what = operand.number, operand.memory
                    self._fill(operand, self.known.load_whole(stage, *what, region))
            if stage.kind is StageRole.PRODUCT:
                self._product(stage, region, context)
            elif stage.kind is not StageRole.STORE and not is_ending:
                self.compute += self.known.alu(stage, [length for _, length in region])
        extents = tuple([length for _, length in tile])
        if extents not in self.ends:
            self.ends[extents] = list(self._ends(extents))
        for operations, stores in self.ends[extents]:
            self.compute += operations
            self.store = max(self.store, self.compute) + stores
        self.stored.append(self.store)
        self.left -= self.rate * prod(extents)

    def _ends(self, extents: tuple[int, ...]) -> Iterator[tuple[int, int]]:
        """The last operations on a tile and its stores, piece by piece."""
        for piece in self._pieces([*extents]):
            operations = sum(self.known.alu(stage, piece) for stage in self.epilogue)
            yield operations, len(self.structure.roots) * self.known.store(piece)

    def _pieces(self, tile: list[int]) -> Iterator[list[int]]:
        if self.plan.piece is None:
            yield tile
            return
        axis, size = self.plan.piece
        for length in even(tile[axis], size):
            yield [*tile[:axis], length, *tile[axis + 1 :]]

    def _fill(self, operand: _Operand, cycles: int) -> None:
        """One load of an operand, on the module that does it."""
        free = operand.take()
        if operand.memory is Memory.ACC:
            self.compute += cycles
        else:
            self.load = max(self.load, free) + cycles
            operand.ready = self.load

    def _product(self, stage: ScheduledStage, region: list[Range], context: int) -> None:
        if stage.in_place is None:
            self.compute += self.rates.gemm * prod(n for _, n in region) + self.rates.instruction
        inp, wgt = pair = self.operands[stage.number]
        load, compute, points, kernels = self.load, self.compute, 0, self.micro_ops.kernels
        for step in self.known.steps(stage, region, *self.steps[stage.number]):
            for number, cycles in step.fills:
                operand = pair[number]
                free = operand.take()
                load = operand.ready = (free if free > load else load) + cycles
            start = inp.ready if inp.ready > wgt.ready else wgt.ready
            if compute > start:
                start = compute
            if self.waited < 0:
                self.waited = start - self.rates.launch
            kernel = (step.kernel, context, inp.place, wgt.place)
            if kernel not in kernels:
                self.micro_ops.add(kernel, step.micro_ops)
            compute = inp.used = wgt.used = start + step.cycles
            points += step.points
        self.load, self.compute = load, compute
        if stage.number in self.followers:
            self.left -= points


def _ranges(sizes: Sequence[int]) -> list[Range]:
    starts = accumulate(sizes, initial=0)
    return [(start, size) for start, size in zip(starts, sizes, strict=False)]


def _first_change(before: Sequence[int], now: Sequence[int]) -> int:
    """The outermost loop whose turn has changed."""
    place = 0
    while before[place] == now[place]:
        place += 1
    return place
