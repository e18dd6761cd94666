"""Runs a compiled model step by step: host parts in onnxruntime, launches on a device.

As in TVM's graph executor, the plan is data, which this module interprets. Sessions, placed
programs and constants are created once and used by all runs.
"""

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX

from vtac.dialects.arguments import (
    ANYTHING,
    FLAG,
    NONE,
    PATH,
    by_name,
    instance,
    takes,
    whole,
)
from vtac.dialects.errors import CompileError, InputError, Problem
from vtac.dialects.target import Machine
from vtac.dialects.wording import counted
from vtac.runtime.casts import cast_fault
from vtac.runtime.crossings import Crossings, crossings_of
from vtac.runtime.device import DEVICE, Device, total
from vtac.runtime.engine import (
    BoundedSession,
    Engine,
    LaunchOptions,
    MeteredSession,
    Session,
    TimedSession,
    tensor_dtype,
)
from vtac.runtime.engines import engine_named
from vtac.runtime.host import HostPart, open_host_part
from vtac.runtime.joining import join_batches
from vtac.runtime.memory import give_back_memory
from vtac.runtime.memory_use import MemoryUse
from vtac.runtime.package import (
    HOST,
    LAUNCH,
    Package,
    Placement,
    Step,
    Value,
    read_package,
    write_package,
)
from vtac.runtime.profile import LaunchProfile, Profile
from vtac.runtime.samples import InputSpec, Samples, as_rows, regrouped
from vtac.sim import Counters, TimingPreset
from vtac.sim.timing.flow_bound import FlowBound

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Launch:
    """One launch of a run: the function, its counters, and the seconds that it took."""

    function: str
    counters: Counters
    seconds: float


@dataclass
class RunRecord:
    """A record of a run: its launches in order, and the seconds that the host parts took."""

    launches: list[Launch] = field(default_factory=list)
    host_seconds: float = 0.0

    @property
    def counters(self) -> Counters:
        """Micro-ops and bytes moved, over all launches."""
        return total(launch.counters for launch in self.launches)


class Module:
    """A compiled model: ``run({name: array}) -> {name: array}``.

    A module has one device memory, so calls of `run` must not overlap. ``report`` is the compiler's
    report (`vtac.tools.reports.report`) if the module was compiled in this process, None if it
    was loaded.
    """

    @takes(
        package=instance("a Package", Package),
        device=DEVICE | NONE,
        engines=by_name(ANYTHING) | NONE,
    )
    def __init__(
        self,
        package: Package,
        device: Device | None = None,
        report: Any = None,
        engines: Mapping[str, Engine] | None = None,
    ) -> None:
        """Create sessions, place programs, write constants. Raises `CompileError`.

        engines: those of codegens from outside vtac, by name.
        """
        self.package = package
        self.report = report
        self.last_run = RunRecord()
        self._values = {value.name: value for value in package.values}
        self._hosts: dict[str, HostPart] = {}
        self._sessions: dict[str, Session] = {}
        self._turns = {HOST: threading.Lock(), LAUNCH: threading.Lock()}
        self._open(device, engines)

    def _open(self, device: Device | None, engines: Mapping[str, Engine] | None) -> None:
        """Open whatever runs the parts of the package."""
        package = self.package
        self._hosts = {
            name: open_host_part(name, data, package.blobs)
            for name, data in package.host_parts.items()
        }
        for codegen in sorted({f.codegen for f in package.functions.values()}):
            functions = [f for f in package.functions.values() if f.codegen == codegen]
            session = engine_named(codegen, "package", engines).open(package, functions, device)
            self._sessions.update((function.name, session) for function in functions)

    @property
    def target(self) -> Machine | None:
        """The machine that the model was compiled for; None if no part depends on a machine."""
        return self.package.target

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The model's inputs: name, type, shape."""
        return tuple(self._values[name] for name in self.package.inputs)

    @property
    def outputs(self) -> tuple[tuple[str, Value], ...]:
        """The name of each output of the model, and the value with its type and shape."""
        return tuple((output.name, self._values[output.value]) for output in self.package.outputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the model's outputs."""
        return tuple(output.name for output in self.package.outputs)

    @property
    def explain(self) -> tuple[Placement, ...]:
        """Where each node runs; for nodes on the host, why they do not run on the accelerator."""
        return self.package.placements

    @property
    def counters(self) -> Counters:
        """The accelerator's counters of the last run."""
        return self.last_run.counters

    @property
    def crossings(self) -> Crossings:
        """Launches, host parts, and the bytes between host and accelerator, of one run."""
        return crossings_of(self.package)

    @takes(path=PATH)
    def save(self, path: str | os.PathLike[str]) -> int:
        """Write the package, whole or not at all; the number of its bytes."""
        return write_package(self.package, path)

    @takes(order_seed=whole(0) | NONE, dump=PATH | NONE, overlap=FLAG)
    def run(
        self,
        feeds: Mapping[str, Any] | Any,
        *,
        order_seed: int | None = None,
        dump: str | os.PathLike[str] | None = None,
        overlap: bool = False,
    ) -> dict[str, Any]:
        """The outputs for inputs, by name.

        feeds: an array (or list, for a sequence) for each input; or the one array or list of a
        model with one input. Numbers become the input's type where that can hold them
        (`vtac.runtime.casts`). NaN and infinity are refused unless the whole model runs on the
        host. An array has the input's shape, or any other number of samples as its first axis:
        then the samples are regrouped into the model's batches as `vtac.runtime.samples` says,
        and the outputs of all batches are joined (`join_batches`).
        order_seed: chooses the order in which the simulated modules take turns; results do not
        depend on it. dump: a folder for one file per launch, ``NNN_NAME.npz``, with config, insns,
        dram_in, dram_out; of a cluster for one folder per launch (`cluster_streams`). overlap:
        whether the host works on the next batch while the accelerator has one, in a second thread;
        results are the same. Raises `InputError` on inputs that do not fit, and `CompileError` on
        parts that fail.
        """
        checked, samples = self._checked(self._by_name(feeds))
        self.last_run = RunRecord()
        folder = None if dump is None else _folder(dump)
        if samples is None:
            return self._run_batch(checked, self.last_run, order_seed, folder)
        if not samples:
            return self._run_on_none(samples)
        if overlap and folder is None:
            results = self._run_overlapped(samples, order_seed)
        else:
            results = [self._run_batch(b, self.last_run, order_seed, folder) for b in samples]
        return join_batches(results, samples.batch_size, samples.sample_count)

    def _run_on_none(self, samples: Samples) -> dict[str, Any]:
        """The outputs for no samples: those of a batch of zeros, without its samples."""
        zeros = {
            name: np.zeros(samples.shape(name), array.dtype)
            for name, array in samples.arrays.items()
        }
        return join_batches(
            [self._run_batch(zeros, RunRecord(), None, None)], samples.batch_size, 0
        )

    def _run_overlapped(
        self, batches: Iterable[Mapping[str, Any]], order_seed: int | None
    ) -> list[dict[str, Any]]:
        """The outputs for each batch, two batches at a time: one on the host, one on the device."""

        def run(batch: Mapping[str, Any]) -> tuple[dict[str, Any], RunRecord]:
            record = RunRecord()
            return self._run_batch(batch, record, order_seed, None), record

        with ThreadPoolExecutor(2) as workers:
            found = list(workers.map(run, batches))
        for _, record in found:
            self.last_run.launches += record.launches
            self.last_run.host_seconds += record.host_seconds
        return [outputs for outputs, _ in found]

    def _run_batch(
        self,
        feeds: Mapping[str, Any],
        record: RunRecord,
        order_seed: int | None,
        folder: Path | None,
    ) -> dict[str, Any]:
        """The outputs for one batch: inputs of the model's types and shapes.

        Steps wait for their turn: the host runs one at a time, and so does the device.
        """
        environment = dict(feeds)
        for index, step in enumerate(self.package.steps):
            inputs = [environment[name] for name in step.inputs]
            with self._turns[step.kind]:
                started = time.perf_counter()
                if step.kind == HOST:
                    outputs = self._hosts[step.part].run(inputs)
                    record.host_seconds += time.perf_counter() - started
                else:
                    number = len(record.launches)
                    file = folder and folder / f"{number:03d}_{step.part}.npz"
                    options = LaunchOptions(order_seed, file)
                    outputs, counters = self._launch(step, inputs, options)
                    seconds = time.perf_counter() - started
                    record.launches.append(Launch(step.part, counters, seconds))
            environment.update(zip(step.outputs, outputs, strict=True))
            for name in {*step.inputs, *step.outputs}:
                if self._values[name].last <= index:
                    del environment[name]
        return {output.name: environment[output.value] for output in self.package.outputs}

    @takes(preset=PATH | instance("a TimingPreset", TimingPreset) | NONE)
    def profile(self, preset: str | TimingPreset | None = None) -> Profile:
        """How long each launch of a run takes on the accelerator, and where its cycles are spent.

        Needs no inputs: times do not depend on data, and host parts are not timed. preset: a
        `TimingPreset`, the name of one or the path of a file; None is that of the target. Raises
        `CompileError` on a program that the preset's machine cannot run, `TargetError` on a bad
        preset.
        """
        reports = {
            name: session.time(name, preset)
            for name, session in self._sessions.items()
            if isinstance(session, TimedSession)
        }
        launches = [step.part for step in self.package.steps if step.kind == LAUNCH]
        return Profile(
            tuple(LaunchProfile(name, reports[name]) for name in launches if name in reports)
        )

    @takes(profile=instance("a Profile", Profile))
    def memory_use(self, profile: Profile) -> tuple[MemoryUse | None, ...]:
        """What each launch of a profile keeps in the accelerator's memories over its time.

        None for launches of codegens that cannot tell.
        """
        found: dict[str, MemoryUse | None] = {}
        for launch in profile.launches:
            session = self._sessions[launch.function]
            if launch.function not in found and isinstance(session, MeteredSession):
                found[launch.function] = session.memory_use(launch.function, launch.timing)
        return tuple(found.get(launch.function) for launch in profile.launches)

    @takes(profile=instance("a Profile", Profile))
    def flow_bounds(self, profile: Profile) -> tuple[FlowBound | None, ...]:
        """For each launch of a profile, cycles that no order of its instructions beats.

        None for launches of codegens that cannot tell, and for those of a cluster.
        """
        found: dict[str, FlowBound | None] = {}
        for launch in profile.launches:
            session = self._sessions[launch.function]
            if launch.function not in found and isinstance(session, BoundedSession):
                found[launch.function] = session.flow_bound(launch.function, launch.timing)
        return tuple(found.get(launch.function) for launch in profile.launches)

    def _launch(
        self, step: Step, inputs: list[Any], options: LaunchOptions
    ) -> tuple[list[Array], Counters]:
        result = self._sessions[step.part].launch(step.part, inputs, options)
        values = [self._values[name] for name in step.outputs]
        pairs = zip(values, result.outputs, strict=True)
        return [_as(value, data) for value, data in pairs], result.counters

    def _by_name(self, feeds: Mapping[str, Any] | Any) -> Mapping[str, Any]:
        if isinstance(feeds, Mapping):
            return feeds
        names = self.package.inputs
        if len(names) != 1:
            known = f"Give them by name: {', '.join(names)}." if names else "Give {}."
            what = f"one unnamed input for a model that has {len(names)}"
            raise InputError(Problem("run", what, known))
        return {names[0]: feeds}

    def __repr__(self) -> str:
        """Inputs, outputs, and where it runs."""
        inputs = ", ".join(f"{value.name}: {describe(value)}" for value in self.inputs)
        outputs = (f"{name}: {describe(value)}" for name, value in self.outputs)
        count = len(self.package.functions)
        where = f"; {counted(count, 'program')} on {self.target}" if count and self.target else ""
        return f"<Module ({inputs}) -> ({', '.join(outputs)}){where}>"

    def _checked(self, feeds: Mapping[str, Any]) -> tuple[dict[str, Any], Samples | None]:
        """The inputs in the model's types; and as batches, if they are not one of its shapes."""
        names = list(self.package.inputs)
        problems = [
            Problem(f"input {name!r}", "the model has no such input", f"It has {', '.join(names)}.")
            for name in feeds
            if name not in names
        ]
        checked: dict[str, Any] = {}
        for value in self.inputs:
            if value.name not in feeds:
                problems.append(Problem(f"input {value.name!r}", f"is missing: {describe(value)}"))
                continue
            checked[value.name], fault = _fit(
                value, feeds[value.name], finite=bool(self.package.functions)
            )
            if fault:
                problems.append(Problem(f"input {value.name!r}", fault))
        if problems:
            raise InputError(problems)
        if all(_has_shape(value, checked[value.name]) for value in self.inputs):
            return checked, None
        specs = {value.name: input_spec(value) for value in self.inputs}
        if unclear := [name for name, spec in specs.items() if spec is None]:
            what = f"has no known number of samples; batches need one of {', '.join(names)}"
            raise InputError([Problem(f"input {name!r}", what) for name in unclear])
        known = [spec for spec in specs.values() if spec is not None]
        rows = {spec.name: as_rows(checked[spec.name], spec) for spec in known}
        try:
            return checked, regrouped(rows, known, "run")
        except CompileError as error:
            raise InputError(error.problems) from None


def input_spec(value: Value) -> InputSpec | None:
    """An input for which samples can be given: a tensor of numbers of known rank; else None."""
    dtype = tensor_dtype(value)
    if dtype is None or value.shape is None:
        return None
    shape = tuple(DYNAMIC_INDEX if extent is None else extent for extent in value.shape)
    return InputSpec(value.name, shape, dtype)


def describe(value: Value) -> str:
    """Type and shape of a value, for messages."""
    if value.shape is None:
        return value.type
    extents = ", ".join("?" if extent is None else str(extent) for extent in value.shape)
    return f"{value.type}[{extents}]"


def _as(value: Value, data: Array) -> Array:
    """An output of an engine, an array or bytes, as an array of the value's type and shape."""
    dtype, shape = tensor_dtype(value), value.physical_shape
    array = data if dtype is None else np.ascontiguousarray(data).reshape(-1).view(dtype)
    known = shape is not None and None not in shape
    return array.reshape(cast(Sequence[int], shape) if known else data.shape)


def _fit(value: Value, given: Any, *, finite: bool) -> tuple[Any, str]:
    """The given input, as an array if the value is a tensor, and the problems with it.

    finite: whether NaN and infinity are refused; the accelerator's integers cannot express them.
    """
    if not value.type.startswith("tensor("):
        return given, ""
    try:
        array = np.asarray(given)
    except ValueError:
        return given, f"is a list of parts of several shapes, the model takes {describe(value)}"
    if finite and array.dtype.kind == "f" and (count := int((~np.isfinite(array)).sum())):
        return array, f"holds {count} values that are not finite numbers"
    dtype = tensor_dtype(value)
    if dtype is not None:
        if fault := cast_fault(array, dtype):
            return array, f"{fault}, the model takes {describe(value)}"
        array = array.astype(dtype, copy=False)
    if dtype is None and array.dtype.kind not in "OUS":
        return array, f"is of {array.dtype}, the model takes strings"
    if not (_has_shape(value, array) or _holds_samples(value, array)):
        return array, f"has shape {list(array.shape)}, the model takes {describe(value)}"
    return array, ""


def _has_shape(value: Value, given: Any) -> bool:
    """Whether an input is of the shape that the model takes."""
    if value.shape is None or not isinstance(given, np.ndarray):
        return True
    return len(value.shape) == given.ndim and all(
        a in (None, b) for a, b in zip(value.shape, given.shape, strict=True)
    )


def _holds_samples(value: Value, array: Array) -> bool:
    """Whether an array consists of samples of an input, of which batches can be made."""
    spec = input_spec(value)
    if spec is None or not spec.shape:
        return False
    try:
        as_rows(array, spec)
    except CompileError:
        return False
    return True


def _folder(path: str | os.PathLike[str]) -> Path:
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CompileError(Problem(str(path), f"cannot make it: {error.strerror}")) from None
    return folder


@takes(path=PATH, device=DEVICE | NONE, engines=by_name(ANYTHING) | NONE, allow_native=FLAG)
def load(
    path: str | os.PathLike[str],
    device: Device | None = None,
    *,
    engines: Mapping[str, Engine] | None = None,
    allow_native: bool = False,
) -> Module:
    """A module from a package's file. Raises `CompileError`.

    device: where to run; by default the simulator of the package's target. engines: those of
    codegens from outside vtac, by name. allow_native: whether code for this machine in the package
    (codegen ``c``) may run. Nothing can check such code, so allow it only for packages that you
    trust.
    """
    package = read_package(path, engines=engines, allow_native=allow_native)
    give_back_memory()
    return Module(package, device, engines=engines)
