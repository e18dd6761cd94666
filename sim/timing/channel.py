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

import itertools
from bisect import bisect_left, insort

from .presets import TimingPreset
from .requests import Requests

FETCH, UOP, INP, WGT, ACC = range(5)
"""The readers, by priority."""

NEVER = 1 << 62
"""The time of what is not going to happen."""

_KEPT = 1 << 12
"""Last beats kept beyond what is needed."""

_FEW = 4
"""Requests that are not worth another way than one by one."""


class Transfer:
    """What a reader still has to ask for, and what its requests have met so far.

    visible: the cycle from which on the arbiter sees the next request. stop: the number of requests
    after which `Channel.issue` returns. least: beats of the shortest. spans: if traced, (c, l) of
    each request so far.
    """

    __slots__ = (
        "beats",
        "first_served",
        "last_end",
        "last_issue",
        "least",
        "position",
        "reader",
        "spans",
        "stop",
        "visible",
    )

    def __init__(self, reader: int, requests: Requests, visible: int, traced: bool = False) -> None:
        self.reader, self.beats, self.visible = reader, requests.beats, visible
        self.least = requests.least
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
        # The last requests, of so many beats at least that last beats do not get in the way.
        self._spacing = max(2, self._interval) if self._slots > 2 else NEVER
        self._spaced = 0
        # Cycles of the last beats, in order; those before `_pending` are past at the last issue.
        self._ends = [-1] * self._slots
        self._pending = self._slots
        self._last_issue = self._last_served = -1

    def add(self, transfer: Transfer) -> None:
        """Let a reader ask; behind an older transfer of the same reader."""
        if transfer.visible < self.due:
            self.due = transfer.visible
        insort(self.active, transfer, key=_priority)
        if self._pending > _KEPT:
            past = min(self._pending, len(self._ends) - self._slots)
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
        while True:
            at, issued, served, end = first.visible, self._last_issue, self._last_served, ends[-1]
            for other in others:
                if other.visible < at:
                    at = other.visible
            if at <= issued:
                at = issued + 1
            if at <= ends[-slots]:
                at = ends[-slots] + 1
            # A cycle beyond `until` is forgotten again: an event may bring an earlier request.
            pending = self._pending
            while at <= end and at <= until and ends[pending] <= at:
                if ends[pending] == at:
                    at += 1
                pending += 1
            if at > until:
                self.due = at
                return None
            transfer = first
            if first.visible > at:
                for transfer in others:
                    if transfer.visible <= at:
                        break
            if at > served and at + delay > end:
                end = at + delay
            self._last_issue, self._last_served, self._pending = at, end, pending
            position = transfer.position
            if position == 0:
                transfer.first_served = end
            ends.append(end + transfer.beats[position])
            if transfer.spans is not None:
                transfer.spans.append((end, ends[-1]))
            transfer.position = position + 1
            transfer.visible = at + interval
            self._spaced = self._spaced + 1 if transfer.least >= self._spacing else 0
            if transfer.stop - position > _FEW and transfer.least >= self._spacing:
                self._run_on(transfer, until)
            if transfer.position == transfer.stop:
                return self._stopped(transfer)

    def _stopped(self, transfer: Transfer) -> Transfer:
        """A transfer has reached its stop."""
        transfer.last_issue, transfer.last_end = self._last_issue, self._ends[-1]
        self.due = self._last_issue
        if transfer.position == len(transfer.beats):
            self.active.remove(transfer)
            if not self.active:
                self.due = NEVER
        return transfer

    def _run_on(self, transfer: Transfer, until: int) -> None:
        """Let many requests of a transfer leave at once, as long as nobody else can ask."""
        horizon = until + 1
        for other in self.active:
            if other is not transfer and other.visible < horizon:
                horizon = other.visible
        if transfer.visible < horizon:
            if self._pending > len(self._ends) - self._slots:
                self._ask_at_intervals(transfer, horizon)
            elif self._spaced >= self._slots:
                self._ask_behind_last_beats(transfer, horizon)

    def _ask_at_intervals(self, transfer: Transfer, horizon: int) -> None:
        """Requests leave as fast as the reader can ask, up to the next last beat.

        None of them finds the memory's queue empty, since the first does not and none is shorter
        than the interval.
        """
        ends, at, interval = self._ends, self._last_issue, self._interval
        if at + interval > self._last_served:
            return
        free = (min(horizon, ends[self._pending]) - 1 - at) // interval
        room = self._pending - len(ends) + self._slots
        if (count := min(free, room, transfer.stop - transfer.position)) > 0:
            self._last_issue = at + count * interval
            self._follow(transfer, self._ends_of(transfer, count))

    def _ask_behind_last_beats(self, transfer: Transfer, horizon: int) -> None:
        """Requests leave one cycle after a last beat each: as many as may be are under way.

        These last beats are at a distance in which the reader can ask.
        """
        ends, base = self._ends, len(self._ends) - self._slots
        at = ends[base] + 1
        if at < transfer.visible or at >= horizon:
            return
        most = min((horizon - 1 - at) // transfer.least + 1, transfer.stop - transfer.position)
        more = self._ends_of(transfer, most)
        known = ends[base:-1] + more
        count = bisect_left(known, horizon - 1, 0, most)
        self._last_issue, self._pending = known[count - 1] + 1, base + count
        self._follow(transfer, more[: count + 1])

    def _ends_of(self, transfer: Transfer, count: int) -> list[int]:
        """The last beat so far, and those of a transfer's next requests behind it without a gap."""
        beats = transfer.beats[transfer.position : transfer.position + count]
        return list(itertools.accumulate(beats, initial=self._ends[-1]))

    def _follow(self, transfer: Transfer, ends: list[int]) -> None:
        """The next requests of a transfer are served, with these last beats (see `_ends_of`)."""
        if transfer.spans is not None:
            transfer.spans.extend(itertools.pairwise(ends))
        self._last_served = ends[-2]
        self._ends += ends[1:]
        self._spaced += len(ends) - 1
        transfer.position += len(ends) - 1
        transfer.visible = self._last_issue + self._interval


def _priority(transfer: Transfer) -> int:
    return transfer.reader
