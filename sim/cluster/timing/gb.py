"""The global buffer: banks that units reach in turn, a channel for each unit.

Word a lies in bank a mod banks, and in cycle t unit i owns bank (t - i) mod banks, for reads and
for writes. So a stream of neighbouring words moves one word per cycle without arbitration, and only
its start waits for its bank. Signals go through the same write buffer as writes of GB, in any
cycle.
"""

from collections.abc import Callable, Sequence

from ....dialects.target import ClusterTiming
from ...timing.channel import Transfer
from ...timing.channels import SharedChannel

WordsOf = Callable[[Transfer], Sequence[int]]
"""Where each request of a transfer begins, in words of the port."""


class GbReads(SharedChannel):
    """The channel through which one unit reads the global buffer, whose banks take turns."""

    def __init__(self, timing: ClusterTiming, unit: int, words_of: WordsOf) -> None:
        super().__init__(timing.core, [unit], timing.gb_latency)
        self._unit, self._banks, self._words_of = unit, timing.gb_banks, words_of

    def add(self, transfer: Transfer) -> None:
        """Let a reader ask."""
        transfer.words = self._words_of(transfer)
        super().add(transfer)

    def _taken_up(self, transfer: Transfer, at: int) -> int:
        """The first beat, in the cycle after, is in the turn of its bank."""
        turn = transfer.words[transfer.position] + self._unit - 1
        return at + (turn - at) % self._banks


class UnitWrites:
    """The write buffer of one unit, of two requests, in front of GB and semaphores."""

    def __init__(self, timing: ClusterTiming, unit: int) -> None:
        self._unit, self._banks = unit, timing.gb_banks
        self._free = 0

    def accept(self, asks: int, hold: int, beats: int, word: int | None) -> tuple[int, int]:
        """Write one request: the cycles in which it is answered and in which it is written.

        asks: the cycle from which on it may be accepted. hold: the cycles that this takes. word:
        where in GB it begins; None for a semaphore.
        """
        accepted = asks + hold
        answered = drained = max(accepted, self._free)
        if word is not None:
            drained += (word + self._unit - drained) % self._banks
        self._free = drained + beats
        return answered, self._free
