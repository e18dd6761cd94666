"""The machines that no other beats in cycles and cost, and what they have in common."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


def front_of(figures: Sequence[tuple[float, float]]) -> list[int]:
    """The Pareto front of pairs of cycles and cost, both the less the better.

    Returns the places of those pairs that no other equals or beats in both, by rising cost and so
    by falling cycles. Of equal pairs the first counts.
    """
    order = sorted(range(len(figures)), key=lambda i: (figures[i][1], figures[i][0], i))
    front: list[int] = []
    for i in order:
        if not front or figures[i][0] < figures[front[-1]][0]:
            front.append(i)
    return front


@dataclass(frozen=True)
class FieldOnFront:
    """A field that varies, over all machines and over those on the front.

    tried, front: how many machines have each value. trend: how the value changes along the front,
    from the cheapest machine to the one with the fewest cycles.
    """

    name: str
    tried: Mapping[Any, int]
    front: Mapping[Any, int]
    trend: str

    @property
    def never(self) -> tuple[Any, ...]:
        """Values that were tried and that no machine on the front has."""
        return tuple(value for value in self.tried if value not in self.front)


SAME, RISES, FALLS, MIXED = "the same on all", "rises with cost", "falls with cost", "mixed"


def fields_on_front(
    names: Sequence[str], tried: Sequence[Sequence[Any]], front: Sequence[int]
) -> list[FieldOnFront]:
    """What each field does on the front.

    tried: the values of the fields of each machine. front: places in it, by rising cost. The fields
    on which the front says most come first: those whose value is the same on all its machines, then
    those with a trend.
    """
    found = []
    for number, name in enumerate(names):
        every = [values[number] for values in tried]
        order = sorted(set(every), key=lambda v: (v is not None, v))
        counts, on_front = Counter(every), Counter(every[place] for place in front)
        ranks = [order.index(every[place]) for place in front]
        found.append(
            FieldOnFront(
                name,
                {value: counts[value] for value in order},
                {value: on_front[value] for value in order if on_front[value]},
                _trend(ranks),
            )
        )
    kinds = [SAME, RISES, FALLS, MIXED]
    return sorted(found, key=lambda field: (kinds.index(field.trend), len(field.front)))


def _trend(ranks: Sequence[int]) -> str:
    steps = [b - a for a, b in pairwise(ranks)]
    if not any(steps):
        return SAME
    if all(step >= 0 for step in steps):
        return RISES
    return FALLS if all(step <= 0 for step in steps) else MIXED
