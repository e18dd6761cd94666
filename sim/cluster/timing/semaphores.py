"""Semaphores: signals that count from a cycle on, and waits that take them, in order.

The k-th wait for a semaphore takes the k-th signal that is counted. As with tokens, almost all
times follow from others by maxima and sums, so a wait is computed once its signals are known, and
no channel has to stand in between. Only a signal that finds 255 counted needs the order of time:
whether it is lost depends on what has been taken by then.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ....dialects.target import ClusterTiming
from ....dialects.target.windows import SEMAPHORE_DEPTH
from ...timing.channel import NEVER, Transfer


class SemaphoreEvent(NamedTuple):
    """A signal from the cycle in which it counts, or a wait in the cycle that takes it up."""

    cycle: int
    unit: int
    step: int


class Semaphores:
    """All semaphores of a cluster.

    signals, taken: for each semaphore the signals that are counted and the waits that took them,
    the k-th the k-th. lost: those that found the semaphore full.
    """

    def __init__(self, count: int) -> None:
        self.signals: list[list[SemaphoreEvent]] = [[] for _ in range(count)]
        self.taken: list[list[SemaphoreEvent]] = [[] for _ in range(count)]
        self.lost: list[tuple[int, SemaphoreEvent]] = []
        # Signals of which it is open whether they are counted, and who waits for a semaphore.
        self._late: list[deque[SemaphoreEvent]] = [deque() for _ in range(count)]
        self._open: set[int] = set()
        self._waiting: dict[int, SemaphoreReads] = {}

    def signal(self, number: int, event: SemaphoreEvent) -> None:
        """Give a signal."""
        self._late[number].append(event)
        self._count(number)

    def wait(self, number: int, reads: "SemaphoreReads") -> SemaphoreEvent | None:
        """The signal that the next wait takes; where it is not known yet, `reads` will be told."""
        signals, taken = self.signals[number], len(self.taken[number])
        if taken < len(signals):
            return signals[taken]
        self._waiting[number] = reads
        return None

    def take(self, number: int, event: SemaphoreEvent) -> None:
        """Take the next signal of a semaphore."""
        self.taken[number].append(event)
        if self._late[number]:
            self._count(number)

    @property
    def undecided(self) -> int:
        """The cycle up to which channels may go before it must be decided whether a signal is lost;
        `NEVER` where nothing is open."""
        if not self._open:
            return NEVER
        return min(self._late[number][0].cycle for number in self._open) - 1

    def decide(self) -> None:
        """Decide what `undecided` waits for: no further signal is taken by then."""
        number = min(self._open, key=lambda n: self._late[n][0].cycle)
        self._count(number, for_sure=True)

    def _count(self, number: int, for_sure: bool = False) -> None:
        """Count the signals of which it is known whether they are lost."""
        late, signals, taken = self._late[number], self.signals[number], self.taken[number]
        while late:
            before = len(signals) - SEMAPHORE_DEPTH
            known = before < len(taken)
            if not known and not for_sure:
                break
            for_sure = for_sure and known
            if before >= 0 and (not known or taken[before].cycle >= late[0].cycle):
                self.lost.append((number, late.popleft()))
            else:
                signals.append(late.popleft())
        (self._open.add if late else self._open.discard)(number)
        if (reads := self._waiting.pop(number, None)) is not None:
            reads.go_on()


class SemaphoreReads:
    """Answers the WAIT instructions of one unit, in the order in which the unit issues them.

    A WAIT reads one row for each semaphore. waits: the semaphores of each WAIT, by its place in
    the unit's stream. None stands for a row without a semaphore, from the unit to itself; it is
    answered at once.
    """

    due: int

    def __init__(
        self,
        timing: ClusterTiming,
        unit: int,
        semaphores: Semaphores,
        waits: Mapping[int, Sequence[int | None]],
    ) -> None:
        preset = timing.core
        self.due = NEVER
        self._unit, self._semaphores, self._waits = unit, semaphores, waits
        self._delay, self._interval = timing.gb_latency + 1, preset.request_interval
        self._ends = deque([-1] * preset.outstanding, maxlen=preset.outstanding)
        self._last_issue = self._last_served = self._last_end = -1
        self._queue: deque[Transfer] = deque()
        self._complete: deque[Transfer] = deque()

    def add(self, transfer: Transfer) -> None:
        """Queue the requests of a WAIT, and answer those that can be answered."""
        self._queue.append(transfer)
        self.go_on()

    def issue(self, until: int) -> Transfer | None:
        """The first WAIT that is answered and not yet returned; None if there is none."""
        transfer = self._complete.popleft() if self._complete else None
        self.due = 0 if self._complete else NEVER
        return transfer

    def go_on(self) -> None:
        """Answer requests in order, up to the first whose signal is not known yet."""
        while self._queue and self._answer_rows(self._queue[0]):
            transfer = self._queue.popleft()
            transfer.last_issue, transfer.last_end = self._last_issue, self._last_end
            self._complete.append(transfer)
            self.due = 0

    def _answer_rows(self, transfer: Transfer) -> bool:
        """Answer the rows of a WAIT whose signals are known; returns whether these are all."""
        numbers = self._waits[transfer.index]
        requests = len(transfer.beats) // len(numbers)
        while transfer.position < len(transfer.beats):
            row, rest = divmod(transfer.position, requests)
            number, since = numbers[row], 0
            if number is not None and rest == 0:
                if (signal := self._semaphores.wait(number, self)) is None:
                    return False
                since = signal.cycle
            served = self._answer(transfer, since)
            if number is not None and rest == 0:
                self._semaphores.take(number, SemaphoreEvent(served, self._unit, transfer.index))
        return True

    def _answer(self, transfer: Transfer, since: int) -> int:
        """Answer a request in cycle `since` or later; returns the cycle in which that begins."""
        at = max(self._last_issue + 1, self._ends[0] + 1, transfer.visible)
        while at in self._ends:
            at += 1
        end = self._last_end
        is_idle = at > self._last_served and at + self._delay > end
        self._last_served = max(at + self._delay if is_idle else end, since)
        self._last_end = self._last_served + transfer.beats[transfer.position]
        self._ends.append(self._last_end)
        transfer.position += 1
        transfer.visible = at + self._interval
        self._last_issue = at
        return self._last_served
