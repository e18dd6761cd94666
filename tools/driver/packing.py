"""A partitioned network in steps, what codegens have made of its parts, and the package of both."""

from collections.abc import Mapping
from dataclasses import dataclass

from vtac.dialects.target import Machine
from vtac.passes.pipeline import Pipeline
from vtac.runtime.package import Function, Package, Quantisation, TuningRecord
from vtac.tools.driver.planner import NetworkSteps
from vtac.tools.driver.trials import ClockTrials
from vtac.tools.reports.report import CompileReport

Built = Mapping[str, tuple[str, object]]
"""What codegens have built: for each function the codegen's name, and the program."""


@dataclass(frozen=True)
class PartitionedSteps:
    """A partitioned network in steps. made: for each function the codegen that compiles it."""

    network: NetworkSteps
    quantisation: tuple[Quantisation, ...]
    made: Mapping[str, str]


@dataclass(frozen=True)
class Lowered:
    """What came of a plan.

    pipeline: from partitioning on. package, built: of the fastest way. trials: of its ways. report:
    of the compilation with this plan. least: cycles below which no program of one core computes
    the network.
    """

    pipeline: Pipeline
    package: Package
    built: Built
    trials: ClockTrials
    report: CompileReport
    least: int

    @property
    def spilled(self) -> int:
        """How many tensors between layers lie in DDR."""
        return self.report.plan.in_ddr


def package_of(
    cut: PartitionedSteps,
    functions: Mapping[str, Function],
    blobs: Mapping[str, bytes],
    target: Machine | None,
    report: CompileReport,
) -> Package:
    """The package of a network. functions: with their blobs. target: None if none depends on it."""
    network = cut.network
    records = (
        TuningRecord(choice.layers, record.name, record.template, record.cycles)
        for choice, record in report.tuned
    )
    return Package(
        target,
        network.inputs,
        network.outputs,
        network.values,
        network.steps,
        network.host_parts,
        functions,
        {**network.blobs, **blobs},
        cut.quantisation,
        report.placements,
        report.ir,
        tuple(records),
    )
