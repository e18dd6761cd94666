"""How long the modules take for the parts of a tiling: loads, stores, operations, products.

The rates are those of the formula in `cost`; the borders of tensors are counted exactly.
"""

from collections.abc import Hashable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise, product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from vtac.dialects.target import Memory, Target
from vtac.dialects.te import LANES, Row, shaped
from vtac.passes.te.schedule.border import borders_of
from vtac.passes.te.schedule.cost import Rates
from vtac.passes.te.schedule.fits import operands_of
from vtac.passes.te.schedule.footprint import (
    Range,
    TileRegions,
    range_of_row,
    ranges_of,
    steps_of,
    transfers,
    variables_of,
)
from vtac.passes.te.schedule.structure import ScheduledStage, StageRole, Structure, axes_of_row
from vtac.passes.te.schedule.tiling import Reduction

ACTIVATIONS, WEIGHTS = 0, 1
"""The operands of a product, as `ReductionStep` numbers them."""


class Duration(NamedTuple):
    """Cycles of a module for one or more instructions, and how many instructions they are."""

    cycles: int
    instructions: int


class ReductionStep(NamedTuple):
    """One tile of a reduction: what is loaded for it, and the instructions of the product.

    fills: operands (`ACTIVATIONS` or `WEIGHTS`) and the cycles of their loads. points: the
        micro-ops of the product. cycles: what its micro-ops and instructions take. instructions,
        loads: of the product, and of the loads. kernel, micro_ops: a number for the micro-ops,
        without regard to slots, and how many there are.
    """

    fills: Sequence[tuple[int, int]]
    points: int
    cycles: int
    instructions: int
    loads: int
    kernel: int
    micro_ops: int


class KernelUse(NamedTuple):
    """A kernel of micro-ops in a reduction.

    kernel, micro_ops: as in `ReductionStep`. activations, weights: how many buffers further than
    before the reduction the operands lie, modulo the number of their buffers.
    """

    kernel: int
    micro_ops: int
    activations: int
    weights: int


@dataclass(frozen=True, eq=False)
class ReductionSteps:
    """All tiles of a reduction, in order, and the sums of what `ReductionStep` says of each."""

    steps: Sequence[ReductionStep]
    points: int
    instructions: int
    loads: int
    _uses: dict[tuple[int, int], Sequence[KernelUse]] = field(default_factory=dict)

    @cached_property
    def fills(self) -> tuple[int, int]:
        """How often activations and weights are loaded."""
        numbers = [number for step in self.steps for number, _ in step.fills]
        return numbers.count(ACTIVATIONS), numbers.count(WEIGHTS)

    def uses(self, activations: int, weights: int) -> Sequence[KernelUse]:
        """The different uses of kernels, in the order of their first steps.

        activations, weights: how many buffers each operand takes in turn.
        """
        found = self._uses.get((activations, weights))
        if found is None:
            at, slots = [0, 0], (activations, weights)
            uses = dict[KernelUse, None]()
            for step in self.steps:
                for number, _ in step.fills:
                    at[number] = (at[number] + 1) % slots[number]
                uses[KernelUse(step.kernel, step.micro_ops, at[ACTIVATIONS], at[WEIGHTS])] = None
            found = self._uses[activations, weights] = tuple(uses)
        return found


@dataclass(frozen=True)
class _Loader:
    """What loads of one operand have in common.

    parts: of its dimensions before the lanes, the subscript, the size, and the step between the
    elements that are loaded. shape, steps: the latter two alone. sizes: how many those elements
    are. variables: those of the stage on which the window depends. outputs: those of them that are
    spatial. known, known_whole: the cycles of a load, by the ranges of those; the whole reduction
    at once where only outputs matter.
    """

    parts: Sequence[tuple[Row, int, int]]
    shape: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    variables: Sequence[int]
    outputs: Sequence[int]
    known: dict[tuple[Range, ...], Duration] = field(default_factory=dict)
    known_whole: dict[tuple[Range, ...], Duration] = field(default_factory=dict)

    @staticmethod
    def of(stage: ScheduledStage, operand: int, target: Target) -> "_Loader":
        """That of a stage's operand."""
        read = stage.reads[operand]
        rows = read.rows[:-LANES]
        shape, steps = (
            tuple(shaped(read.value).get_shape()[:-LANES]),
            tuple(steps_of(stage, operand, target)),
        )
        sizes = tuple(-(-size // step) for size, step in zip(shape, steps, strict=True))
        variables = list(dict.fromkeys(variable for row in rows for variable, _ in row.terms))
        outputs = [variable for variable in variables if variable < len(stage.extents)]
        parts = list(zip(rows, shape, steps, strict=True))
        return _Loader(parts, shape, sizes, steps, variables, outputs)


class _Along(NamedTuple):
    """What one axis of the root moves.

    axes: stages, by number, and their axes. loads: stages and the dimensions of what they load.
    is_mixed: whether another axis moves some of it, too.
    """

    axes: Sequence[tuple[int, int]]
    loads: Sequence[tuple[ScheduledStage, Row, int, int]]
    is_mixed: bool


class Durations:
    """The cycles of the parts of tilings of one kernel; what they share is worked out once."""

    def __init__(self, structure: Structure, target: Target):
        self.structure, self.target = structure, target
        self.rates = Rates.of(target)
        self.regions = TileRegions(structure)
        self._borders = {s.number: borders_of(s) for s in structure.products}
        self._steps: dict[object, dict[object, ReductionSteps]] = {}
        self._tiles: dict[Hashable, dict[Any, Any]] = {}
        self._stores: dict[tuple[int, ...], Duration] = {}
        self._loaders: dict[tuple[int, int], _Loader] = {}
        self._alus: dict[object, Duration] = {}
        self._kinds: dict[tuple[int, Range], Hashable] = {}
        self._kernels: dict[object, int] = {}

    @cached_property
    def work(self) -> tuple[int, int, Set[int]]:
        """What the compute module has to do under every tiling.

        The micro-ops of products, and the cycles per element of the root; both of those stages that
        compute exactly the elements of a tile of the root, whose numbers come last.
        """
        points, rate, stages = 0, 0, self.regions.followers
        for stage in (self.structure.stages[number] for number in stages):
            if stage.role is StageRole.PRODUCT:
                region = [(0, extent) for extent in stage.extents]
                whole = Reduction([(extent,) for extent in stage.taps], (True, True))
                steps = self.steps(stage, region, whole, self.known_steps(stage, whole))
                points += steps.points * self.rates.gemm
                rate += self.rates.gemm * (stage.in_place is None)
            elif stage.role is not StageRole.STORE:
                rate += self._alu(stage, [1] * len(stage.extents))[0]
        return points, rate, stages

    def load(
        self, stage: ScheduledStage, operand: int, memory: Memory, ranges: Sequence[Range]
    ) -> Duration:
        """Loading an operand, the stage's variables being in these ranges."""
        loader = self._loader(stage, operand)
        key = tuple([ranges[variable] for variable in loader.variables])
        found = loader.known.get(key)
        if found is None:
            window = [range_of_row(row, ranges, size, by)[1] for row, size, by in loader.parts]
            found = loader.known[key] = self._load_cycles(loader, tuple(window), memory)
        return found

    def load_whole(
        self, stage: ScheduledStage, operand: int, memory: Memory, region: Sequence[Range]
    ) -> Duration:
        """Loading what an operand gives to a region, for all of the reduction."""
        loader = self._loader(stage, operand)
        key = tuple([region[variable] for variable in loader.outputs])
        found = loader.known_whole.get(key)
        if found is None:
            ranges = variables_of(stage, region, [(0, extent) for extent in stage.taps])
            found = loader.known_whole[key] = self.load(stage, operand, memory, ranges)
        return found

    def load_all(self, stage: ScheduledStage, operand: int, memory: Memory) -> Duration:
        """Loading all of an operand."""
        loader = self._loader(stage, operand)
        return self._load_cycles(loader, loader.sizes, memory)

    def _load_cycles(self, loader: "_Loader", window: tuple[int, ...], memory: Memory) -> Duration:
        # Constants are packed in the order in which they are loaded; weights are.
        is_packed = memory is Memory.WGT
        any_order = memory is Memory.INP
        count, rows = 1, 1
        if not is_packed:
            count, rows = _transfers(window, loader.shape, loader.steps, any_order)
        size = prod(window) * self.target.element_bytes(memory)
        requests = rows * -(-size // (rows * self.rates.request)) if size else 0
        readers = self.structure.readers_by(memory)
        streamed = max(size * readers // self.rates.beat, requests * self.rates.request_interval)
        return Duration(streamed + count * self.rates.load, count)

    def kind_of(self, axis: int, tile: Range) -> Hashable:
        """What matters of a tile's range along one axis of the root.

        Tiles of one kind are computed, cut by borders and loaded alike. Where a dimension depends
        on several axes, the range itself.
        """
        key = axis, tile
        found = self._kinds.get(key)
        if found is None:
            found = self._kinds[key] = self._find_kind(axis, tile)
        return found

    def _find_kind(self, axis: int, tile: Range) -> Hashable:
        followers, rows, is_mixed = self._along[axis]
        if is_mixed:
            return tile
        whole = [(0, 1) for _ in self.structure.root.extents]
        regions = self.regions.at([*whole[:axis], tile, *whole[axis + 1 :]])
        kind: list[object] = [regions[number][place][1] for number, place in followers]
        for stage in self.structure.products:
            for border in self._borders[stage.number]:
                if (stage.number, border.axis) in followers:
                    kind.append(border.place(regions[stage.number][border.axis]))
        for stage, row, size, step in rows:
            taps = [(0, extent) for extent in stage.taps]
            ranges = variables_of(stage, regions[stage.number], taps)
            kind.append(range_of_row(row, ranges, size, step)[1])
        return tuple(kind)

    @cached_property
    def _along(self) -> list[_Along]:
        """For each axis of the root: what it moves."""
        axes = self.structure.root_axes
        found = []
        for axis in range(len(self.structure.root.extents)):
            own = [
                (stage.number, place, moving)
                for stage in self.structure.stages
                for place, moving in enumerate(axes[stage.number])
                if axis in moving
            ]
            loads = list[tuple[ScheduledStage, Row, int, int]]()
            is_mixed = any(len(moving) > 1 for *_, moving in own)
            for stage in self.structure.stages:
                for operand, _ in operands_of(self.structure, stage):
                    for part in self._loader(stage, operand).parts:
                        moving = axes_of_row(part[0], axes[stage.number])
                        if axis in moving:
                            loads.append((stage, *part))
                            is_mixed |= len(moving) > 1
            followers = [(number, place) for number, place, _ in own]
            found.append(_Along(followers, loads, is_mixed))
        return found

    def _loader(self, stage: ScheduledStage, operand: int) -> _Loader:
        loader = self._loaders.get((stage.number, operand))
        if loader is None:
            loader = self._loaders[stage.number, operand] = _Loader.of(stage, operand, self.target)
        return loader

    def store(self, extents: Sequence[int]) -> Duration:
        """Storing a part of a result."""
        key = tuple(extents)
        if key not in self._stores:
            instructions, rows = _transfers(key, self.structure.root.extents)
            requests = rows * -(-prod(key) // (rows * self.rates.burst))
            cycles = prod(key) * self.rates.store + requests * self.rates.row
            self._stores[key] = Duration(cycles + instructions, instructions)
        return self._stores[key]

    def alu(self, stage: ScheduledStage, extents: Sequence[int]) -> Duration:
        """An operation of the ALU on a region of these extents."""
        key = (stage.number, *extents)
        if key not in self._alus:
            cycles, instructions = self._alu(stage, extents)
            cycles += instructions * self.rates.instruction
            self._alus[key] = Duration(cycles, instructions)
        return self._alus[key]

    def _alu(self, stage: ScheduledStage, extents: Sequence[int]) -> tuple[int, int]:
        immediate, register = self.rates.alu
        elements, rate = prod(extents), immediate if stage.has_immediate else register
        if stage.role is StageRole.REDUCTION:
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

    def known_steps(
        self, stage: ScheduledStage, reduction: Reduction
    ) -> dict[object, ReductionSteps]:
        """What `steps` has found for a product that accumulates so."""
        return self._steps.setdefault((stage.number, reduction.key), {})

    def known_tiles(self, loops: Hashable) -> dict[Any, Any]:
        """What `TileSteps` has found of the tiles of all tilings with such loops."""
        return self._tiles.setdefault(loops, {})

    def steps(
        self,
        stage: ScheduledStage,
        region: Sequence[Range],
        reduction: Reduction,
        known: dict[object, ReductionSteps],
    ) -> ReductionSteps:
        """The tiles of a product's reduction for one region of its axes; known: `known_steps`."""
        at: list[object] = [length for _, length in region]
        for border in self._borders[stage.number]:
            at[border.axis] = border.place(region[border.axis])
        key = tuple(at)
        found = known.get(key)
        if found is None:
            steps = list(self._make_steps(stage, region, reduction))
            found = known[key] = ReductionSteps(
                steps,
                sum([step.points for step in steps]),
                sum([step.instructions for step in steps]),
                sum([step.loads for step in steps]),
            )
        return found

    def _make_steps(
        self, stage: ScheduledStage, region: Sequence[Range], reduction: Reduction
    ) -> Iterator[ReductionStep]:
        bordered = {tap for border in self._borders[stage.number] for tap, _ in border.taps}
        tiles = [
            ranges_of(sizes) if tap in bordered else [(0, size) for size in sizes]
            for tap, sizes in enumerate(reduction.cuts)
        ]
        known: dict[object, ReductionStep] = {}
        operands = [(stage.activations, Memory.INP), (stage.weights, Memory.WGT)]
        loops = reduction.loops
        around = [reduction.around(stage, operand) for operand, _ in operands]
        taps = [ranges[0] for ranges in tiles]
        for index, changed in _turns(tuple([len(tiles[tap]) for tap in loops])):
            for tap, turn in zip(loops, index, strict=True):
                taps[tap] = tiles[tap][turn]
            loaded = around[0] > changed, around[1] > changed
            key = (*taps, loaded)
            if key not in known:
                fills, loads = [], 0
                for number, (operand, memory) in enumerate(operands):
                    if around[number] and loaded[number]:
                        used = list(taps)
                        for tap in loops[around[number] :]:
                            used[tap] = 0, stage.taps[tap]
                        ranges = variables_of(stage, region, used)
                        load = self.load(stage, operand, memory, ranges)
                        fills.append((number, load.cycles))
                        loads += load.instructions
                known[key] = self._step(stage, region, taps, fills, loads)
            yield known[key]

    def _step(
        self,
        stage: ScheduledStage,
        region: Sequence[Range],
        taps: Sequence[Range],
        fills: Sequence[tuple[int, int]],
        loads: int,
    ) -> ReductionStep:
        outputs, rest = [length for _, length in region], [length for _, length in taps]
        extents = list(outputs)
        points, instructions, enumerated, at = 1, 1, 1, list[object]()
        for border in self._borders[stage.number]:
            inside, ranges = border.inside(region, taps)
            points, instructions = points * inside, instructions * ranges
            outputs[border.axis] = 1
            at += [inside, ranges, *(taps[tap] for tap, _ in border.taps)]
            for tap, _ in border.taps:
                enumerated *= rest[tap]
                rest[tap] = 1
        points *= prod(outputs) * prod(rest)
        cycles = points * self.rates.gemm + instructions * self.rates.instruction
        extents = sorted(extents + rest)
        kernel = self._kernels.setdefault((stage.number, *extents, *at), len(self._kernels))
        micro_ops = enumerated * prod(extents[:-2])
        return ReductionStep(fills, points, cycles, instructions, loads, kernel, micro_ops)


@lru_cache(maxsize=1 << 14)
def _transfers(
    window: tuple[int, ...],
    shape: tuple[int, ...],
    steps: tuple[int, ...] = (),
    any_order: bool = False,
) -> tuple[int, int]:
    """Instructions and rows of one transfer."""
    extents = [np.array([extent]) for extent in window]
    one = np.ones(1, np.int64)
    instructions, rows = transfers(extents, shape, one, steps, any_order=any_order)
    return int(instructions[0]), int(rows[0])


@lru_cache(maxsize=1 << 10)
def _turns(counts: tuple[int, ...]) -> Sequence[tuple[tuple[int, ...], int]]:
    """The turns of nested loops, and the outermost loop that has gone on before each.

    counts: turns of each loop, outermost first. Before the first turn that is loop -1.
    """
    turns = list(product(*map(range, counts)))
    changed = [first_change(before, now) for before, now in pairwise(turns)]
    return list(zip(turns, [-1, *changed], strict=True))


def first_change(before: Sequence[int], now: Sequence[int]) -> int:
    """The outermost loop whose turn has changed."""
    place = 0
    while before[place] == now[place]:
        place += 1
    return place
