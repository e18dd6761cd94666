"""From an invocation over a box of iterations to GEMM or ALU instructions.

An instruction has two loops with one step an index, around a list of micro-ops. Axes that advance
every index in step become one; the two largest become the loops; the others are written out as
micro-ops. Neither sums nor elementwise operations care about the order, so any axis may be any
loop, except on machines whose ALU does not see the result of the micro-op just before (docs/vta.md,
section 3): there an order is taken in which no micro-op depends on its neighbour.
"""

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .taps import BoxedTaps, ElementDimension, TapLoop, group_taps
from .transfers import row_major

LONGEST_LOOP = (1 << 14) - 1
"""Iterations of a hardware loop at most."""

Offsets: TypeAlias = tuple[int, ...]
"""One number an index: dst, src, wgt, as many as the operation has."""

Rows: TypeAlias = NDArray[np.int64]
"""Micro-ops: int64 [N, indices]."""

Refuses: TypeAlias = Callable[["MicroOpNest"], bool]
"""Says that an instruction would not do what it says on the target."""


@dataclass(frozen=True, slots=True)
class Stride:
    """An axis as the machine sees it: iterations, and what one adds to each index."""

    count: int
    by: Offsets


@dataclass(frozen=True)
class MicroOpNest:
    """One instruction: micro-ops, and the loops [out, in] around them."""

    micro_ops: Rows
    loops: tuple[Stride, Stride]

    def of(self, columns: Sequence[int]) -> "MicroOpNest":
        """The same points, with these columns of indices only."""
        picked = list(columns)
        loops = [Stride(loop.count, tuple(loop.by[c] for c in picked)) for loop in self.loops]
        return MicroOpNest(self.micro_ops[:, picked], (loops[0], loops[1]))

    def sequence(self) -> Rows:
        """All micro-ops in the order in which they run, int64 [N, indices]."""
        rows = self.micro_ops
        for loop in reversed(self.loops):
            rows = _repeat(rows, loop)
        return rows


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What an ALU operation allows between a micro-op and those before it.

    in_place: the destination lies in the same buffer as the last source, of an element-wise
    operation. immediate: the operation has an immediate. bypass: see `Target.alu_bypass`.
    """

    in_place: bool
    immediate: bool
    bypass: bool

    def refuses(self, nest: MicroOpNest) -> bool:
        """Whether an order of micro-ops would compute something else.

        Raises `ValueError` where every order would.
        """
        if not self.in_place:
            return False
        if not self.immediate:
            rows = nest.sequence()
            if (rows[:, 0] != rows[:, 1]).any() and np.isin(rows[:, 1], rows[:, 0]).any():
                raise ValueError("an operation reads elements of its own result")
        return not self.bypass and depends_on_neighbour(nest, self.immediate)


class OutsideWindowError(ValueError):
    """An invocation reads an element of a tensor that the buffer does not hold."""


def plan(
    axes: Sequence[TapLoop],
    operands: Sequence[Sequence[ElementDimension]],
    entries: int,
    refuses: Refuses = lambda nest: False,
) -> list[MicroOpNest]:
    """The instructions of an invocation.

    operands: the places of each operand's element, destination first. entries: micro-ops that an
    instruction may have. Raises `OutsideWindowError` where a buffer does not hold what is needed.
    """
    places = [place for operand in operands for place in operand]
    nests: list[MicroOpNest] = []
    for group in group_taps(axes, places):
        _check(group, places)
        base, strides, taps = _flatten(group, operands)
        nests += _nests(taps + base, strides, entries, refuses)
    return nests


def _check(group: BoxedTaps, places: Sequence[ElementDimension]) -> None:
    """Every element lies in its buffer. Where a window ends with its tensor, taps did that."""
    partial = [place for place in places if place.low < 0 or place.high > place.length]
    leaving = [place for place in partial if not _holds(place, group.box)]
    for tap in group.taps if leaving else ():
        box = list(group.box)
        for axis, value in zip(group.enumerated, tap, strict=True):
            box[axis] = (value, value)
        for place in leaving:
            if not _holds(place, box):
                low, high = place.reach(box)
                raise OutsideWindowError(
                    f"elements {low} to {high} of a window of {place.length} elements"
                )


def _holds(place: ElementDimension, box: Sequence[tuple[int, int]]) -> bool:
    low, high = place.reach(box)
    return low >= 0 and high < place.length


def _flatten(
    group: BoxedTaps, operands: Sequence[Sequence[ElementDimension]]
) -> tuple[Rows, list[Stride], Rows]:
    """First element of each operand, the steps of each axis, and offsets written out, if any."""
    weights = [row_major(tuple(place.length for place in places)) for places in operands]
    along: list[Offsets] = [
        tuple(
            [
                _dot([place.steps[axis] for place in places], weight)
                for places, weight in zip(operands, weights, strict=True)
            ]
        )
        for axis in range(len(group.box))
    ]
    base = [
        _dot([place.base for place in places], weight)
        for places, weight in zip(operands, weights, strict=True)
    ]
    strides = []
    for axis, (first, last) in enumerate(group.box):
        if axis not in group.enumerated:
            strides.append(Stride(last - first + 1, along[axis]))
            base = [at + by * first for at, by in zip(base, along[axis], strict=True)]
    origin = np.array(base, np.int64)
    taps = np.array(group.taps, np.int64).reshape(len(group.taps), len(group.enumerated))
    steps = [along[axis] for axis in group.enumerated]
    boxed = _as_box(taps, steps)
    if boxed is not None:
        first_tap, more = boxed
        return origin + first_tap, strides + more, np.zeros((1, len(operands)), np.int64)
    return origin, strides, taps @ np.array(steps, np.int64)


def _dot(values: Sequence[int], weights: Sequence[int]) -> int:
    return sum(map(operator.mul, values, weights))


def _as_box(taps: Rows, steps: Sequence[Offsets]) -> tuple[Rows, list[Stride]] | None:
    """The taps as axes with constant steps, if that is what they are."""
    strides = []
    first = np.zeros(len(steps[0]) if steps else 1, np.int64)
    for column, by in zip(taps.T, steps, strict=True):
        values = np.unique(column)
        gaps = np.unique(np.diff(values))
        if len(gaps) > 1:
            return None
        gap = int(gaps[0]) if len(gaps) else 0
        first = first + int(values[0]) * np.array(by, np.int64)
        strides.append(Stride(len(values), tuple(gap * step for step in by)))
    if math.prod(stride.count for stride in strides) != len(taps):
        return None
    return first, strides


def _nests(
    points: Rows, strides: Sequence[Stride], entries: int, refuses: Refuses
) -> Iterator[MicroOpNest]:
    """Instructions that run `points` at every iteration of `strides`."""
    points, strides = _normalise(points, strides)
    cut = _too_much(points, strides, entries)
    if cut is not None:
        for part, rest in cut:
            yield from _nests(part, rest, entries, refuses)
        return
    orders = _orders(points, strides, entries)
    chosen = next((nest for nest in orders if not refuses(nest)), None)
    if chosen is not None:
        yield chosen
        return
    for part, rest in _halves(points, strides):
        yield from _nests(part, rest, entries, refuses)


def _normalise(points: Rows, strides: Sequence[Stride]) -> tuple[Rows, list[Stride]]:
    """Forward steps only, no axis of one iteration, axes that run in step joined."""
    kept: list[Stride] = []
    for stride in strides:
        if stride.count == 1:
            continue
        if min(stride.by) < 0:
            if max(stride.by) > 0:
                points = _repeat(points, stride)
                continue
            points = points + np.array(stride.by, np.int64) * (stride.count - 1)
            stride = replace(stride, by=tuple(-by for by in stride.by))
        kept.append(stride)
    return points, _collapse(kept)


def _collapse(strides: list[Stride]) -> list[Stride]:
    for outer, inner in itertools.permutations(range(len(strides)), 2):
        one, other = strides[outer], strides[inner]
        if one.by == tuple(other.count * by for by in other.by):
            rest = [s for i, s in enumerate(strides) if i not in (outer, inner)]
            return _collapse([*rest, Stride(one.count * other.count, other.by)])
    return strides


def _too_much(
    points: Rows, strides: Sequence[Stride], entries: int
) -> list[tuple[Rows, list[Stride]]] | None:
    """Pieces, where loops are too long or micro-ops too many for one instruction."""
    for index, stride in enumerate(strides):
        if stride.count > LONGEST_LOOP:
            return _cut(points, strides, index, LONGEST_LOOP)
    if len(points) > entries:
        starts = range(0, len(points), entries)
        return [(points[start : start + entries], list(strides)) for start in starts]
    rest = sorted(range(len(strides)), key=lambda index: -strides[index].count)[2:]
    needed = len(points) * math.prod(strides[index].count for index in rest)
    if needed <= entries:
        return None
    widest = rest[0]
    fitting = max(1, strides[widest].count * entries // needed)
    return _cut(points, strides, widest, fitting)


def _cut(
    points: Rows, strides: Sequence[Stride], index: int, size: int
) -> list[tuple[Rows, list[Stride]]]:
    """Pieces of `size` iterations along one axis."""
    pieces = []
    axis = strides[index]
    for start in range(0, axis.count, size):
        piece = list(strides)
        piece[index] = replace(axis, count=min(size, axis.count - start))
        pieces.append((points + np.array(axis.by, np.int64) * start, piece))
    return pieces


def _halves(points: Rows, strides: Sequence[Stride]) -> list[tuple[Rows, list[Stride]]]:
    """Two smaller pieces. A single micro-op has no neighbour to depend on."""
    if strides:
        index = max(range(len(strides)), key=lambda i: strides[i].count)
        return _cut(points, strides, index, -(-strides[index].count // 2))
    middle = len(points) // 2
    return [(points[:middle], []), (points[middle:], [])]


def _orders(points: Rows, strides: Sequence[Stride], entries: int) -> Iterator[MicroOpNest]:
    """The ways to write the axes as one instruction, that with the fewest micro-ops first."""
    single = Stride(1, (0,) * points.shape[1])
    padded = [*strides, single, single]
    pairs = itertools.combinations(range(len(padded)), 2)
    for pair in sorted(pairs, key=lambda pair: -padded[pair[0]].count * padded[pair[1]].count):
        rest = [stride for i, stride in enumerate(padded) if i not in pair and stride.count > 1]
        if len(points) * math.prod(stride.count for stride in rest) > entries:
            return
        # Reductions outside, so that neighbouring micro-ops have different destinations.
        rest.sort(key=lambda stride: (stride.by[0] > 0, -stride.count))
        for inside in itertools.permutations(rest):
            rows = points
            for stride in reversed(inside):
                rows = _repeat(rows, stride)
            for out, inner in (pair, pair[::-1]):
                yield MicroOpNest(rows, (padded[out], padded[inner]))


def _repeat(rows: Rows, stride: Stride) -> Rows:
    """The rows once an iteration, iterations outermost."""
    steps = np.arange(stride.count, dtype=np.int64)[:, None, None]
    return (steps * np.array(stride.by, np.int64) + rows).reshape(-1, rows.shape[1])


def depends_on_neighbour(nest: MicroOpNest, immediate: bool) -> bool:
    """Whether an ALU micro-op reads what the one just before it writes.

    Also from the last of one iteration to the first of the next. An immediate operation reads its
    destination (column 0), or its source (column 1) where targets let it; one with two operands
    reads its source late enough only for the destination.
    """
    rows = nest.sequence()
    dst = rows[:, 0]
    read = rows[:, 1] if rows.shape[1] > 1 else dst
    same = read[1:] == dst[:-1]
    if immediate:
        same |= dst[1:] == dst[:-1]
    return bool(same.any())
