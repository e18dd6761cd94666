"""``p``: FlexTensor's P-method, all directions of each start."""

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from vtac.dialects.te import Knobs, Point
from vtac.tools.tune.explorers.starts import StartingExplorer
from vtac.tools.tune.protocol import Options, Screen, Trial


class PMethod(StartingExplorer):
    """FlexTensor's choice of starts, and every direction of each, one after the other."""

    name: ClassVar[str] = "p"

    def __init__(self, knobs: Knobs, options: Options, screen: Screen) -> None:
        super().__init__(knobs, options, screen)
        self._left = deque[Point]()

    def near(self, start: Trial, count: int) -> Sequence[Point]:
        """The remaining neighbours of an earlier start if there are any, else those of this one."""
        if not self._left:
            self._left.extend(self.knobs.neighbours(start.point))
            self.retire(start)
        found: list[Point] = []
        while self._left and len(found) < count:
            point = self._left.popleft()
            if self.accepts(point):
                found.append(point)
        return found
