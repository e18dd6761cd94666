"""``q``: FlexTensor's Q-method (section 5.1). A network says in which direction each start goes.

State: the vector of a point. Action: a direction. Reward: the relative gain in performance. Every
few trials the network X is trained towards reward + alpha * max Y(next point), where Y is the copy
of X from the last training. The paper prints X(e) in the loss; it must be X(p)[d], as in Mnih et
al. and in the released code. Rates and sizes are those of the released code.
"""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from vtac.dialects.te import Direction, Knobs, Point
from vtac.tools.tune.explorers.features import Features, Vector
from vtac.tools.tune.explorers.network import CostNetwork
from vtac.tools.tune.explorers.starts import StartingExplorer
from vtac.tools.tune.protocol import Options, Screen, Trial

WIDTH, RATE, ALPHA = 64, 0.02, 0.9
"""Width of the hidden layers, learning rate, and discount of the next point's value."""

EVERY, ROUNDS, BATCH, MOST = 5, 20, 32, 1_000
"""Trials between trainings, batches per training, tuples per batch, and tuples kept."""


class _Tuple(NamedTuple):
    """One transition: start and end as vectors, number of the direction, and relative gain."""

    start: Vector
    direction: int
    end: Vector
    reward: float


class _Part:
    """A network for some of the directions. inputs: which entries of the vector it sees."""

    def __init__(
        self, inputs: Sequence[int], directions: Sequence[int], rate: float, seed: int
    ) -> None:
        self.inputs = np.array(inputs, np.int64)
        self.directions = np.array(directions, np.int64)
        self.place = {number: place for place, number in enumerate(directions)}
        self.network = CostNetwork(len(inputs), len(directions), WIDTH, rate, seed)
        self.old = self.network.copy()


class QMethod(StartingExplorer):
    """FlexTensor's choice of starts, and of each the best new direction by a network."""

    name: ClassVar[str] = "q"

    def __init__(self, knobs: Knobs, options: Options, screen: Screen) -> None:
        super().__init__(knobs, options, screen)
        self._features = Features(knobs)
        self._numpy = np.random.default_rng(options.seed)
        self._parts = [
            _Part(inputs, directions, RATE, options.seed + number)
            for number, (inputs, directions) in enumerate(self._groups())
        ]
        self._tuples: list[_Tuple] = []
        self._taken: dict[object, tuple[Trial, int]] = {}
        self._untrained = 0

    def near(self, start: Trial, count: int) -> Sequence[Point]:
        """One new point, in the direction of highest value or, at times, in a random one."""
        directions = self.knobs.directions
        numbers = list(range(len(directions)))
        if self.random.random() < max(0.8 * math.exp(-0.01 * len(self.trials)), 0.1):
            self.random.shuffle(numbers)
        else:
            values = self._values(self._features(start.point)[None], old=False)[0]
            numbers.sort(key=lambda number: -values[number])
        for number in numbers:
            point = self.knobs.step(start.point, directions[number])
            if point is not None and self.accepts(point):
                self._taken[self.screen.key(point)] = start, number
                return [point]
        self.retire(start)
        return []

    def tell(self, trials: Sequence[Trial]) -> None:
        """Keep the transitions, and train the network every `EVERY` trials."""
        super().tell(trials)
        for trial in trials:
            start, number = self._taken.pop(self.screen.key(trial.point), (None, -1))
            self._untrained += 1
            if start is None or start.cycles is None:
                continue
            # Performance is 1 / cycles; what was refused has none.
            reward = -1.0 if trial.cycles is None else start.cycles / trial.cycles - 1
            vectors = self._features(start.point), self._features(trial.point)
            self._tuples.append(_Tuple(vectors[0], number, vectors[1], reward))
        del self._tuples[:-MOST]
        while self._untrained >= EVERY:
            self._untrained -= EVERY
            self._train()

    def _groups(self) -> list[tuple[Sequence[int], Sequence[int]]]:
        """The inputs and the directions of each network."""
        directions = self.knobs.directions
        if self.options.networks == "one":
            return [(range(self._features.length), range(len(directions)))]
        groups: dict[tuple[str, ...], list[int]] = {}
        for number, direction in enumerate(directions):
            groups.setdefault(_knobs_of(direction), []).append(number)
        parts: Mapping[str, slice] = self._features.parts
        return [
            ([i for name in names for i in range(parts[name].start, parts[name].stop)], numbers)
            for names, numbers in groups.items()
        ]

    def _values(self, vectors: Vector, *, old: bool) -> Vector:
        """The value of each direction, [points, directions]; vectors: [points, entries]."""
        found = np.empty((len(vectors), len(self.knobs.directions)))
        for part in self._parts:
            network = part.old if old else part.network
            found[:, part.directions] = network.values(vectors[:, part.inputs])
        return found

    def _train(self) -> None:
        if not self._tuples:
            return
        for _ in range(ROUNDS):
            size = min(BATCH, len(self._tuples))
            chosen = [self._tuples[i] for i in self._numpy.choice(len(self._tuples), size, False)]
            later = self._values(np.array([each.end for each in chosen]), old=True).max(axis=1)
            targets = np.array([each.reward for each in chosen]) + ALPHA * later
            starts = np.array([each.start for each in chosen])
            for part in self._parts:
                rows = [i for i, each in enumerate(chosen) if each.direction in part.place]
                if rows:
                    places = np.array([part.place[chosen[i].direction] for i in rows], np.int64)
                    part.network.train(starts[rows][:, part.inputs], places, targets[rows])
        for part in self._parts:
            part.old = part.network.copy()


def _knobs_of(direction: Direction) -> tuple[str, ...]:
    return tuple(sorted(name for name, _ in direction.moves))
