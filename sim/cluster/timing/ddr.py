"""DDR of a cluster: one channel of all units, or two between which pages of 4 KiB alternate.

`SharedChannel` and `WriteChannel` of the single clock are one channel. With two, each page has the
arbiters, the port and the memory of its own channel, and a transfer changes the channel with its
requests.
"""

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from ....dialects.target import ClusterTarget
from ...timing.channel import Transfer
from ...timing.channels import ReadChannel, SharedChannel, WriteChannel, Writes, Writing

PAGE_BYTES = 4096
"""Bytes of a page, which lies in one channel."""


class _Moving(Protocol):
    """What moves between channels: a transfer or a writing."""

    position: int
    stop: int
    words: Sequence[int]


Moving = TypeVar("Moving", bound=_Moving)


class _Channel(Protocol[Moving]):
    due: int

    def add(self, moving: Moving, /) -> None: ...

    def issue(self, until: int) -> Moving | None: ...


WordsOf = Callable[[Moving], Sequence[int]]
"""Where each request of a transfer begins, in words of the port."""


class Interleaved(Generic[Moving]):
    """Channels between which pages alternate, as one channel.

    It asks ``words_of`` where the requests of a transfer begin, unless the transfer knows.
    """

    def __init__(
        self,
        channels: Sequence[_Channel[Moving]],
        page_words: int,
        words_of: WordsOf[Moving],
        leave: Callable[[_Channel[Moving], Moving], None],
    ) -> None:
        self._channels, self._page_words = channels, page_words
        self._words_of, self._leave = words_of, leave
        self.due = min(channel.due for channel in channels)

    def add(self, moving: Moving) -> None:
        """Let a transfer ask, all of its requests."""
        if not moving.words:
            moving.words = self._words_of(moving)
        self._enter(moving)

    def _enter(self, moving: Moving) -> None:
        """Let a transfer ask at the channel of its next request, as long as requests lie there."""
        channel = self._channel_of(moving.words[moving.position])
        end = moving.position
        while end < len(moving.words) and self._channel_of(moving.words[end]) == channel:
            end += 1
        moving.stop = end
        self._channels[channel].add(moving)
        self.due = min(self.due, self._channels[channel].due)

    def _channel_of(self, word: int) -> int:
        return word // self._page_words % len(self._channels)

    def issue(self, until: int) -> Moving | None:
        """Let requests leave up to cycle `until`, or until a transfer has made its last."""
        while True:
            first, second = sorted(self._channels, key=_due)
            self.due = first.due
            if first.due > until:
                return None
            moving = first.issue(min(until, second.due))
            if moving is None:
                continue
            if moving.stop == len(moving.words):
                self.due = min(first.due, second.due)
                return moving
            self._leave(first, moving)
            self._enter(moving)


def _due(channel: _Channel[Moving]) -> int:
    return channel.due


def ddr_channels(
    cluster: ClusterTarget,
    words_of: Callable[[Transfer | Writing], Sequence[int]],
) -> tuple[ReadChannel, Writes]:
    """The channels of DDR of all units, for reads and for writes."""
    timing, units = cluster.timing, range(cluster.units)
    reads = [
        SharedChannel(timing.core, units, timing.ddr_latency, timing.ddr_beat_cycles)
        for _ in range(timing.ddr_channels)
    ]
    writes = [WriteChannel(cluster.units) for _ in range(timing.ddr_channels)]
    if timing.ddr_channels == 1:
        return reads[0], writes[0]
    page = PAGE_BYTES // timing.core.port_bytes
    return (
        Interleaved[Transfer](reads, page, words_of, _leave_reads),
        Interleaved[Writing](writes, page, words_of, _stay),
    )


def _leave_reads(channel: _Channel[Transfer], transfer: Transfer) -> None:
    assert isinstance(channel, SharedChannel)
    channel.remove(transfer)


def _stay(channel: _Channel[Writing], writing: Writing) -> None:
    """A write channel forgets a STORE that has reached its stop by itself."""
