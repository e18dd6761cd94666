"""A program as a cluster gets it: words for each core, commands for the DMA, shared buffers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..target import ClusterTarget, windows
from .attributes import BufferKind
from .dma import Copy, DmaCommand, DmaFinish, Signal, Wait, decode_dma, encode_dma
from .encoding import EncodingError
from .program import BinaryProgram, Buffer, allocate_buffers


@dataclass(frozen=True, slots=True)
class PlacedCopy:
    """COPY between buffers. source, destination: a buffer's name, and the first byte in it."""

    source: tuple[str, int]
    destination: tuple[str, int]
    nbytes: int

    def at(self, addresses: Mapping[str, int]) -> Copy:
        """The command for buffers at these addresses."""
        (source, first), (destination, start) = self.source, self.destination
        return Copy(
            nbytes=self.nbytes,
            source=addresses[source] + first,
            destination=addresses[destination] + start,
        )


ClusterCommand: TypeAlias = PlacedCopy | Wait | Signal
"""A command of the DMA before its buffers have addresses; FINISH is left out."""


@dataclass(frozen=True)
class BinaryCluster:
    """An encoded program of a cluster.

    cores: the program of each core, all with the same buffers. commands: those of the DMA.
    """

    name: str
    target: ClusterTarget
    cores: tuple[BinaryProgram, ...]
    commands: tuple[ClusterCommand, ...] = ()

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers that the units share, and the micro-ops of each core."""
        return self.cores[0].buffers

    @cached_property
    def buffer(self) -> Mapping[str, Buffer]:
        """The buffers by name."""
        return {buffer.name: buffer for buffer in self.buffers}

    def of_kind(self, kind: BufferKind) -> list[Buffer]:
        """The buffers of a kind; inputs and outputs by their index."""
        return self.cores[0].of_kind(kind)

    def place(self, start: int = windows.DDR_BASE) -> dict[str, int]:
        """An address for each buffer: those in DDR one after the other from `start` on."""

        def allocate(buffer: Buffer) -> int:
            nonlocal start
            address = windows.ddr_address(start, buffer.size, buffer.alignment)
            start = address + buffer.size
            return address

        return allocate_buffers(self.buffers, allocate)

    def relocate(self, addresses: Mapping[str, int]) -> list[NDArray[np.uint64]]:
        """The words of each unit, uint64 [n, 2]: the cores by number, then the DMA if there is one.

        Raises what `BinaryProgram.relocate` raises.
        """
        streams = [core.relocate(addresses) for core in self.cores]
        if self.target.dma:
            placed: list[DmaCommand] = [
                command.at(addresses) if isinstance(command, PlacedCopy) else command
                for command in self.commands
            ]
            streams.append(encode_dma([*placed, DmaFinish()]))
        return streams

    def relative_commands(self) -> tuple[NDArray[np.uint64], list[tuple[int, str]]]:
        """The words of the DMA's stream for buffers at address 0, FINISH included, and its
        relocations: 2 x the number of a command for its source, one more for its destination."""
        commands: list[DmaCommand] = []
        relocations = []
        for number, command in enumerate(self.commands):
            if isinstance(command, PlacedCopy):
                relocations.append((2 * number, command.source[0]))
                relocations.append((2 * number + 1, command.destination[0]))
                origin = dict.fromkeys((command.source[0], command.destination[0]), 0)
                commands.append(command.at(origin))
            else:
                commands.append(command)
        return encode_dma([*commands, DmaFinish()]), relocations

    @property
    def instructions(self) -> int:
        """Instructions and commands of all units."""
        return sum(len(core.insns) for core in self.cores) + len(self.commands)


def commands_from(
    words: NDArray[np.uint64], relocations: Sequence[tuple[int, str]]
) -> tuple[ClusterCommand, ...]:
    """The commands of `BinaryCluster.relative_commands`. Raises `EncodingError` on others."""
    buffers = dict(relocations)
    *commands, last = decode_dma(words)
    found: list[ClusterCommand] = []
    for number, command in enumerate(commands):
        if isinstance(command, Copy):
            ends = buffers.get(2 * number), buffers.get(2 * number + 1)
            if ends[0] is None or ends[1] is None:
                raise EncodingError(
                    f"command {number} of the DMA copies between no buffers", number
                )
            source, destination = (ends[0], command.source), (ends[1], command.destination)
            found.append(PlacedCopy(source, destination, command.nbytes))
        elif isinstance(command, DmaFinish):
            raise EncodingError(f"command {number} of the DMA ends its stream too early", number)
        else:
            found.append(command)
    if not isinstance(last, DmaFinish):
        raise EncodingError("the stream of the DMA has no FINISH", len(commands))
    return tuple(found)
