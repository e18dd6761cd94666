"""The instructions of a program as fetch asks for them: chunk by chunk."""

from typing import NamedTuple

from ...dialects.target import INSTRUCTION_BYTES, TimingPreset
from .requests import Requests, cut


class Chunk(NamedTuple):
    """One fetch: instructions [first, end), the cycle of its command and that of its arrival."""

    first: int
    end: int
    command: int
    ready: int


class Fetch:
    """Chunks of instructions, the next one to dispatch at `position`.

    dispatchable: end of the instructions that may be dispatched. ready: arrival of the chunk behind
    them, if it has arrived. free: the first cycle in which that chunk may be dispatched.
    requested_first: the first instruction of the chunk that was asked for last.
    """

    def __init__(self, preset: TimingPreset, total: int) -> None:
        self._preset, self._total = preset, total
        self._most = preset.fetch_instructions
        self.position = self.dispatchable = self._requested = self.requested_first = 0
        self.ready: int | None = None
        self.free = 0
        self.chunks: list[Chunk] = []
        self._command = 0

    def next_chunk(self, command: int) -> Requests | None:
        """The requests for the next chunk, None behind the last."""
        first, self._command = self._requested, command
        if first == self._total:
            return None
        self.requested_first = first
        self._requested = min(self._total, first + self._most)
        size = (self._requested - first) * INSTRUCTION_BYTES
        return cut(self._preset, first * INSTRUCTION_BYTES, size, 0, 1)

    def arrive(self, ready: int) -> bool:
        """Record the arrival of a chunk in a cycle; whether it may be dispatched at once."""
        first = self.chunks[-1].end if self.chunks else 0
        self.chunks.append(Chunk(first, self._requested, self._command, ready))
        self.ready = ready
        return self.position == self.dispatchable

    def begin(self) -> None:
        """Make the chunk that has arrived the next to dispatch."""
        self.dispatchable = self._requested
        self.ready = None
