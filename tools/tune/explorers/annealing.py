"""``annealing``: from each start one step in a random direction."""

from collections.abc import Sequence
from typing import ClassVar

from vtac.dialects.te import Point
from vtac.tools.tune.explorers.starts import StartingExplorer
from vtac.tools.tune.protocol import Trial


class Annealing(StartingExplorer):
    """FlexTensor's choice of starts, and one random direction of each."""

    name: ClassVar[str] = "annealing"

    def near(self, start: Trial, count: int) -> Sequence[Point]:
        """The first new point in random directions."""
        directions = self.knobs.directions
        for number in self.random.sample(range(len(directions)), len(directions)):
            point = self.knobs.step(start.point, directions[number])
            if point is not None and self.accepts(point):
                return [point]
        self.retire(start)
        return []
