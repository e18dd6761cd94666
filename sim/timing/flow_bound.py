"""A lower bound of a program that follows its data: no order of its instructions is faster.

A `sim.timing.accounts.Account` bounds a program by what each part of the machine has to do. That
leaves out that the parts wait for each other: the first product for its operands, the next layer
for the results of this one, FINISH for the last STORE. Here each instruction has a *head*, cycles
before which its data cannot be there, and a *tail*, cycles that must pass behind it, both along the
flow of data (`sim.data_flow`). Then the compute module, each read channel and the write channel are
machines that do one job at a time, and the least time of such a machine is that of Jackson's
preemptive schedule, the largest over all sets of jobs of least head + work + least tail (Jackson
1955; Carlier and Pinson, "An Algorithm for Solving the Job-Shop Problem", 1989).

It holds for any order of the same instructions, and for scratchpads of any size. Work is micro-ops
and beats, as in `Account.bounds`: cycles of an instruction beyond these count along a path of data,
where nothing hides them, but not as work of a module, for a program could have fewer instructions.

Why each term holds, with S and E as in `machine`. No instruction starts before the first that is
dispatched, S0. Who reads follows who wrote: S >= E + 1, by a token or in the module's queue. When
S0 comes, the channel is idle, for the next chunk is asked for when the first one is dispatched; so
the first beat of a load comes at S0 + latency + 3 or later. A load is visible to the arbiter at S +
1, served behind others without a latency of its own, and its first beat comes at S + 3 or later;
E is 4 cycles after its last beat, 3 for micro-ops. Pads may make it longer, never shorter.
"""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...dialects.target import INSTRUCTION_BYTES
from ...dialects.vta.encoding import decode
from ..data_flow import producers
from .channel import FETCH
from .machine import CHANNEL_OF
from .report import TimingReport
from .work import LOADS, READERS, InstructionKind

_START_TO_BEAT = 3
_BEAT_TO_END = {kind: 3 if kind == InstructionKind.UOP else 4 for kind in LOADS}
"""Cycles from the last beat of a load to its E."""

_COMPUTES = (InstructionKind.GEMM, InstructionKind.RESET, InstructionKind.ALU)

Job = tuple[int, int, int]
"""Head, work and tail of a job on one machine, in cycles."""


@dataclass(frozen=True)
class FlowBound:
    """Lower bounds of a program's cycles by the machine that they are the least time of.

    Keys: ``path`` (the longest path of data, whatever runs beside it), ``compute``, ``reads`` (the
    busiest read channel) and ``writes``.
    """

    bounds: Mapping[str, int]

    @property
    def cycles(self) -> int:
        """The largest of them."""
        return max(self.bounds.values())

    @property
    def bound_by(self) -> str:
        """Which of them is the largest."""
        return max(self.bounds, key=lambda key: self.bounds[key])


def flow_bound(report: TimingReport, dram: NDArray[np.uint8]) -> FlowBound:
    """The bound of a program without hazards (`sim.check`) on one core.

    report: of the clock; only its program, its rates and the first start are used. dram: the memory
    that holds the micro-ops, uint8, at the addresses of the program's words.
    """
    spans = _Spans(report, dram)
    machines = spans.jobs()
    bounds = {name: max(map(one_machine, jobs), default=0) for name, jobs in machines.items()}
    return FlowBound({"path": spans.longest_path(), **bounds})


def one_machine(jobs: Iterable[Job]) -> int:
    """The least time in which one machine can end all jobs and their tails, were it allowed to
    interrupt them: always the job with the longest tail runs, of those whose heads have passed.
    """
    waiting = sorted(jobs, reverse=True)
    ready: list[list[int]] = []
    now = end = 0
    while waiting or ready:
        if not ready:
            now = max(now, waiting[-1][0])
        while waiting and waiting[-1][0] <= now:
            _, work, tail = waiting.pop()
            heapq.heappush(ready, [-tail, work])
        first = ready[0]
        passed = min(first[1], waiting[-1][0] - now) if waiting else first[1]
        now += passed
        first[1] -= passed
        if not first[1]:
            end = max(end, now - first[0])
            heapq.heappop(ready)
    return end


class _Spans:
    """The least heads, durations and tails of a program's instructions, up to FINISH.

    tail: least cycles from E to the start of FINISH; None where FINISH waits for nothing of it.
    """

    def __init__(self, report: TimingReport, dram: NDArray[np.uint8]) -> None:
        work = report.work
        self._report, self._preset = report, report.preset
        self._count = work.finish + 1
        self._kind = [InstructionKind(kind) for kind in work.kind[: self._count].tolist()]
        ideal = self._preset.ideal_memory
        self._beats = [0] * self._count if ideal else work.beats[: self._count].tolist()
        self._first = int(report.timeline.start.min())
        self._first_beat = self._first + (0 if ideal else self._preset.latency) + _START_TO_BEAT
        self._durations = self._least_durations()
        program = decode(report.target, work.words[: self._count])
        self._producers = producers(report.target, program, dram)
        self._heads, self._ends = self._earliest()
        self._tails = self._latest()

    def _least_durations(self) -> list[int]:
        found: list[int] = self._report.work.duration[: self._count].tolist()
        for index, kind in enumerate(self._kind):
            if kind in LOADS:
                way = _START_TO_BEAT + _BEAT_TO_END[kind] - 1
                found[index] = 1 if self._preset.ideal_memory else self._beats[index] + way
        return found

    def _earliest(self) -> tuple[list[int], list[int]]:
        """The least S and E of each instruction."""
        heads, ends = list[int](), list[int]()
        for index, sources in enumerate(self._producers):
            heads.append(max((ends[source] + 1 for source in sources), default=self._first))
            end = heads[-1] + self._durations[index]
            if self._beats[index] and self._kind[index] in LOADS:
                last = self._first_beat + self._beats[index] - 1
                end = max(end, last + _BEAT_TO_END[self._kind[index]])
            ends.append(end)
        return heads, ends

    def _latest(self) -> list[int | None]:
        """The least cycles behind E. FINISH follows all stores, and what compute does before."""
        work = self._report.work
        system, finish = work.target.system, self._count - 1
        waited = (system.computes, system.stores)
        tails: list[int | None] = [
            1 if module in waited else None for module in work.module[: self._count].tolist()
        ]
        tails[finish] = 0
        for index in range(finish, -1, -1):
            if (tail := tails[index]) is not None:
                behind = 1 + self._durations[index] + tail
                for source in self._producers[index]:
                    tails[source] = max(tails[source] or 0, behind)
        return tails

    def longest_path(self) -> int:
        """The longest path of data from the first start to FINISH."""
        pairs = zip(self._ends, self._tails, strict=True)
        return max(end + tail for end, tail in pairs if tail is not None)

    def jobs(self) -> Mapping[str, list[list[Job]]]:
        """The jobs of each machine, of those that FINISH waits for."""
        work, preset = self._report.work, self._preset
        channel_of = CHANNEL_OF[preset.read_channels]
        compute, writes = list[Job](), list[Job]()
        reads: list[list[Job]] = [[] for _ in range(preset.read_channels)]
        if not preset.ideal_memory:
            fetched = -(-self._count * INSTRUCTION_BYTES // preset.port_bytes)
            reads[channel_of[FETCH]].append((0, fetched, 0))
        for index, (kind, tail) in enumerate(zip(self._kind, self._tails, strict=True)):
            head, duration = self._heads[index], self._durations[index]
            if tail is None:
                continue
            if kind in _COMPUTES:
                beside = min(preset.compute_overhead, duration)
                compute.append((head, duration - beside, beside + tail))
            elif kind == InstructionKind.STORE:
                writes.append((head, duration, tail))
            elif kind in LOADS and self._beats[index]:
                begin = max(head + _START_TO_BEAT, self._first_beat)
                job = begin, self._beats[index], _BEAT_TO_END[kind] - 1 + tail
                reads[channel_of[READERS[kind]]].append(job)
                if work.module[index] == work.target.system.computes:
                    compute.append(job)
        return {"compute": [compute], "reads": reads, "writes": [writes]}
