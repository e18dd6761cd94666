"""The clock: fetch, load, compute and store; an instruction is processed once its times are known.

Conventions. An instruction's *start* S is the first cycle in which its module is not idle, its
*end* E the first in which it is idle again; the decision to start falls in cycle S - 1, and in
cycle E - 1 the instruction is done: it leaves its queue and pushes its tokens. The program takes
as many cycles as its FINISH's S.

S = 1 + the latest of: E of the module's previous instruction; E of the producer of each token that
it pops (all at once); d + 1, d the cycle in which fetch dispatched it. Dispatch is one a cycle,
where the queue is full from the E on that makes room. So almost all times follow from others by
maxima and sums, in any order (max-plus algebra: Baccelli et al., "Synchronization and Linearity",
1992), and each module runs ahead as long as the times of its tokens and its dispatch are known.

Two kinds of events have to be simulated in order of time. The first is the end of a load, or the
arrival of a chunk of instructions: it is known once its requests have been served, and readers
compete for the read channels. When no module can go on, no new reader asks before one of the
transfers under way is complete, so the channels may issue requests up to that cycle. The second is
the loss of a token because its queue is full: it depends on which tokens have been popped by then,
and where that is open, the channels go to that cycle and no further. The cost is a few steps per
instruction and at most one per request, never one per cycle.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...dialects.target import TimingPreset
from ..tokens import Schedule, deadlock_reason
from .channel import FETCH, INP, NEVER, UOP, Transfer
from .channels import Channels, ReadChannel, Writes, Writing
from .fetch import Chunk, Fetch
from .padding import padding_idle
from .work import READERS, InstructionKind, WorkColumns

CHANNEL_OF = {1: (0, 0, 0, 0, 0), 2: (0, 0, 1, 1, 0), 3: (0, 1, 2, 2, 1)}
"""The channel of each reader, by the number of channels."""

_LAST_BEAT_TO_DONE = 3
_LAST_BEAT_TO_DONE_UOP = 2
_LAST_ISSUE_TO_LOST_END = 3
_LAST_BEAT_TO_DISPATCH = 2
_DISPATCHED_TO_FETCH = 2
_FIRST_FETCH = 1


@dataclass(frozen=True)
class Timeline:
    """The events up to the start of FINISH.

    start, end, dispatched: one cycle per instruction, `NEVER` if it did not start by then. edges,
    int64 [n, 3]: producer, consumer and queue of each token popped. full: (first cycle, first cycle
    after) in which fetch waited for a place in a queue. warnings: (instruction, what to know).
    """

    cycles: int
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    dispatched: NDArray[np.int64]
    edges: NDArray[np.int64]
    chunks: list[Chunk]
    full: list[tuple[int, int]]
    warnings: list[tuple[int, str]]


@dataclass(slots=True)
class _ModuleState:
    """A module's instructions in order: up to head - 1 started, up to arrived - 1 dispatched.

    free: the first cycle in which it may decide to start the next one, `NEVER` while that is open.
    """

    members: list[int]
    head: int = 0
    arrived: int = 0
    free: int = 0
    transfer: Transfer | None = None


class CoreClock:
    """One run of a program, which `together.run` drives.

    channels: the memory channels that it uses, its own (`Channels.of`) or shared with others.
    unit: its number among the machines that share them.
    """

    def __init__(
        self, preset: TimingPreset, work: WorkColumns, channels: Channels, unit: int = 0
    ) -> None:
        self._preset, self._work = preset, work
        self._channels, self._unit = channels, unit
        count = len(work.kind)
        self._module = work.module.tolist()
        durations = work.duration
        if channels.writes is not None and not preset.ideal_memory:
            # The duration of a STORE depends on the other machines that write.
            durations = np.where(work.kind == InstructionKind.STORE, 0, durations)
        self._duration = durations.tolist()
        readers = [READERS.get(kind, -1) for kind in InstructionKind]
        self._readers = [readers[kind] for kind in work.kind.tolist()]
        self._pops, self._pushes = work.pops, work.pushes
        system = work.target.system
        self._consumer = [int(queue.sink) for queue in system.queues]
        self._modules = [
            _ModuleState(np.flatnonzero(work.module == module).tolist())
            for module in system.modules
        ]
        # The modules that may be able to start something.
        self._awake: set[int] = set()
        # For each queue the instructions that pushed its tokens and those that popped them, the
        # k-th the k-th.
        self._pushed: list[list[int]] = [[] for _ in system.queues]
        self._popped: list[list[int]] = [[] for _ in system.queues]
        # Ended instructions with tokens for which it is open whether their queue has room.
        self._late: set[int] = set()
        self._channel_of = [channels.reads[n] for n in CHANNEL_OF[preset.read_channels]]
        # The cycle in which a chunk arrives, if it does not wait for a channel.
        self._chunk_comes: int | None = None
        self._limit = NEVER
        self._ideal, self._token_depth = preset.ideal_memory, preset.token_depth
        self._start, self._end = [NEVER] * count, [NEVER] * count
        self._dispatched = [NEVER] * count
        self._full: list[tuple[int, int]] = []
        self._warnings: list[tuple[int, int, str]] = []
        self._fetch = Fetch(preset, count)
        # The instruction that has to end before fetch can go on, and since when fetch waits.
        self._blocked: tuple[int, int] | None = None

    @property
    def channels(self) -> Sequence[ReadChannel | Writes]:
        """The memory channels that it uses and that take part in the simulation."""
        reads = (*self._channels.reads, *self._channels.other_reads.values())
        return reads if self._channels.writes is None else (*reads, self._channels.writes)

    @property
    def limit(self) -> int:
        """The cycle in which FINISH starts, `NEVER` while that is unknown."""
        return self._limit

    @property
    def undecided(self) -> int:
        """The cycle up to which channels may go before it must be decided whether a token is lost.

        `NEVER` where nothing is open.
        """
        if not self._late:
            return NEVER
        return min(map(self._end.__getitem__, self._late)) - 1

    def launch(self) -> None:
        """Ask for the first instructions."""
        self._request_instructions(_FIRST_FETCH)

    def decide(self) -> None:
        """Decide the losses that `undecided` waits for: no further token is popped by then."""
        self._push_late(min(self._late, key=self._end.__getitem__), for_sure=True)

    def timeline(self) -> Timeline:
        """The events up to FINISH. Raises `SimulationError` on a deadlock."""
        if self._limit == NEVER:
            self._deadlock()
        limit = self._limit
        start, end, dispatched = map(np.array, (self._start, self._end, self._dispatched))
        end[start > limit + 1] = NEVER
        start[start > limit + 1] = NEVER
        dispatched[dispatched > limit] = NEVER
        if self._blocked is not None:
            self._full.append((self._blocked[1], limit + 1))
        warnings = [(index, text) for at, index, text in self._warnings if at <= limit]
        for index in self._work.zero_counts.tolist():
            if start[index] <= limit:
                warnings.append((index, "a count of 0 runs 16384 times"))
        edges = np.concatenate(
            [
                np.stack([pushed[: len(popped)], popped, np.full(len(popped), queue)], axis=1)
                for queue, (pushed, popped) in enumerate(
                    zip(self._pushed, self._popped, strict=True)
                )
            ]
        ).astype(np.int64)
        return Timeline(
            limit + 1,
            start,
            end,
            dispatched,
            edges[start[edges[:, 1]] <= limit + 1],
            [chunk for chunk in self._fetch.chunks if chunk.command <= limit],
            [span for span in self._full if span[0] <= limit],
            warnings,
        )

    def settle(self) -> None:
        """Process every event whose time is known."""
        awake = self._awake
        while awake or self._chunk_comes is not None:
            while awake:
                self._go_on(awake.pop())
            if self._late:
                for index in list(self._late):
                    self._push_late(index)
            if self._chunk_comes is not None:
                at, self._chunk_comes = self._chunk_comes, None
                self._instructions_come(at)

    def _go_on(self, module: int) -> None:
        """Start the module's instructions as long as it is known when."""
        state, ends, starts = self._modules[module], self._end, self._start
        pushed, popped, dispatched = self._pushed, self._popped, self._dispatched
        while state.free < NEVER and state.head < state.arrived:
            index = state.members[state.head]
            at = dispatched[index] + 1
            if at < state.free:
                at = state.free
            if pops := self._pops[index]:
                for queue in pops:
                    taken = len(popped[queue])
                    if taken == len(pushed[queue]):
                        return
                    if (end := ends[pushed[queue][taken]]) > at:
                        at = end
                for queue in pops:
                    popped[queue].append(index)
            state.head += 1
            starts[index] = at + 1
            if duration := self._duration[index]:
                self._finish(state, index, at + 1 + duration)
                continue
            state.free = NEVER
            if index == self._work.finish:
                self._limit = at
            else:
                self._start_transfer(state, index, at + 1)

    def _finish(self, state: _ModuleState, index: int, end: int) -> None:
        """Process an instruction's end: free its module and its place in the queue, push its
        tokens."""
        self._end[index] = state.free = end
        if self._blocked is not None and self._blocked[0] == index:
            since, self._blocked = self._blocked[1], None
            if end > since:
                self._full.append((since, end))
            self._dispatch(max(since, end))
        if not (pushes := self._pushes[index]):
            return
        depth = self._token_depth
        for queue in pushes:
            # The queue has room once all but depth - 1 of the earlier tokens are popped.
            if (before := len(self._pushed[queue]) - depth) >= 0:
                popped = self._popped[queue]
                if before >= len(popped) or self._start[popped[before]] > end:
                    state.free = NEVER
                    self._late.add(index)
                    self._push_late(index)
                    return
        for queue in pushes:
            self._push(queue, index)

    def _push(self, queue: int, index: int) -> None:
        self._pushed[queue].append(index)
        consumer = self._consumer[queue]
        if self._modules[consumer].free < NEVER:
            self._awake.add(consumer)

    def _push_late(self, index: int, for_sure: bool = False) -> None:
        """Push the tokens of an instruction, if it is known whether their queues have room.

        ``for_sure``: pops that are not known yet come later than the push.
        """
        end, depth, lost = self._end[index], self._token_depth, []
        for queue in self._pushes[index]:
            before, popped = len(self._pushed[queue]) - depth, self._popped[queue]
            if before >= len(popped) and not for_sure:
                return
            if before >= len(popped) or (before >= 0 and self._start[popped[before]] > end):
                lost.append(queue)
        self._late.discard(index)
        for queue in self._pushes[index]:
            if queue in lost:
                reason = f"its {queue} token is lost: the queue has {depth}"
                self._warnings.append((end - 1, index, reason))
            else:
                self._push(queue, index)
        module = self._module[index]
        self._modules[module].free = end
        self._awake.add(module)

    def _dispatch(self, at: int) -> None:
        """Fetch puts the instructions that are there into their queues, from cycle `at` on."""
        fetch, depth, ends = self._fetch, self._preset.queue_depth, self._end
        for position in range(fetch.position, fetch.dispatchable):
            state = self._modules[self._module[position]]
            if (rank := state.arrived - depth) >= 0:
                # The instruction that has to end before the queue has room.
                holder = state.members[rank]
                if (end := ends[holder]) > at:
                    if end == NEVER:
                        fetch.position, self._blocked = position, (holder, at)
                        return
                    self._full.append((at, end))
                    at = end
            self._dispatched[position] = at
            if state.head == state.arrived:
                self._awake.add(self._module[position])
            state.arrived += 1
            at += 1
        self._dispatched_all(at)

    def _dispatched_all(self, at: int) -> None:
        """Process the dispatch of a chunk's last instruction, in the cycle before `at`."""
        fetch = self._fetch
        fetch.position, fetch.free = fetch.dispatchable, at
        if not self._preset.fetch_ahead:
            self._request_instructions(at - 1 + _DISPATCHED_TO_FETCH)
        elif fetch.ready is not None:
            self._begin_dispatch(max(fetch.ready, fetch.free))

    def _dispatch_at_once(self, at: int) -> bool:
        """Dispatch all instructions at once, if the queues have room for all in cycle `at`; whether
        they have."""
        first, end = self._fetch.position, self._fetch.dispatchable
        depth, arrivals = self._preset.queue_depth, []
        for state in self._modules:
            arrived = bisect_left(state.members, end, state.arrived)
            if arrived > depth and self._end[state.members[arrived - depth - 1]] > at:
                return False
            arrivals.append(arrived)
        self._dispatched[first:end] = range(at, at + end - first)
        for module, (state, arrived) in enumerate(zip(self._modules, arrivals, strict=True)):
            if state.head == state.arrived < arrived:
                self._awake.add(module)
            state.arrived = arrived
        self._dispatched_all(at + end - first)
        return True

    def _request_instructions(self, command: int) -> None:
        """Ask for the next chunk in cycle `command`; the arbiter sees the request one later."""
        requests = self._fetch.next_chunk(command)
        if requests is None:
            return
        if self._ideal:
            self._chunk_comes = command + 1
        else:
            first = self._fetch.requested_first
            transfer = Transfer(FETCH, first, requests, command + 1, unit=self._unit)
            self._channel_of[FETCH].add(transfer)

    def _instructions_come(self, last_beat: int) -> None:
        ready = last_beat + _LAST_BEAT_TO_DISPATCH
        if self._fetch.arrive(ready):
            self._begin_dispatch(max(ready, self._fetch.free))

    def _begin_dispatch(self, cycle: int) -> None:
        self._fetch.begin()
        if self._preset.fetch_ahead:
            self._request_instructions(cycle)
        if not self._dispatch_at_once(cycle):
            self._dispatch(cycle)

    def _start_transfer(self, state: _ModuleState, index: int, start: int) -> None:
        """A load's first request is visible in S + 1, one cycle later for each row of top pads.

        A STORE that does not have the write channel for itself asks for it in cycle S.
        """
        work, channels = self._work, self._channels
        if self._readers[index] < 0:
            if (buffer := channels.other_writes.get(index)) is not None:
                self._finish(state, index, buffer.store(index, start))
                return
            assert channels.writes is not None
            writing = Writing(index, work.write_cycles(self._preset, index), start, self._unit)
            channels.writes.add(writing)
            return
        requests, pads, reader = work.requests[index], work.pads.get(index), self._readers[index]
        visible = start + 1
        if pads is not None:
            visible += pads.delay
        whole = reader == INP and requests.total == self._preset.inp_beat_limit
        traced = whole or pads is not None
        state.transfer = transfer = Transfer(reader, index, requests, visible, traced, self._unit)
        if self._ideal:
            transfer.last_end, transfer.position = visible, transfer.stop
            self.served(transfer)
            return
        if whole:
            transfer.stop = max(1, transfer.stop - 1)
        channels.other_reads.get(index, self._channel_of[reader]).add(transfer)

    def served(self, transfer: Transfer | Writing) -> None:
        """Process a transfer whose beats have known times: a load ends with the last one and all
        pads.

        A load may also be asked about before its last request leaves, see `_lose_data`.
        """
        if isinstance(transfer, Writing):
            module = self._module[transfer.index]
            self._finish(self._modules[module], transfer.index, transfer.end)
            self._awake.add(module)
            return
        if transfer.reader == FETCH:
            self._instructions_come(transfer.last_end)
            return
        index = transfer.index
        module = self._module[index]
        state = self._modules[module]
        if state.transfer is not transfer:
            return
        if transfer.position < len(transfer.beats):
            transfer.stop = len(transfer.beats)
            assert transfer.spans is not None
            if transfer.last_issue < transfer.spans[0][0]:
                self._lose_data(state, index, transfer.last_issue)
            return
        state.transfer = None
        uop = transfer.reader == UOP
        done = transfer.last_end + (_LAST_BEAT_TO_DONE_UOP if uop else _LAST_BEAT_TO_DONE)
        if (pads := self._work.pads.get(index)) is not None:
            done = max(done, padding_idle(pads, self._start[index], uop, transfer.spans or ()))
        self._finish(state, index, done + 1)
        self._awake.add(module)

    def _lose_data(self, state: _ModuleState, index: int, last_issue: int) -> None:
        """Lose a load's data: all requests left before the first beat, so the beat counter wrapped
        to 0."""
        state.transfer = None
        reason = "it loses its data: all its requests leave before the first beat comes"
        self._warnings.append((last_issue, index, reason))
        self._finish(state, index, last_issue + _LAST_ISSUE_TO_LOST_END)
        self._awake.add(self._module[index])

    def _deadlock(self) -> None:
        heads = [state.members[state.head] for state in self._modules if state.head < state.arrived]
        blocked = [
            (index, [q for q in self._pops[index] if len(self._popped[q]) == len(self._pushed[q])])
            for index in sorted(heads)
        ]
        fetch = self._fetch.position if self._blocked is not None else None
        reason = deadlock_reason(Schedule([], blocked, fetch), self._preset.queue_depth)
        index = blocked[0][0] if blocked else self._work.finish
        raise self._work.error(index, f"deadlock: {reason}")
