"""What the modules do in one tile, in program order: the same for all tiles that look alike.

Along each axis of the root, tiles look alike if every stage computes as much of them, meets the
same borders of tensors, and loads as much. So a tiling of thousands of tiles has a few kinds.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

from vtac.dialects.target import Memory
from vtac.passes.te.schedule.durations import Duration, Durations, ReductionSteps
from vtac.passes.te.schedule.fits import BufferNeeds, operands_of
from vtac.passes.te.schedule.footprint import Range, ranges_of
from vtac.passes.te.schedule.structure import ScheduledStage, StageRole
from vtac.passes.te.schedule.tiling import Tiling, even


class ProductOperand(NamedTuple):
    """An operand of a product: its stage and number, and its loads.

    level: how many tile loops are around its load. cut: how many reduction loops are. slots: the
    buffers that it takes in turn.
    """

    stage: ScheduledStage
    number: int
    memory: Memory
    level: int
    cut: int
    slots: int

    @property
    def moves(self) -> bool:
        """Whether it is loaded more than once."""
        return self.level > 0 or self.cut > 0


class LoadAction(NamedTuple):
    """A load of an operand of a product, by its number in `TileSteps.operands`."""

    operand: int
    cycles: int
    instructions: int


class ComputeAction(NamedTuple):
    """Operations of the compute module that write a buffer, or read nothing that loads bring.

    buffer: the number of an accumulator buffer that is stored, or -1. after: for a load of the
    compute module, the loads of the load module that follow in program order, by operand and
    cycles, into this tile and the next one; None if nothing is loaded.
    """

    buffer: int
    cycles: int
    instructions: int
    after: Sequence[tuple[int, int]] | None = None


class ProductAction(NamedTuple):
    """A product: it writes a buffer (as in `ComputeAction`), and reads two operands.

    start: cycles of what its sum starts from. reduction: its steps. instructions: of all steps and
    the start, loads left aside. work: micro-ops, if every tiling has as many.
    """

    buffer: int
    activations: int
    weights: int
    start: int
    reduction: ReductionSteps
    instructions: int
    work: int


class StoreAction(NamedTuple):
    """A store from an accumulator buffer."""

    buffer: int
    cycles: int
    instructions: int


Action: TypeAlias = LoadAction | ComputeAction | ProductAction | StoreAction

Kinds: TypeAlias = tuple[object, ...]
"""What kind of tile each cut axis has, outermost first."""

_Place: TypeAlias = tuple[Kinds, int]
"""The kind of a tile, and the outermost loop that has gone on before it."""


class TileSteps:
    """The actions in the tiles of one tiling."""

    def __init__(self, durations: Durations, needs: BufferNeeds, tiling: Tiling):
        self.durations, self.tiling = durations, tiling
        self.structure = durations.structure
        self.loops = tiling.cut
        self.operands: list[ProductOperand] = []
        self._vectors: dict[int, list[ProductOperand]] = {}
        self._pairs: dict[int, tuple[int, int]] = {}
        for stage in self.structure.stages:
            self._add_operands(stage, needs)
        stored = dict.fromkeys(self._source(root).buffer for root in self.structure.roots)
        self.buffers = {buffer: number for number, buffer in enumerate(stored)}
        self.contexts = tiling.slots[2] if self.loops else 1
        self._ends_in_pieces = (
            {stage.number for stage in self.structure.epilogue} if tiling.piece else set[int]()
        )
        points, self.rate, self._followers = durations.work
        self.work = points + self.rate * _volume(self.structure.root.extents)
        self._known: dict[_Place, tuple[Sequence[Action], int]] = {}
        self._reductions = {
            number: (reduction, durations.known_steps(self.structure.stages[number], reduction))
            for number, reduction in tiling.products.items()
        }
        # What other tilings with these loops have found of their tiles; with these slots, too.
        products = tuple([reduction.key for reduction in tiling.products.values()])
        loops = tuple(self.loops), products, tiling.piece is None, tiling.kept
        self._beginnings: dict[_Place, tuple[Sequence[Action], int]] = durations.known_tiles(loops)
        self._followed: dict[_Place, Sequence[Action]] = durations.known_tiles(
            (*loops, *tiling.slots[:2])
        )
        self._ends: dict[tuple[int, ...], Sequence[Action]] = durations.known_tiles(tiling.piece)
        self._tiles = [ranges_of(sizes) for sizes in tiling.tiles]
        self.kinds = [
            [(durations.kind_of(axis, tile), tile) for tile in self._tiles[axis]]
            for axis in self.loops
        ]

    def queued(self, depth: int) -> int:
        """The instructions that fetch may dispatch before the first is done: all, or so many that
        one of the queues, of ``depth`` instructions, is full.
        """
        kinds = tuple([tiles[0][0] for tiles in self.kinds])
        tile = [tiles[0][1] for tiles in self.kinds]
        actions, _ = self.actions(kinds, tile, len(self.loops) - 1)
        loads = compute = stores = 0
        for action in actions:
            if isinstance(action, ProductAction):
                compute += action.instructions
                loads += action.reduction.loads
            elif isinstance(action, ComputeAction):
                compute += action.instructions
            elif isinstance(action, LoadAction):
                loads += action.instructions
            else:
                stores += action.instructions
        tiles = _volume([len(tiles) for tiles in self.kinds])
        total = loads + compute + stores
        return min(total * tiles, total * depth // max(loads, compute, stores))

    def _add_operands(self, stage: ScheduledStage, needs: BufferNeeds) -> None:
        inp, wgt, acc = self.tiling.slots
        slots = {Memory.INP: inp, Memory.WGT: wgt, Memory.ACC: acc}
        reduction = self.tiling.products.get(stage.number)
        found = []
        for number, memory in operands_of(self.structure, stage):
            axes = needs.moving(stage, number)
            level = max((i for i, axis in enumerate(self.loops, 1) if axis in axes), default=0)
            if (stage.number, number) in self.tiling.kept:
                level = 0
            cut = 0 if reduction is None else reduction.around(stage, number)
            many = slots[memory] if level or cut else 1
            found.append(ProductOperand(stage, number, memory, level, cut, many))
        if stage.role is StageRole.PRODUCT:
            first = len(self.operands)
            self._pairs[stage.number] = first, first + 1
            self.operands += found
        else:
            self._vectors[stage.number] = found

    def _source(self, root: ScheduledStage) -> ScheduledStage:
        """The stage whose values a result stores."""
        maker = self.structure.stage_of(root.reads[0].value)
        assert maker is not None
        return maker

    def actions(
        self, kinds: Kinds, tile: Sequence[Range], changed: int
    ) -> tuple[Sequence[Action], int]:
        """What happens in a tile of these kinds, and the work in it that every tiling has.

        tile: the ranges of the cut axes, outermost first. changed: the outermost loop that has gone
        on, -1 in the first tile.
        """
        found = self._known.get((kinds, changed))
        if found is None:
            ranges = [tiles[0] for tiles in self._tiles]
            for axis, part in zip(self.loops, tile, strict=True):
                ranges[axis] = part
            actions, work = self._beginning(kinds, ranges, changed)
            if self.durations.rates.shares_port and any(self._vectors.values()):
                actions = self._with_loads_after(actions, kinds, ranges, changed)
            if self._ends_in_pieces:
                actions = [*actions, *self._end(tuple([length for _, length in ranges]))]
            found = self._known[kinds, changed] = actions, work
        return found

    def _beginning(
        self, kinds: Kinds, tile: Sequence[Range], changed: int
    ) -> tuple[Sequence[Action], int]:
        """The actions in a tile up to its end in pieces, and the work in the tile."""
        found = self._beginnings.get((kinds, changed))
        if found is None:
            actions = list(self._actions(tile, changed))
            work = sum([action.work for action in actions if isinstance(action, ProductAction)])
            work += self.rate * _volume([length for _, length in tile])
            found = self._beginnings[kinds, changed] = actions, work
        return found

    def _with_loads_after(
        self, actions: Sequence[Action], kinds: Kinds, tile: Sequence[Range], changed: int
    ) -> Sequence[Action]:
        """The actions, loads of the compute module with what the load module loads after them.

        The next tile is taken to be as large as this one, and the next turn of the innermost loop.
        """
        found = self._followed.get((kinds, changed))
        if found is None:
            following: Sequence[Action] = ()
            if self.loops:
                following, _ = self._beginning(kinds, tile, len(self.loops) - 1)
            found = list(actions)
            for place, action in enumerate(actions, 1):
                if isinstance(action, ComputeAction) and action.after is not None:
                    later = self._within_slots(_loads_of(chain(actions[place:], following)))
                    found[place - 1] = action._replace(after=tuple(later))
            self._followed[kinds, changed] = found
        return found

    def _within_slots(self, loads: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """The loads that come before one whose buffer is taken by an earlier one of them."""
        taken = [0] * len(self.operands)
        for operand, cycles in loads:
            taken[operand] += 1
            if taken[operand] > self.operands[operand].slots:
                return
            yield operand, cycles

    def _actions(self, tile: Sequence[Range], changed: int) -> Iterator[Action]:
        regions = self.durations.regions.at(tile)
        for stage in self.structure.stages:
            region: Sequence[Range] = regions[stage.number]
            if not self.loops:
                region = [(0, extent) for extent in stage.extents]
            if stage.role is StageRole.PRODUCT:
                yield from self._product(stage, region, changed)
            elif stage.role is StageRole.STORE:
                if not self._ends_in_pieces:
                    duration = self.durations.store([length for _, length in tile])
                    yield StoreAction(self.buffers[self._source(stage).buffer], *duration)
            else:
                yield from self._vector_loads(stage, region, changed)
                if stage.number not in self._ends_in_pieces:
                    yield self._operation(stage, region)

    def _vector_loads(
        self, stage: ScheduledStage, region: Sequence[Range], changed: int
    ) -> Iterator[Action]:
        """The loads of an operation's operands, also of one that is computed piece by piece."""
        for operand in self._vectors[stage.number]:
            if changed < 0 or changed < operand.level:
                yield ComputeAction(-1, *self._load(operand, region), ())

    def _operation(self, stage: ScheduledStage, region: Sequence[Range]) -> Action:
        duration = self.durations.alu(stage, [length for _, length in region])
        return ComputeAction(self.buffers.get(stage.buffer, -1), *duration)

    def _load(self, operand: ProductOperand, region: Sequence[Range]) -> Duration:
        """A load for all of a tile; of all there is, where no loop moves it."""
        what = operand.stage, operand.number, operand.memory
        if operand.level:
            return self.durations.load_whole(*what, region)
        return self.durations.load_all(*what)

    def _product(
        self, stage: ScheduledStage, region: Sequence[Range], changed: int
    ) -> Iterator[Action]:
        pair = self._pairs[stage.number]
        for place in pair:
            operand = self.operands[place]
            if not operand.cut and (changed < 0 or changed < operand.level):
                yield LoadAction(place, *self._load(operand, region))
        start = 0
        if stage.in_place is None:
            rates = self.durations.rates
            start = _volume([length for _, length in region]) * rates.gemm + rates.instruction
        steps = self.durations.steps(stage, region, *self._reductions[stage.number])
        counts = stage.number in self._followers
        yield ProductAction(
            self.buffers.get(stage.buffer, -1),
            *pair,
            start,
            steps,
            (start > 0) + steps.instructions,
            steps.points * self.durations.rates.gemm if counts else 0,
        )

    def _end(self, tile: tuple[int, ...]) -> Sequence[Action]:
        """The last operations on a tile of these extents and its store, piece by piece."""
        found = self._ends.get(tile)
        if found is None:
            found = self._ends[tile] = list(self._pieces(tile))
        return found

    def _pieces(self, tile: tuple[int, ...]) -> Iterator[Action]:
        assert self.tiling.piece is not None
        axis, size = self.tiling.piece
        (root,) = self.structure.roots
        buffer = self.buffers[self._source(root).buffer]
        for place, length in enumerate(even(tile[axis], size)):
            piece = [*tile[:axis], length, *tile[axis + 1 :]]
            parts = [self.durations.alu(stage, piece) for stage in self.structure.epilogue]
            cycles, instructions = map(sum, zip(*parts, strict=True))
            yield ComputeAction(buffer if place == 0 else -1, cycles, instructions)
            yield StoreAction(buffer, *self.durations.store(piece))


def _loads_of(actions: Iterable[Action]) -> Iterator[tuple[int, int]]:
    """Operands that are loaded, and the cycles of each load, in program order."""
    for action in actions:
        if isinstance(action, LoadAction):
            yield action.operand, action.cycles
        elif isinstance(action, ProductAction):
            pair = action.activations, action.weights
            for step in action.reduction.steps:
                for number, cycles in step.fills:
                    yield pair[number], cycles


def _volume(extents: Sequence[int]) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total
