"""SRAM buffers of a program without places yet, and the sites of a schedule that they come from.

Buffers of one site have the same size and use its slots in turn. Groups of sites whose lives hang
together are normally layers.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Memory


class SramBuffer(NamedTuple):
    """An SRAM buffer without a place.

    site: number of the place in a schedule that it comes from. born, last: when it comes to life
    and when it is used for the last time, both counted in program order. where: its layer.
    """

    site: int
    memory: Memory
    slots: int
    size: int
    where: str
    born: int
    last: int


@dataclass
class BufferSite:
    """The buffers of one place in a schedule: when each is alive, and where they lie.

    slots: how many it uses in turn. asked: how many the schedule asks for. buffers: their numbers,
    in the order of their birth. last: the last use of any of them. bases: the first element of each
    slot.
    """

    number: int
    memory: Memory
    slots: int
    size: int
    where: str
    buffers: list[int] = field(default_factory=list)
    lives: list[tuple[int, int]] = field(default_factory=list)
    last: int = -1
    bases: list[int] = field(default_factory=list)
    asked: int = field(init=False)

    def __post_init__(self) -> None:
        self.asked = self.slots

    @property
    def places(self) -> int:
        """The number of slots that are in use."""
        return min(self.slots, len(self.buffers))

    @property
    def elements(self) -> int:
        """Elements of all its slots."""
        return self.places * self.size

    @property
    def life(self) -> tuple[int, int]:
        """First place in the program where it is alive, and last."""
        return self.lives[0][0], self.last

    def regions(self) -> Iterator[tuple[int, int]]:
        """The elements of each slot that is used: the first, and the one behind the last."""
        return ((base, base + self.size) for base in self.bases)

    def meets(self, other: "BufferSite", exactly: bool) -> bool:
        """Whether both are alive at the same time: as a whole, or (exactly) buffer by buffer."""
        if not overlap(self.life, other.life):
            return False
        if not exactly:
            return True
        starts = np.array([life[0] for life in other.lives])
        ends = np.array([life[1] for life in other.lives])
        return any(bool(((starts <= end) & (ends >= start)).any()) for start, end in self.lives)


def overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two lives, first and last place, have a place in common."""
    return one[0] <= other[1] and other[0] <= one[1]


def sites_of(buffers: Sequence[SramBuffer]) -> list[BufferSite]:
    """The sites of buffers, in the order in which they come to life."""
    sites: dict[int, BufferSite] = {}
    for place, (number, memory, slots, size, where, born, last) in enumerate(buffers):
        site = sites.get(number)
        if site is None:
            site = sites[number] = BufferSite(number, memory, slots, size, where)
        elif (memory, slots, size) != (site.memory, site.slots, site.size):
            raise CompileError(
                Problem(site.where, f"the buffers of site {number} differ in size or slots")
            )
        site.buffers.append(place)
        site.lives.append((born, last))
        site.last = max(site.last, last)
    return list(sites.values())


def check_slots(site: BufferSite) -> Iterable[Problem]:
    """The problem of a site of which more buffers are alive at a time than it has slots."""
    for turn in range(site.places):
        lives = site.lives[turn :: site.slots]
        if any(overlap(one, other) for one, other in itertools.pairwise(lives)):
            yield Problem(
                site.where,
                f"more than {site.slots} buffers of site {site.number} in"
                f" {site.memory.name.lower()} are alive at a time",
            )
            return


def groups_of(sites: Sequence[BufferSite]) -> list[list[BufferSite]]:
    """Sites whose lives hang together: normally those of a layer."""
    groups: list[list[BufferSite]] = []
    end = -1
    for site in sorted(sites, key=lambda site: site.life):
        if site.life[0] > end:
            groups.append([])
        groups[-1].append(site)
        end = max(end, site.life[1])
    return groups
