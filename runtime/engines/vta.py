"""The run half of codegen ``vta``: programs of instructions over DRAM buffers, on a device.

A program's transfers count from the start of their buffers. Opening a package places all buffers,
writes the constants once, and adds the addresses to the transfers (relocation).
"""

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Memory, Target
from vtac.dialects.vta.encoding import (
    EncodingError,
    Load,
    Opcode,
    Store,
    Transfer,
    decode,
    instruction_fields,
)
from vtac.runtime.atomic import whole_file
from vtac.runtime.device import Device
from vtac.runtime.engines import Array, LaunchOptions, LaunchResult
from vtac.runtime.package.contents import LAUNCH, Function, Package
from vtac.runtime.package.records import from_json, to_json

KINDS = ("input", "output", "constant", "scratch")
"""What a DRAM buffer is for."""

_CODE = "program.bin"
_NAMES = "names.json"


@dataclass(frozen=True)
class Buffer:
    """A DRAM buffer of a program.

    bytes, alignment: in bytes; blob: the constant that fills it (kind ``constant`` only), padded
    with nothing: sizes are equal. instructions: the LOADs and STOREs that count from its start.
    Inputs and outputs are in the order of the function's.
    """

    name: str
    kind: str
    bytes: int
    alignment: int
    blob: str | None
    instructions: tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """A program before it is placed. names: a side table for people, JSON, may be empty."""

    instructions: NDArray[np.uint64]
    buffers: tuple[Buffer, ...]
    names: Mapping[str, Any] = field(default_factory=dict)

    def of_kind(self, kind: str) -> list[Buffer]:
        """The buffers of one kind, in order."""
        return [buffer for buffer in self.buffers if buffer.kind == kind]


@dataclass(frozen=True)
class _Record:
    instructions: int
    buffers: tuple[Buffer, ...]


def to_function(name: str, program: Program) -> Function:
    """A program as a function of a package."""
    files = {_CODE: np.ascontiguousarray(program.instructions, "<u8").tobytes()}
    if program.names:
        text = json.dumps(program.names, sort_keys=True, separators=(",", ":"))
        files[_NAMES] = text.encode()
    record = _Record(len(program.instructions), program.buffers)
    blobs = sorted({buffer.blob for buffer in program.buffers if buffer.blob is not None})
    return Function(name, "vta", to_json(record), files, tuple(blobs))


def from_function(function: Function, where: str) -> Program:
    """The program of a function. Raises `CompileError` where its metadata is not one's."""
    place = f"{where}: function {function.name}"
    record = from_json(_Record, function.metadata, place)
    code = function.files.get(_CODE, b"")
    if set(function.files) - {_CODE, _NAMES} or len(code) != 16 * record.instructions:
        raise CompileError(Problem(place, "its files are not those of a program"))
    try:
        names = json.loads(function.files.get(_NAMES, b"{}"))
    except (ValueError, RecursionError):
        raise CompileError(Problem(place, f"{_NAMES} is not JSON")) from None
    words = np.frombuffer(code, "<u8").astype(np.uint64).reshape(-1, 2)
    return Program(words, record.buffers, names)


def buffer_faults(target: Target, program: Program) -> Iterator[str]:
    """What is wrong with the buffers and the transfers of a program."""
    if len({buffer.name for buffer in program.buffers}) != len(program.buffers):
        yield "two buffers have one name"
    try:
        instructions = decode(target, program.instructions)
    except EncodingError as error:
        yield f"instruction {error.index}: {error}"
        return
    transfers = {i for i, op in enumerate(instructions) if isinstance(op, Transfer) and op.x_size}
    relocated = [index for buffer in program.buffers for index in buffer.instructions]
    if sorted(relocated) != sorted(transfers):
        yield "its relocations are not its transfers, each once"
        return
    for buffer in program.buffers:
        if buffer.kind not in KINDS or (buffer.blob is not None) != (buffer.kind == "constant"):
            yield f"buffer {buffer.name!r} is of kind {buffer.kind!r}, which cannot be"
        power = buffer.alignment > 0 and buffer.alignment & (buffer.alignment - 1) == 0
        if buffer.bytes < 0 or not power:
            yield f"buffer {buffer.name!r} has an impossible size or alignment"
            continue
        for index in buffer.instructions:
            transfer = cast(Load | Store, instructions[index])
            size = target.element_bytes(transfer.memory)
            last = transfer.dram_base + (transfer.y_size - 1) * transfer.x_stride + transfer.x_size
            if last * size > buffer.bytes or buffer.alignment % size:
                yield f"instruction {index} leaves buffer {buffer.name!r} or is not aligned"
            if isinstance(transfer, Store) and buffer.kind not in ("output", "scratch"):
                yield f"instruction {index} writes the {buffer.kind} {buffer.name!r}"


def relocate(target: Target, program: Program, addresses: Mapping[str, int]) -> NDArray[np.uint64]:
    """The instructions with each buffer at its address in bytes."""
    words = program.instructions.copy()
    fields = {f.name: f for f in instruction_fields(target)[Opcode.LOAD]}
    base, memory = fields["dram_base"], fields["memory"]
    for buffer in program.buffers:
        rows = np.array(buffer.instructions, np.intp)
        if not len(rows):
            continue
        sizes = np.array([_bytes_of(target, m) for m in memory.extract(words[rows])])
        moved = base.extract(words[rows]) + addresses[buffer.name] // sizes
        if moved.max() > base.limits[1]:
            raise CompileError(
                Problem(f"buffer {buffer.name}", "lies beyond what a transfer can address")
            )
        mask = np.uint64(base.limits[1] << base.offset)
        cleared = words[rows, base.word] & ~mask
        words[rows, base.word] = cleared | (moved.astype(np.uint64) << np.uint64(base.offset))
    return words


@functools.lru_cache(maxsize=64)
def _bytes_of(target: Target, memory: int) -> int:
    return target.element_bytes(Memory(memory))


class VtaSession:
    """The programs of a package on a device."""

    def __init__(self, package: Package, device: Device) -> None:
        self._device = device
        self._blobs: dict[str, int] = {}
        self._programs: dict[str, Program] = {}
        self._addresses: dict[str, dict[str, int]] = {}
        self._code: dict[str, NDArray[np.uint64]] = {}
        for function in package.functions.values():
            if function.codegen == "vta":
                self._place(package, function)

    def _place(self, package: Package, function: Function) -> None:
        program = from_function(function, "package")
        addresses = {buffer.name: self._address(package, buffer) for buffer in program.buffers}
        self._programs[function.name] = program
        self._addresses[function.name] = addresses
        self._code[function.name] = relocate(self._device.target, program, addresses)

    def _address(self, package: Package, buffer: Buffer) -> int:
        """A constant that several programs use lies in memory once."""
        if buffer.blob is None:
            return self._device.allocate(buffer.bytes, buffer.alignment)
        known = self._blobs.get(buffer.blob)
        if known is not None and known % buffer.alignment == 0:
            return known
        address = self._device.allocate(buffer.bytes, buffer.alignment)
        self._device.write(address, np.frombuffer(package.blobs[buffer.blob], np.uint8))
        self._blobs[buffer.blob] = address
        return address

    def launch(
        self, function: str, inputs: Sequence[Array], options: LaunchOptions
    ) -> LaunchResult:
        """Copy inputs in, run, copy outputs out."""
        program, addresses = self._programs[function], self._addresses[function]
        for buffer, array in zip(program.of_kind("input"), inputs, strict=True):
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            self._device.write(addresses[buffer.name], data)
        before = self._device.image() if options.dump else None
        counters = self._device.run(self._code[function], options.order_seed)
        if options.dump is not None and before is not None:
            self._dump(options.dump, function, before)
        outputs = [
            self._device.read(addresses[buffer.name], buffer.bytes)
            for buffer in program.of_kind("output")
        ]
        return LaunchResult(outputs, counters)

    def _dump(self, path: Path, function: str, before: NDArray[np.uint8]) -> None:
        config = json.dumps(self._device.target.to_vta_config(), sort_keys=True)
        with whole_file(path) as temporary, temporary.open("wb") as stream:
            np.savez_compressed(
                stream,
                config=np.array(config),
                insns=self._code[function],
                dram_in=before,
                dram_out=self._device.image(),
            )


class VtaEngine:
    """Checks and opens what codegen ``vta`` made."""

    def verify(self, package: Package, function: Function, where: str) -> None:
        """Every transfer stays in its buffer, every buffer has the size of what it is."""
        program = from_function(function, where)
        place = f"{where}: function {function.name}"
        faults = list(buffer_faults(package.target, program))
        for buffer in program.of_kind("constant"):
            if len(package.blobs.get(buffer.blob or "", b"")) != buffer.bytes:
                faults.append(f"buffer {buffer.name!r} has not the size of its constant")
        blobs = {buffer.blob for buffer in program.of_kind("constant")}
        if blobs != set(function.blobs):
            faults.append("its constants are not those of its buffers")
        faults += _size_faults(package, function, program)
        if faults:
            raise CompileError([Problem(place, what) for what in faults])

    def open(self, package: Package, device: Device) -> VtaSession:
        """Place all programs."""
        return VtaSession(package, device)


def _size_faults(package: Package, function: Function, program: Program) -> Iterator[str]:
    """A launch passes int8 arrays of the sizes of the buffers."""
    for step in package.steps:
        if step.kind != LAUNCH or step.part != function.name:
            continue
        for kind, names in (("input", step.inputs), ("output", step.outputs)):
            buffers = program.of_kind(kind)
            if len(buffers) != len(names):
                yield f"it has {len(buffers)} buffers of kind {kind} for {len(names)} values"
                continue
            for buffer, name in zip(buffers, names, strict=True):
                value = package.value(name)
                shape = value.physical_shape
                known = shape is not None and None not in shape and value.type == "tensor(int8)"
                if not known or np.prod(cast(Any, shape), dtype=np.int64) != buffer.bytes:
                    yield f"buffer {buffer.name!r} has not the size of value {name!r}"


ENGINE = VtaEngine()
"""What ``engine_named("vta")`` finds."""
