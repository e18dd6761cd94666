"""Memory channels that belong to one machine or are shared by several.

A machine does not own its channels; it is given them (`Channels`). Alone it has read channels that
only its readers use (`channel`), and a write channel that only its STOREs use: then the duration of
a STORE is known beforehand and needs no channel in the simulation. Machines that share a memory
share these objects. Rules of shared channels, in cycles:

Reads. The memory takes one request per cycle in all. Each machine keeps the rules of its own
arbiter: at most `outstanding` requests under way, none in the cycle of one of its own last beats,
priority among its readers, `request_interval` between the requests of a reader. Among the machines
that may ask in a cycle, the first after the one served last comes next (round robin; machine 0 at
first). The memory serves all requests in order, with the latency rule of `channel`.

Writes. A request of a STORE holds the channel from its grant until it is answered. The first
request asks in the cycle in which the STORE starts, each other one when the one before is answered.
Who asked first is served first, among equals in round robin.
"""

from bisect import insort
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ...dialects.target import TimingPreset
from .channel import NEVER, Channel, Transfer, priority


class ReadChannel(Protocol):
    """The interface of a channel for reads; `Channel` is the channel of a single machine."""

    due: int
    """No request leaves before this cycle, unless a transfer is added."""

    def add(self, transfer: Transfer) -> None:
        """Let a reader ask."""

    def issue(self, until: int) -> Transfer | None:
        """Let requests leave up to a cycle, or until a transfer reaches its `stop`."""


class WriteBuffer(Protocol):
    """A memory for writes that no other machine writes through: the end of a STORE is known when
    it starts."""

    def store(self, index: int, start: int) -> int:
        """The cycle in which STORE `index`, which starts in cycle `start`, ends."""


class Writes(Protocol):
    """The interface of a channel for writes that machines share."""

    due: int
    """No request is granted before this cycle, unless a STORE is added."""

    def add(self, writing: "Writing") -> None:
        """Let a STORE ask."""

    def issue(self, until: int) -> "Writing | None":
        """Grant requests up to a cycle, or until a STORE has reached its `stop`."""


@dataclass(frozen=True)
class Channels:
    """The channels that a machine uses.

    reads: as many as its `read_channels`. writes: None for a channel that nobody else uses.
    other_reads, other_writes: for each LOAD and STORE, by its place in the program, that reaches
    another memory than these, the channel of that memory.
    """

    reads: Sequence[ReadChannel]
    writes: Writes | None = None
    other_reads: Mapping[int, ReadChannel] = field(default_factory=dict)
    other_writes: Mapping[int, WriteBuffer] = field(default_factory=dict)

    @classmethod
    def of(cls, preset: TimingPreset) -> "Channels":
        """The channels of a machine that is alone."""
        return cls([Channel(preset) for _ in range(preset.read_channels)])

    @classmethod
    def shared(cls, preset: TimingPreset, units: int) -> "Channels":
        """The channels of several machines of the same rates that share one memory."""
        reads = [SharedChannel(preset, range(units)) for _ in range(preset.read_channels)]
        return cls(reads, WriteChannel(units))


class SharedChannel:
    """A read channel of several machines, request by request.

    units: the numbers of the machines. latency: None for that of the preset. beat_cycles: the
    cycles of a beat.
    """

    def __init__(
        self,
        preset: TimingPreset,
        units: Sequence[int],
        latency: int | None = None,
        beat_cycles: int = 1,
    ) -> None:
        self.due = NEVER
        self._place = {unit: place for place, unit in enumerate(units)}
        count = len(units)
        self._delay = (preset.latency if latency is None else latency) + 1
        self._interval, self._beat_cycles = preset.request_interval, beat_cycles
        # For each machine: its transfers with requests left, by priority; the cycles of the last
        # beats of its latest requests; the first cycle in which it may ask, as far as its own
        # requests and readers say.
        self._active: list[list[Transfer]] = [[] for _ in range(count)]
        slots = preset.outstanding
        self._ends = [deque([-1] * slots, maxlen=slots) for _ in range(count)]
        self._ready = [NEVER] * count
        self._turns = [(*range(n + 1, count), *range(n + 1)) for n in range(count)]
        self._last_place = count - 1
        self._last_issue = self._last_served = self._last_end = -1

    def add(self, transfer: Transfer) -> None:
        """Let a reader of the transfer's unit ask."""
        self.due = min(self.due, transfer.visible)
        place = self._place[transfer.unit]
        insort(self._active[place], transfer, key=priority)
        self._update(place)

    def remove(self, transfer: Transfer) -> None:
        """Stop a reader, whose next request goes elsewhere."""
        place = self._place[transfer.unit]
        self._active[place].remove(transfer)
        self._update(place)

    def _update(self, place: int) -> None:
        active = self._active[place]
        if not active:
            self._ready[place] = NEVER
            return
        at = self._ends[place][0] + 1
        visible = active[0].visible if len(active) == 1 else min([t.visible for t in active])
        self._ready[place] = visible if visible > at else at

    def issue(self, until: int) -> Transfer | None:
        """Let requests leave up to cycle `until`, see `ReadChannel`."""
        ready, all_ends = self._ready, self._ends
        while True:
            floor, at, place = self._last_issue + 1, NEVER, -1
            for other in self._turns[self._last_place]:
                cycle = ready[other]
                if cycle < floor:
                    cycle = floor
                if cycle < at:
                    ends = all_ends[other]
                    if cycle <= ends[-1]:
                        while cycle in ends:
                            cycle += 1
                        if cycle >= at:
                            continue
                    at, place = cycle, other
            if at > until or place < 0:
                self.due = at
                return None
            transfer = self._leave(place, at)
            if transfer.position == transfer.stop:
                transfer.last_issue = self.due = at
                transfer.last_end = max(transfer.last_end, self._last_end)
                if transfer.stop == len(transfer.beats):
                    self.remove(transfer)
                return transfer

    def _leave(self, place: int, at: int) -> Transfer:
        """The next request of a machine leaves in cycle `at`."""
        active, end = self._active[place], self._last_end
        transfer = active[0]
        if transfer.visible > at:
            transfer = next(t for t in active if t.visible <= at)
        is_idle = at > self._last_served and at + self._delay > end
        served = self._taken_up(transfer, at + self._delay if is_idle else end)
        self._last_served = served
        end = self._last_end = served + transfer.beats[transfer.position] * self._beat_cycles
        self._ends[place].append(end)
        if transfer.spans is not None:
            self._trace(transfer.spans, served, end)
        transfer.position += 1
        transfer.visible = at + self._interval
        self._last_issue, self._last_place = at, place
        self._update(place)
        return transfer

    def _taken_up(self, transfer: Transfer, at: int) -> int:
        """The cycle in which the memory takes up a request that it could take up in cycle `at`."""
        return at

    def _trace(self, spans: list[tuple[int, int]], served: int, end: int) -> None:
        beat = self._beat_cycles
        if beat == 1:
            spans.append((served, end))
        else:
            spans += [(last - 1, last) for last in range(served + beat, end + 1, beat)]


class Writing:
    """A STORE's requests: for how long each holds the channel, and since when the next one asks.

    stop: the number of requests after which `WriteChannel.issue` returns. end: the cycle in which
    the latest one is answered, once it is known. words: where each request begins, for a memory
    that must know and cannot tell from `index`.
    """

    __slots__ = ("asks", "end", "holds", "index", "position", "stop", "unit", "words")

    def __init__(
        self,
        index: int,
        holds: Sequence[int],
        asks: int,
        unit: int,
        words: Sequence[int] = (),
    ) -> None:
        self.index, self.holds, self.asks, self.unit = index, holds, asks, unit
        self.position, self.stop, self.end = 0, len(holds), -1
        self.words = words


class WriteChannel:
    """The write channel of several machines."""

    def __init__(self, units: int) -> None:
        self.due = NEVER
        self._waiting: list[Writing] = []
        self._free, self._last_unit = 0, units - 1

    def add(self, writing: Writing) -> None:
        """Let a STORE ask."""
        self.due = min(self.due, max(self._free, writing.asks))
        self._waiting.append(writing)

    def issue(self, until: int) -> Writing | None:
        """Grant requests up to cycle `until`, or until a STORE has reached its `stop`; that STORE
        asks no more unless it is added again."""
        waiting = self._waiting
        while waiting:
            asks = min([writing.asks for writing in waiting])
            if (at := max(self._free, asks)) > until:
                self.due = at
                return None
            first = {w.unit: w for w in waiting if w.asks == asks}
            writing = first[_next(list(first), self._last_unit)]
            self._free = writing.asks = at + writing.holds[writing.position]
            self._last_unit = writing.unit
            writing.position += 1
            if writing.position == writing.stop:
                waiting.remove(writing)
                writing.end, self.due = self._free, self._free
                return writing
        self.due = NEVER
        return None


def _next(units: Sequence[int], last: int) -> int:
    """The first of some units after the one that came last, in round robin."""
    return min(units, key=lambda unit: (unit <= last, unit))
