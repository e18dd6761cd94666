"""Steps of a walk over the points of a space, larger than those between neighbours.

Between a random point and a good one lie points that are worse than both: where the accumulators of
a tile fill their scratchpad, a larger tile along one axis needs a smaller one along another. A step
therefore gives a knob any of its values, changes several knobs at once, or takes over what another
walk has found (crossover, as in the evolutionary search of Ansor: Zheng et al., OSDI 2020).
"""

from collections.abc import Sequence
from random import Random

from vtac.dialects.te import KnobKind, Knobs, Point, Value

CROSSOVER, TAKEN = 0.2, 0.3
"""How often a step takes over values of another point, and which part of the knobs it then does."""

TWICE = 0.3
"""How often two knobs change at once."""

PAIRS = 0.15
"""How often a change is one of a pair of tile sizes, in opposite directions."""

ANYWHERE = 0.8
"""How often an ordered knob takes any of its values rather than one next to its own."""

PLAIN = 0.5
"""How often a knob of a drawn point has its default: the default of most knobs is to do without."""


class Moves:
    """Random steps from a point. random: decides about them."""

    def __init__(self, knobs: Knobs, random: Random) -> None:
        self.knobs, self.random = knobs, random
        self._free = [name for name, knob in knobs.knobs.items() if knob.count > 1]
        self._pairs = [each for each in knobs.directions if len(each.moves) > 1]

    def draw(self) -> Point:
        """A random point, in which about half of the knobs have their defaults."""
        drawn = {
            name: knob.draw(self.random)
            for name, knob in self.knobs.knobs.items()
            if self.random.random() >= PLAIN or not knob.has(knob.default)
        }
        return self.knobs.with_values({}, drawn)

    def step(self, point: Point, others: Sequence[Point]) -> Point:
        """Another point; now and then the same. others: points that it may take values from."""
        if others and self.random.random() < CROSSOVER:
            other = self.random.choice(others)
            taken = [name for name in self._free if self.random.random() < TAKEN]
            return self.knobs.with_values(point, {n: self.knobs.value(other, n) for n in taken})
        point = self._changed(point)
        return self._changed(point) if self.random.random() < TWICE else point

    def _changed(self, point: Point) -> Point:
        if not self._free:
            return point
        if self._pairs and self.random.random() < PAIRS:
            found = self.knobs.step(point, self.random.choice(self._pairs))
            if found is not None:
                return found
        name = self.random.choice(self._free)
        return self.knobs.with_values(point, {name: self._value(point, name)})

    def _value(self, point: Point, name: str) -> Value:
        knob = self.knobs.knobs[name]
        if knob.kind is KnobKind.ORDERED and self.random.random() < ANYWHERE:
            return self.random.choice(knob.values)
        return self.random.choice(list(knob.neighbours(self.knobs.value(point, name))))
