"""The schedule space of a kernel: knobs with their values, points, and the tiling of a point.

The default rule, and whoever searches further, chooses a value for each knob; everything else
follows (FlexTensor, Zheng et al., ASPLOS 2020, calls this the schedule space). `Space.tiling`
derives the loops of a point. Points that differ only where it does not matter have equal tilings.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import pairwise, product
from random import Random
from typing import TypeAlias

from vtac.dialects.te import LANES
from vtac.passes.te.schedule.structure import ScheduledStage, Structure
from vtac.passes.te.schedule.tiling import Reduction, Tiling, even, tile_sizes

Value: TypeAlias = int | bool | str | tuple[int, ...] | tuple[str, ...] | tuple[str, int] | None

Point: TypeAlias = Mapping[str, Value]
"""Values by the names of knobs; a missing knob has its default."""

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


class KnobKind(Enum):
    """What the neighbours of a knob's value are."""

    ORDERED = "ordered"
    """The values before and after it."""
    PERMUTATION = "permutation"
    """The same with two neighbouring entries exchanged."""
    CHOICE = "choice"
    """All other values."""


@dataclass(frozen=True)
class Knob:
    """One decision. The values of a permutation are the permutations of ``default``."""

    name: str
    kind: KnobKind
    values: tuple[Value, ...]
    default: Value

    def neighbours(self, value: Value) -> Iterator[Value]:
        """The values next to one."""
        if self.kind is KnobKind.PERMUTATION:
            assert isinstance(value, tuple)
            for place in range(len(value) - 1):
                names = list(map(str, value))
                names[place], names[place + 1] = names[place + 1], names[place]
                yield tuple(names)
        elif self.kind is KnobKind.ORDERED:
            for one, other in pairwise(self.values):
                if value in (one, other):
                    yield other if value == one else one
        else:
            yield from (other for other in self.values if other != value)

    def draw(self, random: Random) -> Value:
        """Any value, each as likely as the others."""
        if self.kind is KnobKind.PERMUTATION:
            assert isinstance(self.default, tuple)
            names = [str(name) for name in self.default]
            return tuple(random.sample(names, len(names)))
        return random.choice(self.values)


@dataclass(frozen=True)
class Space:
    """The knobs of one kernel.

    For each axis of the root: ``tile.AXIS`` (elements of a tile) and ``end.AXIS`` (its first or
    last tile cut in two). ``order``: of the tile loops, outermost first. For each reduction axis of
    a product: ``cut.STAGE.AXIS`` (elements of a tile) and ``start.STAGE.AXIS`` (smaller first
    tiles). ``whole.STAGE.activations`` and ``whole.STAGE.weights``: loaded for the whole reduction
    at once. ``windows.STAGE``: activations loaded anew for taps that only move their window.
    ``slots.inp``, ``slots.wgt``, ``slots.acc``: buffers of an operand, and of a tile. ``piece``: an
    axis and into how many pieces the end of a tile is cut along it.
    """

    structure: Structure
    knobs: Mapping[str, Knob] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "knobs", {knob.name: knob for knob in _declared(self.structure)})

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """The axes of the root before its lanes."""
        return tuple(self.structure.root.compute.spatial.names[:-LANES])

    def value(self, point: Point, name: str) -> Value:
        """The value of a knob at a point."""
        return point[name] if name in point else self.knobs[name].default

    def with_values(self, point: Point, values: Mapping[str, Value]) -> Point:
        """The point with other values of some knobs, defaults left out."""
        changed = {**point, **values}
        return {name: v for name, v in changed.items() if v != self.knobs[name].default}

    def check(self, point: Point) -> str | None:
        """What is wrong with a point that comes from elsewhere; None if it is in the space."""
        for name, value in point.items():
            knob = self.knobs.get(name)
            if knob is None:
                return f"there is no knob {name!r}"
            if knob.kind is KnobKind.PERMUTATION:
                default = knob.default
                assert isinstance(default, tuple)
                known = isinstance(value, tuple) and sorted(map(str, value)) == sorted(
                    map(str, default)
                )
            else:
                known = any(value == v and type(value) is type(v) for v in knob.values)
            if not known:
                return f"knob {name!r} has no value {value!r}"
        return None

    def draw(self, random: Random) -> Point:
        """A random point, uniform over the values of each knob."""
        return self.with_values({}, {n: knob.draw(random) for n, knob in self.knobs.items()})

    def varied(self, point: Point, prefix: str) -> Iterator[Point]:
        """The points with another value of one of the knobs whose names begin so."""
        for name, knob in self.knobs.items():
            if name.startswith(prefix):
                for value in knob.values:
                    if value != self.value(point, name):
                        yield self.with_values(point, {name: value})

    def grid(self, point: Point, values: Mapping[str, Sequence[Value]]) -> Iterator[Point]:
        """The points with every combination of the given values of some knobs."""
        for chosen in product(*values.values()):
            yield self.with_values(point, dict(zip(values, chosen, strict=True)))

    def neighbours(self, point: Point) -> Iterator[Point]:
        """The points one step away: another neighbouring value of one knob."""
        for name, knob in self.knobs.items():
            for value in knob.neighbours(self.value(point, name)):
                yield self.with_values(point, {name: value})

    def tiling(self, point: Point) -> Tiling:
        """The loops that a point stands for."""
        axes, root = self.axes, self.structure.root
        tiles = [
            _with_end(even(extent, self._int(point, f"tile.{axis}")), point.get(f"end.{axis}"))
            for axis, extent in zip(axes, root.extents, strict=True)
        ]
        order = self.value(point, "order")
        assert isinstance(order, tuple)
        return Tiling(
            tiles=tiles,
            order=[axes.index(str(axis)) for axis in order],
            products={
                stage.number: self._reduction(point, stage) for stage in self.structure.products
            },
            slots=(
                self._int(point, "slots.inp"),
                self._int(point, "slots.wgt"),
                self._int(point, "slots.acc"),
            ),
            piece=self._piece(point, tiles),
        )

    def _int(self, point: Point, name: str) -> int:
        value = self.value(point, name)
        assert isinstance(value, int)
        return value

    def _reduction(self, point: Point, stage: ScheduledStage) -> Reduction:
        label = stage.compute.label.data
        cuts = []
        for axis, extent in zip(stage.compute.reduce.names, stage.taps, strict=False):
            size = self._int(point, f"cut.{label}.{axis}")
            start = self.value(point, f"start.{label}.{axis}")
            cuts.append(_with_start(even(extent, size), start))
        windows = bool(self.value(point, f"windows.{label}"))
        parts = Reduction(cuts, (False, False), windows)
        whole = [
            parts.around(stage, operand) == 0 or bool(self.value(point, f"whole.{label}.{name}"))
            for operand, name in ((stage.activations, "activations"), (stage.weights, "weights"))
        ]
        return Reduction(cuts, (whole[0], whole[1]), windows)

    def _piece(self, point: Point, tiles: Sequence[tuple[int, ...]]) -> tuple[int, int] | None:
        value = self.value(point, "piece")
        if value is None or not self.structure.epilogue:
            return None
        assert isinstance(value, tuple)
        place, count = self.axes.index(str(value[0])), value[1]
        assert isinstance(count, int)
        largest = max(tiles[place])
        return (place, -(-largest // count)) if largest > 1 else None


def _with_start(sizes: tuple[int, ...], start: Value) -> tuple[int, ...]:
    """Tiles of a reduction, the first ones smaller where that makes sense."""
    if not start or len(sizes) < 2:
        return sizes
    assert isinstance(start, tuple)
    first = tuple(int(size) for size in start)
    rest = sum(sizes) - sum(first)
    return (*first, *even(rest, sizes[0])) if max(first) < sizes[0] and rest > 0 else sizes


def _with_end(sizes: tuple[int, ...], end: Value) -> tuple[int, ...]:
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


def _declared(structure: Structure) -> Iterator[Knob]:
    root = structure.root
    axes = tuple(root.compute.spatial.names[:-LANES])
    for axis, extent in zip(axes, root.extents, strict=True):
        yield Knob(f"tile.{axis}", KnobKind.ORDERED, _sizes(extent), extent)
    yield Knob("order", KnobKind.PERMUTATION, (), axes)
    for stage in structure.products:
        yield from _of_product(stage)
    for name, most in (("inp", 4), ("wgt", 4), ("acc", 3)):
        values = tuple(range(1, most + 1))
        yield Knob(f"slots.{name}", KnobKind.ORDERED, values, 2)
    pieces = ((axis, count) for axis in axes for count in PIECES)
    yield Knob("piece", KnobKind.CHOICE, (None, *pieces), None)
    for axis in axes:
        yield Knob(f"end.{axis}", KnobKind.CHOICE, (None, *ENDS), None)


def _of_product(stage: ScheduledStage) -> Iterator[Knob]:
    label = stage.compute.label.data
    taps = list(zip(stage.compute.reduce.names, stage.taps, strict=False))
    for axis, extent in taps:
        yield Knob(f"cut.{label}.{axis}", KnobKind.ORDERED, _sizes(extent), extent)
    for axis, _ in taps:
        yield Knob(f"start.{label}.{axis}", KnobKind.CHOICE, (None, *STARTS), None)
    for name in (f"whole.{label}.activations", f"whole.{label}.weights", f"windows.{label}"):
        yield Knob(name, KnobKind.CHOICE, (False, True), False)


def _sizes(extent: int) -> tuple[int, ...]:
    return tuple(tile_sizes(extent, extent))


def different(tilings: Iterable[tuple[Point, Tiling]]) -> Iterator[tuple[Point, Tiling]]:
    """Points and their tilings, those whose tiling has come before left out."""
    seen = set[object]()
    for point, tiling in tilings:
        if tiling.key not in seen:
            seen.add(tiling.key)
            yield point, tiling
