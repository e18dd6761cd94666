"""The clock: discrete events over fetch, load, compute and store.

Conventions. An instruction's *start* S is the first cycle in which its module is not idle, its
*end* E the first in which it is idle again; the decision to start falls in cycle S - 1, and in
cycle E - 1 the instruction is done: it leaves its queue and pushes its tokens. The program takes
as many cycles as its FINISH's S.

S = 1 + the latest of: E of the module's previous instruction; E of the producer of each token that
it pops (all at once); d + 1, d the cycle in which fetch dispatched it. Seven events can be due:
the start check of each module, the dispatch of one instruction, and each module being done. At
equal times they are handled in this order, so that a token, a freed place or a dispatched
instruction counts from the next cycle on. Between events the read channels issue requests.

The cost is a few steps an instruction and one a request, never one a cycle.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..tokens import CONSUMER, Module, Queue, Schedule, deadlock_reason
from .channel import FETCH, INP, NEVER, UOP, WGT, Channel, Transfer
from .padding import padding_idle
from .presets import INSTRUCTION_BYTES, TimingPreset
from .requests import Requests, cut
from .work import READERS, Work

CHANNEL_OF = {1: (0, 0, 0, 0, 0), 2: (0, 0, 1, 1, 0), 3: (0, 1, 2, 2, 1)}
"""The channel of each reader, by the number of channels."""

_LAST_BEAT_TO_DONE = 3
_LAST_BEAT_TO_DONE_UOP = 2
_LAST_BEAT_TO_DISPATCH = 2
_DISPATCHED_TO_FETCH = 2
_FIRST_FETCH = 1
_DISPATCH, _DONE = 3, 4
_CONSUMER = [int(CONSUMER[queue]) for queue in Queue]


@dataclass(frozen=True)
class Chunk:
    """One fetch: instructions [first, end), commanded in a cycle, there in another."""

    first: int
    end: int
    command: int
    ready: int


@dataclass(frozen=True)
class Timeline:
    """What happened when. start, end, dispatched: a cycle an instruction, `NEVER` if it did not.

    edges: (producer, consumer, queue) of each token popped. full: (first cycle, first cycle after)
    in which fetch waited for a place in a queue. warnings: (instruction, what to know).
    """

    cycles: int
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    dispatched: NDArray[np.int64]
    edges: list[tuple[int, int, Queue]]
    chunks: list[Chunk]
    full: list[tuple[int, int]]
    warnings: list[tuple[int, str]]


@dataclass
class _ModuleState:
    """A module's instructions in order; those from head to arrived - 1 are in its queue."""

    members: list[int]
    head: int = 0
    arrived: int = 0
    running: bool = False
    transfer: Transfer | None = field(default=None)


class Machine:
    """One run of a program. `run` may be called once."""

    def __init__(self, preset: TimingPreset, work: Work) -> None:
        self._preset, self._work = preset, work
        count = len(work.kind)
        self._module = work.module.tolist()
        self._duration = work.duration.tolist()
        self._readers = [READERS.get(kind, -1) for kind in work.kind.tolist()]
        self._pops, self._pushes = work.pops, work.pushes
        self._times = [NEVER] * 7
        self._modules = [
            _ModuleState(np.flatnonzero(work.module == module).tolist()) for module in Module
        ]
        self._tokens = [0] * len(Queue)
        self._pushed: list[deque[int]] = [deque() for _ in Queue]
        self._channels = [Channel(preset) for _ in range(preset.read_channels)]
        # No request leaves before this cycle, unless a reader begins to ask.
        self._reads_due = NEVER
        self._limit = NEVER
        self._start, self._end = [NEVER] * count, [NEVER] * count
        self._dispatched = [NEVER] * count
        self._edges: list[tuple[int, int, Queue]] = []
        self._full: list[tuple[int, int]] = []
        self._warnings: list[tuple[int, str]] = []
        self._fetch = _Fetch(preset, count)
        self._blocked: tuple[int, int] | None = None

    def run(self) -> Timeline:
        """Every event up to FINISH. Raises `SimulationError` on a deadlock."""
        times = self._times
        self._request_instructions(_FIRST_FETCH)
        while True:
            now = min(times)
            if now >= self._reads_due and self._advance_reads(now):
                continue
            if now >= NEVER or now > self._limit:
                break
            event = times.index(now)
            if event < _DISPATCH:
                self._try_start(event, now)
            elif event == _DISPATCH:
                self._dispatch(now)
            else:
                self._done(event - _DONE, now)
        if self._limit == NEVER:
            self._deadlock()
        if self._blocked is not None:
            self._full.append((self._blocked[1], self._limit + 1))
        for index in self._work.zero_counts.tolist():
            if self._start[index] <= self._limit:
                self._warnings.append((index, "a count of 0 runs 16384 times"))
        return Timeline(
            self._limit + 1,
            np.array(self._start),
            np.array(self._end),
            np.array(self._dispatched),
            self._edges,
            self._fetch.chunks,
            self._full,
            self._warnings,
        )

    def _advance_reads(self, now: int) -> bool:
        """Issue requests up to the next event; whether that may have brought an earlier one."""
        transfer = self._issue(min(now, self._limit))
        if transfer is None:
            return False
        self._reads_due = 0
        if transfer.reader == FETCH:
            self._instructions_come(transfer.last_end)
        else:
            self._load_served(transfer)
        return True

    def _issue(self, until: int) -> Transfer | None:
        """Issue requests up to a cycle, or until one transfer reaches its stop.

        Channels go in step: what one of them completes may soon let a reader ask at another.
        """
        channels = self._channels
        if len(channels) == 1:
            transfer = channels[0].issue(until)
            self._reads_due = channels[0].due
            return transfer
        while True:
            due = sorted((channel.next_issue, place) for place, channel in enumerate(channels))
            if due[0][0] > until:
                self._reads_due = due[0][0]
                return None
            transfer = channels[due[0][1]].issue(min(until, due[1][0]))
            if transfer is not None:
                return transfer

    def _try_start(self, module: int, now: int) -> None:
        """Start the module's next instruction if its tokens are there."""
        self._times[module] = NEVER
        state, tokens = self._modules[module], self._tokens
        index = state.members[state.head]
        pops = self._pops[index]
        for queue in pops:
            if not tokens[queue]:
                return
        for queue in pops:
            tokens[queue] -= 1
            self._edges.append((self._pushed[queue].popleft(), index, queue))
        state.running = True
        self._start[index] = now + 1
        if duration := self._duration[index]:
            self._times[_DONE + module] = now + duration
        elif index == self._work.finish:
            self._limit = now
        elif index in self._work.requests:
            self._start_load(module, index, now + 1)

    def _done(self, module: int, now: int) -> None:
        """The instruction leaves its queue and pushes its tokens; the next may start."""
        times, state = self._times, self._modules[module]
        times[_DONE + module] = NEVER
        index = state.members[state.head]
        self._end[index] = now + 1
        state.running = False
        state.head += 1
        if state.head < state.arrived:
            times[module] = now + 1
        for queue in self._pushes[index]:
            if self._tokens[queue] == self._preset.token_depth:
                depth = self._preset.token_depth
                self._warnings.append((index, f"its {queue} token is lost: the queue has {depth}"))
                continue
            self._tokens[queue] += 1
            self._pushed[queue].append(index)
            consumer = _CONSUMER[queue]
            other = self._modules[consumer]
            if not other.running and other.head < other.arrived and times[consumer] > now:
                times[consumer] = now + 1
        if self._blocked is not None and self._blocked[0] == module:
            self._full.append((self._blocked[1], now + 1))
            self._blocked = None
            times[_DISPATCH] = now + 1

    def _dispatch(self, now: int) -> None:
        """Fetch puts one instruction into its queue, or waits until there is a place."""
        times, fetch = self._times, self._fetch
        index = fetch.position
        module = self._module[index]
        state = self._modules[module]
        waiting = state.arrived - state.head
        if waiting >= self._preset.queue_depth:
            times[_DISPATCH] = NEVER
            self._blocked = (module, now)
            return
        self._dispatched[index] = now
        state.arrived += 1
        if waiting == 0:
            times[module] = now + 1
        fetch.position += 1
        if fetch.position < fetch.dispatchable:
            times[_DISPATCH] = now + 1
            return
        times[_DISPATCH] = NEVER
        if not self._preset.fetch_ahead:
            self._request_instructions(now + _DISPATCHED_TO_FETCH)
        elif fetch.ready is not None:
            self._begin_dispatch(max(fetch.ready, now + 1))

    def _request_instructions(self, command: int) -> None:
        """Ask for the next chunk in cycle `command`; the arbiter sees the request one later."""
        requests = self._fetch.next_chunk(command)
        if requests is None:
            return
        if self._preset.ideal_memory:
            self._instructions_come(command + 1)
        else:
            self._add(Transfer(FETCH, requests, command + 1))

    def _instructions_come(self, last_beat: int) -> None:
        ready = last_beat + _LAST_BEAT_TO_DISPATCH
        if self._fetch.arrive(ready):
            self._begin_dispatch(ready)

    def _begin_dispatch(self, cycle: int) -> None:
        self._fetch.begin()
        self._times[_DISPATCH] = cycle
        if self._preset.fetch_ahead:
            self._request_instructions(cycle)

    def _add(self, transfer: Transfer) -> None:
        channel = CHANNEL_OF[self._preset.read_channels][transfer.reader]
        self._channels[channel].add(transfer)
        self._reads_due = 0

    def _start_load(self, module: int, index: int, start: int) -> None:
        """A load's first request is visible in S + 1, one cycle later for each row of top pads."""
        work = self._work
        requests, pads = work.requests[index], work.pads.get(index)
        reader = self._readers[index]
        visible = start + 1 + (pads.delay if pads is not None else 0)
        transfer = Transfer(reader, requests, visible, traced=pads is not None)
        self._modules[module].transfer = transfer
        if self._preset.ideal_memory:
            transfer.last_end = visible
            self._load_served(transfer)
            return
        if reader == INP and requests.total == self._preset.inp_beat_limit:
            transfer.stop = max(1, transfer.stop - 1)
        self._add(transfer)

    def _load_served(self, transfer: Transfer) -> None:
        """The times of a load's beats are known: it is done when the last one and all pads are."""
        module = Module.LOAD if transfer.reader in (INP, WGT) else Module.COMPUTE
        state = self._modules[module]
        if state.transfer is not transfer:
            return
        index = state.members[state.head]
        if transfer.stop < len(transfer.requests.beats):
            transfer.stop = len(transfer.requests.beats)
            if transfer.last_issue < transfer.first_served:
                self._lose_data(module, index, transfer.last_issue)
            return
        state.transfer = None
        uop = transfer.reader == UOP
        done = transfer.last_end + (_LAST_BEAT_TO_DONE_UOP if uop else _LAST_BEAT_TO_DONE)
        if (pads := self._work.pads.get(index)) is not None:
            done = max(done, padding_idle(pads, self._start[index], uop, transfer.spans or ()))
        self._times[_DONE + module] = done

    def _lose_data(self, module: int, index: int, last_issue: int) -> None:
        """All requests leave before the first beat: the counter of beats under way wraps to 0."""
        self._modules[module].transfer = None
        self._times[_DONE + module] = last_issue + _LAST_BEAT_TO_DONE_UOP
        reason = "it loses its data: all its requests leave before the first beat comes"
        self._warnings.append((index, reason))

    def _deadlock(self) -> None:
        heads = [state.members[state.head] for state in self._modules if state.head < state.arrived]
        blocked = [
            (index, [queue for queue in self._work.pops[index] if not self._tokens[queue]])
            for index in sorted(heads)
        ]
        fetch = self._fetch.position if self._blocked is not None else None
        reason = deadlock_reason(Schedule([], blocked, fetch), self._preset.queue_depth)
        index = blocked[0][0] if blocked else self._work.finish
        raise self._work.error(index, f"deadlock: {reason}")


class _Fetch:
    """Chunks of instructions: asked for up to `requested`, there up to `dispatchable`."""

    def __init__(self, preset: TimingPreset, total: int) -> None:
        self._preset, self._total = preset, total
        self.position = self.dispatchable = self._requested = 0
        self.ready: int | None = None
        self.chunks: list[Chunk] = []
        self._command = 0

    def next_chunk(self, command: int) -> Requests | None:
        """The requests for the next chunk, None behind the last."""
        first, self._command = self._requested, command
        if first == self._total:
            return None
        self._requested = min(self._total, first + self._preset.fetch_instructions)
        size = (self._requested - first) * INSTRUCTION_BYTES
        return cut(self._preset, first * INSTRUCTION_BYTES, size, 0, 1)

    def arrive(self, ready: int) -> bool:
        """The chunk is there from a cycle on; whether nothing stands in its way."""
        first = self.chunks[-1].end if self.chunks else 0
        self.chunks.append(Chunk(first, self._requested, self._command, ready))
        self.ready = ready
        return self.position == self.dispatchable

    def begin(self) -> None:
        """The chunk that is there is dispatched next."""
        self.dispatchable = self._requested
        self.ready = None
