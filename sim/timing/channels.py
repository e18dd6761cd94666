"""Memory channels that belong to one machine or are shared by several.

A machine does not own its channels; it is given them (`Channels`). Alone it has read channels that
only its readers use (`channel`), and a write channel that only its STOREs use: then the duration of
a STORE is known beforehand and needs no channel in the simulation. Machines that share a memory
share these objects. Rules of shared channels, in cycles:

Reads. The memory takes one request a cycle in all. Each machine keeps the rules of its own arbiter:
at most `outstanding` requests under way, none in the cycle of one of its own last beats, priority
among its readers, `request_interval` between the requests of a reader. Among the machines that may
ask in a cycle, the first after the one served last comes next (round robin; machine 0 at first).
The memory serves all requests in order, with the latency rule of `channel`.

Writes. A request of a STORE holds the channel from its grant until it is answered. The first
request asks in the cycle in which the STORE starts, each other one when the one before is answered.
Who asked first is served first, among equals in round robin.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Channels:
    """The channels that a machine uses.

    reads: as many as its `read_channels`. writes: None for a channel that nobody else uses.
    """

    reads: Sequence[ReadChannel]
    writes: "WriteChannel | None" = None

    @classmethod
    def of(cls, preset: TimingPreset) -> "Channels":
        """The channels of a machine that is alone."""
        return cls([Channel(preset) for _ in range(preset.read_channels)])

    @classmethod
    def shared(cls, preset: TimingPreset, units: int) -> "Channels":
        """The channels of several machines of the same rates that share one memory."""
        reads = [SharedChannel(preset, units) for _ in range(preset.read_channels)]
        return cls(reads, WriteChannel(units))


class _Arbiter:
    """One machine's part of a shared read channel."""

    def __init__(self, slots: int) -> None:
        self.active: list[Transfer] = []
        self.ends = [-1] * slots

    def earliest(self, at: int) -> int:
        """The first cycle from `at` on in which the machine may ask; `NEVER` without a reader."""
        if not self.active:
            return NEVER
        at = max(at, self.ends[0] + 1, min(transfer.visible for transfer in self.active))
        while at in self.ends:
            at += 1
        return at


class SharedChannel:
    """A read channel of several machines, request by request."""

    def __init__(self, preset: TimingPreset, units: int) -> None:
        self.due = NEVER
        self._delay, self._interval = preset.latency + 1, preset.request_interval
        self._arbiters = [_Arbiter(preset.outstanding) for _ in range(units)]
        self._last_unit = units - 1
        self._last_issue = self._last_served = self._last_end = -1

    def add(self, transfer: Transfer) -> None:
        """Let a reader of the transfer's unit ask."""
        self.due = min(self.due, transfer.visible)
        insort(self._arbiters[transfer.unit].active, transfer, key=priority)

    def issue(self, until: int) -> Transfer | None:
        """Let requests leave up to cycle `until`, see `ReadChannel`."""
        while True:
            cycles = [arbiter.earliest(self._last_issue + 1) for arbiter in self._arbiters]
            if (at := min(cycles)) > until or at >= NEVER:
                self.due = at
                return None
            unit = _next([n for n, cycle in enumerate(cycles) if cycle == at], self._last_unit)
            transfer = self._leave(unit, at)
            if transfer.position == transfer.stop:
                transfer.last_issue, transfer.last_end = at, self._last_end
                self.due = at
                if transfer.stop == len(transfer.beats):
                    self._arbiters[unit].active.remove(transfer)
                return transfer

    def _leave(self, unit: int, at: int) -> Transfer:
        """The next request of a machine leaves in cycle `at`."""
        arbiter, end = self._arbiters[unit], self._last_end
        transfer = next(t for t in arbiter.active if t.visible <= at)
        is_idle = at > self._last_served and at + self._delay > end
        self._last_served = at + self._delay if is_idle else end
        self._last_end = self._last_served + transfer.beats[transfer.position]
        arbiter.ends = [*arbiter.ends[1:], self._last_end]
        if transfer.spans is not None:
            transfer.spans.append((self._last_served, self._last_end))
        transfer.position += 1
        transfer.visible = at + self._interval
        self._last_issue, self._last_unit = at, unit
        return transfer


class Writing:
    """A STORE's requests: for how long each holds the channel, and since when the next one asks.

    end: the cycle in which the last one is answered, once it is known.
    """

    __slots__ = ("asks", "end", "holds", "index", "position", "unit")

    def __init__(self, index: int, holds: Sequence[int], asks: int, unit: int) -> None:
        self.index, self.holds, self.asks, self.unit = index, holds, asks, unit
        self.position, self.end = 0, -1


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
        """Grant requests up to cycle `until`, or until the last one of a STORE is granted."""
        while self._waiting:
            asks = min(writing.asks for writing in self._waiting)
            if (at := max(self._free, asks)) > until:
                self.due = at
                return None
            first = {w.unit: w for w in self._waiting if w.asks == asks}
            writing = first[_next(list(first), self._last_unit)]
            self._free = writing.asks = at + writing.holds[writing.position]
            self._last_unit = writing.unit
            writing.position += 1
            if writing.position == len(writing.holds):
                self._waiting.remove(writing)
                writing.end, self.due = self._free, self._free
                return writing
        self.due = NEVER
        return None


def _next(units: Sequence[int], last: int) -> int:
    """The first of some units after the one that came last, in round robin."""
    return min(units, key=lambda unit: (unit <= last, unit))
