"""Engines: the run halves of codegens, which store, check and run what the compile halves build.

The engine of codegen NAME is ``runtime/engines/NAME.py``, or an object that the caller passes along
with a package (BYOC, section 3.4). An engine that runs functions one by one on plain arrays derives
from `FunctionEngine` and has little to implement. The engine of ``vta`` places programs in the
memory of a device.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import onnx

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.payload import Payload
from vtac.runtime.device import Device
from vtac.runtime.memory_use import MemoryUse
from vtac.runtime.package.contents import LAUNCH, Function, Package, Value, blob_digest
from vtac.runtime.package.records import from_json, to_json
from vtac.sim import Counters, TimingPreset, TimingReport
from vtac.sim.cluster import ClusterReport
from vtac.sim.timing.flow_bound import FlowBound

_DTYPES = {dtype.str: dtype for dtype in map(np.dtype, "?bhilqBHILQefd")}
"""The dtypes of arrays in a payload; NumPy's reader of dtype names would accept many more."""

Array = np.ndarray[Any, np.dtype[Any]]
Run = Callable[[Sequence[Array]], Sequence[Array]]


@dataclass(frozen=True)
class LaunchOptions:
    """Options of a launch: the seed of `Device.run`; the file of `Module.run` to write, or None."""

    order_seed: int | None = None
    dump: Path | None = None


@dataclass(frozen=True)
class LaunchResult:
    """The results of a launch: each output as an array or as bytes; the accelerator's counters."""

    outputs: Sequence[Array]
    counters: Counters = field(default_factory=Counters)


class Session(Protocol):
    """The functions of one package, ready to run, with their constants in place."""

    def launch(
        self, function: str, inputs: Sequence[Array], options: LaunchOptions
    ) -> LaunchResult:
        """Run a function on arrays in their physical layout."""
        ...


@runtime_checkable
class TimedSession(Protocol):
    """A session that can tell how long its functions take on the machine."""

    def time(
        self, function: str, preset: str | TimingPreset | None
    ) -> TimingReport | ClusterReport:
        """The clock's report of a launch, with the layers of the network as labels.

        preset: as in `vtac.sim.estimate`. Raises `CompileError` on a program that the preset's
        machine cannot run.
        """
        ...


@runtime_checkable
class MeteredSession(Protocol):
    """A session that can tell what its launches keep in the memories of the machine."""

    def memory_use(self, function: str, report: TimingReport | ClusterReport) -> MemoryUse | None:
        """The memories over the time of a launch, None where it cannot tell, as of a cluster.

        report: what `TimedSession.time` returned.
        """
        ...


@runtime_checkable
class BoundedSession(Protocol):
    """A session that can tell how fast its launches could be at most."""

    def flow_bound(self, function: str, report: TimingReport | ClusterReport) -> FlowBound | None:
        """Cycles below which no order of a launch's instructions lies, None for a cluster.

        report: what `TimedSession.time` returned.
        """
        ...


class Engine(ABC):
    """The run half of a codegen.

    runs_native_code: whether it executes code for this machine from the package. Nothing can check
    such code, so the package opens only for callers who say that they trust it.
    """

    runs_native_code: ClassVar[bool] = False

    @abstractmethod
    def store(
        self, name: str, codegen: str, built: object, resources: Mapping[str, Array]
    ) -> tuple[Function, Mapping[str, bytes]]:
        """What a package stores of function ``name`` as built by a codegen, and its constants.

        resources: the arrays of large constants by name. Raises `CompileError` if it is unsound.
        """

    def upgrade(self, function: Function, version: int, where: str) -> Function:
        """A function of a package of an older format ``version``, as this version stores it.

        Raises `CompileError` if it cannot be read. For most codegens, nothing differs between
        versions.
        """
        return function

    def faults(self, built: object, resources: Mapping[str, Array]) -> Sequence[Problem]:
        """What is wrong with what a codegen built, if the engine can tell; compilation then fails.

        resources: as for `store`.
        """
        return ()

    def instructions(self, built: object) -> int:
        """How many instructions of an accelerator it has; 0 if it is made of none."""
        return 0

    @abstractmethod
    def verify(self, package: Package, function: Function, where: str) -> None:
        """Raise `CompileError` unless the function's metadata and files are sound."""

    @abstractmethod
    def open(
        self, package: Package, functions: Sequence[Function], device: Device | None
    ) -> Session:
        """Make functions ready to run. device: the one that the user has chosen, if any."""


@dataclass(frozen=True)
class Signature:
    """The tensors that a function takes and returns."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]


@dataclass(frozen=True)
class _ConstantRecord:
    blob: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class _PayloadRecord:
    """The metadata of a function that is a `Payload`."""

    constants: tuple[_ConstantRecord, ...]
    metadata: Mapping[str, Any]


class FunctionEngine(Engine):
    """An engine that runs each function for itself, on arrays of the host."""

    @abstractmethod
    def load(self, payload: Payload, signature: Signature, where: str) -> Run:
        """The function in a payload. Raises `CompileError` if there is none.

        Loading must be safe for payloads from untrusted sources, unless the engine declares
        ``runs_native_code``.
        """

    def check(self, payload: Payload, signature: Signature, where: str) -> None:
        """Raise `CompileError` unless the payload of a package that was read is sound."""
        self.load(payload, signature, where)

    def store(
        self, name: str, codegen: str, built: object, resources: Mapping[str, Array]
    ) -> tuple[Function, Mapping[str, bytes]]:
        """Store a payload: its constants become blobs."""
        if not isinstance(built, Payload):
            raise TypeError(f"codegen {codegen!r} must build a Payload, not {type(built).__name__}")
        records, blobs = [], {}
        for array in built.constants:
            data = np.ascontiguousarray(array).tobytes()
            digest = blob_digest(data)
            blobs[digest] = data
            records.append(_ConstantRecord(digest, array.dtype.str, array.shape))
        metadata = to_json(_PayloadRecord(tuple(records), built.metadata))
        return Function(name, codegen, metadata, built.files, tuple(sorted(blobs))), blobs

    def verify(self, package: Package, function: Function, where: str) -> None:
        """Check types and sizes of the constants, and let the engine check the rest."""
        place = f"{where}: function {function.name}"
        payload = _payload_of(package, function, place)
        for signature in signatures_of(package, function.name):
            self.check(payload, signature, place)

    def open(
        self, package: Package, functions: Sequence[Function], device: Device | None
    ) -> "FunctionSession":
        """Load every function; the device is not used."""
        runs = {}
        for function in functions:
            place = f"function {function.name}"
            payload = _payload_of(package, function, place)
            runs[function.name] = self.load(
                payload, signatures_of(package, function.name)[0], place
            )
        return FunctionSession(runs)


@dataclass(frozen=True)
class FunctionSession:
    """Functions that are ready to run, by name."""

    runs: Mapping[str, Run]

    def launch(
        self, function: str, inputs: Sequence[Array], options: LaunchOptions
    ) -> LaunchResult:
        """Run a function on arrays."""
        return LaunchResult(self.runs[function](inputs))


def signatures_of(package: Package, function: str) -> list[Signature]:
    """The signature of each launch of a function in the plan of a package."""
    return [
        Signature(
            tuple(package.value(name) for name in step.inputs),
            tuple(package.value(name) for name in step.outputs),
        )
        for step in package.steps
        if step.kind == LAUNCH and step.part == function
    ]


def tensor_dtype(value: Value) -> np.dtype[Any] | None:
    """The NumPy dtype of a tensor's arrays; None for other values and for strings."""
    name = value.type.removeprefix("tensor(").removesuffix(")").upper()
    if not value.type.startswith("tensor(") or name == "STRING":
        return None
    return onnx.helper.tensor_dtype_to_np_dtype(onnx.TensorProto.DataType.Value(name))


def _payload_of(package: Package, function: Function, place: str) -> Payload:
    record = from_json(_PayloadRecord, function.metadata, place)
    if {constant.blob for constant in record.constants} != set(function.blobs):
        raise CompileError(Problem(place, "its constants are not those that it names"))
    constants = [_constant(c, package.blobs.get(c.blob, b""), place) for c in record.constants]
    return Payload(record.metadata, function.files, constants)


def _constant(record: _ConstantRecord, data: bytes, place: str) -> Array:
    dtype = _DTYPES.get(record.dtype)
    size = None if dtype is None else prod(record.shape) * dtype.itemsize
    if size != len(data) or min(record.shape, default=0) < 0:
        what = f"constant {record.blob[:16]} is no {record.dtype}{list(record.shape)}"
        raise CompileError(Problem(place, what))
    return np.frombuffer(data, dtype).reshape(record.shape)
