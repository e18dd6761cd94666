"""From the points that the formula likes to one whose tiling costs least: simulated, then varied.

What the formula leaves alone is tried here, one group of knobs after the other: the last operations
and the store in pieces, so that little is left to store at the end; the first tiles of a reduction
smaller, so that the first product starts early; more slots; first or last tiles that are smaller;
biases loaded once, before all tiles.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from vtac.dialects.te import Point
from vtac.passes.te.schedule.simulated_cost import CostSimulator
from vtac.passes.te.schedule.space import Space, different, piece_of
from vtac.passes.te.schedule.tiling import Tiling

LEAST, WORTH = 3, 1_000
"""Points that are simulated: at least ``LEAST``, and one for each ``WORTH`` cycles."""

LARGE = 10_000
"""A kernel of more cycles than this has its points varied in every way."""

SOME = 6
"""Number of pieces of a tile's end that the search begins with."""

KEEPING = 0.001
"""Relative gain by the simulation from which on biases are kept; less is within its error."""

DEARLY = 0.02
"""Relative gain of keeping biases from which on tiles are chosen anew for it."""

LEADING = 2
"""Of the axes with more than one element in a tile, how many of the first may be cut in pieces."""


class SimulatedPoint(NamedTuple):
    """A point, its tiling, and the cycles that this takes."""

    point: Point
    tiling: Tiling
    cycles: int


def refine(
    space: Space, simulator: CostSimulator, found: Sequence[tuple[int, Point]]
) -> SimulatedPoint | None:
    """The best point found; None if none fits.

    found: points with the costs that the formula gives them, those of one order of loops together,
    the best of them first.
    """
    refinement = _Refinement(space, simulator)
    distinct = different((point, space.tiling(point)) for _, point in found)
    expected = min(cost for cost, _ in found)
    few = itertools.islice(distinct, max(LEAST, expected // WORTH))
    starts = [_with_pieces(space, point) for point, _ in few]
    first = refinement.best(starts, None)
    if first is None:
        return None
    if expected <= LARGE:
        return refinement.varied(first, [_pieces])
    best = refinement.finished(first)
    # Where biases cost much, another tile may be the best one without them.
    kept = refinement.kept(starts, int((1 - DEARLY) * first.cycles))
    if kept is not None:
        best = refinement.finished(kept, best)
    return best


class _Refinement:
    """Points of one space that are simulated and varied."""

    def __init__(self, space: Space, simulator: CostSimulator):
        self._space, self._simulator = space, simulator

    def best(
        self, points: Iterable[Point], than: SimulatedPoint | None, limit: int | None = None
    ) -> SimulatedPoint | None:
        """The best of some points that fit, if it takes fewer cycles than another point.

        limit: cycles that it must stay below, too.
        """
        best = than
        for point in points:
            tiling = self._space.tiling(point)
            bound = limit if best is None else best.cycles
            cycles = self._simulator.cycles(tiling, bound)
            if (bound is None or cycles < bound) and self._simulator.needs.fits(tiling):
                best = SimulatedPoint(point, tiling, cycles)
        return best

    def varied(
        self, best: SimulatedPoint, groups: Iterable[Callable[[Space, Point], Iterator[Point]]]
    ) -> SimulatedPoint:
        """The best point that is found when one group of knobs after the other is varied."""
        for group in groups:
            best = self.best(group(self._space, best.point), best) or best
        return best

    def kept(self, starts: Sequence[Point], limit: int) -> SimulatedPoint | None:
        """The best of some points with all biases loaded once, below a limit of cycles."""
        keeps = dict.fromkeys(self._space.keeps, True)
        if not keeps:
            return None
        points = (self._space.with_values(point, keeps) for point in starts)
        return self.best(points, None, limit)

    def finished(self, start: SimulatedPoint, than: SimulatedPoint | None = None) -> SimulatedPoint:
        """What varying a point in every way leads to.

        than: a point that must be beaten by more than the simulation's error.
        """
        before = self.varied(start, [_pieces, _starts, _slots, _ends, _pieces])
        best = self.varied(before, [_keeps])
        best = best if best.cycles < (1 - KEEPING) * before.cycles else before
        return best if than is None or best.cycles < (1 - KEEPING) * than.cycles else than


def _cut_axes(space: Space, point: Point) -> list[str]:
    """The axes with more than one element in a tile."""
    return [axis for axis in space.axes if space.value(point, f"tile.{axis}") != 1]


def _with_pieces(space: Space, point: Point) -> Point:
    """The end of each tile in some pieces, if there is something to cut."""
    axes = _cut_axes(space, point)
    if not space.structure.epilogue or not axes:
        return point
    return space.with_values(point, {"piece": piece_of(axes[0], SOME)})


def _pieces(space: Space, point: Point) -> Iterator[Point]:
    """The end of each tile whole, or in pieces along one of the first axes that can be cut."""
    leading = _cut_axes(space, point)[:LEADING]
    for varied in space.varied(point, "piece") if space.structure.epilogue else ():
        value = space.value(varied, "piece")
        if value is None or (str(value).rpartition("/")[0] in leading):
            yield varied


def _starts(space: Space, point: Point) -> Iterator[Point]:
    """The first tiles of the largest product's reduction small."""
    for stage in space.structure.products[:1]:
        yield from space.varied(point, f"start.{stage.compute.label.data}.")


def _slots(space: Space, point: Point) -> Iterator[Point]:
    """More slots for operands."""
    yield from space.grid(point, {"slots.inp": (2, 3), "slots.wgt": (2, 3, 4)})


def _keeps(space: Space, point: Point) -> Iterator[Point]:
    """Operands of operations loaded before all tiles: all of them, or one."""
    if len(space.keeps) > 1:
        yield space.with_values(point, dict.fromkeys(space.keeps, True))
    yield from space.varied(point, "keep.")


def _ends(space: Space, point: Point) -> Iterator[Point]:
    """The first or the last tile of an axis cut in two."""
    yield from space.varied(point, "end.")
