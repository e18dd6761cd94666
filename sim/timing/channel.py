"""A read channel: an arbiter in front of a memory that serves requests in order.

The rules, in cycles. The arbiter takes at most one request a cycle, in a cycle g in which fewer
than `outstanding` are under way (from the cycle after g up to the cycle of the last beat) and no
last beat passes; of the readers whose next request is visible by then, the one with the highest
priority: fetch, uop, inp, wgt, acc. A reader's next request is visible `request_interval` later.
The memory takes up a request in cycle c and its n beats pass in cycles c + 1 ... c + n = l. One
that was queued before the one in front was taken up follows it without a gap (c = l in front); one
that finds the queue empty waits for the latency (c = g + latency + 1, not before l in front).

`Channel.issue` takes one short turn a request, whatever its length.
"""

from .presets import TimingPreset
from .requests import Requests

FETCH, UOP, INP, WGT, ACC = range(5)
"""The readers, by priority."""

NEVER = 1 << 62
"""The time of what is not going to happen."""

_KEPT = 1 << 12
"""Last beats kept beyond what is needed."""


class Transfer:
    """What a reader still has to ask for, and what its requests have met so far.

    visible: the cycle from which on the arbiter sees the next request. stop: the number of requests
    after which `Channel.issue` returns. spans: if traced, (c, l) of each request so far.
    """

    __slots__ = (
        "beats",
        "first_served",
        "last_end",
        "last_issue",
        "position",
        "reader",
        "spans",
        "stop",
        "visible",
    )

    def __init__(self, reader: int, requests: Requests, visible: int, traced: bool = False) -> None:
        self.reader, self.beats, self.visible = reader, requests.beats, visible
        self.position = 0
        self.stop = len(requests.beats)
        self.spans: list[tuple[int, int]] | None = [] if traced else None
        self.first_served = self.last_issue = self.last_end = -1

    @property
    def complete(self) -> bool:
        """Whether every request has left."""
        return self.position == len(self.beats)


class Channel:
    """The state of one read channel.

    active: the transfers with requests left, by priority. due: no request leaves before this cycle,
    unless a reader is added.
    """

    def __init__(self, preset: TimingPreset) -> None:
        self.active: list[Transfer] = []
        self.due = NEVER
        self._delay = preset.latency + 1
        self._interval = preset.request_interval
        self._slots = preset.outstanding
        # Cycles of the last beats, in order; those before `_pending` are past at the last issue.
        self._ends = [-1] * self._slots
        self._pending = self._slots
        self._last_issue = self._last_served = -1

    def add(self, transfer: Transfer) -> None:
        """Let a reader ask; behind an older transfer of the same reader."""
        self.due = min(self.due, transfer.visible)
        self.active.append(transfer)
        if len(self.active) > 1:
            self.active.sort(key=_priority)
        if (past := min(self._pending, len(self._ends) - self._slots)) > _KEPT:
            del self._ends[:past]
            self._pending -= past

    def issue(self, until: int) -> Transfer | None:
        """Let requests leave up to cycle `until`.

        Returns the transfer that has reached its `stop` as soon as one has, None when nothing more
        can leave by then.
        """
        if not self.active:
            self.due = NEVER
            return None
        first, *others = self.active
        ends, slots, delay, interval = self._ends, self._slots, self._delay, self._interval
        issued, served, end = self._last_issue, self._last_served, self._ends[-1]
        past = self._pending
        while True:
            at = first.visible
            for other in others:
                if other.visible < at:
                    at = other.visible
            if at <= issued:
                at = issued + 1
            if at <= ends[-slots]:
                at = ends[-slots] + 1
            # A cycle beyond `until` is forgotten again: an event may bring an earlier request.
            pending = past
            while at <= end and at <= until and ends[pending] <= at:
                if ends[pending] == at:
                    at += 1
                pending += 1
            if at > until:
                transfer = None
                break
            transfer = first
            if first.visible > at:
                transfer = next(other for other in others if other.visible <= at)
            issued, past = at, pending
            served = end if at <= served or at + delay <= end else at + delay
            position = transfer.position
            if position == 0:
                transfer.first_served = served
            end = served + transfer.beats[position]
            ends.append(end)
            if transfer.spans is not None:
                transfer.spans.append((served, end))
            transfer.position = position + 1
            transfer.visible = at + interval
            if position + 1 == transfer.stop:
                transfer.last_issue, transfer.last_end = at, end
                break
        self._last_issue, self._last_served, self._pending, self.due = issued, served, past, at
        if transfer is not None and transfer.complete:
            self.active.remove(transfer)
            if not others:
                self.due = NEVER
        return transfer


def _priority(transfer: Transfer) -> int:
    return transfer.reader
