"""Data races: accesses of different modules to one element, one of them a write, in no fixed order.

One epoch per element and kind of access is enough, since a module is in order (Flanagan and Freund,
"FastTrack", 2009): of each module the last read and the last write of each element is kept, as the
rank of its instruction in the module, and compared with how many of that module's instructions are
sure to be done (`sim.tokens.clocks`).
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .elements import Elements, Indices


@dataclass(frozen=True)
class SharedSpace:
    """Memory that several modules reach: its elements, and which module reads (False) or writes
    (True) it."""

    size: int
    ways: Sequence[tuple[int, bool]]


class Race(NamedTuple):
    """An earlier access that is not ordered with a later one: its module, its rank there (from 1),
    and the elements that both touch."""

    module: int
    rank: int
    elements: Indices


class _Accesses:
    """Accesses of one module to one space, all of them reads or all writes.

    For each element the last access, as the rank of its instruction in the module (from 1; 0 is
    none), and the last access of all. `rivals` are the accesses that must be ordered with these.
    """

    def __init__(self, module: int, size: int) -> None:
        self.module = module
        self.last = np.zeros(size, np.int32)
        self.latest = 0
        self.rivals: list[_Accesses] = []


class AccessHistory:
    """The accesses so far to all spaces.

    overlapping: modules whose own instructions may overlap; their clocks say which are done.
    """

    def __init__(
        self, spaces: Mapping[Hashable, SharedSpace], overlapping: frozenset[int] = frozenset()
    ) -> None:
        self._accesses = {
            (name, module, writes): _Accesses(module, space.size)
            for name, space in spaces.items()
            for module, writes in space.ways
        }
        for (name, module, writes), mine in self._accesses.items():
            mine.rivals = [
                self._accesses[name, other, also]
                for other, also in spaces[name].ways
                if (other != module or module in overlapping) and (writes or also)
            ]

    def access(
        self,
        name: Hashable,
        module: int,
        writes: bool,
        elements: Elements,
        rank: int,
        done: Sequence[int],
    ) -> Iterator[Race]:
        """Add an access, the `rank`-th instruction of its module; the races with earlier ones.

        done: how many instructions of each module are done before this one starts.
        """
        mine = self._accesses[name, module, writes]
        for rival in mine.rivals:
            before = done[rival.module]
            if rival.latest > before and int(rival.last[elements].max(initial=0)) > before:
                yield from _races(rival, elements, before)
        mine.last[elements] = mine.latest = rank


def _races(rival: _Accesses, elements: Elements, before: int) -> Iterator[Race]:
    """One race for each earlier instruction among the last accesses that is not ordered."""
    seen = rival.last[elements]
    places = np.arange(elements.start, elements.stop) if isinstance(elements, slice) else elements
    for rank in np.unique(seen[seen > before]).tolist():
        yield Race(rival.module, rank, places[seen == rank])
