"""The run half of codegen ``vta``: programs of instructions over DRAM buffers, on a device.

Opening a package places all buffers, writes the constants once, and adds the addresses to the
transfers (relocation). A launch copies inputs in, runs, and copies outputs out.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Machine, cores_of
from vtac.dialects.vta.attributes import BufferKind
from vtac.dialects.vta.cluster_program import BinaryCluster
from vtac.dialects.vta.program import BinaryProgram, Buffer, allocate_buffers
from vtac.runtime.atomic import whole_file
from vtac.runtime.cluster_streams import write_streams
from vtac.runtime.device import Device, SimulatorDevice
from vtac.runtime.engine import Array, Engine, LaunchOptions, LaunchResult, signatures_of
from vtac.runtime.hazards import hazards_of
from vtac.runtime.memory_use import MemoryUse, memory_use
from vtac.runtime.package.contents import Function, Package
from vtac.runtime.vta_program import (
    cluster_faults,
    from_function,
    program_faults,
    record_of,
    to_function,
    upgraded,
)
from vtac.sim import SimulationError, TimingPreset, TimingReport, estimate
from vtac.sim.cluster import ClusterReport, estimate_cluster
from vtac.sim.timing.flow_bound import FlowBound, flow_bound


class VtaSession:
    """The programs of a package on a device."""

    def __init__(self, package: Package, functions: Sequence[Function], device: Device) -> None:
        self._device = device
        self._blobs: dict[str, int] = {}
        self._programs: dict[str, BinaryProgram | BinaryCluster] = {}
        self._addresses: dict[str, dict[str, int]] = {}
        self._code: dict[str, list[NDArray[np.uint64]]] = {}
        for function in functions:
            self._place(package, function)

    def _place(self, package: Package, function: Function) -> None:
        program = from_function(function, target_of(package), package.blobs, "package")
        digests = {b.name: b.blob for b in record_of(function, "package").buffers}

        def allocate(buffer: Buffer) -> int:
            # The area of placed buffers comes as a scratch buffer, under a name of its own.
            digest = None if buffer.kind is BufferKind.SCRATCH else digests[buffer.name]
            return self._address(package, buffer, digest)

        addresses = allocate_buffers(program.buffers, allocate)
        self._programs[function.name] = program
        self._addresses[function.name] = addresses
        try:
            self._code[function.name] = _relocated(program, addresses)
        except ValueError as error:
            raise CompileError(Problem(f"function {function.name}", str(error))) from None

    def _address(self, package: Package, buffer: Buffer, digest: str | None) -> int:
        """The address of a buffer; a constant that several programs use is stored once."""
        if digest is None:
            return self._device.allocate(buffer.size, buffer.alignment)
        known = self._blobs.get(digest)
        if known is not None and known % buffer.alignment == 0:
            return known
        address = self._device.allocate(buffer.size, buffer.alignment)
        self._device.write(address, np.frombuffer(package.blobs[digest], np.uint8))
        self._blobs[digest] = address
        return address

    def launch(
        self, function: str, inputs: Sequence[Array], options: LaunchOptions
    ) -> LaunchResult:
        """Copy inputs in, run, copy outputs out."""
        program, addresses = self._programs[function], self._addresses[function]
        for buffer, array in zip(program.of_kind(BufferKind.INPUT), inputs, strict=True):
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            self._device.write(addresses[buffer.name], data)
        before = self._device.image() if options.dump else None
        counters = self._device.run(self._code[function], options.order_seed)
        if options.dump is not None and before is not None:
            self._dump(options.dump, function, before)
        outputs = [
            self._device.read(addresses[buffer.name], buffer.size)
            for buffer in program.of_kind(BufferKind.OUTPUT)
        ]
        return LaunchResult(outputs, counters)

    def time(
        self, function: str, preset: str | TimingPreset | None
    ) -> TimingReport | ClusterReport:
        """Simulate the time of the program at its addresses; the time does not depend on data."""
        program, code = self._programs[function], self._code[function]
        try:
            if isinstance(program, BinaryCluster):
                cluster = program.target
                if preset is not None:
                    cluster = cluster.replace(timing=TimingPreset.of(preset))
                return estimate_cluster(cluster, code, [layers_of(core) for core in program.cores])
            return estimate(program.target, code[0], preset, layers_of(program))
        except SimulationError as error:
            raise CompileError(Problem(f"function {function}", str(error))) from None

    def memory_use(self, function: str, report: TimingReport | ClusterReport) -> MemoryUse | None:
        """What a launch keeps in scratchpads and DRAM over its time; None for a cluster."""
        program = self._programs[function]
        if isinstance(program, BinaryCluster) or isinstance(report, ClusterReport):
            return None
        return memory_use(program, report, self._device.image())

    def flow_bound(self, function: str, report: TimingReport | ClusterReport) -> FlowBound | None:
        """Cycles that no order of a launch's instructions beats; None for a cluster."""
        if isinstance(report, ClusterReport):
            return None
        return flow_bound(report, self._device.image())

    def _dump(self, path: Path, function: str, before: NDArray[np.uint8]) -> None:
        """Write a launch: one ``.npz``; of a cluster a folder with one stream per unit."""
        program, streams, after = (
            self._programs[function],
            self._code[function],
            self._device.image(),
        )
        if isinstance(program, BinaryCluster):
            write_streams(path.with_suffix(""), program.target, streams, before, after)
            return
        core, _ = cores_of(self._device.target)
        config = json.dumps(core.to_replay_config(), sort_keys=True)
        (insns,) = streams
        with whole_file(path) as temporary, temporary.open("wb") as stream:
            np.savez_compressed(
                stream, config=np.array(config), dram_in=before, dram_out=after, insns=insns
            )


class VtaEngine(Engine):
    """Stores, checks and opens programs of codegen ``vta``."""

    def store(
        self, name: str, codegen: str, built: object, resources: Mapping[str, Array]
    ) -> tuple[Function, Mapping[str, bytes]]:
        """Store a program: its words as a file, its constants as blobs."""
        assert isinstance(built, BinaryProgram | BinaryCluster)
        return to_function(built, resources)

    def upgrade(self, function: Function, version: int, where: str) -> Function:
        """Convert a program of format version 1, with one stream and without places of scratch."""
        return upgraded(function, where) if version == 1 else function

    def faults(self, built: object, resources: Mapping[str, Array]) -> Sequence[Problem]:
        """Orders that the machine may choose and that change a result or block it."""
        assert isinstance(built, BinaryProgram | BinaryCluster)
        return hazards_of(built, resources)

    def instructions(self, built: object) -> int:
        """The number of instructions of the program."""
        assert isinstance(built, BinaryProgram | BinaryCluster)
        return built.instructions

    def verify(self, package: Package, function: Function, where: str) -> None:
        """Check that transfers stay in their buffers, and that buffers have the right sizes."""
        program = from_function(function, target_of(package), package.blobs, where)
        if isinstance(program, BinaryCluster):
            found = cluster_faults(program)
        else:
            found = program_faults(program)
        faults = list(found) or list(_size_faults(package, function, program))
        blobs = {b.blob for b in record_of(function, where).buffers if b.blob is not None}
        if blobs != set(function.blobs):
            faults.append("its constants are not those of its buffers")
        if faults:
            place = f"{where}: function {function.name}"
            raise CompileError([Problem(place, what) for what in faults])

    def open(
        self, package: Package, functions: Sequence[Function], device: Device | None
    ) -> VtaSession:
        """Place all programs, on a simulator of the package's target unless there is a device."""
        if device is None:
            device = SimulatorDevice(target_of(package))
        return VtaSession(package, functions, device)


def layers_of(program: BinaryProgram) -> tuple[str, ...] | None:
    """The name of the layer that each instruction belongs to; None if the program has no names."""
    layers = program.names.layers if program.names is not None else ()
    return layers if len(layers) == len(program.insns) and layers else None


def _relocated(
    program: BinaryProgram | BinaryCluster, addresses: Mapping[str, int]
) -> list[NDArray[np.uint64]]:
    """The words of each unit for buffers at these addresses."""
    if isinstance(program, BinaryCluster):
        return program.relocate(addresses)
    return [program.relocate(addresses)]


def target_of(package: Package) -> Machine:
    """The machine that a package's programs are for. Raises `CompileError` if there is none."""
    if package.target is None:
        raise CompileError(Problem("package", "has programs of a VTA, and no target"))
    return package.target


def _size_faults(
    package: Package, function: Function, program: BinaryProgram | BinaryCluster
) -> Iterator[str]:
    """Faults of buffers whose sizes are not those of the int8 arrays that a launch passes."""
    for signature in signatures_of(package, function.name):
        ends = (BufferKind.INPUT, signature.inputs), (BufferKind.OUTPUT, signature.outputs)
        for kind, values in ends:
            buffers = program.of_kind(kind)
            if len(buffers) != len(values):
                yield f"it has {len(buffers)} buffers of kind {kind.value} for {len(values)} values"
                continue
            for buffer, value in zip(buffers, values, strict=True):
                shape = value.physical_shape
                known = shape is not None and None not in shape and value.type == "tensor(int8)"
                if not known or prod(cast(Sequence[int], shape)) != buffer.size:
                    yield f"buffer {buffer.name!r} has not the size of value {value.name!r}"


ENGINE = VtaEngine()
"""The engine that ``engine_named("vta")`` returns."""
