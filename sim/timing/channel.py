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

from bisect import bisect_left

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
        "first_served",
        "last_end",
        "last_issue",
        "position",
        "reader",
        "requests",
        "spans",
        "stop",
        "visible",
    )

    def __init__(self, reader: int, requests: Requests, visible: int, traced: bool = False) -> None:
        self.reader, self.requests, self.visible = reader, requests, visible
        self.position = 0
        self.stop = len(requests.beats)
        self.spans: list[tuple[int, int]] | None = [] if traced else None
        self.first_served = self.last_issue = self.last_end = -1

    @property
    def complete(self) -> bool:
        """Whether every request has left."""
        return self.position == len(self.requests.beats)


class Channel:
    """The state of one read channel.

    active: the transfers with requests left, by priority. due: after `issue` has found nothing
    more to do, no request leaves before this cycle unless a reader is added.
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
        self.active.append(transfer)
        self.active.sort(key=_priority)
        if (past := min(self._pending, len(self._ends) - self._slots)) > _KEPT:
            del self._ends[:past]
            self._pending -= past

    @property
    def next_issue(self) -> int:
        """The cycle of the next request if nobody new asks, `NEVER` without any."""
        if not self.active:
            return NEVER
        return self._earliest(min([transfer.visible for transfer in self.active]), NEVER)

    def issue(self, until: int) -> Transfer | None:
        """Let requests leave up to cycle `until`.

        Returns the transfer that has reached its `stop` as soon as one has, None when nothing more
        can leave by then.
        """
        active = self.active
        while active:
            alone = len(active) == 1
            at = active[0].visible if alone else min([other.visible for other in active])
            at = self._earliest(at, until)
            if at > until:
                self.due = at
                return None
            if alone:
                transfer = active[0]
                self._take(transfer, at, until, shared=False)
            else:
                transfer, limit, shared = self._choose(at, until)
                self._take(transfer, at, limit, shared)
            if transfer.position == transfer.stop:
                if transfer.complete:
                    active.remove(transfer)
                return transfer
        self.due = NEVER
        return None

    def _choose(self, at: int, until: int) -> tuple[Transfer, int, bool]:
        """Whose turn it is in cycle `at`, until when, and whether with others behind."""
        limit = until
        for transfer in self.active:
            if transfer.visible <= at:
                return transfer, limit, transfer is not self.active[-1]
            limit = min(limit, transfer.visible - 1)
        raise AssertionError("nobody asks")

    def _earliest(self, at: int, until: int) -> int:
        """The first cycle from `at` on, after the last issue, with a slot free and no last beat.

        Or any cycle beyond `until`, if that one is.
        """
        ends = self._ends
        if at <= self._last_issue:
            at = self._last_issue + 1
        if at <= ends[-self._slots]:
            at = ends[-self._slots] + 1
        if at <= until and at <= ends[-1]:
            position = bisect_left(ends, at, self._pending)
            while position < len(ends) and ends[position] == at:
                at += 1
                position += 1
        return at

    def _take(self, transfer: Transfer, at: int, limit: int, shared: bool) -> None:
        """A request leaves in cycle `at`, and more of the same reader's as long as they may.

        Up to cycle `limit`, before which nobody with a higher priority asks. If the channel is
        shared, only as long as no cycle comes up before the reader's next request is visible.
        """
        ends, slots, delay, interval = self._ends, self._slots, self._delay, self._interval
        beats, position, stop = transfer.requests.beats, transfer.position, transfer.stop
        spans = transfer.spans
        served, end, pending = self._last_served, ends[-1], self._pending
        step = 1 if shared else interval
        while True:
            issued, settled = at, pending
            served = end if at <= served or at + delay <= end else at + delay
            end = served + beats[position]
            ends.append(end)
            if spans is not None:
                spans.append((served, end))
            if transfer.first_served < 0:
                transfer.first_served = served
            position += 1
            at += step
            if at <= ends[-slots]:
                at = ends[-slots] + 1
            while at <= end:
                if ends[pending] < at:
                    pending += 1
                elif ends[pending] == at:
                    pending += 1
                    at += 1
                else:
                    break
            if position == stop or at > limit or at < issued + interval:
                break
        self._last_issue, self._last_served, self._pending = issued, served, settled
        transfer.position, transfer.last_issue, transfer.last_end = position, issued, end
        transfer.visible = issued + interval


def _priority(transfer: Transfer) -> int:
    return transfer.reader
