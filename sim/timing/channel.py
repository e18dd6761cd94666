"""A read channel: an arbiter in front of a memory that serves requests in order.

The rules, in cycles. The arbiter takes at most one request per cycle, in a cycle g in which fewer
than `outstanding` are under way (from the cycle after g up to the cycle of the last beat) and no
last beat passes; of the readers whose next request is visible by then, the one with the highest
priority: fetch, uop, inp, wgt, acc. A reader's next request is visible `request_interval` later.
The memory takes up a request in cycle c and its n beats pass in cycles c + 1 ... c + n = l. One
that was queued before the one in front was taken up follows it without a gap (c = l in front); one
that finds the queue empty waits for the latency (c = g + latency + 1, not before l in front).

`Channel.issue` takes one short turn per request, whatever its length, or one for many requests of a
reader. The same rules cycle by cycle are `Port` in ``test/support/clock_reference.py``.
"""

import itertools
import operator
from bisect import bisect_left, insort
from collections.abc import Sequence

from ...dialects.target import TimingPreset
from .requests import Requests

FETCH, UOP, INP, WGT, ACC = range(5)
"""The readers, by priority."""

NEVER = 1 << 62
"""The time of an event that never happens."""

priority = operator.attrgetter("reader")

_KEPT = 1 << 12
"""The most times of last beats that are kept beyond the needed ones."""

_MANY = 4
"""From this number on, requests of a transfer are issued together."""


class Transfer:
    """The requests that a reader still has to make, and the beats of those that it has made.

    unit, index: the machine, and its instruction, that it belongs to. visible: the cycle from which
    on the arbiter sees the next request. stop: the number of requests after which `Channel.issue`
    returns. spans: if traced, the cycles (c, l) of the beats so far, those that follow without a
    gap perhaps as one. words: where each request begins, if its memory needs to know (see
    `requests.first_words`).
    """

    __slots__ = (
        "beats",
        "index",
        "last_end",
        "last_issue",
        "least",
        "position",
        "reader",
        "spans",
        "stop",
        "unit",
        "visible",
        "words",
    )

    def __init__(
        self,
        reader: int,
        index: int,
        requests: Requests,
        visible: int,
        traced: bool = False,
        unit: int = 0,
    ) -> None:
        self.reader, self.index, self.visible, self.unit = reader, index, visible, unit
        self.beats, self.least = requests.beats, requests.least
        self.position = 0
        self.stop = len(self.beats)
        self.spans: list[tuple[int, int]] | None = [] if traced else None
        self.last_issue = self.last_end = -1
        self.words: Sequence[int] = ()


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
        # Cycles of the last beats, in order. From `_spaced` on each comes `_spacing` or more after
        # the one before: long enough for a reader to ask again, and never in the cycle after it.
        self._ends = [-1] * self._slots
        self._spacing = max(2, self._interval) if self._slots > 2 else NEVER
        self._spaced = self._slots
        self._last_issue = self._last_served = -1

    def add(self, transfer: Transfer) -> None:
        """Let a reader ask; behind an older transfer of the same reader."""
        if transfer.visible < self.due:
            self.due = transfer.visible
        insort(self.active, transfer, key=priority)
        if (past := len(self._ends) - self._slots) > _KEPT:
            del self._ends[:past]
            self._spaced -= past

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
        issued, served, end = self._last_issue, self._last_served, ends[-1]
        while True:
            at = issued + 1
            if at <= ends[-slots]:
                at = ends[-slots] + 1
            if first.visible > at:
                soonest = first.visible
                for other in others:
                    if other.visible < soonest:
                        soonest = other.visible
                if soonest > at:
                    at = soonest
            if at <= end:
                # No request leaves with a last beat; the latest `slots` are all that can be ahead.
                place = bisect_left(ends, at, len(ends) - slots)
                while at <= end and ends[place] == at:
                    at += 1
                    place += 1
            if at > until:
                self.due = at
                return None
            transfer = first
            if first.visible > at:
                for transfer in others:
                    if transfer.visible <= at:
                        break
            issued, served = at, at + delay if at > served and at + delay > end else end
            end = served + transfer.beats[transfer.position]
            ends.append(end)
            if transfer.spans is not None:
                transfer.spans.append((served, end))
            transfer.position += 1
            transfer.visible = at + interval
            self._last_issue, self._last_served = issued, served
            left = transfer.stop - transfer.position
            if transfer.least < self._spacing:
                self._spaced = len(ends)
            elif left >= _MANY:
                left -= self._run_on(transfer, left, until)
                issued, served, end = self._last_issue, self._last_served, ends[-1]
            if left == 0:
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

    def _run_on(self, transfer: Transfer, left: int, until: int) -> int:
        """Issue some of the ``left`` remaining requests of a transfer at once; returns how many.

        All have beats for `_spacing` cycles or more. Two cases. With slots free they leave at
        intervals, up to the next last beat, as long as nobody else can ask: if the first is queued
        in time to follow without a gap, so are the others, for none is shorter than the interval.
        With none free each leaves in the cycle after a last beat, as long as nobody of higher
        priority can ask: by then the reader can ask again, and no other last beat passes. There is
        no gap, since of three slots or more two are under way then, the second not yet taken up.
        """
        ends, interval, at = self._ends, self._interval, transfer.visible
        base, horizon = len(ends) - self._slots, until + 1
        full = ends[base] >= at - interval
        for other in self.active:
            if other is transfer:
                if full:
                    break
            elif other.visible < horizon:
                horizon = other.visible
        if full:
            first = ends[base] + 1
            if self._spaced > base or first < at or first >= horizon:
                return 0
            count = min(left, (horizon - 1 - first) // transfer.least + 1)
        else:
            ahead = bisect_left(ends, at, base)
            free = min(horizon, ends[ahead]) - at
            if free <= 0 or at > self._last_served:
                return 0
            count = min(left, ahead - base, (free - 1) // interval + 1)
        position = transfer.position
        beats = transfer.beats[position : position + count]
        more = list(itertools.accumulate(beats, initial=ends[-1]))
        if full:
            before = ends[base:-1] + more
            count = bisect_left(before, horizon - 1, 0, count)
            del more[count + 1 :]
            self._last_issue = before[count - 1] + 1
        else:
            self._last_issue = at + (count - 1) * interval
        if transfer.spans is not None:
            transfer.spans.append((more[0], more[-1]))
        self._last_served = more[-2]
        ends += more[1:]
        transfer.position = position + count
        transfer.visible = self._last_issue + interval
        return count
