"""The clock: discrete events over fetch, load, compute and store.

Conventions. An instruction's *start* S is the first cycle in which its module is not idle, its
*end* E the first in which it is idle again; the decision to start falls in cycle S - 1, and in
cycle E - 1 the instruction is done: it leaves its queue and pushes its tokens. The program takes
as many cycles as its FINISH's S.

S = 1 + the latest of: E of the module's previous instruction; E of the producer of each token that
it pops (all at once); d + 1, d the cycle in which fetch dispatched it. Of these, E of a load is not
known before its requests have been served, and so time has to be followed: an event is the start
of a module's next instruction once its time is known, or a dispatch; between events the read
channels issue requests. Whatever has a fixed duration is settled when it starts: its E, its tokens
(which count from E on) and its place in the queue. Only a token that may find its queue full has to
wait for its time to come.

The cost is a few steps an instruction and one a request, never one a cycle.
"""

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass

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
_LAST_ISSUE_TO_LOST_END = 3
_LAST_BEAT_TO_DISPATCH = 2
_DISPATCHED_TO_FETCH = 2
_FIRST_FETCH = 1
_DISPATCH, _CHUNK, _PUSH = 3, 4, 5
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
    """A module's instructions in order: up to head - 1 started, up to arrived - 1 dispatched.

    free: the first cycle in which it may decide to start the next one, `NEVER` while that is open.
    """

    members: list[int]
    head: int = 0
    arrived: int = 0
    free: int = 0
    transfer: Transfer | None = None


class Machine:
    """One run of a program. `run` may be called once."""

    def __init__(self, preset: TimingPreset, work: Work) -> None:
        self._preset, self._work = preset, work
        count = len(work.kind)
        self._module = work.module.tolist()
        self._duration = work.duration.tolist()
        self._readers = [READERS.get(kind, -1) for kind in work.kind.tolist()]
        self._pops, self._pushes = work.pops, work.pushes
        # Starts of load, compute and store, dispatch, arrival of a chunk, pushes of the three.
        self._times = [NEVER] * 8
        self._modules = [
            _ModuleState(np.flatnonzero(work.module == module).tolist()) for module in Module
        ]
        # The producers of the tokens in each queue; a token counts from its producer's end on.
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
            times[event] = NEVER
            if event < _DISPATCH:
                self._start_next(event, now)
            elif event == _DISPATCH:
                self._dispatch(now)
            elif event == _CHUNK:
                self._instructions_come(now)
            else:
                self._push_late(event - _PUSH)
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
            first, *others = sorted(channels, key=_due)
            self._reads_due = first.due
            if first.due > until or first.due >= NEVER:
                return None
            if (transfer := first.issue(min(until, others[0].due))) is not None:
                return transfer

    def _plan(self, module: int) -> None:
        """Set the time of the module's next decision to start, if everything is known."""
        state = self._modules[module]
        if state.head == state.arrived or state.free == NEVER:
            return
        index = state.members[state.head]
        at = self._dispatched[index] + 1
        if at < state.free:
            at = state.free
        for queue in self._pops[index]:
            if not (pushed := self._pushed[queue]):
                return
            if (end := self._end[pushed[0]]) > at:
                at = end
        self._times[module] = at

    def _start_next(self, module: int, now: int) -> None:
        """Decide in cycle `now` to start the module's next instruction."""
        state = self._modules[module]
        index = state.members[state.head]
        for queue in self._pops[index]:
            self._edges.append((self._pushed[queue].popleft(), index, queue))
        state.head += 1
        state.free = NEVER
        self._start[index] = now + 1
        if duration := self._duration[index]:
            self._finish(module, index, now + 1 + duration)
        elif index == self._work.finish:
            self._limit = now
        else:
            self._start_load(module, index, now + 1)

    def _finish(self, module: int, index: int, end: int) -> None:
        """The end of an instruction is known: its module, its tokens and its place fall free."""
        self._end[index] = end
        if self._blocked is not None and self._blocked[0] == index:
            self._full.append((self._blocked[1], end))
            self._blocked = None
            self._times[_DISPATCH] = end
        pushes = self._pushes[index]
        for queue in pushes:
            if len(self._pushed[queue]) >= self._preset.token_depth:
                self._times[_PUSH + module] = end - 1
                return
        for queue in pushes:
            self._pushed[queue].append(index)
            self._plan(_CONSUMER[queue])
        self._modules[module].free = end
        self._plan(module)

    def _push_late(self, module: int) -> None:
        """In the cycle before its end the instruction counts the tokens that nobody has popped."""
        state = self._modules[module]
        index = state.members[state.head - 1]
        for queue in self._pushes[index]:
            if len(self._pushed[queue]) >= self._preset.token_depth:
                depth = self._preset.token_depth
                self._warnings.append((index, f"its {queue} token is lost: the queue has {depth}"))
            else:
                self._pushed[queue].append(index)
                self._plan(_CONSUMER[queue])
        state.free = self._end[index]
        self._plan(module)

    def _holder(self, state: _ModuleState, place: int) -> int | None:
        """The instruction that has to end before the one at `place` of a module has room."""
        rank = place - self._preset.queue_depth
        return state.members[rank] if rank >= 0 else None

    def _dispatch(self, now: int) -> None:
        """Fetch puts one instruction into its queue, or waits until there is a place."""
        fetch = self._fetch
        module = self._module[fetch.position]
        state = self._modules[module]
        rank = state.arrived - self._preset.queue_depth
        holder = state.members[rank] if rank >= 0 else None
        if holder is not None and (end := self._end[holder]) > now:
            if end == NEVER:
                self._blocked = (holder, now)
            else:
                self._full.append((now, end))
                self._times[_DISPATCH] = end
            return
        self._dispatched[fetch.position] = now
        state.arrived += 1
        if state.head == state.arrived - 1:
            self._plan(module)
        fetch.position += 1
        if fetch.position < fetch.dispatchable:
            self._times[_DISPATCH] = self._next_dispatch(now + 1)
        else:
            self._chunk_dispatched(now)

    def _next_dispatch(self, now: int) -> int:
        """When to look at the next instruction: now, or when the place is free that it waits for.

        The end of the instruction that holds the place may not be known yet.
        """
        state = self._modules[self._module[self._fetch.position]]
        rank = state.arrived - self._preset.queue_depth
        end = self._end[state.members[rank]] if rank >= 0 else 0
        if not now < end < NEVER or now > self._limit:
            return now
        self._full.append((now, end))
        return end

    def _dispatch_chunk(self, cycle: int) -> bool:
        """Dispatch a whole chunk, an instruction a cycle, if no queue can be full meanwhile."""
        fetch, modules = self._fetch, self._modules
        arrived = [bisect_left(state.members, fetch.dispatchable) for state in modules]
        for state, count in zip(modules, arrived, strict=True):
            holder = self._holder(state, count - 1)
            if count > state.arrived and holder is not None and self._end[holder] > cycle:
                return False
        last = cycle + fetch.dispatchable - fetch.position - 1
        self._dispatched[fetch.position : fetch.dispatchable] = range(cycle, last + 1)
        for module, state in enumerate(modules):
            waiting, state.arrived = state.arrived > state.head, arrived[module]
            if not waiting:
                self._plan(module)
        fetch.position = fetch.dispatchable
        self._chunk_dispatched(last)
        return True

    def _chunk_dispatched(self, last: int) -> None:
        """The last instruction of a chunk is dispatched in cycle `last`."""
        fetch = self._fetch
        fetch.free = last + 1
        if not self._preset.fetch_ahead:
            self._request_instructions(last + _DISPATCHED_TO_FETCH)
        elif fetch.ready is not None:
            self._begin_dispatch(max(fetch.ready, fetch.free))

    def _request_instructions(self, command: int) -> None:
        """Ask for the next chunk in cycle `command`; the arbiter sees the request one later."""
        requests = self._fetch.next_chunk(command)
        if requests is None:
            return
        if self._preset.ideal_memory:
            self._times[_CHUNK] = command + 1
        else:
            self._add(Transfer(FETCH, requests, command + 1))

    def _instructions_come(self, last_beat: int) -> None:
        ready = last_beat + _LAST_BEAT_TO_DISPATCH
        if self._fetch.arrive(ready):
            self._begin_dispatch(max(ready, self._fetch.free))

    def _begin_dispatch(self, cycle: int) -> None:
        self._fetch.begin()
        if self._preset.fetch_ahead:
            self._request_instructions(cycle)
        if not self._dispatch_chunk(cycle):
            self._times[_DISPATCH] = cycle

    def _add(self, transfer: Transfer) -> None:
        channel = CHANNEL_OF[self._preset.read_channels][transfer.reader]
        self._channels[channel].add(transfer)
        self._reads_due = min(self._reads_due, transfer.visible)

    def _start_load(self, module: int, index: int, start: int) -> None:
        """A load's first request is visible in S + 1, one cycle later for each row of top pads."""
        work = self._work
        requests, pads = work.requests[index], work.pads.get(index)
        reader = self._readers[index]
        visible = start + 1 + (pads.delay if pads is not None else 0)
        transfer = Transfer(reader, requests, visible, traced=pads is not None)
        self._modules[module].transfer = transfer
        if self._preset.ideal_memory:
            transfer.last_end, transfer.position = visible, transfer.stop
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
        index = state.members[state.head - 1]
        if not transfer.complete:
            transfer.stop = len(transfer.beats)
            if transfer.last_issue < transfer.first_served:
                self._lose_data(module, index, transfer.last_issue)
            return
        state.transfer = None
        uop = transfer.reader == UOP
        done = transfer.last_end + (_LAST_BEAT_TO_DONE_UOP if uop else _LAST_BEAT_TO_DONE)
        if (pads := self._work.pads.get(index)) is not None:
            done = max(done, padding_idle(pads, self._start[index], uop, transfer.spans or ()))
        self._finish(module, index, done + 1)

    def _lose_data(self, module: int, index: int, last_issue: int) -> None:
        """All requests leave before the first beat: the counter of beats under way wraps to 0."""
        self._modules[module].transfer = None
        reason = "it loses its data: all its requests leave before the first beat comes"
        self._warnings.append((index, reason))
        self._finish(module, index, last_issue + _LAST_ISSUE_TO_LOST_END)

    def _deadlock(self) -> None:
        heads = [state.members[state.head] for state in self._modules if state.head < state.arrived]
        blocked = [
            (index, [queue for queue in self._pops[index] if not self._pushed[queue]])
            for index in sorted(heads)
        ]
        fetch = self._fetch.position if self._blocked is not None else None
        reason = deadlock_reason(Schedule([], blocked, fetch), self._preset.queue_depth)
        index = blocked[0][0] if blocked else self._work.finish
        raise self._work.error(index, f"deadlock: {reason}")


def _due(channel: Channel) -> int:
    return channel.due


class _Fetch:
    """Chunks of instructions, the next one to dispatch at `position`.

    There up to `dispatchable`; ready: since when the chunk behind that is there, if it is; free:
    the cycle from which on it may be dispatched.
    """

    def __init__(self, preset: TimingPreset, total: int) -> None:
        self._preset, self._total = preset, total
        self.position = self.dispatchable = self._requested = 0
        self.ready: int | None = None
        self.free = 0
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
