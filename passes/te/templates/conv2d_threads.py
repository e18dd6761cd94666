"""The template ``conv2d-threads``: TVM's schedule of 2D convolutions, with virtual threads.

`te_schedule_conv2d` writes the schedule. Here are its knobs, as AutoTVM tunes them, and what a
point of them needs.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from math import prod

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Memory, Target
from vtac.dialects.te import (
    LANES,
    KernelOp,
    Knob,
    KnobKind,
    Point,
    Row,
    ScheduleOp,
    copying_intrinsics,
    shaped,
)
from vtac.passes.te.schedule.fits import operands_of
from vtac.passes.te.schedule.footprint import Range, ranges_of, variables_of
from vtac.passes.te.schedule.structure import ScheduledStage, StageRole, Structure
from vtac.passes.te.schedule.tiling import even, tile_sizes
from vtac.passes.te.templates.te_schedule_conv2d import Tiles, conv2d_schedule, misfit
from vtac.passes.te.templates.template import RulePoint, ScheduleSpace, Template

THREADS = (1, 2)
"""Virtual threads along an axis."""

LONGEST_PAD = 15
"""The most elements that a load writes as a pad on one side (docs/vta.md, section 3)."""

FEW = 6
"""Tile sizes along an axis that the rule looks at."""


class ThreadedSpace(ScheduleSpace):
    """The points of TVM's template for one convolution.

    ``tile.AXIS`` of channels, rows and columns; ``cut.STAGE.AXIS`` of the input channels (blocks of
    a tile); ``threads.AXIS`` of channels and rows.
    """

    def __init__(self, structure: Structure, target: Target):
        (stage,) = structure.products
        self.stage = stage
        _, self.channels, self.rows, self.columns = structure.root.compute.spatial.names[:-LANES]
        self.inputs = f"cut.{stage.compute.label.data}.{stage.compute.reduce.names[0]}"
        super().__init__(structure, target, self._declared(structure))

    def _declared(self, structure: Structure) -> Iterator[Knob]:
        axes = (self.channels, self.rows, self.columns)
        for axis, extent in zip(axes, structure.root.extents[1:], strict=True):
            yield _tiles(f"tile.{axis}", extent)
        yield _tiles(self.inputs, self.stage.taps[0])
        for axis in axes[:2]:
            yield Knob(f"threads.{axis}", KnobKind.ORDERED, THREADS, THREADS[0])

    def _number(self, point: Point, name: str) -> int:
        value = self.value(point, name)
        assert isinstance(value, int)
        return value

    def tiles(self, point: Point) -> Tiles:
        """The parameters of the template."""
        return Tiles(
            h=self._number(point, f"tile.{self.rows}"),
            w=self._number(point, f"tile.{self.columns}"),
            ci=self._number(point, self.inputs),
            co=self._number(point, f"tile.{self.channels}"),
            oc_threads=self._number(point, f"threads.{self.channels}"),
            h_threads=self._number(point, f"threads.{self.rows}"),
        )

    def canonical(self, point: Point) -> Point:
        """The point without threads that find nothing to share."""
        tiles, values = self.tiles(point), dict[str, int]()
        _, channels, rows, _ = self.structure.root.extents
        for axis, extent, tile, threads in (
            (self.channels, channels, tiles.co, tiles.oc_threads),
            (self.rows, rows, tiles.h, tiles.h_threads),
        ):
            values[f"threads.{axis}"] = _threads(extent, tile, threads)
        return self.with_values(point, values)

    def problem(self, point: Point) -> Problem | None:
        """What the buffers of all threads need beyond the depths of the scratchpads."""
        parts = [
            f"{need} elements of {memory.name} ({memory.name} has {self.target.depth(memory)})"
            for memory, need in self.needs(point).items()
            if need > self.target.depth(memory)
        ]
        if parts:
            hint = "Smaller tiles or fewer threads need less."
            return Problem("", f"it needs {', '.join(parts)}", hint)
        unpadded = self._unpadded(point)
        return None if unpadded is None else Problem("", unpadded, "Other tiles may have others.")

    def _unpadded(self, point: Point) -> str | None:
        """Why the load of a window cannot write its pads: it can in the last two dimensions, up to
        `LONGEST_PAD`, where a part of the window lies inside.
        """
        ranges = self._ranges(self.tiles(point))
        for read in self.stage.reads:
            shape = shaped(read.value).get_shape()[:-LANES]
            rows = list(zip(read.rows[:-LANES], shape, strict=True))
            for dimension, (row, size) in enumerate(rows if read.outside is not None else ()):
                for low, high in _hulls(row, ranges):
                    if high < 0 or low >= size:
                        return "a window lies wholly in the padding"
                    pads = max(-low, high - size + 1)
                    if pads > LONGEST_PAD:
                        return f"pads are {pads} long, and a load writes {LONGEST_PAD}"
                    if pads > 0 and dimension < len(rows) - 2:
                        return "more than the last two dimensions have pads"
        return None

    def _ranges(self, tiles: Tiles) -> Sequence[Sequence[Range]]:
        """What the tiles cover of each variable of the product, lanes left at 0."""
        n, channels, rows, columns = self.structure.root.extents
        spatial = [
            [(0, n)],
            _runs(channels, tiles.co, tiles.oc_threads),
            _runs(rows, tiles.h, tiles.h_threads),
            _runs(columns, tiles.w, 1),
        ]
        inputs, *taps = self.stage.taps
        lanes: Sequence[Sequence[Range]] = [[(0, 1)]] * LANES
        reduce = [_runs(inputs, tiles.ci, 1), *([(0, extent)] for extent in taps), [(0, 1)]]
        return [*spatial, *lanes, *reduce]

    def needs(self, point: Point) -> Mapping[Memory, int]:
        """Elements of each scratchpad, those of all threads, all in use at the same time."""
        tiles = self.tiles(point)
        n, channels, rows, columns = self.structure.root.extents
        threads = _threads(channels, tiles.co, tiles.oc_threads)
        threads *= _threads(rows, tiles.h, tiles.h_threads)
        region = [n, min(tiles.co, channels), min(tiles.h, rows), min(tiles.w, columns)]
        has_loops = tuple(region) != self.structure.root.extents
        needs = dict.fromkeys((Memory.INP, Memory.WGT, Memory.ACC), 0)
        for stage in self.structure.stages:
            taps = [*stage.taps]
            if stage.role is StageRole.PRODUCT:
                taps[0] = min(tiles.ci, taps[0])
            moves = has_loops or (stage.role is StageRole.PRODUCT and taps[0] < stage.taps[0])
            for operand, memory in operands_of(self.structure, stage):
                needs[memory] += self._load(stage, operand, region, taps, moves)
        needs[Memory.ACC] += prod(region)
        return {memory: need * threads for memory, need in needs.items()}

    def _load(
        self,
        stage: ScheduledStage,
        operand: int,
        region: Sequence[int],
        taps: Sequence[int],
        moves: bool,
    ) -> int:
        """Elements of the largest load of an operand, padding included."""
        read = stage.reads[operand]
        shape = shaped(read.value).get_shape()[:-LANES]
        ranges = variables_of(stage, [(0, e) for e in region], [(0, e) for e in taps])
        parts = zip(read.rows[:-LANES], shape, strict=True)
        if not moves:  # loaded before all loops: all of it, and what is read around it
            return prod(size + _around(row, ranges, size) for row, size in parts)
        return prod(
            _span(row, [length for _, length in ranges], None if read.outside is not None else size)
            for row, size in parts
        )

    def cost(self, point: Point, limit: int | None = None) -> int | None:
        """There is no cost model for threads."""
        return None

    @cached_property
    def _grid(self) -> dict[str, tuple[int, ...]]:
        """The values that the rule looks at."""
        names = (*(f"tile.{a}" for a in (self.channels, self.rows, self.columns)), self.inputs)
        extents = (*self.structure.root.extents[1:], self.stage.taps[0])
        pairs = zip(names, extents, strict=True)
        return {name: tuple(tile_sizes(extent, FEW)) for name, extent in pairs}

    def rule(self, layer: str = "") -> RulePoint:
        """Two threads if they fit, and of the tiles that then do those that load least."""
        threads = [
            {f"threads.{self.channels}": 2},
            {f"threads.{self.rows}": 2},
            dict[str, int](),
        ]
        for several in threads:
            found = [
                point
                for values in product(*self._grid.values())
                for point in [self.with_values(several, dict(zip(self._grid, values, strict=True)))]
                if self.problem(point) is None
                and all(self.value(self.canonical(point), name) == 2 for name in several)
            ]
            if found:
                return RulePoint(self.canonical(min(found, key=self.loaded)), None)
        problem = self.problem(dict.fromkeys(self._grid, 1))
        what = "nothing fits" if problem is None else f"even its smallest tile: {problem.what}"
        raise CompileError(Problem(layer, what, "Choose a target with larger buffers."))

    def loaded(self, point: Point) -> tuple[int, int]:
        """Bytes that a point loads for its product, and how many loads there are."""
        tiles = self.tiles(point)
        _, channels, rows, columns = self.structure.root.extents
        turns = prod(
            -(-extent // tile)
            for extent, tile in (
                (channels, tiles.co),
                (rows, tiles.h),
                (columns, tiles.w),
                (self.stage.taps[0], tiles.ci),
            )
        )
        needs, threads = self.needs(point), self._threads_of(tiles)
        size = sum(
            needs[memory] // threads * self.target.element_bytes(memory)
            for memory in (Memory.INP, Memory.WGT)
        )
        return turns * size, turns

    def _threads_of(self, tiles: Tiles) -> int:
        _, channels, rows, _ = self.structure.root.extents
        return _threads(channels, tiles.co, tiles.oc_threads) * _threads(
            rows, tiles.h, tiles.h_threads
        )

    def schedule(self, kernel: KernelOp, point: Point, cycles: int | None = None) -> ScheduleOp:
        """TVM's schedule with these tiles and threads."""
        copying = copying_intrinsics(self.target)
        return conv2d_schedule(kernel, self.structure, self.tiles(point), copying)


class Conv2dThreadsTemplate(Template):
    """TVM's template for 2D convolutions."""

    name = "conv2d-threads"
    version = 1

    def refuses(self, structure: Structure) -> str | None:
        """It takes one convolution, followed by operations in place."""
        return misfit(structure)

    def declare(self, structure: Structure, target: Target) -> ThreadedSpace:
        """Tiles and threads of a convolution."""
        return ThreadedSpace(structure, target)


def _tiles(name: str, extent: int) -> Knob:
    return Knob(name, KnobKind.ORDERED, tuple(tile_sizes(extent, extent)), extent)


def _threads(extent: int, tile: int, threads: int) -> int:
    """How many threads there are along an axis: each has a run of whole tiles."""
    share = -(-extent // (tile * threads)) * tile
    return -(-extent // share) if threads > 1 and share < extent else 1


def _runs(extent: int, tile: int, threads: int) -> Sequence[Range]:
    """The tiles along an axis: each thread has a run of them, the last of which may be shorter."""
    share = -(-extent // (tile * threads)) * tile
    return [
        (start + first, length)
        for start, run in ranges_of(even(extent, min(share, extent)))
        for first, length in ranges_of(even(run, min(tile, run)))
    ]


def _hulls(row: Row, ranges: Sequence[Sequence[Range]]) -> Iterator[tuple[int, int]]:
    """The least and the largest value of a subscript in each combination of tiles."""
    for chosen in product(*(ranges[variable] for variable, _ in row.terms)):
        low = high = row.constant
        for (_, by), (start, length) in zip(row.terms, chosen, strict=True):
            ends = by * start, by * (start + length - 1)
            low, high = low + min(ends), high + max(ends)
        yield low, high


def _around(row: Row, ranges: Sequence[Range], size: int) -> int:
    """How many values of a subscript lie before and behind a dimension of this size."""
    ((low, high),) = _hulls(row, [[each] for each in ranges])
    return max(-low, 0) + max(high - size + 1, 0)


def _span(row: Row, lengths: Sequence[int], size: int | None) -> int:
    """What a subscript spans while its variables run over ranges; size: of the dimension, if parts
    outside of it do not count.
    """
    span = 1 + sum(abs(by) * (lengths[variable] - 1) for variable, by in row.terms)
    return span if size is None else min(span, size)
