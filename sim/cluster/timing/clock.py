"""The machines of a cluster, their memories, and one run of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ....dialects.target import INSTRUCTION_BYTES, ClusterTarget, TimingPreset
from ....dialects.target.windows import semaphore_units
from ....dialects.vta.dma import Copy
from ....dialects.vta.encoding import Transfer as TransferInstruction
from ...errors import SimulationError
from ...timing.channel import FETCH, NEVER, Transfer
from ...timing.channels import Channels, ReadChannel, WriteBuffer, Writing
from ...timing.machine import CoreClock, Timeline
from ...timing.requests import first_words
from ...timing.together import simulate
from ...timing.work import InstructionKind, WorkColumns, prepare
from ..errors import ClusterError
from ..flow import ClusterFlow, deadlock_reason, schedule
from ..program import ClusterProgram
from .ddr import ddr_channels
from .dma import DmaMachine, dma_work
from .gb import GbReads, UnitWrites
from .semaphores import SemaphoreEvent, SemaphoreReads, Semaphores


@dataclass(frozen=True)
class ClusterRun:
    """One run: what every unit did, and the semaphores between them."""

    works: list[WorkColumns]
    timelines: list[Timeline]
    semaphores: Semaphores


def cluster_preset(cluster: ClusterTarget) -> TimingPreset:
    """The rates of the cores.

    With two DDR channels the counter of beats under way is one per channel and does not wrap.
    """
    preset = cluster.timing.core
    return preset if cluster.timing.ddr_channels == 1 else preset.replace(inp_beat_limit=None)


def core_work(program: ClusterProgram, unit: int, words: NDArray[np.uint64]) -> WorkColumns:
    """The columns of a core's stream, with waits, signals and transfers of GB marked.

    Raises `ClusterError` on what the core cannot run.
    """
    cluster = program.cluster
    try:
        work = prepare(cluster.core, cluster_preset(cluster), words)
    except SimulationError as error:
        step = program.streams[unit][error.index] if error.index >= 0 else None
        raise ClusterError(cluster, unit, error.index, step, error.reason) from None
    kind, duration = work.kind.copy(), work.duration.copy()
    kind[list(program.waits[unit])] = InstructionKind.WAIT
    kind[list(program.signals[unit])] = InstructionKind.SIGNAL
    duration[list(program.signals[unit])] = 0
    return replace(work, kind=kind, duration=duration, in_gb=program.in_gb[unit])


class _UnitStores:
    """The STOREs of one core to GB and to semaphores."""

    def __init__(
        self,
        program: ClusterProgram,
        unit: int,
        work: WorkColumns,
        writes: UnitWrites,
        semaphores: Semaphores,
    ) -> None:
        self._program, self._unit, self._work = program, unit, work
        self._writes, self._semaphores = writes, semaphores
        timing = program.cluster.timing
        self._preset, self._sem_latency = timing.core, timing.sem_latency

    def store(self, index: int, start: int) -> int:
        """The cycle in which a STORE ends; its signals count a while later."""
        program, work = self._program, self._work
        beats, asks, written = work.requests[index].beats, start, start
        holds = work.write_cycles(self._preset, index)
        numbers = program.signals[self._unit].get(index)
        words: Sequence[int | None] = [None] * len(beats)
        if numbers is None:
            words = stream_words(program, self._preset, self._unit, index)
        for position, (size, hold, word) in enumerate(zip(beats, holds, words, strict=True)):
            asks, written = self._writes.accept(asks, hold, size, word)
            if numbers is not None and (position + 1) * len(numbers) % len(beats) == 0:
                number = numbers[position * len(numbers) // len(beats)]
                if program.counted([number]):
                    event = SemaphoreEvent(written + self._sem_latency, self._unit, index)
                    self._semaphores.signal(number, event)
        return written


def stream_words(program: ClusterProgram, preset: TimingPreset, unit: int, index: int) -> list[int]:
    """Where each request of a transfer or COPY begins, in words of the port."""
    step = program.streams[unit][index]
    if isinstance(step, Copy):
        return first_words(preset, step.source, step.nbytes, 0, 1)
    assert isinstance(step, TransferInstruction)
    size = program.cluster.core.element_bytes(step.memory)
    shape = (step.dram_base * size, step.x_size * size, step.x_stride * size, step.y_size)
    return first_words(preset, *shape)


def _words_of(
    program: ClusterProgram, preset: TimingPreset, moving: Transfer | Writing
) -> Sequence[int]:
    """Where each request begins, in words; a stream of instructions begins at an even page."""
    if not isinstance(moving, Transfer) or moving.reader != FETCH:
        return stream_words(program, preset, moving.unit, moving.index)
    left = len(program.streams[moving.unit]) - moving.index
    size = min(preset.fetch_instructions, left) * INSTRUCTION_BYTES
    return first_words(preset, moving.index * INSTRUCTION_BYTES, size, 0, 1)


class _Memories:
    """The memories of a cluster, as each unit sees them."""

    def __init__(self, program: ClusterProgram) -> None:
        cluster = program.cluster
        timing, units = cluster.timing, range(cluster.units)
        self._program = program

        def words_of(moving: Transfer | Writing) -> Sequence[int]:
            return _words_of(program, timing.core, moving)

        self.reads, self.writes = ddr_channels(cluster, words_of)
        self.semaphores = Semaphores((cluster.cores + 1) ** 2)
        self.gb_reads = [GbReads(timing, unit, words_of) for unit in units]
        self.buffers = [UnitWrites(timing, u) for u in units]
        self.waits = [
            SemaphoreReads(timing, unit, self.semaphores, self._counting(program.waits[unit]))
            for unit in units
        ]

    def _counting(self, waits: Mapping[int, Sequence[int]]) -> Mapping[int, Sequence[int | None]]:
        counted = self._program.counted
        return {
            index: [number if counted([number]) else None for number in numbers]
            for index, numbers in waits.items()
        }

    def of_core(self, unit: int, work: WorkColumns) -> Channels:
        """The channels of a core."""
        program = self._program
        stores = _UnitStores(program, unit, work, self.buffers[unit], self.semaphores)
        reads: dict[int, ReadChannel] = dict.fromkeys(program.in_gb[unit], self.gb_reads[unit])
        reads |= dict.fromkeys(program.waits[unit], self.waits[unit])
        writes: dict[int, WriteBuffer] = dict.fromkeys(program.in_gb[unit], stores)
        writes |= dict.fromkeys(program.signals[unit], stores)
        return Channels([self.reads], self.writes, reads, writes)

    def dma(self, work: WorkColumns) -> DmaMachine:
        """The machine of the DMA."""
        unit = self._program.cluster.cores
        return DmaMachine(
            self._program,
            work,
            Channels([self.reads], self.writes),
            self.waits[unit],
            self.gb_reads[unit],
            self.buffers[unit],
            self.semaphores,
        )


def run_clock(program: ClusterProgram, streams: Sequence[NDArray[np.uint64]]) -> ClusterRun:
    """Run a program, whose words are ``streams``. Raises `ClusterError`."""
    cluster, preset = program.cluster, cluster_preset(program.cluster)
    words = [np.ascontiguousarray(stream, np.uint64).reshape(-1, 2) for stream in streams]
    memories, works = _Memories(program), []
    machines: list[CoreClock] = []
    for unit in range(cluster.cores):
        works.append(core_work(program, unit, words[unit]))
        machines.append(CoreClock(preset, works[-1], memories.of_core(unit, works[-1]), unit))
    if cluster.dma:
        works.append(dma_work(cluster, words[-1], program.commands))
        machines.append(memories.dma(works[-1]))
    simulate(machines, [memories.semaphores])
    for unit, machine in enumerate(machines):
        if machine.limit == NEVER:
            raise _deadlock(program, unit)
    return ClusterRun(works, [machine.timeline() for machine in machines], memories.semaphores)


def _deadlock(program: ClusterProgram, unit: int) -> ClusterError:
    """Why a unit did not reach its FINISH."""
    flow, depth = ClusterFlow.of(program), program.cluster.core.queue_depth
    stuck = schedule(flow, depth)
    if stuck.blocked or stuck.full:
        first = stuck.blocked[0][0] if stuck.blocked else stuck.full[0]
        reason = f"deadlock: {deadlock_reason(flow, stuck, depth)}"
        return program.error(*flow.place_of(first), reason)
    finish = flow.finishes[unit] - flow.offsets[unit]
    return program.error(unit, finish, "deadlock: tokens or signals before it are lost")


def semaphore_edges(run: ClusterRun, cores: int) -> NDArray[np.int64]:
    """Each signal that was taken, int64 [n, 6]: source unit and step, destination unit and step,
    the cycle from which it counts, the cycle that takes it up."""
    rows = []
    for number, taken in enumerate(run.semaphores.taken):
        source, destination = semaphore_units(cores, number)
        for signal, wait in zip(run.semaphores.signals[number], taken, strict=False):
            rows.append((source, signal.step, destination, wait.step, signal.cycle, wait.cycle))
    return np.array(rows, np.int64).reshape(-1, 6)
