"""The number of samples per launch at which a machine computes most samples per second.

A larger batch fills cores better and reads weights less often, until its tensors no longer fit the
global buffer of a cluster and go to DDR (Zhao et al., "GraphTurbo", OSDI 2023, table 1). Where that
happens, the clock says: the network is compiled for 1, 2, 4, ... samples until a doubling no longer
helps, then for the number between the best and each of its neighbours.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

from rich.table import Table

from vtac.dialects.arguments import MODEL, NONE, SAMPLES, several, takes, whole
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import MACHINE, Machine, machine_of
from vtac.lowering.onnx_to_graph import ModelSource
from vtac.runtime.executor import Module
from vtac.runtime.profile import Profile
from vtac.runtime.samples import Source
from vtac.sim.cluster import ClusterReport
from vtac.tools.driver.compiler import Driver
from vtac.tools.driver.options import (
    OPTIONS,
    CompileKeywords,
    CompileOptions,
    both_given,
    options_from,
)
from vtac.tools.reports.plan_summary import PlanSummary

MOST = 32
"""The largest batch that is tried unless batches are named."""


@dataclass(frozen=True)
class BatchTrial:
    """A batch on the clock.

    cycles: of one run, all its launches. samples_per_second: at the clock of the machine; time on
    the host is not counted. ddr_bytes: to and from DDR in one run, at all units. plan: where the
    tensors of a cluster's plan lie. seconds: the time of the compilation.
    """

    batch: int
    cycles: int
    samples_per_second: float
    ddr_bytes: int
    plan: PlanSummary
    seconds: float

    @property
    def cycles_per_sample(self) -> float:
        """Cycles of a run, divided by its samples."""
        return self.cycles / self.batch


@dataclass(frozen=True)
class Throughput:
    """The batches that were tried, in rising order, and the module compiled for the best one."""

    trials: tuple[BatchTrial, ...]
    module: Module

    @property
    def best(self) -> BatchTrial:
        """The batch of the module."""
        return best_of(self.trials)

    def table(self) -> Table:
        """A row for each batch, the best one marked."""
        table = Table(title="samples per launch", title_justify="left")
        headings = ("batch", "cycles", "cycles a sample", "samples/s", "DDR MB a sample")
        for heading in (*headings, "tensors in GB", "in DDR", "compile s"):
            table.add_column(heading, justify="right")
        for trial in self.trials:
            table.add_row(*cells_of(trial), style="bold" if trial is self.best else None)
        return table


def cells_of(trial: BatchTrial) -> tuple[str, ...]:
    """A trial as the cells of `Throughput.table`."""
    return (
        str(trial.batch),
        f"{trial.cycles:,}",
        f"{trial.cycles_per_sample:,.0f}",
        f"{trial.samples_per_second:,.1f}",
        f"{trial.ddr_bytes / trial.batch / 1e6:.2f}",
        str(trial.plan.in_buffer),
        str(trial.plan.in_ddr),
        f"{trial.seconds:.1f}",
    )


def best_of(trials: Iterable[BatchTrial]) -> BatchTrial:
    """The trial with the fewest cycles per sample; of equal ones that with the smallest batch."""
    return min(trials, key=lambda trial: (trial.cycles_per_sample, trial.batch))


@takes(
    model=MODEL,
    target=MACHINE,
    calibration=SAMPLES | NONE,
    batches=several(whole(1), 1) | NONE,
    options=OPTIONS | NONE,
)
def compile_for_throughput(
    model: ModelSource,
    target: str | os.PathLike[str] | Machine = "cluster-8",
    calibration: Source | None = None,
    batches: Sequence[int] | None = None,
    options: CompileOptions | None = None,
    **keywords: Unpack[CompileKeywords],
) -> Throughput:
    """Compile a model for the number of samples per launch that gives most samples per second.

    batches: the numbers to try; by default they are found, up to `MOST`. The other arguments are
    those of `vtac.compile`, without the option ``batch``. Raises `CompileError` as that does, and
    where nothing of the model runs on the accelerator, since then there is nothing to time.
    """
    if options is not None and keywords:
        raise both_given()
    given = options or options_from(**keywords)
    if given.batch is not None:
        raise CompileError(Problem("option batch", "is what the search for throughput chooses"))
    search = _Search(model, machine_of(target), calibration, given)
    if batches is not None:
        for batch in sorted(set(batches)):
            search.at(batch)
    else:
        search.climb()
    trials = tuple(search.trials[batch] for batch in sorted(search.trials))
    assert search.best is not None, "at least one batch is tried"
    return Throughput(trials, search.best)


class _Search:
    """The trials so far, and the module of the best one."""

    def __init__(
        self, model: ModelSource, target: Machine, calibration: Source | None, given: CompileOptions
    ) -> None:
        self._model, self._target, self._calibration = model, target, calibration
        self._options = given
        self.trials: dict[int, BatchTrial] = {}
        self.best: Module | None = None

    def climb(self) -> None:
        """Double the batch while that helps, then try between the best one and its neighbours."""
        batch = 1
        while batch <= MOST and (batch == 1 or self._gains(batch // 2)):
            self.at(batch)
            batch *= 2
        best = best_of(self.trials.values()).batch
        for between in (best * 3 // 4, best * 3 // 2):
            if 1 < between <= MOST and between not in self.trials and best > 1:
                self.at(between)

    def _gains(self, batch: int) -> bool:
        """Whether this batch is better than all smaller ones."""
        return best_of(self.trials.values()).batch == batch

    def at(self, batch: int) -> None:
        """Compile for a batch and time it; keep the module if it is the best so far."""
        driver = Driver(self._target, replace(self._options, batch=batch))
        try:
            module = driver.finish(driver.prepare(self._model, self._calibration))
        finally:
            driver.close()
        if not module.package.functions or module.target is None:
            what = "nothing of the model runs on the accelerator, so there is nothing to time"
            raise CompileError(Problem("throughput", what, "vta-compile --explain says why."))
        profile = module.profile()
        trial = BatchTrial(
            batch,
            profile.cycles,
            batch / profile.seconds,
            ddr_bytes_of(profile),
            driver.report.plan,
            driver.report.total_seconds,
        )
        self.trials[batch] = trial
        if best_of(self.trials.values()) is trial:
            self.best = module


def ddr_bytes_of(profile: Profile) -> int:
    """Bytes that the launches of a profile move to and from DDR, instructions included."""
    reports = [launch.timing for launch in profile.launches]
    return sum(
        report.total_ddr_bytes
        if isinstance(report, ClusterReport)
        else sum(report.total.nbytes.values())
        for report in reports
    )
