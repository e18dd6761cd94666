"""The memory of the host: a place for each value, chosen before the program runs.

A value lives from the step that makes it to the last one that reads it; inputs live from the start,
outputs to the end. Values that never live at the same time may share bytes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vtac.dialects.intervals import Interval, first_fit
from vtac.runtime.c_project.body import CStep

ALIGNMENT = 16
"""Every value begins at a multiple of this many bytes."""


@dataclass(frozen=True)
class MemoryPlace:
    """Where a value lies: bytes from ``offset`` on, while steps ``first`` to ``last`` run."""

    name: str
    title: str
    bytes: int
    offset: int
    first: int
    last: int


@dataclass(frozen=True)
class MemoryPlan:
    """The places of all values, by offset. steps: how many the program has."""

    places: tuple[MemoryPlace, ...]
    steps: int

    @property
    def bytes(self) -> int:
        """All memory that the host needs for values."""
        return max((place.offset + place.bytes for place in self.places), default=0)

    @property
    def sum(self) -> int:
        """What values would need if none shared its bytes."""
        return sum(place.bytes for place in self.places)

    @property
    def peak(self) -> int:
        """The largest number of bytes that are in use at one step. No plan can need fewer."""
        return max(
            (
                sum(p.bytes for p in self.places if p.first <= step <= p.last)
                for step in range(-1, self.steps + 1)
            ),
            default=0,
        )

    def span(self, place: MemoryPlace) -> str:
        """The steps during which a value lives, for people."""
        first = "start" if place.first < 0 else str(place.first)
        last = "end" if place.last >= self.steps else str(place.last)
        return f"{first} to {last}"


def plan_memory(
    sizes: Mapping[str, int],
    titles: Mapping[str, str],
    steps: Sequence[CStep],
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> MemoryPlan:
    """Places for the values that a step, an input or an output needs: the largest first."""
    spans: dict[str, tuple[int, int]] = dict.fromkeys(inputs, (-1, -1))
    for number, step in enumerate(steps):
        for name in (*step.reads, *step.writes):
            spans[name] = spans.get(name, (number, number))[0], number
    for name in outputs:
        spans[name] = spans[name][0], len(steps)
    taken: list[Interval] = []
    places = []
    for name in sorted(spans, key=lambda name: (-sizes[name], spans[name][0])):
        start = first_fit(sizes[name], ALIGNMENT, spans[name], taken)
        taken.append(Interval(start, start + sizes[name], *spans[name]))
        places.append(MemoryPlace(name, titles[name], sizes[name], start, *spans[name]))
    return MemoryPlan(tuple(sorted(places, key=lambda p: (p.offset, p.first))), len(steps))
