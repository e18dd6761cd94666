"""The memory of the accelerator: constants and programs first, then what launches work on.

Constants, micro-ops and instructions are written once. Inputs, outputs and scratch of a launch live
only while it runs, so those of all launches share one region behind them. Addresses hold for a
planned base; ``vta_programs.c`` moves the programs to any other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vtac.dialects.context import bytes_of
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Memory, Target
from vtac.dialects.vta.attributes import BufferKind
from vtac.dialects.vta.program import FIRST_ADDRESS, BinaryProgram, Buffer, allocate_buffers
from vtac.runtime.package import Function, Package
from vtac.runtime.vta_program import program_from, record_of

_LEAST_ALIGNMENT = 64
_INSTRUCTION_BYTES = 16
_WORD = 2**32


@dataclass(frozen=True)
class PlacedProgram:
    """A program at its address, with the addresses and sizes of what goes in and out."""

    name: str
    address: int
    words: NDArray[np.uint64]
    inputs: tuple[tuple[int, int], ...]
    outputs: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class DevicePlan:
    """The area of the network in the memory of the accelerator. All numbers are in bytes.

    base: where the area begins, as far as addresses go; a multiple of ``alignment``. image: the
    constants, from the base on. code: bytes of all instructions. total: of the area.
    """

    base: int
    alignment: int
    image: bytes
    code: int
    total: int
    programs: Mapping[str, PlacedProgram]

    @property
    def work(self) -> int:
        """Bytes that launches share: inputs, outputs, scratch."""
        return self.total - len(self.image) - self.code


def plan_device(package: Package, target: Target) -> DevicePlan:
    """Place all programs of a package and what they refer to. Raises `CompileError`."""
    programs = {
        name: program_from(function, target, package.blobs, "package")
        for name, function in package.functions.items()
    }
    alignments = [b.alignment for program in programs.values() for b in program.buffers]
    elements = [target.element_bytes(memory) for memory in Memory]
    alignment = max(_LEAST_ALIGNMENT, *alignments, *elements)
    base = _up(FIRST_ADDRESS, alignment)
    image = _Image(base)
    for name, program in programs.items():
        image.add(package, package.functions[name], program)
    end = _up(base + len(image.bytes), _LEAST_ALIGNMENT)
    image.bytes.extend(bytes(end - base - len(image.bytes)))
    codes: dict[str, int] = {}
    for name, program in programs.items():
        codes[name] = end
        end = _up(end + _INSTRUCTION_BYTES * len(program.insns), _LEAST_ALIGNMENT)
    code, work, last = end - base - len(image.bytes), end, end
    placed = {}
    for name, program in programs.items():
        made, size = _place(program, codes[name], image.constants[name], work)
        placed[name], last = made, max(last, size)
    if last > _WORD:
        what = f"the network needs {last - base} bytes of the accelerator's memory"
        raise CompileError(Problem("package", what, "Addresses of VTA have 32 bits."))
    return DevicePlan(base, alignment, bytes(image.bytes), code, last - base, placed)


class _Image:
    """The constants of all programs, each stored once. constants: addresses by buffer."""

    def __init__(self, base: int) -> None:
        self._base = base
        self._known: dict[str, int] = {}
        self.bytes = bytearray()
        self.constants: dict[str, dict[str, int]] = {}

    def add(self, package: Package, function: Function, program: BinaryProgram) -> None:
        """Store the constants and the micro-ops of a program."""
        digests = {b.name: b.blob for b in record_of(function, "package").buffers}
        places = self.constants.setdefault(function.name, {})
        for buffer in program.buffers:
            digest = digests[buffer.name]
            if digest is None:
                continue
            known = self._known.get(digest)
            if known is None or known % buffer.alignment:
                known = _up(self._base + len(self.bytes), buffer.alignment)
                self.bytes.extend(bytes(known - self._base - len(self.bytes)))
                self.bytes.extend(bytes_of(np.frombuffer(package.blobs[digest], np.uint8)))
                self._known[digest] = known
            places[buffer.name] = known


def _place(
    program: BinaryProgram, code: int, constants: Mapping[str, int], start: int
) -> tuple[PlacedProgram, int]:
    """A program whose inputs, outputs and scratch lie from ``start`` on, and where these end."""
    end = start

    def allocate(buffer: Buffer) -> int:
        nonlocal end
        if buffer.name in constants and buffer.kind is not BufferKind.SCRATCH:
            return constants[buffer.name]
        address = _up(end, max(buffer.alignment, _LEAST_ALIGNMENT))
        end = address + buffer.size
        return address

    addresses = allocate_buffers(program.buffers, allocate)
    try:
        words: NDArray[Any] = program.relocate(addresses)
    except ValueError as error:
        raise CompileError(Problem(f"function {program.name}", str(error))) from None
    inputs, outputs = (
        tuple((addresses[buffer.name], buffer.size) for buffer in program.of_kind(kind))
        for kind in (BufferKind.INPUT, BufferKind.OUTPUT)
    )
    return PlacedProgram(program.name, code, words, inputs, outputs), end


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
