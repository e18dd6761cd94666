"""The ladder: an explorer is told simulated costs, and the best points that it found are clocked.

Methods that need thousands of trials to learn get them in this way, as the simulated cost is 100
times quicker than the clock.
"""

from collections.abc import Sequence
from typing import ClassVar

from vtac.dialects.te import Knobs, Point
from vtac.tools.tune.protocol import SIMULATED, Explorer, Options, Screen, Trial


class Ladder:
    """Lets another explorer learn from simulated costs, and asks to clock the best points.

    trace: the trials with simulated costs, in the order in which the other explorer got them.
    """

    name: ClassVar[str] = "ladder"

    def __init__(
        self, method: type[Explorer], knobs: Knobs, options: Options, screen: Screen
    ) -> None:
        self._explorer = method(knobs, options, screen)
        self._options, self._screen = options, screen
        self._left: list[Point] | None = None
        self.trace: list[Trial] = []

    def ask(self, count: int) -> Sequence[Point]:
        """The best points by simulated cost, cheapest first."""
        if self._left is None:
            self._left = self._climb()
        found, self._left = self._left[:count], self._left[count:]
        return found

    def tell(self, trials: Sequence[Trial]) -> None:
        """Ignore the trials: the points to clock are chosen by simulated cost alone."""

    def _climb(self) -> list[Point]:
        while len(self.trace) < self._options.simulations:
            wanted = min(self._options.batch, self._options.simulations - len(self.trace))
            points = self._explorer.ask(wanted)
            if not points:
                break
            trials = [Trial(point, self._screen.cost(point), SIMULATED) for point in points]
            self._explorer.tell(trials)
            self.trace += trials
        best = sorted(self.trace, key=lambda trial: trial.cycles or 0)[: self._options.finalists]
        found = [trial.point for trial in best]
        keys = {self._screen.key(point) for point in found}
        if not self._options.cold and self._screen.key(self._screen.default) not in keys:
            found = [self._screen.default, *found[:-1]]
        return found
