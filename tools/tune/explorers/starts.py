"""Where to go on from: FlexTensor's annealing over all points judged so far (section 5.1).

A point p is a start with probability proportional to exp(-gamma (E* - E_p) / E*), where E is
performance, here 1 / cycles, and E* the best of it.
"""

from collections.abc import Sequence

import numpy as np

from vtac.dialects.te import Knobs, Point
from vtac.tools.tune.explorers.base import MOST_TRIES, BaseExplorer
from vtac.tools.tune.protocol import Options, Screen, Trial

WARM_UP = 16
"""Number of random points judged before the first starts are drawn."""


class StartingExplorer(BaseExplorer):
    """An explorer that takes steps from points whose cycles it knows."""

    def __init__(self, knobs: Knobs, options: Options, screen: Screen) -> None:
        super().__init__(knobs, options, screen)
        self._starts: list[Trial] = []
        self._weights: list[float] = []
        self._warm_up = WARM_UP

    def tell(self, trials: Sequence[Trial]) -> None:
        """Keep the trials; every point that was not refused can be a start from now on."""
        super().tell(trials)
        for trial in trials:
            if trial.cycles is not None:
                self._starts.append(trial)
        self._weigh()

    def propose(self, count: int) -> Sequence[Point]:
        """Random points during warm-up, then neighbours of starts while there are any."""
        found = self.at_random(min(count, self._warm_up))
        self._warm_up -= len(found)
        if not self._starts:
            return found or self.at_random(count)
        tries = 0
        while self._starts and len(found) < count and tries < MOST_TRIES:
            near = self.near(self.start(), count - len(found))
            found += near
            tries = 0 if near else tries + 1
        return found or self.at_random(count)

    def start(self) -> Trial:
        """A point to go on from."""
        (trial,) = self.random.choices(self._starts, cum_weights=self._weights)
        return trial

    def retire(self, start: Trial) -> None:
        """Draw this start no more: all its neighbours have been asked."""
        self._starts = [trial for trial in self._starts if trial is not start]
        self._weigh()

    def _weigh(self) -> None:
        cycles = np.array([trial.cycles for trial in self._starts], float)
        if len(cycles):
            weights = np.exp(-self.options.gamma * (1 - cycles.min() / cycles))
            self._weights = np.cumsum(weights).tolist()

    def near(self, start: Trial, count: int) -> Sequence[Point]:
        """At most so many new points next to a start."""
        raise NotImplementedError
