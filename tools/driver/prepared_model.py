"""A network that is prepared once and compiled for any number of machines."""

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ModuleOp

from vtac.dialects.target import TARGET_ATTRIBUTE, Machine, Target, machine_of
from vtac.dialects.target.field_reads import FieldReads, watched
from vtac.lowering.onnx_to_graph import ModelSource
from vtac.runtime.executor import Module
from vtac.runtime.samples import Source
from vtac.tools.driver.compiler import Driver, PreparedNetwork
from vtac.tools.driver.observations import Observed
from vtac.tools.driver.options import ChangePipeline, CompileOptions

KEPT = 16
"""Quantised networks that are kept at most; the one made first goes first."""


@dataclass(frozen=True)
class _State:
    """A network between two levels, with the driver that has brought it there."""

    driver: Driver
    prepared: PreparedNetwork

    def quantised_for(self, target: Machine, pipeline: ChangePipeline | None = None) -> "_State":
        """A copy of a calibrated network, taken further to partitioning. Raises `CompileError`."""
        with self._copied_for(target) as copy:
            rest = copy.prepared.rest if pipeline is None else pipeline(copy.prepared.rest)
            return _State(copy.driver, copy.driver.quantise(replace(copy.prepared, rest=rest)))

    def finished_for(self, target: Machine) -> Module:
        """A copy of a quantised network, compiled for a machine. Raises `CompileError`."""
        with self._copied_for(target) as copy:
            return copy.driver.lower(copy.prepared)

    @contextmanager
    def _copied_for(self, target: Machine) -> Iterator["_State"]:
        ours, prepared = self.driver, self.prepared
        driver = Driver(target, ours.options)
        schedules = driver.ctx.schedules
        driver.ctx = ours.ctx.clone()
        driver.ctx.schedules = schedules
        driver.report = deepcopy(ours.report)
        module = prepared.module.clone()
        module.attributes[TARGET_ATTRIBUTE] = target
        if isinstance(ours.ctx.observations, Observed):
            driver.ctx.observations = ours.ctx.observations.of_copy(module, driver.ctx)
        try:
            yield _State(driver, replace(prepared, module=module))
        finally:
            driver.close()


class PreparedModel:
    """A network on its way to a package, as far as it does not depend on the machine.

    It is imported, in its normal form and, where there are samples, calibrated: no pass before the
    level ``calibrated`` reads the target. The passes from there to partitioning read few fields of
    it. So what they make is kept with the values of these fields, and used again for machines that
    have the same values.
    """

    def __init__(
        self,
        model: ModelSource,
        target: str | os.PathLike[str] | Machine,
        calibration: Source | None = None,
        options: CompileOptions | None = None,
    ) -> None:
        """The arguments are those of `vtac.compile`, whose errors are raised, too."""
        driver = Driver(machine_of(target), options or CompileOptions())
        try:
            self._calibrated = _State(driver, driver.prepare(model, calibration))
        finally:
            driver.close()
        self._quantised: deque[tuple[FieldReads, _State]] = deque(maxlen=KEPT)

    def compile(self, target: Machine, pipeline: ChangePipeline | None = None) -> Module:
        """Compile a copy of the network for a machine. Raises `CompileError`.

        pipeline: as the option of that name, but it gets what is left of the pipeline.
        ``module.report`` has the warnings; they are not issued. It counts the time of shared passes
        for each machine.
        """
        if pipeline is None and isinstance(target, Target):
            return self._shared(target).finished_for(target)
        return self._calibrated.quantised_for(target, pipeline).finished_for(target)

    def _shared(self, target: Target) -> _State:
        """The network before partitioning, as passes make it for a machine."""
        for reads, state in self._quantised:
            if reads.hold_for(target):
                return state
        copy, reads = watched(target)
        found = self._calibrated.quantised_for(copy)
        if self._is_shared and not _names_machine(found.prepared.module):
            self._quantised.append((reads, found))
        return found

    @property
    def _is_shared(self) -> bool:
        """Whether nobody looks at the levels of a single machine."""
        options = self._calibrated.driver.options
        return options.observe is None and options.save_ir is None and not options.keep_ir


def _names_machine(module: ModuleOp) -> bool:
    """Whether the machine has got into the IR at another place than the attribute of the module."""
    return any(
        isinstance(attribute, Target)
        for op in module.walk()
        if op is not module
        for attribute in (*op.attributes.values(), *op.properties.values())
    )
