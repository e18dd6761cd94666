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
        """One point, if it is new."""
        point = self.knobs.step(start.point, self.random.choice(self.knobs.directions))
        return [point] if point is not None and self.accepts(point) else []
