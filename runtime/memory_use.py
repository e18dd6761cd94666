"""What a launch keeps in the accelerator's memories over its time: scratchpads and DRAM."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vtac.dialects.target import Memory
from vtac.dialects.vta.attributes import BufferKind
from vtac.dialects.vta.program import BinaryProgram
from vtac.sim import TimingReport
from vtac.sim.timing.occupancy import SCRATCHPADS, Levels, occupancy

ACTIVATIONS = (BufferKind.INPUT, BufferKind.SCRATCH, BufferKind.OUTPUT)
"""The kinds of DRAM buffers whose contents come and go during a launch."""


@dataclass(frozen=True)
class MemoryUse:
    """The memories of one launch.

    scratchpads: occupied elements over time. depths: the elements that each scratchpad has. dram:
    bytes of activations over time, by kind of buffer. constants: bytes of weights, micro-ops and
    other constants, which stay.
    """

    scratchpads: Mapping[Memory, Levels]
    depths: Mapping[Memory, int]
    dram: Mapping[BufferKind, Levels]
    constants: int


def memory_use(program: BinaryProgram, report: TimingReport, dram: NDArray[np.uint8]) -> MemoryUse:
    """The memory use of a program in a timed run.

    dram: the device's memory with the micro-ops at the addresses that ``report`` was made with.
    """
    sizes = dict.fromkeys(SCRATCHPADS, 0)
    target = report.target
    for memory in SCRATCHPADS:
        sizes[memory] = getattr(target, f"{memory.name.lower()}_depth")
    constants = sum(b.size for b in program.buffers if b.kind not in ACTIVATIONS)
    return MemoryUse(occupancy(report, dram), sizes, _activations(program, report), constants)


def _activations(program: BinaryProgram, report: TimingReport) -> dict[BufferKind, Levels]:
    """The bytes of buffers that hold activations.

    An input is there from the launch on, until its last transfer ends; an output stays from its
    first transfer on; what lies between two layers is there from its first to its last transfer.
    """
    timeline, last = report.timeline, report.cycles
    users: dict[str, list[int]] = {}
    for index, name in program.relocations:
        users.setdefault(name, []).append(index)
    found = {}
    for kind in ACTIVATIONS:
        spans = []
        for buffer in program.of_kind(kind):
            rows = [row for row in users.get(buffer.name, ()) if timeline.start[row] <= last]
            start = min((int(timeline.start[row]) for row in rows), default=last)
            end = max((min(int(timeline.end[row]), last) for row in rows), default=0)
            start = 0 if kind is BufferKind.INPUT else start
            end = last if kind is BufferKind.OUTPUT else end
            if start < end:
                spans.append((start, end, buffer.size))
        columns = np.array(spans, np.int64).reshape(-1, 3).T
        found[kind] = Levels.of(*columns)
    return found
