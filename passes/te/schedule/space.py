"""The schedule space of a kernel: knobs with their values, points, and the tiling of a point.

The default rule, and whoever searches further, chooses a value for each knob; everything else
follows (FlexTensor, Zheng et al., ASPLOS 2020, calls this the schedule space). `Space.tiling`
derives the loops of a point. Points that differ only where it does not matter have equal tilings.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TypeAlias

from vtac.dialects.te import LANES, Knob, KnobKind, Knobs, Point, Value
from vtac.passes.te.schedule.footprint import axes_of_operand
from vtac.passes.te.schedule.structure import ScheduledStage, Structure
from vtac.passes.te.schedule.tiling import Reduction, Tiling, even, tile_sizes

ENDS: Mapping[str, tuple[int, bool]] = {
    "last/2": (2, True),
    "first/2": (2, False),
    "last/4": (4, True),
    "first/4": (4, False),
}
"""Ways to cut the first or the last tile of an axis in two: the divisor, and whether the last."""

STARTS = ((1,), (2,), (1, 1), (1, 2), (1, 1, 2))
"""First tiles of a reduction, so that the first product starts early."""

PIECES = (2, 4, 6, 8, 16)
"""Numbers of pieces into which the end of a tile may be cut."""


REDUCTION_KNOBS = ("cut", "start", "order", "whole", "windows")
"""The first parts of the names of the knobs that a product's reduction follows from."""

MOST_ADDED = 3
"""Tiles that an end or a start adds at most."""


class Space(Knobs):
    """The knobs of one kernel.

    For each axis of the root: ``tile.AXIS`` (elements of a tile) and ``end.AXIS`` (its first or
    last tile cut in two). ``order``: of the tile loops, outermost first. For each reduction axis of
    a product: ``cut.STAGE.AXIS`` (elements of a tile) and ``start.STAGE.AXIS`` (smaller first
    tiles). ``order.STAGE``: of the loops over these tiles, outermost first.
    ``whole.STAGE.activations`` and ``whole.STAGE.weights``: loaded for the whole reduction at once.
    ``keep.STAGE.NUMBER``: an operand of an operation, such as a bias, loaded before all tiles.
    ``windows.STAGE``: activations loaded anew for taps that only move their window. ``slots.inp``,
    ``slots.wgt``, ``slots.acc``: buffers of an operand, and of a tile. ``piece``: an axis and into
    how many pieces the end of a tile is cut along it, as ``AXIS/COUNT``.
    """

    def __init__(self, structure: Structure):
        super().__init__(_declared(structure))
        self.structure = structure
        self._reductions: dict[object, Reduction] = {}

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The axes of the root before its lanes."""
        return tuple(self.structure.root.compute.spatial.names[:-LANES])

    def tiling(self, point: Point) -> Tiling:
        """The loops that a point stands for."""
        axes, root = self.axes, self.structure.root
        tiles = [
            with_end(even(extent, self._int(point, f"tile.{axis}")), point.get(f"end.{axis}"))
            for axis, extent in zip(axes, root.extents, strict=True)
        ]
        order = self.value(point, "order")
        assert isinstance(order, tuple)
        return Tiling(
            tiles=tiles,
            order=[axes.index(str(axis)) for axis in order],
            products=self._products(point),
            slots=(
                self._int(point, "slots.inp"),
                self._int(point, "slots.wgt"),
                self._int(point, "slots.acc"),
            ),
            piece=self._piece(point, tiles),
            kept=frozenset(what for name, what in self.keeps.items() if point.get(name)),
        )

    @cached_property
    def keeps(self) -> Mapping[str, tuple[int, int]]:
        """The operands that may be loaded before all tiles, stage and operand, by their knobs."""
        return dict(_kept_operands(self.structure))

    def _int(self, point: Point, name: str) -> int:
        value = self.value(point, name)
        assert isinstance(value, int)
        return value

    @cached_property
    def _readers(self) -> Mapping[str, int]:
        """The product, by number of its stage, that each knob of a reduction is for."""
        numbers = {stage.compute.label.data: stage.number for stage in self.structure.products}
        labels = {name: name.split(".")[1] for name in self.knobs if name.count(".")}
        return {
            name: numbers[label]
            for name, label in labels.items()
            if label in numbers and name.split(".")[0] in REDUCTION_KNOBS
        }

    def _products(self, point: Point) -> dict[int, Reduction]:
        """How each product accumulates; points with equal values for it share what was found."""
        values: dict[int, list[object]] = {stage.number: [] for stage in self.structure.products}
        for name, value in point.items():
            number = self._readers.get(name)
            if number is not None:
                values[number].append((name, value))
        found = {}
        for stage in self.structure.products:
            key = stage.number, tuple(values[stage.number])
            if key not in self._reductions:
                self._reductions[key] = self._reduction(point, stage)
            found[stage.number] = self._reductions[key]
        return found

    def _reduction(self, point: Point, stage: ScheduledStage) -> Reduction:
        label = stage.compute.label.data
        cuts = []
        for axis, extent in zip(stage.compute.reduce.names, stage.taps, strict=False):
            size = self._int(point, f"cut.{label}.{axis}")
            start = self.value(point, f"start.{label}.{axis}")
            cuts.append(with_start(even(extent, size), start))
        windows = bool(self.value(point, f"windows.{label}"))
        order = self._order_of_reduction(point, stage)
        parts = Reduction(cuts, (False, False), windows, order)
        whole = [
            parts.around(stage, operand) == 0 or bool(self.value(point, f"whole.{label}.{name}"))
            for operand, name in ((stage.activations, "activations"), (stage.weights, "weights"))
        ]
        return Reduction(cuts, (whole[0], whole[1]), windows, order)

    def _order_of_reduction(self, point: Point, stage: ScheduledStage) -> Sequence[int]:
        """The reduction axes, outermost loop first; a single one has no knob."""
        name = f"order.{stage.compute.label.data}"
        if name not in self.knobs:
            return ()
        axes, names = self.value(point, name), stage.compute.reduce.names
        assert isinstance(axes, tuple)
        return [names.index(str(axis)) for axis in axes]

    def _piece(self, point: Point, tiles: Sequence[tuple[int, ...]]) -> tuple[int, int] | None:
        value = self.value(point, "piece")
        if value is None or not self.structure.epilogue:
            return None
        assert isinstance(value, str)
        axis, _, count = value.rpartition("/")
        place = self.axes.index(axis)
        largest = max(tiles[place])
        return (place, -(-largest // int(count))) if largest > 1 else None


def with_start(sizes: tuple[int, ...], start: Value) -> tuple[int, ...]:
    """Tiles of a reduction, the first ones smaller where that makes sense."""
    if not start or len(sizes) < 2:
        return sizes
    assert isinstance(start, tuple)
    first = tuple(int(size) for size in start)
    rest = sum(sizes) - sum(first)
    return (*first, *even(rest, sizes[0])) if max(first) < sizes[0] and rest > 0 else sizes


def with_end(sizes: tuple[int, ...], end: Value) -> tuple[int, ...]:
    """Tiles of an axis, the first or the last cut in two where that makes sense."""
    if not isinstance(end, str) or end not in ENDS or len(sizes) < 2:
        return sizes
    divisor, is_last = ENDS[end]
    whole = sizes[-1] if is_last else sizes[0]
    small = whole // divisor
    if not small:
        return sizes
    if is_last:
        return (*sizes[:-1], whole - small, small)
    return (small, whole - small, *sizes[1:])


def knobs_of_tiles(sizes: tuple[int, ...], end: Value) -> tuple[int, Value]:
    """The first values of ``tile.AXIS`` and ``end.AXIS`` that give these tiles; end: one that does.

    Which tile sizes there are follows from the extent, which is the sum of the tiles.
    """
    return (sizes[0], None) if end is None else _first_values(sizes, (None, *ENDS), with_end)


def knobs_of_cuts(sizes: tuple[int, ...], start: Value) -> tuple[int, Value]:
    """The first values of ``cut.STAGE.AXIS`` and ``start.STAGE.AXIS`` that give these tiles."""
    return (sizes[0], None) if start is None else _first_values(sizes, (None, *STARTS), with_start)


_Changed: TypeAlias = Callable[[tuple[int, ...], Value], tuple[int, ...]]


@lru_cache(1 << 12)
def _first_values(
    sizes: tuple[int, ...], changes: tuple[Value, ...], changed: _Changed
) -> tuple[int, Value]:
    extent = sum(sizes)
    for change in changes:
        for size in _sizes(extent):
            # Changes add a few tiles; most sizes make far more or fewer, and are not worked out.
            few = abs(-(-extent // size) - len(sizes)) <= MOST_ADDED
            if few and changed(even(extent, size), change) == sizes:
                return size, change
    raise AssertionError(f"no values of knobs give {sizes}")


def _declared(structure: Structure) -> Iterator[Knob]:
    root = structure.root
    axes = tuple(root.compute.spatial.names[:-LANES])
    for axis, extent in zip(axes, root.extents, strict=True):
        yield Knob(f"tile.{axis}", KnobKind.ORDERED, _sizes(extent), extent)
    yield Knob("order", KnobKind.PERMUTATION, (), axes)
    for name, _ in _kept_operands(structure):
        yield Knob(name, KnobKind.CHOICE, (False, True), False)
    for stage in structure.products:
        yield from _of_product(stage)
    for name, most in (("inp", 4), ("wgt", 4), ("acc", 3)):
        values = tuple(range(1, most + 1))
        yield Knob(f"slots.{name}", KnobKind.ORDERED, values, 2)
    pieces = (piece_of(axis, count) for axis in axes for count in PIECES)
    yield Knob("piece", KnobKind.CHOICE, (None, *pieces), None)
    for axis in axes:
        yield Knob(f"end.{axis}", KnobKind.CHOICE, (None, *ENDS), None)


def _kept_operands(structure: Structure) -> Iterator[tuple[str, tuple[int, int]]]:
    """The knobs of operands of operations that tile loops may move, with stage and operand."""
    for stage in structure.stages:
        own = structure.root_axes[stage.number]
        for number in structure.vectors(stage):
            if axes_of_operand(stage, number, own):
                yield f"keep.{stage.compute.label.data}.{number}", (stage.number, number)


def _of_product(stage: ScheduledStage) -> Iterator[Knob]:
    label = stage.compute.label.data
    taps = list(zip(stage.compute.reduce.names, stage.taps, strict=False))
    for axis, extent in taps:
        yield Knob(f"cut.{label}.{axis}", KnobKind.ORDERED, _sizes(extent), extent)
    for axis, _ in taps:
        yield Knob(f"start.{label}.{axis}", KnobKind.CHOICE, (None, *STARTS), None)
    if len(taps) > 1:
        yield Knob(f"order.{label}", KnobKind.PERMUTATION, (), tuple(axis for axis, _ in taps))
    for name in (f"whole.{label}.activations", f"whole.{label}.weights", f"windows.{label}"):
        yield Knob(name, KnobKind.CHOICE, (False, True), False)


def piece_of(axis: str, count: int) -> str:
    """The value of ``piece`` for so many pieces along an axis."""
    return f"{axis}/{count}"


def _sizes(extent: int) -> tuple[int, ...]:
    return tuple(tile_sizes(extent, extent))


def different(tilings: Iterable[tuple[Point, Tiling]]) -> Iterator[tuple[Point, Tiling]]:
    """Points and their tilings, those whose tiling has come before left out."""
    seen = set[object]()
    for point, tiling in tilings:
        if tiling.key not in seen:
            seen.add(tiling.key)
            yield point, tiling
