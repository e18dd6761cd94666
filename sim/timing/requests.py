"""How a rectangle of DRAM becomes requests on a memory port.

Row by row; a row is widened to whole beats and cut where a burst ends. Rows are never merged, even
when they are contiguous.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

from ...dialects.target import TimingPreset


@dataclass(frozen=True)
class Requests:
    """The requests of one transfer: the beats of each, in the order in which they leave."""

    beats: tuple[int, ...]

    @cached_property
    def total(self) -> int:
        """The beats of all requests together."""
        return sum(self.beats)

    @cached_property
    def least(self) -> int:
        """The beats of the shortest request."""
        return min(self.beats)


def cut(preset: TimingPreset, start: int, row: int, stride: int, rows: int) -> Requests:
    """The requests for `rows` rows of `row` bytes, `stride` bytes apart, from byte `start` on."""
    burst = preset.burst_bytes
    return _cut(
        preset.port_bytes,
        preset.burst_beats,
        preset.aligned_bursts,
        start % burst,
        row,
        stride,
        rows,
    )


def first_words(preset: TimingPreset, start: int, row: int, stride: int, rows: int) -> list[int]:
    """Where each request of `cut` begins, in words of `port_bytes` bytes."""
    port, words = preset.port_bytes, []
    for at in (
        range(start, start + rows * stride, stride) if rows > 1 and stride else [start] * rows
    ):
        word = at // port
        words.append(word)
        at %= preset.burst_bytes
        for beats in _cut_row(port, preset.burst_beats, preset.aligned_bursts, at, row)[:-1]:
            word += beats
            words.append(word)
    return words


@lru_cache(maxsize=1 << 14)
def _cut(
    port: int, burst: int, aligned: bool, start: int, row: int, stride: int, rows: int
) -> Requests:
    if stride % (port * burst) == 0:
        return Requests(_cut_row(port, burst, aligned, start, row) * rows)
    beats: list[int] = []
    for number in range(rows):
        at = (start + number * stride) % (port * burst)
        beats += _cut_row(port, burst, aligned, at, row)
    return Requests(tuple(beats))


@lru_cache(maxsize=1 << 14)
def _cut_row(port: int, burst: int, aligned: bool, start: int, row: int) -> tuple[int, ...]:
    first, end = start // port, -(-(start + row) // port)
    border = (first // burst + 1) * burst if aligned else first + burst
    pieces = [min(end, border) - first]
    while border < end:
        pieces.append(min(burst, end - border))
        border += burst
    return tuple(pieces)
