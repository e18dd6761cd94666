"""Encoded programs as functions of a package, and what must hold of them.

The words of each core are a file, ``program.0.bin``, ``program.1.bin``, ...; buffers and
relocations are metadata; constants are blobs; what only people read (kernels, layers) is a further
file. Nothing is lost: the program that comes out is the one that went in. A `BinaryProgram` has one
stream, a `BinaryCluster` one for each core and, if there is one, the DMA.

In version 1 of the format the words were one file, ``program.bin`` (`upgraded`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vtac.dialects.context import bytes_of, not_loaded
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import ClusterTarget, Machine, cores_of
from vtac.dialects.vta.attributes import GLOBAL_SCOPE, SCRATCH_SCOPE, BufferKind
from vtac.dialects.vta.cluster_program import BinaryCluster, PlacedCopy, commands_from
from vtac.dialects.vta.encoding import EncodingError, Instruction, Store, Transfer, decode
from vtac.dialects.vta.program import BinaryProgram, Buffer, Names
from vtac.runtime.package.contents import Function, blob_digest
from vtac.runtime.package.records import from_json, to_json

_CODE_OF_VERSION_1 = "program.bin"
_INSTRUCTION_BYTES = 16

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class ResourceRecord:
    """Name and digest of a constant in the IR, and the type of its array."""

    key: str
    digest: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class PlaceRecord:
    """Where a scratch buffer lies: the memory, and the offset in the area there, in bytes."""

    scope: str
    offset: int


@dataclass(frozen=True)
class BufferRecord:
    """A `Buffer` in the manifest.

    live: the first and the last step at which the contents of scratch are needed. instructions: for
    each stream, the numbers of the transfers whose addresses are relative to the buffer.
    """

    name: str
    kind: str
    size: int
    alignment: int
    index: int | None
    blob: str | None
    resource: ResourceRecord | None
    shape: tuple[int, ...]
    element: str
    place: PlaceRecord | None
    live: tuple[int, ...] | None
    instructions: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class ProgramRecord:
    """A program in the manifest: how many instructions each stream has, and the buffers."""

    streams: tuple[int, ...]
    buffers: tuple[BufferRecord, ...]


@dataclass(frozen=True)
class NamesRecord:
    """The contents of the file with `Names`."""

    kernels: tuple[str, ...]
    layers: tuple[str, ...]


class _Stream(NamedTuple):
    """Words of a unit, uint64 [N, 2], their relocations, and names for people.

    relocations: (number, buffer). Numbers count instructions; of the DMA, whose commands have two
    ends, 2 x the command for its source, and one more for its destination.
    """

    words: NDArray[np.uint64]
    relocations: Sequence[tuple[int, str]]
    names: Names | None


def _streams_of(program: BinaryProgram | BinaryCluster) -> list[_Stream]:
    cores = program.cores if isinstance(program, BinaryCluster) else (program,)
    streams = [_Stream(core.insns, core.relocations, core.names) for core in cores]
    if isinstance(program, BinaryCluster) and program.target.dma:
        streams.append(_Stream(*program.relative_commands(), None))
    return streams


def to_function(
    program: BinaryProgram | BinaryCluster, resources: Mapping[str, Array]
) -> tuple[Function, dict[str, bytes]]:
    """A program as a function, and the blobs it refers to. resources: large constants by name.

    Raises `CompileError` with all constants that are missing.
    """
    named = [buffer.resource[0] for buffer in program.buffers if buffer.resource is not None]
    if problems := [not_loaded(name) for name in named if name not in resources]:
        raise CompileError(problems)
    streams = _streams_of(program)
    users: dict[str, list[list[int]]] = {
        buffer.name: [[] for _ in streams] for buffer in program.buffers
    }
    for number, stream in enumerate(streams):
        for index, name in stream.relocations:
            users[name][number].append(index)
    blobs: dict[str, bytes] = {}
    records = []
    for buffer in program.buffers:
        data, resource = buffer.data, None
        if buffer.resource is not None:
            array = resources[buffer.resource[0]]
            data = bytes_of(array)
            resource = ResourceRecord(*buffer.resource, array.dtype.str, array.shape)
        digest = None if data is None else blob_digest(data)
        if digest is not None and data is not None:
            blobs[digest] = data
        records.append(
            BufferRecord(
                buffer.name,
                buffer.kind.value,
                buffer.size,
                buffer.alignment,
                buffer.index,
                digest,
                resource,
                buffer.shape,
                buffer.element,
                None if buffer.place is None else PlaceRecord(*buffer.place),
                buffer.live,
                tuple(map(tuple, users[buffer.name])),
            )
        )
    files: dict[str, bytes] = {}
    for number, stream in enumerate(streams):
        files[_code(number)] = np.ascontiguousarray(stream.words, "<u8").tobytes()
        if stream.names is not None:
            record = NamesRecord(stream.names.kernels, stream.names.layers)
            files[_names_file(number)] = json.dumps(to_json(record), separators=(",", ":")).encode()
    counts = tuple(len(stream.words) for stream in streams)
    metadata = to_json(ProgramRecord(counts, tuple(records)))
    return Function(program.name, "vta", metadata, files, tuple(sorted(blobs))), blobs


def resources_of(function: Function, blobs: Mapping[str, bytes], where: str) -> dict[str, Array]:
    """The arrays of the program's constants, by their names in the IR."""
    arrays = {}
    for buffer in record_of(function, where).buffers:
        if buffer.resource is not None and buffer.blob is not None:
            dtype = np.dtype(buffer.resource.dtype)
            array = np.frombuffer(blobs[buffer.blob], dtype).reshape(buffer.resource.shape)
            arrays[buffer.resource.key] = array
    return arrays


def record_of(function: Function, where: str) -> ProgramRecord:
    """The metadata of a function. Raises `CompileError` if they are not those of a program."""
    return from_json(ProgramRecord, function.metadata, f"{where}: function {function.name}")


def from_function(
    function: Function, machine: Machine, blobs: Mapping[str, bytes], where: str
) -> BinaryProgram | BinaryCluster:
    """The program in a function, not yet verified. Raises `CompileError` if there is none.

    It is that of a cluster if the machine is one of several units, or has a global buffer.
    """
    place = f"{where}: function {function.name}"
    record = record_of(function, where)
    core, count = cores_of(machine)
    cluster = machine if isinstance(machine, ClusterTarget) and machine.has_windows else None
    units = count if cluster is None else cluster.units
    counts = {len(record.streams), *(len(buffer.instructions) for buffer in record.buffers)}
    if counts != {units}:
        found = " and ".join(map(str, sorted(counts)))
        raise CompileError(Problem(place, f"it has {found} streams of instructions, not {units}"))
    known = {name(number) for number in range(units) for name in (_code, _names_file)}
    if set(function.files) - known:
        raise CompileError(Problem(place, "its files are not those of a program"))
    buffers = tuple(_buffer(buffer, blobs, place) for buffer in record.buffers)
    streams = [_stream(function, record, number, place) for number in range(units)]
    programs = tuple(
        BinaryProgram(
            function.name, core, stream.words, tuple(stream.relocations), buffers, stream.names
        )
        for stream in streams[:count]
    )
    if cluster is None:
        return programs[0]
    if not cluster.dma:
        return BinaryCluster(function.name, cluster, programs)
    try:
        commands = commands_from(streams[-1].words, streams[-1].relocations)
    except EncodingError as error:
        raise CompileError(Problem(place, str(error))) from None
    return BinaryCluster(function.name, cluster, programs, commands)


def _stream(function: Function, record: ProgramRecord, number: int, place: str) -> _Stream:
    instructions = record.streams[number]
    code = function.files.get(_code(number), b"")
    if len(code) != _INSTRUCTION_BYTES * instructions or not instructions:
        raise CompileError(Problem(place, "its files are not those of a program"))
    relocations = sorted(
        (index, buffer.name) for buffer in record.buffers for index in buffer.instructions[number]
    )
    words = np.frombuffer(code, "<u8").astype(np.uint64).reshape(-1, 2)
    return _Stream(words, relocations, _names(function, number, instructions, place))


def program_from(
    function: Function, machine: Machine, blobs: Mapping[str, bytes], where: str
) -> BinaryProgram:
    """As `from_function`, for what takes programs of one core alone; raises `CompileError`."""
    return of_one_core(from_function(function, machine, blobs, where), where)


def of_one_core(program: BinaryProgram | BinaryCluster, where: str) -> BinaryProgram:
    """A program that is not one of a cluster. Raises `CompileError`."""
    if isinstance(program, BinaryCluster):
        raise CompileError(
            Problem(
                f"{where}: function {program.name}",
                f"is a program for {program.target.units} units of a cluster",
                "This takes programs of a single machine.",
            )
        )
    return program


def upgraded(function: Function, where: str) -> Function:
    """A function of a package of version 1, in the form of this version. Raises `CompileError`."""
    place = f"{where}: function {function.name}"
    try:
        metadata = dict(function.metadata)
        metadata["streams"] = [metadata.pop("instructions")]
        metadata["buffers"] = [
            {**buffer, "place": None, "live": None, "instructions": [buffer["instructions"]]}
            for buffer in metadata["buffers"]
        ]
    except (KeyError, TypeError, ValueError):
        raise CompileError(Problem(place, "its metadata are not those of a program")) from None
    files = {
        _code(0) if name == _CODE_OF_VERSION_1 else name: data
        for name, data in function.files.items()
    }
    return replace(function, metadata=metadata, files=files)


def _code(stream: int) -> str:
    """The name of the file with the instructions of a stream."""
    return f"program.{stream}.bin"


def _names_file(stream: int) -> str:
    """The name of the file with the `Names` of a stream."""
    return f"names.{stream}.json" if stream else "names.json"


def _buffer(record: BufferRecord, blobs: Mapping[str, bytes], place: str) -> Buffer:
    try:
        kind = BufferKind(record.kind)
    except ValueError:
        raise CompileError(
            Problem(place, f"buffer {record.name!r} is of unknown kind {record.kind!r}")
        ) from None
    resource, data = record.resource, None
    if record.blob is not None:
        data = blobs.get(record.blob)
        if data is None or len(data) != record.size:
            raise CompileError(
                Problem(place, f"buffer {record.name!r} has not the size of its constant")
            )
    return Buffer(
        record.name,
        kind,
        record.size,
        record.alignment,
        record.index,
        (resource.key, resource.digest) if resource else None,
        None if resource else data,
        record.shape,
        record.element,
        None if record.place is None else (record.place.scope, record.place.offset),
        _lifetime(record, place),
    )


def _lifetime(record: BufferRecord, place: str) -> tuple[int, int] | None:
    if record.live is None:
        return None
    if len(record.live) != 2:
        raise CompileError(Problem(place, f"buffer {record.name!r} has no first and last step"))
    first, last = record.live
    return first, last


def _names(function: Function, stream: int, instructions: int, place: str) -> Names | None:
    file = _names_file(stream)
    if file not in function.files:
        return None
    try:
        data = json.loads(function.files[file])
    except (ValueError, RecursionError):
        raise CompileError(Problem(place, f"{file} is not JSON")) from None
    record = from_json(NamesRecord, data, f"{place}: {file}")
    if record.layers and len(record.layers) != instructions:
        raise CompileError(Problem(place, f"{file} does not name one layer for each instruction"))
    return Names(record.kernels, record.layers)


def cluster_faults(program: BinaryCluster) -> Iterator[str]:
    """The faults of the buffers, transfers and commands of a cluster's program, as messages."""
    for number, core in enumerate(program.cores):
        yield from (f"core {number}: {fault}" for fault in program_faults(core))
    for buffer in program.buffers:
        place = buffer.place
        in_gb = place is not None and place[0] == GLOBAL_SCOPE
        if in_gb and place is not None and place[1] + buffer.size > program.target.gb_bytes:
            yield f"buffer {buffer.name!r} leaves the global buffer"
    for number, command in enumerate(program.commands):
        if isinstance(command, PlacedCopy):
            for name, first in (command.source, command.destination):
                found = program.buffer.get(name)
                if found is None or first + command.nbytes > found.size:
                    yield f"command {number} of the DMA leaves buffer {name!r}"


def program_faults(program: BinaryProgram) -> Iterator[str]:
    """The faults of a program's buffers and transfers, as messages."""
    if len(program.buffer) != len(program.buffers):
        yield "two buffers have one name"
        return
    try:
        instructions = decode(program.target, program.insns)
    except EncodingError as error:
        yield str(error)
        return
    transfers = [i for i, op in enumerate(instructions) if isinstance(op, Transfer) and op.x_size]
    if [index for index, _ in program.relocations] != transfers:
        yield "its relocations are not its transfers, each once"
        return
    for buffer in program.buffers:
        power = buffer.alignment > 0 and buffer.alignment & (buffer.alignment - 1) == 0
        if buffer.size < 0 or not power:
            yield f"buffer {buffer.name!r} has an impossible size or alignment"
        constant = buffer.kind in (BufferKind.CONSTANT, BufferKind.MICRO_OPS)
        if constant != (buffer.data is not None or buffer.resource is not None):
            yield f"buffer {buffer.name!r} of kind {buffer.kind.value} has data, or lacks it"
        yield from _place_faults(buffer)
    for kind in (BufferKind.INPUT, BufferKind.OUTPUT):
        found = [buffer.index for buffer in program.of_kind(kind)]
        if found != list(range(len(found))):
            yield f"the buffers of kind {kind.value} are not numbered 0, 1, ..."
    for index, name in program.relocations:
        yield from _transfer_faults(program, index, instructions[index], program.buffer[name])


def _place_faults(buffer: Buffer) -> Iterator[str]:
    first, last = buffer.live or (0, 0)
    if buffer.kind is not BufferKind.SCRATCH and (buffer.place or buffer.live) is not None:
        yield f"buffer {buffer.name!r} of kind {buffer.kind.value} has a place or a lifetime"
    elif not 0 <= first <= last:
        yield f"buffer {buffer.name!r} lives from step {first} to {last}"
    elif buffer.place is not None:
        scope, offset = buffer.place
        if (
            scope not in (SCRATCH_SCOPE, GLOBAL_SCOPE)
            or offset < 0
            or offset % max(buffer.alignment, 1)
        ):
            yield f"buffer {buffer.name!r} cannot lie at byte {offset} of {scope!r}"


def _transfer_faults(
    program: BinaryProgram, index: int, transfer: Instruction, buffer: Buffer
) -> Iterator[str]:
    assert isinstance(transfer, Transfer)
    size = program.target.element_bytes(transfer.memory)
    last = transfer.dram_base + max(0, transfer.y_size - 1) * transfer.x_stride + transfer.x_size
    if last * size > buffer.size:
        yield f"instruction {index} leaves buffer {buffer.name!r}"
    if buffer.alignment % size:
        yield f"buffer {buffer.name!r} is not aligned to the elements of instruction {index}"
    writable = buffer.kind in (BufferKind.OUTPUT, BufferKind.SCRATCH, BufferKind.SEMAPHORE)
    if isinstance(transfer, Store) and not writable:
        yield f"instruction {index} writes the {buffer.kind.value} {buffer.name!r}"
