"""How much of each scratchpad holds what is still needed, over the time of a run.

An element is occupied from the start of the instruction that writes it to the end of the last one
that reads it before it is written anew: its live range, as in register allocation. What is written
and never read does not count.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...dialects.target import Memory, System
from ...dialects.vta.encoding import Alu, Compute, Load, Store, decode
from ..elements import Elements
from ..footprint import DramMap, Footprints
from .report import TimingReport

Column = NDArray[np.int64]

_CYCLE_BITS = 31
"""Bits of a cycle in a key of a start and an end; longer runs than 2^31 cycles are not drawn."""

SCRATCHPADS = System.buffered
"""The scratchpads whose occupancy is followed."""


@dataclass(frozen=True)
class Levels:
    """An amount over time: from cycle ``cycles[i]`` on it is ``amounts[i]``, int64 [n] each."""

    cycles: Column
    amounts: Column

    @property
    def peak(self) -> int:
        """The largest amount."""
        return int(self.amounts.max(initial=0))

    @classmethod
    def of(cls, starts: ArrayLike, ends: ArrayLike, amounts: ArrayLike) -> "Levels":
        """The sum over things that each hold an amount from a start to an end."""
        cycles = np.concatenate([np.asarray(starts, np.int64), np.asarray(ends, np.int64)])
        held = np.asarray(amounts, np.int64)
        changes = np.concatenate([held, -held])
        times, places = np.unique(cycles, return_inverse=True)
        steps = np.zeros(len(times), np.int64)
        np.add.at(steps, places, changes)
        return cls(times, np.cumsum(steps))

    def sampled(self, cycles: int, count: int) -> Column:
        """The largest amount in each of ``count`` equal parts of a run of so many cycles."""
        if not len(self.amounts):
            return np.zeros(count, np.int64)
        edges = np.linspace(0, max(cycles, 1), count + 1)
        at_edge = np.searchsorted(self.cycles, edges, side="right") - 1
        before = np.where(at_edge >= 0, self.amounts[np.maximum(at_edge, 0)], 0)
        result: Column = before[:-1].astype(np.int64)
        parts = np.searchsorted(edges, self.cycles, side="right") - 1
        inside = (parts >= 0) & (parts < count)
        np.maximum.at(result, parts[inside], self.amounts[inside])
        return result


def occupancy(report: TimingReport, dram: NDArray[np.uint8]) -> dict[Memory, Levels]:
    """The elements of each scratchpad that are occupied during a run.

    dram: the memory that holds the program's micro-ops, uint8, at the addresses of its words.
    """
    target, timeline = report.target, report.timeline
    rows = np.flatnonzero(timeline.start <= report.cycles)
    program = decode(target, report.work.words[rows])
    footprints = Footprints(target, dram, DramMap(target, program))
    ranges = {memory: LiveRanges(target.depth(memory)) for memory in SCRATCHPADS}
    ends = np.minimum(timeline.end[rows], report.cycles).tolist()
    for instruction, start, end in zip(program, timeline.start[rows].tolist(), ends, strict=True):
        for memory, elements, writes, reads in _accesses(instruction, footprints):
            if writes:
                ranges[memory].write(elements, start)
            if reads:
                ranges[memory].read(elements, start, end)
    return {memory: found.levels() for memory, found in ranges.items()}


def _accesses(
    instruction: object, footprints: Footprints
) -> Iterator[tuple[Memory, Elements, bool, bool]]:
    """The elements that an instruction touches, and whether it writes and reads them."""
    match instruction:
        case Load(memory=Memory.UOP):
            footprints.follow(instruction)
        case Load() | Store():
            span = slice(instruction.sram_base, instruction.sram_base + instruction.sram_size)
            known = instruction.memory in (Memory.INP, Memory.WGT)
            is_load = isinstance(instruction, Load)
            yield instruction.memory if known else Memory.ACC, span, is_load, not is_load
        case Compute() if instruction.micro_ops:
            first, *others = footprints.operands(instruction)
            yield Memory.ACC, first, instruction.reset, not instruction.reset
            is_alu = isinstance(instruction, Alu)
            memories = (Memory.ACC,) if is_alu else (Memory.INP, Memory.WGT)
            for memory, elements in zip(memories, others, strict=False):
                yield memory, elements, False, True


class LiveRanges:
    """Collects the live ranges of the elements of one scratchpad."""

    def __init__(self, depth: int) -> None:
        self._written = np.full(depth, -1, np.int64)
        self._read = np.full(depth, -1, np.int64)
        self._found: list[tuple[Column, Column]] = []

    def write(self, elements: Elements, start: int) -> None:
        """Elements are written anew from a cycle on; those that nobody read never counted."""
        self._close(elements)
        self._written[elements] = start
        self._read[elements] = -1

    def read(self, elements: Elements, start: int, end: int) -> None:
        """Read elements. Accumulators that nothing has written begin their life here."""
        written = self._written[elements]
        self._written[elements] = np.where(written < 0, start, written)
        self._read[elements] = np.maximum(self._read[elements], end)

    def levels(self) -> Levels:
        """How many elements are occupied over time."""
        self._close(slice(0, len(self._read)))
        if not self._found:
            return Levels.of([], [], [])
        keys, counts = (np.concatenate(column) for column in zip(*self._found, strict=True))
        return Levels.of(keys >> _CYCLE_BITS, keys & ((1 << _CYCLE_BITS) - 1), counts)

    def _close(self, elements: Elements) -> None:
        """Record the live ranges that end where elements are written anew."""
        written, read = self._written[elements], self._read[elements]
        used = read >= 0
        if used.any():
            keys = (written[used] << _CYCLE_BITS) | read[used]
            self._found.append(np.unique(keys, return_counts=True))
