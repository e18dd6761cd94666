"""``clocked``: what the default rule would choose if it asked the clock in the end.

Around the default point, the points with the lowest simulated costs are clocked: those one step
away from it, and those one step away from the cheapest of them. A baseline for the other methods.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar

from vtac.dialects.te import Point
from vtac.tools.tune.explorers.base import BaseExplorer

CENTRES = 4
"""Points whose neighbours are looked at, besides the default point."""


class Clocked(BaseExplorer):
    """The points with the lowest simulated costs around the default point."""

    name: ClassVar[str] = "clocked"

    def propose(self, count: int) -> Sequence[Point]:
        """All of them at the first call; nothing more later."""
        if self.trials:
            return []
        found: dict[Hashable, tuple[int, Point]] = {}
        self._add(self.knobs.neighbours(self.screen.default), found)
        for _, centre in _cheapest(found, CENTRES):
            self._add(self.knobs.neighbours(centre), found)
        wanted = _cheapest(found, self.options.finalists - 1)
        return [point for _, point in wanted if self.accepts(point)]

    def _add(self, points: Iterable[Point], found: dict[Hashable, tuple[int, Point]]) -> None:
        for point in points:
            key = self.screen.key(point)
            if key not in found and not self.is_known(point) and self.screen.fits(point):
                found[key] = self.screen.cost(point), point


def _cheapest(found: dict[Hashable, tuple[int, Point]], count: int) -> list[tuple[int, Point]]:
    return sorted(found.values(), key=lambda pair: pair[0])[:count]
