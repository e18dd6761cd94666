"""Sinks receive the effects of a kernel's run in program order: buffers, transfers, instructions.

`KernelRun` walks a scheduled nest and tells a sink; `ProgramSink` writes a vta program. Another
sink may, for example, add up what the operations cost.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Operation

from vtac.dialects import vta
from vtac.dialects.target import Memory

from .instructions import Emitted
from .transfers import Rectangle

Buffer: TypeAlias = Any
"""A sink's own handle of a buffer in a scratchpad."""


class Sink(Protocol):
    """Receives the effects of one call of a kernel, in program order."""

    def allocate(self, memory: Memory, site: int, slots: int, name: str | None) -> Buffer:
        """A new buffer. site: which ``te.alloc`` it is of, by a number that is the program's."""
        ...

    def transfer(
        self, memory: Memory, buffer: Buffer, dram: str, place: int, part: Rectangle
    ) -> None:
        """A LOAD, or for OUT a STORE, between a buffer and a DRAM buffer of that name.

        place: the element of the DRAM buffer from which `part` counts.
        """
        ...

    def compute(self, instruction: Emitted, buffers: Sequence[Buffer]) -> None:
        """A GEMM or ALU instruction on these buffers."""
        ...

    def finish(self, sizes: Mapping[int, int]) -> None:
        """The call is over. sizes: elements of the largest buffer of each site."""
        ...


class ProgramSink:
    """Appends operations to `out`, all located at the layer of the call."""

    def __init__(self, out: list[Operation], location: LocationAttr):
        self._out, self._location = out, location
        self._allocs: list[tuple[int, vta.AllocOp]] = []
        self._transfers: dict[object, dict[str, Attribute]] = {}

    def allocate(self, memory: Memory, site: int, slots: int, name: str | None) -> Buffer:
        """See `Sink`."""
        alloc = vta.AllocOp.of(memory, site, slots, 1, self._location)
        (buffer,) = alloc.results
        buffer.name_hint = name
        self._allocs.append((site, alloc))
        self._out.append(alloc)
        return buffer

    def transfer(
        self, memory: Memory, buffer: Buffer, dram: str, place: int, part: Rectangle
    ) -> None:
        """See `Sink`."""
        key = (memory, dram, part)
        if key not in self._transfers:
            self._transfers[key] = _properties(memory, dram, part)
        kind = vta.StoreOp if memory is Memory.OUT else vta.LoadOp
        op = kind.create(
            operands=(buffer,), properties=self._transfers[key], location=self._location
        )
        op.properties["dram_base"] = vta.integer(place + part.dram)
        self._out.append(op)

    def compute(self, instruction: Emitted, buffers: Sequence[Buffer]) -> None:
        """See `Sink`."""
        operands = [buffers[number] for number in instruction.operands]
        properties, location = instruction.properties, self._location
        op = instruction.kind.create(operands=operands, properties=properties, location=location)
        self._out.append(op)

    def finish(self, sizes: Mapping[int, int]) -> None:
        """See `Sink`."""
        for site, alloc in self._allocs:
            alloc.properties["size"] = vta.integer(sizes[site])


def _properties(memory: Memory, dram: str, part: Rectangle) -> dict[str, Attribute]:
    """The properties of a transfer but for its place in DRAM."""
    properties: dict[str, Attribute] = {
        "sram_base": vta.integer(part.sram),
        "buffer": vta.symbol(dram),
        "size": vta.integers(part.y, part.x),
        "stride": vta.integer(part.stride),
    }
    if memory is not Memory.OUT:
        properties["memory"] = vta.memory_attr(memory)
        if any(part.pads):
            properties["pads"] = vta.integers(*part.pads)
    return properties
