"""What runs of kernels do as plain values, where no operations are needed: a sink that keeps lists.

SRAM buffers are numbers, counted from 0 in the order of their birth.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from vtac.dialects.target import Memory
from vtac.passes.vta.sites import SramBuffer

from .instructions import Emitted
from .transfers import Rectangle


class PlainTransfer(NamedTuple):
    """A LOAD, or for OUT a STORE; fields as in `Sink.transfer`."""

    memory: Memory
    buffer: int
    dram: str
    place: int
    part: Rectangle


class PlainCompute(NamedTuple):
    """A GEMM or ALU instruction on these SRAM buffers, destination first."""

    instruction: Emitted
    buffers: tuple[int, ...]


PlainInstruction: TypeAlias = PlainTransfer | PlainCompute


class _Birth(NamedTuple):
    """A buffer comes to life; see `Sink.allocate`. at: how many births and instructions before."""

    memory: Memory
    site: int
    slots: int
    where: str
    at: int


@dataclass
class CallColumns:
    """The instructions of a function's calls in program order, and their SRAM buffers."""

    instructions: list[PlainInstruction] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)
    _births: list[_Birth] = field(default_factory=list)

    def born(self, memory: Memory, site: int, slots: int, where: str) -> int:
        """The number of a new buffer."""
        number = len(self._births)
        self._births.append(_Birth(memory, site, slots, where, number + len(self.instructions)))
        return number

    def places(self) -> Iterator[int]:
        """The place of each instruction in program order, births counted as well."""
        births = iter([birth.at for birth in self._births])
        at, born = 0, next(births, None)
        for _ in self.instructions:
            while born == at:
                at, born = at + 1, next(births, None)
            yield at
            at += 1

    def buffers(self) -> list[SramBuffer]:
        """All buffers. Births and instructions are counted together, in program order."""
        last = [birth.at for birth in self._births]
        for at, instruction in zip(self.places(), self.instructions, strict=True):
            if isinstance(instruction, PlainTransfer):
                last[instruction.buffer] = at
            else:
                for buffer in instruction.buffers:
                    last[buffer] = at
        return [
            SramBuffer(site, memory, slots, self.sizes[site], where, at, end)
            for (memory, site, slots, where, at), end in zip(self._births, last, strict=True)
        ]


class ColumnSink:
    """Appends to columns what a call does. where: the layer of the call."""

    def __init__(self, columns: CallColumns, where: str):
        self._columns, self._where = columns, where
        self._append = columns.instructions.append

    def allocate(self, memory: Memory, site: int, slots: int, name: str | None) -> int:
        """End the program, see `Sink`."""
        return self._columns.born(memory, site, slots, self._where)

    def transfer(self, memory: Memory, buffer: int, dram: str, place: int, part: Rectangle) -> None:
        """See `Sink`."""
        self._append(PlainTransfer(memory, buffer, dram, place, part))

    def compute(self, instruction: Emitted, buffers: Sequence[int]) -> None:
        """See `Sink`."""
        used = tuple([buffers[number] for number in instruction.operands])
        self._append(PlainCompute(instruction, used))

    def finish(self, sizes: Mapping[int, int]) -> None:
        """See `Sink`."""
        self._columns.sizes.update(sizes)
