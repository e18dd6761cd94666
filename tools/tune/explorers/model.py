"""``model``: annealing on the simulated cost, corrected by what the clock has said so far.

The simulated cost is 100 times quicker than the clock and nearly right. A ridge regression on the
knobs' values learns log(clock / simulated cost) from the clocked trials. Chains of simulated
annealing (Metropolis et al., 1953) walk over the sum of both (`moves` says which steps they take);
the best new points that they meet are clocked, and so on. The way of AutoTVM (Chen et al.,
"Learning to Optimize Tensor Programs", 2018), with a simulator as the larger part of its model.
"""

import heapq
import math
from collections.abc import Hashable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from vtac.dialects.te import Knobs, Point
from vtac.tools.tune.explorers.base import BaseExplorer
from vtac.tools.tune.explorers.features import Features, Vector
from vtac.tools.tune.explorers.moves import Moves
from vtac.tools.tune.protocol import Options, Screen, Trial

CHAINS = 8

DRAWN = 3
"""Random points that are simulated for each chain; the chains begin at the best of them."""

STEPS_FROM_COLD, STEPS_AT_FIRST, STEPS = 200, 80, 12
"""Steps of each chain before the first points are chosen, without and with the default point, and
before any later points."""

HOT, WARM, COLD, COOLING = 0.06, 0.01, 0.002, 0.85
"""Temperatures, in logarithms of cycles: the first walk of each chain cools from the first to the
second one; the later walks begin with the second, and cool by a factor from call to call."""

RESTARTS = 4
"""Chains that go on from the best points at each call; the others go on from where they are."""

NEAR = 4
"""Number of best clocked points whose neighbours are all judged."""

NEARLY = 0.1
"""Neighbours whose score exceeds the point's by more than this are not kept."""

ALIKE = 2
"""Points of one simulated cost that are clocked to see whether the clock agrees about them."""

POOL = 4_000
"""Number of judged points that are kept as candidates."""

RIDGE = 1.0
"""Weight of the squared coefficients in the regression of standardised features."""

FEWEST = 6
"""Fewest clocked trials for a regression; with fewer, only their mean is used."""


class _Known(NamedTuple):
    """A point that fits, and the logarithm of its simulated cost."""

    point: Point
    log_cost: float
    vector: Vector


class Model(BaseExplorer):
    """Simulated annealing on a predicted cost; proposes the best points that it comes across.

    The prediction is the simulated cost of a point, corrected by a regression on clocked trials.
    """

    name: ClassVar[str] = "model"

    def __init__(self, knobs: Knobs, options: Options, screen: Screen) -> None:
        super().__init__(knobs, options, screen)
        self._features = Features(knobs)
        self._moves = Moves(knobs, self.random)
        self._pool: dict[Hashable, _Known] = {}
        self._chains: list[_Known] = []
        self._alike = _Alike()
        self._expanded = set[Hashable]()
        self._temperature = WARM
        self._regression = Regression(self._features.length)

    def tell(self, trials: Sequence[Trial]) -> None:
        """Keep the trials, and fit the regression to those that were clocked."""
        super().tell(trials)
        rows, ratios = [], []
        for trial in self.trials:
            known = self._judge(trial.point)
            if trial.clocked and trial.cycles and known is not None:
                rows.append(known.vector)
                ratios.append(math.log(trial.cycles) - known.log_cost)
        for trial in trials:
            known = self._judge(trial.point)
            if trial.clocked and trial.cycles and known is not None:
                self._alike.told(known.log_cost, trial.cycles)
        self._regression.fit(np.array(rows), np.array(ratios))

    def propose(self, count: int) -> Sequence[Point]:
        """The best new points that chains meet or that neighbour the best trials."""
        first = STEPS_FROM_COLD if self.options.cold else STEPS_AT_FIRST
        steps, hot = (STEPS, self._temperature) if self._chains else (first, HOT)
        self._begin()
        for number in range(len(self._chains)):
            self._walk(number, steps, hot)
        self._look_around()
        self._temperature = max(self._temperature * COOLING, COLD)
        self._forget()
        found = [point for point in self._best(count) if self.accepts(point)]
        return found or self.at_random(count)

    def _best(self, count: int) -> list[Point]:
        """The best new points that are kept; repetitions of a simulated cost come last."""
        new = [known for key, known in self._pool.items() if key not in self._asked]
        order = np.argsort(self._scores(new), kind="stable")
        chosen: list[Point] = []
        left: list[Point] = []
        for known in (new[place] for place in order):
            if len(chosen) == count:
                break
            (chosen if self._alike.takes(known.log_cost) else left).append(known.point)
        return [*chosen, *left[: count - len(chosen)]]

    def _begin(self) -> None:
        """Chains at the default point and the best of some random ones; later some start from the
        best trials again.
        """
        if not self._chains:
            starts = [] if self.options.cold else [self.screen.default]
            first = [known for known in map(self._judge, starts) if known is not None]
            self._chains = [*first, *self._drawn(DRAWN * CHAINS)][:CHAINS]
            return
        judged = [t for t in self.trials if t.clocked and self._judge(t.point) is not None]
        best = sorted(judged, key=lambda trial: trial.cycles or 0)[:RESTARTS]
        for place, trial in zip(range(len(self._chains)), best, strict=False):
            known = self._judge(trial.point)
            assert known is not None
            self._chains[place] = known

    def _drawn(self, count: int) -> list[_Known]:
        """The best of ``count`` random points that fit; fewer where they are hard to find."""
        found: list[_Known] = []
        drawn = tries = 0
        while drawn < count and tries < 100 * count:
            tries += 1
            point = self._moves.draw()
            if not self.screen.fits(point):
                continue
            drawn += 1
            worst = self._score(found[-1]) if len(found) == CHAINS else math.inf
            known = self._judge(point, worst)
            if known is not None:
                found = sorted([*found, known], key=self._score)[:CHAINS]
        return found

    def _walk(self, number: int, steps: int, hot: float) -> None:
        """Metropolis steps of one chain; its temperature falls from ``hot`` to this call's."""
        at = self._chains[number]
        score = self._score(at)
        for step in range(steps):
            point = self._moves.step(at.point, [other.point for other in self._chains])
            temperature = hot * (self._temperature / hot) ** (step / steps)
            threshold = score - temperature * math.log(1 - self.random.random())
            known = self._judge(point, threshold)
            if known is not None and (found := self._score(known)) <= threshold:
                at, score = known, found
        self._chains[number] = at

    def _look_around(self) -> None:
        """All neighbours of the best clocked points."""
        judged = [trial for trial in self.trials if trial.clocked]
        for trial in sorted(judged, key=lambda trial: trial.cycles or 0)[:NEAR]:
            key = self.screen.key(trial.point)
            known = self._pool.get(key)
            if key in self._expanded or known is None:
                continue
            self._expanded.add(key)
            worst = self._score(known) + NEARLY
            for point in self.knobs.neighbours(trial.point):
                self._judge(point, worst)

    def _judge(self, point: Point, most: float = math.inf) -> _Known | None:
        """The point with its cost; None if it does not fit or its score exceeds ``most``."""
        key = self.screen.key(point)
        known = self._pool.get(key)
        if known is not None:
            return known
        if not self.screen.fits(point):
            return None
        vector = self._features(point)
        limit = None
        if most < math.inf:
            limit = math.ceil(math.exp(min(most - self._regression(vector), 60.0))) + 1
        cost = self.screen.cost(point, limit)
        if limit is not None and cost >= limit:
            return None
        known = self._pool[key] = _Known(point, math.log(max(cost, 1)), vector)
        return known

    def _score(self, known: _Known) -> float:
        return known.log_cost + self._regression(known.vector)

    def _scores(self, known: Sequence[_Known]) -> list[float]:
        """Logarithms of the expected cycles."""
        if not known:
            return []
        vectors = np.array([each.vector for each in known])
        costs = np.array([each.log_cost for each in known])
        expected: list[float] = (costs + self._regression.of(vectors)).tolist()
        return expected

    def _forget(self) -> None:
        """Drop all but the points with the best scores and those already asked."""
        if len(self._pool) <= 2 * POOL:
            return
        known = list(self._pool.items())
        scores = self._scores([each for _, each in known])
        kept = set(heapq.nsmallest(POOL, range(len(known)), key=scores.__getitem__))
        self._pool = {
            key: each
            for place, (key, each) in enumerate(known)
            if place in kept or key in self._asked
        }


class _Alike:
    """Whether points of one simulated cost are worth clocking one by one.

    Where the cost model sees all there is to see, such points are programs that the clock cannot
    tell apart either. Whether that is so shows in the trials: agreements and disagreements count
    repeated costs whose cycles were the same as the first time, and were not.
    """

    def __init__(self) -> None:
        self.agreements = self.disagreements = 0
        self._cycles: dict[float, int] = {}
        self._taken: dict[float, int] = {}

    def told(self, cost: float, cycles: int) -> None:
        """A point of this simulated cost takes these cycles."""
        if cost in self._cycles:
            agree = self._cycles[cost] == cycles
            self.agreements += agree
            self.disagreements += not agree
        self._cycles.setdefault(cost, cycles)

    def takes(self, cost: float) -> bool:
        """Whether to clock one more point of this cost; it counts as clocked then."""
        taken = self._taken[cost] = self._taken.get(cost, 0) + 1
        if self.disagreements > self.agreements:
            return True
        most = 1 if self.agreements > ALIKE + self.disagreements else ALIKE
        if taken > most:
            self._taken[cost] = taken - 1
        return taken <= most


class Regression:
    """Ridge regression of standardised features; zero until it is fitted."""

    def __init__(self, length: int) -> None:
        self._mean = np.zeros(length)
        self._weights = np.zeros(length)
        self._offset = 0.0

    def fit(self, rows: Vector, targets: Vector) -> None:
        """Fit anew. rows: [N, length]. targets: [N]."""
        if not len(rows):
            return
        self._mean, self._offset = rows.mean(axis=0), float(targets.mean())
        self._weights = np.zeros(rows.shape[1])
        if len(rows) < FEWEST:
            return
        deviations = rows.std(axis=0)
        used = deviations > 0
        scaled = (rows[:, used] - self._mean[used]) / deviations[used]
        gram = scaled.T @ scaled + RIDGE * np.eye(scaled.shape[1])
        found = np.linalg.solve(gram, scaled.T @ (targets - self._offset))
        self._weights[used] = found / deviations[used]

    def __call__(self, row: Vector) -> float:
        """Prediction for one row, [length]."""
        return float((row - self._mean) @ self._weights) + self._offset

    def of(self, rows: Vector) -> Vector:
        """Predictions for rows [N, length], [N]."""
        expected: Vector = (rows - self._mean) @ self._weights + self._offset
        return expected
