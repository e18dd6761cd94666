"""Base class of explorers: begin with the default point, ask no point twice, keep trials."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from random import Random

from vtac.dialects.te import Knobs, Point
from vtac.tools.tune.protocol import Options, Screen, Trial

MOST_TRIES = 2_000
"""Consecutive draws without a new point after which a method gives up."""


class BaseExplorer(ABC):
    """An explorer that proposes new points that fit.

    trials: all trials told so far, in order.
    """

    def __init__(self, knobs: Knobs, options: Options, screen: Screen) -> None:
        self.knobs, self.options, self.screen = knobs, options, screen
        self.random = Random(options.seed)
        self.trials: list[Trial] = []
        self._asked = set[Hashable]()
        self._begun = False

    def ask(self, count: int) -> Sequence[Point]:
        """Points to judge next, the default point first of all."""
        found: list[Point] = []
        if not self._begun and not self.options.cold and self.accepts(self.screen.default):
            found.append(self.screen.default)
        self._begun = True
        if len(found) < count:
            found += self.propose(count - len(found))
        return found

    def tell(self, trials: Sequence[Trial]) -> None:
        """Remember what the points of the last `ask` cost."""
        self.trials += trials

    @abstractmethod
    def propose(self, count: int) -> Sequence[Point]:
        """At most ``count`` points, each of them accepted by `accepts`."""

    def is_known(self, point: Point) -> bool:
        """Whether a point that stands for the same program has been asked."""
        return self.screen.key(point) in self._asked

    def accepts(self, point: Point) -> bool:
        """Whether a point is new and fits; if so it counts as asked from now on."""
        key = self.screen.key(point)
        if key in self._asked or not self.screen.fits(point):
            return False
        self._asked.add(key)
        return True

    def at_random(self, count: int) -> list[Point]:
        """New random points, uniform over the values of each knob."""
        found: list[Point] = []
        tries = 0
        while len(found) < count and tries < MOST_TRIES:
            tries += 1
            point = self.knobs.draw(self.random)
            if self.accepts(point):
                found.append(point)
                tries = 0
        return found
