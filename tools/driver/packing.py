"""A partitioned network in steps, what codegens have made of its parts, and the package of both."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vtac.dialects.errors import Problem
from vtac.dialects.target import Machine
from vtac.passes.pipeline import Pipeline
from vtac.passes.side_by_side import begun_beside
from vtac.runtime.engine import Array, Engine
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


MANY_INSTRUCTIONS = 2000
"""From so many on, looking for faults takes longer than the start of a process."""


def faults_sought(
    built: Built, engine: Callable[[str, str], Engine], resources: Mapping[str, Array]
) -> Callable[[], list[Problem]]:
    """Let engines look for faults in what codegens have built; the function that returns them.

    It is to be called once. If there are many instructions, another process looks meanwhile.

    engine: of a codegen, for one of its functions. resources: see `Engine.faults`.
    """
    programs = [(engine(codegen, name), op) for name, (codegen, op) in built.items()]

    def faults() -> list[Problem]:
        return [found for own, op in programs for found in own.faults(op, resources)]

    instructions = sum(own.instructions(op) for own, op in programs)
    return begun_beside(faults) if instructions >= MANY_INSTRUCTIONS else faults


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
