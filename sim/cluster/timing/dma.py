"""The DMA in the clock: a machine with one module and one queue, whose copies overlap.

Fetch, dispatch and the queue are those of a core. Command k starts in

    S_k = 1 + max(d_k + 1, R_(k-1)),

d_k the cycle of its dispatch and R the cycle in which the command before it is *released*: for a
COPY that of its last read request, otherwise its end; the queue has its place again from then on.
SIGNAL and FINISH also start after the end of all commands before. In detail:

- COPY: its first read request can be seen in S + 1; requests are cut as those of a core, by the
  addresses that are read. Into GB it ends `gb_banks` + 3 cycles after its last beat. Into DDR each
  piece that was read is written by requests that hold the write port for their beats + 3 cycles:
  the first asks in the cycle after the last beat of its piece, or when the write before it is
  answered; the COPY ends with the last answer.
- WAIT: its request can be seen in S + 1; it ends in the cycle after its last beat.
- SIGNAL: the write buffer accepts it from S + 1 on, for its beats + 3 cycles; it ends when it is
  written.
"""

import dataclasses
from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ....dialects.target import ClusterTarget, MemoryScope
from ....dialects.target.windows import SEMAPHORE_BYTES
from ....dialects.vta.dma import Copy, DmaCommand, DmaFinish, Signal, Wait
from ...timing.channel import INP, NEVER, Transfer
from ...timing.channels import Channels, ReadChannel, Writes, Writing
from ...timing.machine import CoreClock, Timeline
from ...timing.requests import cut, first_words
from ...timing.work import InstructionKind, WorkColumns
from ..program import ClusterProgram, copy_scopes
from .gb import UnitWrites
from .semaphores import SemaphoreEvent, Semaphores

_KINDS = {
    Copy: InstructionKind.COPY,
    Wait: InstructionKind.WAIT,
    Signal: InstructionKind.SIGNAL,
    DmaFinish: InstructionKind.FINISH,
}
_WRITE_REQUEST_CYCLES = 3
_MODULE = 0
"""The place of its only module."""
_LAST_BEAT_TO_DONE = 3


def dma_work(
    cluster: ClusterTarget, words: NDArray[np.uint64], commands: list[DmaCommand]
) -> WorkColumns:
    """The columns of the DMA's stream, in the form of a core's program."""
    preset, core = cluster.timing.core, cluster.core
    count = len(commands)
    zeros = np.zeros(count, np.int64)
    requests, nbytes = {}, zeros.copy()
    for index, command in enumerate(commands):
        if isinstance(command, Copy):
            requests[index] = cut(preset, command.source, command.nbytes, 0, 1)
            nbytes[index] = command.nbytes
        elif isinstance(command, Wait):
            element = core.element_bytes(core.system.activations)
            requests[index] = cut(preset, 0, element, SEMAPHORE_BYTES, 1)
    return WorkColumns(
        target=core,
        words=words,
        kind=np.array([_KINDS[type(command)] for command in commands], np.int64),
        module=np.full(count, _MODULE, np.int64),
        pops=[()] * count,
        pushes=[()] * count,
        duration=zeros,
        micro_ops=zeros,
        elements=zeros,
        nbytes=nbytes,
        beats=np.array([requests[i].total if i in requests else 0 for i in range(count)], np.int64),
        handshakes=zeros,
        requests=requests,
        pads={},
        zero_counts=zeros[:0],
        finish=count - 1,
    )


class DmaMachine(CoreClock):
    """One run of the DMA's stream."""

    def __init__(
        self,
        program: ClusterProgram,
        work: WorkColumns,
        ddr: Channels,
        waits: ReadChannel,
        gb_reads: ReadChannel,
        writes: UnitWrites,
        semaphores: Semaphores,
    ) -> None:
        cluster, timing = program.cluster, program.cluster.timing
        preset = timing.core
        self._commands, self._cluster, self._rates = program.commands, cluster, preset
        self._banks, self._sem_latency = timing.gb_banks, timing.sem_latency
        self._reads = {MemoryScope.DDR: ddr.reads[0], MemoryScope.GB: gb_reads}
        self._waits, self._buffer, self._semaphores = waits, writes, semaphores
        self._signals = program.signals[cluster.cores]
        self._counted = program.counted
        super().__init__(preset, work, ddr, cluster.cores)
        # The true ends; to the queue, a command is over when it is released. Up to which command
        # all have ended, and the latest end of those.
        self._over = [NEVER] * len(self._commands)
        self._passed = self._passed_end = 0
        # Writes of copies into DDR that still have to ask, in order; the first has asked.
        self._pieces: deque[_Piece] = deque()
        self._answered = 0

    @property
    def channels(self) -> Sequence[ReadChannel | Writes]:
        """The memory channels that it uses."""
        return (*super().channels, self._reads[MemoryScope.GB], self._waits)

    def timeline(self) -> Timeline:
        """The events up to FINISH."""
        found = super().timeline()
        end = np.array(self._over)
        end[found.start > found.cycles] = NEVER
        return dataclasses.replace(found, end=end)

    def _go_on(self, module: int) -> None:
        """Start commands as long as it is known when."""
        state = self._modules[module]
        while state.free < NEVER and state.head < state.arrived:
            index = state.members[state.head]
            at = max(self._dispatched[index] + 1, state.free)
            command = self._commands[index]
            if isinstance(command, Signal | DmaFinish):
                if (ended := self._all_over(index)) is None:
                    return
                at = max(at, ended)
            state.head += 1
            self._start[index] = at + 1
            state.free = NEVER
            if isinstance(command, DmaFinish):
                self._limit = at
            else:
                self._begin(index, command, at + 1)

    def _all_over(self, index: int) -> int | None:
        """The latest end of all commands before one; None while that is open."""
        while self._passed < index and self._over[self._passed] < NEVER:
            self._passed_end = max(self._passed_end, self._over[self._passed])
            self._passed += 1
        return self._passed_end if self._passed == index else None

    def _begin(self, index: int, command: DmaCommand, start: int) -> None:
        if isinstance(command, Signal):
            self._signal(index, command, start)
            return
        requests = self._work.requests[index]
        transfer = Transfer(INP, index, requests, start + 1, unit=self._unit)
        if not isinstance(command, Copy):
            self._waits.add(transfer)
            return
        scope = self._cluster.scope_of(command.source, command.source + command.nbytes)
        assert scope is not None
        if scope is MemoryScope.GB:
            # Its pieces are written as they come.
            transfer.spans, transfer.stop = [], 1
        self._reads[scope].add(transfer)

    def _signal(self, index: int, command: Signal, start: int) -> None:
        core = self._cluster.core
        beats = self._rates.beats(core.element_bytes(core.system.activations))
        hold = beats + _WRITE_REQUEST_CYCLES
        _, written = self._buffer.accept(start + 1, hold, beats, None)
        for number in self._counted(self._signals[index]):
            counts = written + self._sem_latency
            self._semaphores.signal(number, SemaphoreEvent(counts, self._unit, index))
        self._end_at(index, written)
        self._release(index, written)

    def _release(self, index: int, at: int) -> None:
        self._finish(self._modules[_MODULE], index, at)
        self._awake.add(_MODULE)

    def _end_at(self, index: int, at: int) -> None:
        self._over[index] = at
        self._awake.add(_MODULE)

    def served(self, transfer: Transfer | Writing) -> None:
        """Process requests that have left, and writes that are answered."""
        if isinstance(transfer, Writing):
            self._written(transfer)
            return
        index = transfer.index
        if transfer.reader != INP:
            super().served(transfer)
            return
        command = self._commands[index]
        if isinstance(command, Wait):
            self._end_at(index, transfer.last_end + 1)
            self._release(index, transfer.last_end + 1)
            return
        assert isinstance(command, Copy)
        if copy_scopes(self._cluster, command)[1] is MemoryScope.GB:
            self._end_at(index, transfer.last_end + _LAST_BEAT_TO_DONE + self._banks)
            self._release(index, transfer.last_issue)
            return
        self._write_piece(index, command, transfer)
        if transfer.position == len(transfer.beats):
            self._release(index, transfer.last_issue)
        else:
            transfer.stop = transfer.position + 1

    def _write_piece(self, index: int, command: Copy, transfer: Transfer) -> None:
        """Let the piece of the latest read request be written to DDR."""
        port, last = self._rates.port_bytes, transfer.position - 1
        words = transfer.words
        first = command.destination + max(words[last] * port - command.source, 0)
        until = words[last + 1] * port - command.source if last + 1 < len(words) else command.nbytes
        size = command.destination + until - first
        requests = cut(self._rates, first, size, 0, 1)
        places = first_words(self._rates, first, size, 0, 1)
        is_last = last + 1 == len(words)
        for number, (beats, word) in enumerate(zip(requests.beats, places, strict=True), 1):
            ends = is_last and number == len(places)
            self._pieces.append(_Piece(index, beats, word, transfer.last_end + 1, ends))
            if len(self._pieces) == 1:
                self._ask()

    def _ask(self) -> None:
        """Let the first piece ask for the write port."""
        piece = self._pieces[0]
        hold = piece.beats + _WRITE_REQUEST_CYCLES
        asks = max(piece.comes, self._answered)
        assert self._channels.writes is not None
        self._channels.writes.add(Writing(piece.index, [hold], asks, self._unit, [piece.word]))

    def _written(self, writing: Writing) -> None:
        piece = self._pieces.popleft()
        self._answered = writing.end
        if piece.ends:
            self._end_at(piece.index, writing.end)
        if self._pieces:
            self._ask()


@dataclasses.dataclass(frozen=True, slots=True)
class _Piece:
    """A request that writes to DDR: its beats, where it begins, when its data have come, and
    whether it is the last of its COPY."""

    index: int
    beats: int
    word: int
    comes: int
    ends: bool
