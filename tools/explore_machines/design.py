"""Which machines to look at: all of a small space, else a sample that closes in on the front.

A `Design` is asked for points and told what became of them. It starts with the two machines whose
fields all have their first and their last values, where the ends of the front often are. A
low-discrepancy sequence follows, which covers a space evenly however many points are taken: the
additive recurrence of the generalised golden ratio (Roberts, "The Unreasonable Effectiveness of
Quasirandom Sequences", 2018). Then it takes neighbours of the machines on the Pareto front, and
goes on with the sequence where these have all been seen. The seed and what it was told decide what
it asks next, so the same exploration can be taken up again, with any number of processes.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, islice

import numpy as np

from vtac.tools.explore_machines.front import front_of
from vtac.tools.explore_machines.outcome import Outcome, comparable
from vtac.tools.explore_machines.space import (
    MOST_LISTED,
    Candidate,
    MachineSpace,
    Point,
    Refused,
)

BATCH = 8
"""Machines that are asked for at one time, whatever the number of processes."""

SPREAD = 0.25
"""The share of machines that cover the space, before neighbours of the front are taken."""

PATIENCE = 20_000
"""Points of the sequence in a row that are no new machines, after which the space is exhausted."""


class Design:
    """Chooses at most `most` machines of a space."""

    def __init__(self, space: MachineSpace, most: int, seed: int = 0) -> None:
        self.space, self.most = space, most
        self.refused: dict[str, int] = {}
        self._told: list[tuple[Candidate, Outcome]] = []
        self._seen: set[Point] = set()
        self._asked = 0
        self.is_grid = False
        self._grid: Iterator[Candidate] = iter(())
        if space.size <= MOST_LISTED and (grid := self._listed()) is not None:
            self.is_grid, self._grid = True, iter(grid)
        ends = [(0,) * len(space.sizes), tuple(size - 1 for size in space.sizes)]
        self._sequence = chain(ends, _sequence(space.sizes, seed))
        self._shuffle = np.random.default_rng(seed)

    def _listed(self) -> list[Candidate] | None:
        """All machines of the space; None if there are more than are wanted."""
        found: list[Candidate] = []
        refused: dict[str, int] = {}
        for point in self.space.points():
            answer = self.space.candidate(point)
            if isinstance(answer, Refused):
                refused[answer.why] = refused.get(answer.why, 0) + 1
            elif len(found) == self.most:
                return None
            else:
                found.append(answer)
        self.refused = refused
        return found

    def ask(self) -> list[Candidate]:
        """The next machines, at most `BATCH`; none where there are no more, or enough."""
        count = min(BATCH, self.most - self._asked)
        asked = list(islice(chain.from_iterable(self._sources()), count))
        self._asked += len(asked)
        return asked

    def tell(self, results: Sequence[tuple[Candidate, Outcome]]) -> None:
        """Say what became of the machines of the last `ask`, in its order."""
        self._told += results

    def _sources(self) -> list[Iterator[Candidate]]:
        if self.is_grid:
            return [self._grid]
        if self._asked < SPREAD * self.most:
            return [self._spread()]
        return [self._near_the_front(), self._spread()]

    def _spread(self) -> Iterator[Candidate]:
        for _ in range(PATIENCE):
            if (found := self._new(next(self._sequence))) is not None:
                yield found

    def _near_the_front(self) -> Iterator[Candidate]:
        """New neighbours of machines on the front, taken from all of them in turn."""
        kept = comparable([outcome for _, outcome in self._told])
        compared = [self._told[i] for i in kept]
        front = front_of([(outcome.cycles or 0, candidate.cost) for candidate, outcome in compared])
        around = [self.space.neighbours(compared[i][0].point) for i in front]
        for points in around:
            self._shuffle.shuffle(points)
        self._shuffle.shuffle(around)
        while any(around):
            for points in around:
                while points:
                    if (found := self._new(points.pop())) is not None:
                        yield found
                        break

    def _new(self, point: Point) -> Candidate | None:
        """The machine of a point that has not come up before."""
        if point in self._seen:
            return None
        self._seen.add(point)
        answer = self.space.candidate(point)
        if isinstance(answer, Refused):
            self.refused[answer.why] = self.refused.get(answer.why, 0) + 1
            return None
        return answer


def _sequence(sizes: Sequence[int], seed: int) -> Iterator[Point]:
    """Points that cover a grid of so many values per field evenly, without an end."""
    ratio = 2.0
    for _ in range(64):  # the root of x ** (d + 1) = x + 1, by iteration
        ratio = (1 + ratio) ** (1 / (len(sizes) + 1))
    steps = ratio ** -np.arange(1.0, len(sizes) + 1)
    at = np.random.default_rng(seed).random(len(sizes))
    while True:
        yield tuple(int(place) for place in np.minimum(at * sizes, np.subtract(sizes, 1)))
        at = (at + steps) % 1
