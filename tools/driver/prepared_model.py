"""A network that is prepared once and compiled for any number of machines."""

import os
from copy import deepcopy

from vtac.dialects.target import TARGET_ATTRIBUTE, Machine, machine_of
from vtac.lowering.onnx_to_graph import ModelSource
from vtac.runtime.executor import Module
from vtac.runtime.samples import Source
from vtac.tools.driver.compiler import Driver, Prepared
from vtac.tools.driver.observations import Observed
from vtac.tools.driver.options import ChangePipeline, CompileOptions


class PreparedModel:
    """A network on its way to a package, as far as it does not depend on the machine.

    It is imported, in its normal form and, where there are samples, calibrated. No pass before the
    level ``calibrated`` reads the target.
    """

    def __init__(
        self,
        model: ModelSource,
        target: str | os.PathLike[str] | Machine,
        calibration: Source | None = None,
        options: CompileOptions | None = None,
    ) -> None:
        """The arguments are those of `vtac.compile`, whose errors are raised, too."""
        self._driver = Driver(machine_of(target), options or CompileOptions())
        try:
            self._prepared = self._driver.prepare(model, calibration)
        finally:
            self._driver.close()

    def compile(self, target: Machine, pipeline: ChangePipeline | None = None) -> Module:
        """Compile a copy of the network for a machine. Raises `CompileError`.

        pipeline: as the option of that name, but it gets what is left of the pipeline.
        ``module.report`` has the warnings; they are not issued.
        """
        ours, prepared = self._driver, self._prepared
        driver = Driver(target, ours.options)
        schedules = driver.ctx.schedules
        driver.ctx = ours.ctx.clone()
        driver.ctx.schedules = schedules
        driver.report = deepcopy(ours.report)
        module = prepared.module.clone()
        module.attributes[TARGET_ATTRIBUTE] = target
        if isinstance(ours.ctx.observations, Observed):
            driver.ctx.observations = ours.ctx.observations.of_copy(module, driver.ctx)
        rest = prepared.rest if pipeline is None else pipeline(prepared.rest)
        try:
            return driver.finish(Prepared(module, prepared.nodes, rest, prepared.has_samples))
        finally:
            driver.close()
