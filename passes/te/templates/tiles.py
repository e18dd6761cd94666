"""The template ``tiles``: the loops, buffers and pieces that the default rule chooses from.

It takes every kernel whose stages are understood (`structure_of`); nothing of it is written for one
kind of computation. Its knobs: `vtac.passes.te.schedule.space.Space`.
"""

from functools import cached_property

from vtac.dialects.errors import Problem
from vtac.dialects.target import Target
from vtac.dialects.te import KernelOp, Point, ScheduleOp, copying_intrinsics
from vtac.passes.te.schedule.canonical_point import canonical_point
from vtac.passes.te.schedule.emit import schedule_of
from vtac.passes.te.schedule.search import search
from vtac.passes.te.schedule.simulated_cost import CostSimulator
from vtac.passes.te.schedule.space import Space
from vtac.passes.te.schedule.structure import Structure
from vtac.passes.te.schedule.tiling import Tiling
from vtac.passes.te.templates.template import RulePoint, ScheduleSpace, Template


class TiledSpace(ScheduleSpace):
    """The space of tilings of one kernel."""

    def __init__(self, structure: Structure, target: Target):
        self.space = Space(structure)
        super().__init__(structure, target, self.space.knobs.values())

    @cached_property
    def simulator(self) -> CostSimulator:
        """The cost model, and what buffers need."""
        return CostSimulator(self.structure, self.target)

    def tiling(self, point: Point) -> Tiling:
        """The loops that a point stands for."""
        return self.space.tiling(point)

    def canonical(self, point: Point) -> Point:
        """The point without values that do not matter, see `ScheduleSpace.canonical`."""
        return canonical_point(self.space, self.simulator.needs, point)

    def problem(self, point: Point) -> Problem | None:
        """What a point needs beyond the depths of the scratchpads; None if it fits."""
        found = self.simulator.needs.problem(self.tiling(point))
        hint = "Smaller tiles or fewer slots need less."
        return None if found is None else Problem("", found, hint)

    def cost(self, point: Point, limit: int | None = None) -> int:
        """Simulated cycles of a point, see `CostSimulator`."""
        return self.simulator.cycles(self.tiling(point), limit)

    def rule(self, layer: str = "") -> RulePoint:
        """The point with the lowest cost that the default rule finds."""
        found = search(self.structure, self.target, layer)
        return RulePoint(found.point, found.cycles)

    def schedule(self, kernel: KernelOp, point: Point, cycles: int | None = None) -> ScheduleOp:
        """The schedule of a point, with its estimate and what was chosen."""
        tiling = self.tiling(point)
        if cycles is None:
            cycles = self.simulator.cycles(tiling)
        copying = copying_intrinsics(self.target)
        return schedule_of(kernel, self.structure, tiling, cycles, copying)


class TilesTemplate(Template):
    """Tiles of the result, of the reductions, and slots of buffers."""

    name = "tiles"
    version = 1

    def refuses(self, structure: Structure) -> str | None:
        """It takes every structure."""
        return None

    def declare(self, structure: Structure, target: Target) -> TiledSpace:
        """The space of tilings of a kernel."""
        return TiledSpace(structure, target)
