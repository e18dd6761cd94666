"""More slots than a schedule asks for, where room and micro-ops allow it.

A site with more slots can be loaded earlier, which helps where a layer waits for its loads. Each
further slot is paid in micro-ops, which name places: the compute module loads them, and computes
nothing meanwhile. A layer that computes for longer than it loads gains at its beginning at most,
so there the micro-ops that wider sites add are limited. Not so in a core of a cluster: it waits for
others, and for DDR that they take, so what it can load early is worth more.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vtac.dialects.target import Memory, Target

from .sites import BufferSite, groups_of

MOST_ADDED = 256
"""Micro-ops that wider sites may add to a layer that computes for longer than it loads.

They are loaded in 128 cycles by a port of 8 bytes. Layers of small networks stay below it; those
of ResNet-18 would add up to 3,800, and with any limit from 64 to 1,024 the network takes 0.11 to
0.12 % fewer cycles. On `cluster-4` it would take 2 % more cycles.
"""


class Use(NamedTuple):
    """An instruction that loads or computes.

    place: in program order, as in `SramBuffer`. cycles: of an instruction that computes. beats: of
    the read channel, of a load. kernel: its micro-ops before buffers have places, and how many;
    None of a load. buffers: the numbers of its SRAM buffers.
    """

    place: int
    cycles: int
    beats: int
    kernel: tuple[Hashable, int] | None
    buffers: Sequence[int]


def widen(
    sites: Sequence[BufferSite],
    uses: Sequence[Use],
    target: Target,
    most_slots: int,
    most_added: int | None,
) -> Mapping[Memory, list[list[BufferSite]]]:
    """Give sites more slots, and return their groups by memory.

    uses: in program order. most_slots: up to how many; the last group of a memory, behind which no
    layer needs room, takes as many as fit. 0: none are added. most_added: micro-ops that they may
    add to a layer that computes for longer than it loads; None: any number.
    """
    groups = {
        memory: groups_of([site for site in sites if site.memory is memory])
        for memory in target.system.buffered
    }
    if most_slots == 0:
        return groups
    for memory, found in groups.items():
        depth = target.depth(memory)
        for group in found[:-1]:
            _fill(group, depth // 2, most_slots)
        for group in found[-1:]:
            _fill(group, depth, max(len(site.buffers) for site in group))
    if most_added is None:
        return groups
    bill = _Bill(sites, uses, most_added)
    narrow = [group for found in groups.values() for group in found if bill.is_too_much(group)]
    for group in narrow:
        for site in group:
            site.slots = site.asked
    return groups


def _fill(group: Sequence[BufferSite], room: int, most_slots: int) -> None:
    """Give sites more slots, the smallest first, while they take at most `room` elements."""
    total = sum(site.elements for site in group)
    for site in sorted(group, key=lambda site: (site.size, site.number)):
        while site.slots < min(most_slots, len(site.buffers)) and total + site.size <= room:
            site.slots += 1
            total += site.size


class _Bill:
    """What the instructions of a program take, and the micro-ops they need."""

    def __init__(self, sites: Sequence[BufferSite], uses: Sequence[Use], most_added: int):
        self._most_added = most_added
        self._places = np.array([use.place for use in uses], np.int64)
        self._beats = _sums([use.beats for use in uses])
        self._cycles = _sums([use.cycles for use in uses])
        turns = {number: (site, turn) for site in sites for turn, number in enumerate(site.buffers)}
        self._kernels = [
            None
            if use.kernel is None
            else (use.kernel, _slots_of(use, turns, False), _slots_of(use, turns, True))
            for use in uses
        ]

    def is_too_much(self, group: Sequence[BufferSite]) -> bool:
        """Whether a group computes for longer than it loads, and its slots add many micro-ops."""
        if all(site.slots == site.asked for site in group):
            return False
        begin = int(np.searchsorted(self._places, min(site.life[0] for site in group)))
        last = max(site.life[1] for site in group)
        end = int(np.searchsorted(self._places, last, side="right"))
        loads = self._beats[end] - self._beats[begin]
        computes = self._cycles[end] - self._cycles[begin]
        return bool(loads < computes) and self._added(begin, end) > self._most_added

    def _added(self, begin: int, end: int) -> int:
        """The micro-ops that these instructions need more than with the slots asked for."""
        used = [kernel for kernel in self._kernels[begin:end] if kernel is not None]
        wide = {(kernel, slots) for kernel, _, slots in used}
        narrow = {(kernel, slots) for kernel, slots, _ in used}
        return sum(kernel[1] for kernel, _ in wide) - sum(kernel[1] for kernel, _ in narrow)


def _slots_of(
    use: Use, turns: Mapping[int, tuple[BufferSite, int]], widened: bool
) -> tuple[int, ...]:
    """The slots that an instruction names, each with the number of its site."""

    def found() -> Iterator[int]:
        for number in use.buffers:
            site, turn = turns[number]
            yield site.number
            yield turn % (site.slots if widened else site.asked)

    return tuple(found())


def _sums(values: Sequence[int]) -> NDArray[np.int64]:
    """The sums of the first 0, 1, 2, ... values."""
    return np.concatenate([[0], np.cumsum(np.array(values, np.int64))])
