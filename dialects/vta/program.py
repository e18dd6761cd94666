"""A program as the machine gets it: words, DRAM buffers, and where their addresses go.

The words count DRAM elements from the start of each buffer; a *relocation* says which buffer an
instruction means. Placing a program is adding (address of the buffer / bytes of an element) to the
dram_base of each relocated instruction. These frozen values hold everything that a runtime needs;
names of kernels and layers, which only people need, are in `Names`, which may be absent.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..target import Memory, Target, windows
from .attributes import GLOBAL_SCOPE, BufferKind
from .encoding import EncodingError, Opcode, instruction_fields

FIRST_ADDRESS = 4096
"""The machine never addresses the bytes below."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A DRAM buffer: `size` bytes long, at a multiple of `alignment`.

    index counts inputs or outputs. place: the memory and the offset in bytes of scratch that shares
    an area with others; live: its first and last step (see `BufferOp`). A constant has its bytes in
    `data`, or in the resource table under `resource` (name, digest). The buffer of micro-ops always
    has `data`. shape and element are the type of an inline constant.
    """

    name: str
    kind: BufferKind
    size: int
    alignment: int
    index: int | None = None
    resource: tuple[str, str] | None = None
    data: bytes | None = None
    shape: tuple[int, ...] = ()
    element: str = "i8"
    place: tuple[str, int] | None = None
    live: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Names:
    """What the words do not hold: kernels of the micro-op buffer, the layer of each instruction."""

    kernels: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()


@dataclass(frozen=True)
class BinaryProgram:
    """An encoded program.

    insns: uint64 [N, 2]. relocations: (instruction, buffer name), by instruction.
    """

    name: str
    target: Target
    insns: NDArray[np.uint64]
    relocations: tuple[tuple[int, str], ...]
    buffers: tuple[Buffer, ...]
    names: Names | None = None

    @cached_property
    def buffer(self) -> Mapping[str, Buffer]:
        """The buffers by name."""
        return {buffer.name: buffer for buffer in self.buffers}

    @property
    def instructions(self) -> int:
        """How many there are."""
        return len(self.insns)

    def of_kind(self, kind: BufferKind) -> list[Buffer]:
        """The buffers of a kind; inputs and outputs by their index."""
        found = [buffer for buffer in self.buffers if buffer.kind is kind]
        return sorted(found, key=lambda buffer: buffer.index or 0)

    def place(self, start: int = FIRST_ADDRESS) -> dict[str, int]:
        """An address for each buffer, one after the other from `start` on."""
        return place_buffers(self.buffers, start)

    def relocate(self, addresses: Mapping[str, int]) -> NDArray[np.uint64]:
        """The words, uint64 [N, 2], for buffers at these addresses.

        Raises `ValueError` on an address that is missing, too low, or not aligned, and
        `EncodingError` where an element index exceeds its 32 bits.
        """
        for buffer in self.buffers:
            address = addresses.get(buffer.name)
            if address is None or address < FIRST_ADDRESS or address % buffer.alignment:
                raise ValueError(
                    f"buffer {buffer.name!r} cannot lie at {address}: expected a multiple of"
                    f" {buffer.alignment} from {FIRST_ADDRESS} on"
                )
        words = np.array(self.insns, dtype=np.uint64)
        if not self.relocations:
            return words
        at = np.array([index for index, _ in self.relocations])
        base = np.array([addresses[name] for _, name in self.relocations], np.uint64)
        fields = {f.name: f for f in instruction_fields(self.target)[Opcode.LOAD]}
        memory, field = fields["memory"], fields["dram_base"]
        sizes = np.array([self.target.element_bytes(m) for m in Memory], np.uint64)
        elements = base // sizes[memory.extract(words[at])]
        values = field.extract(words[at]).astype(np.uint64) + elements
        for index in np.flatnonzero(values > field.limits[1])[:1]:
            raise EncodingError(
                f"instruction {at[index]}: dram_base {values[index]} exceeds {field.width} bits",
                int(at[index]),
            )
        mask = np.uint64(((1 << field.width) - 1) << field.offset)
        words[at, field.word] &= ~mask
        words[at, field.word] |= values << np.uint64(field.offset)
        return words


def place_buffers(buffers: Sequence[Buffer], start: int = FIRST_ADDRESS) -> dict[str, int]:
    """An address for each buffer, one after the other from `start` on, each aligned.

    Buffers that share an area have their places in it.
    """

    def allocate(buffer: Buffer) -> int:
        nonlocal start
        address = -(-start // buffer.alignment) * buffer.alignment
        start = address + buffer.size
        return address

    return allocate_buffers(buffers, allocate)


def allocate_buffers(
    buffers: Sequence[Buffer], allocate: Callable[[Buffer], int]
) -> dict[str, int]:
    """An address for each buffer; ``allocate`` returns those of single buffers and shared areas.

    The global buffer and the semaphores of a cluster have addresses of their own.
    """
    areas: dict[str, int] = {GLOBAL_SCOPE: windows.GB_BASE}
    addresses = {}
    for buffer in buffers:
        if buffer.kind is BufferKind.SEMAPHORE:
            addresses[buffer.name] = windows.SEMAPHORE_BASE
            continue
        if buffer.place is None:
            addresses[buffer.name] = allocate(buffer)
            continue
        scope, offset = buffer.place
        if scope not in areas:
            areas[scope] = allocate(_area(buffers, scope))
        addresses[buffer.name] = areas[scope] + offset
    return addresses


def _area(buffers: Sequence[Buffer], scope: str) -> Buffer:
    """The bytes that the placed buffers of a scope share, as one buffer."""
    placed = [(b, b.place[1]) for b in buffers if b.place is not None and b.place[0] == scope]
    size = max(offset + buffer.size for buffer, offset in placed)
    alignment = max(buffer.alignment for buffer, _ in placed)
    return Buffer(scope, BufferKind.SCRATCH, size, alignment)
