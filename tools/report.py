"""The report of a compilation: levels with op counts, seconds, notes, warnings, choices."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import chain

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, NameLoc, StringAttr
from xdsl.dialects.func import FuncOp

from vtac.dialects.te import CallOp, KernelOp, ScheduleOp
from vtac.passes.te.epilogue_costs import CHOICES
from vtac.passes.te.schedule.describe import CHOICE, ESTIMATE
from vtac.runtime.package import Placement
from vtac.tools.layer_errors import LayerError
from vtac.tools.partition_report import PartitionReport


@dataclass(frozen=True)
class LevelOps:
    """The number of ops of each kind in a module at one level."""

    name: str
    ops: Counter[str]

    @property
    def total(self) -> int:
        """The number of all ops."""
        return self.ops.total()


def count_ops(name: str, module: ModuleOp) -> LevelOps:
    """The ops of a module by name."""
    ops, regions = Counter[str](), list(module.regions)
    for region in regions:  # grows below; `walk` is slow on long programs
        for block in region.blocks:
            for op in block.ops:
                ops[op.name] += 1
                regions += op.regions
    return LevelOps(name, ops)


@dataclass(frozen=True)
class Choice:
    """What a pass chose by cost for a stage of a kernel, and the layers that call the kernel.

    cycles: those that a call is expected to take, if the choice is a schedule.
    """

    layers: tuple[str, ...]
    stage: str
    chosen: str
    cycles: int | None = None


def choices_of(module: ModuleOp) -> tuple[Choice, ...]:
    """The choices that passes recorded on kernels (``te.choices``) and on schedules."""
    kernels = [op for op in module.ops if isinstance(op, KernelOp) and CHOICES in op.attributes]
    schedules = [op for op in module.ops if isinstance(op, ScheduleOp) and CHOICE in op.attributes]
    layers: dict[str, list[str]] = {}
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    for call in chain.from_iterable(f.walk() for f in functions) if kernels or schedules else ():
        if isinstance(call, CallOp):
            name = call.location.desc.data if isinstance(call.location, NameLoc) else ""
            layers.setdefault(call.callee.root_reference.data, []).append(name)
    found = []
    for kernel in kernels:
        lines = kernel.attributes[CHOICES]
        if isinstance(lines, ArrayAttr):
            callers = tuple(filter(None, layers.get(kernel.sym_name.data, ())))
            for line in lines:
                assert isinstance(line, StringAttr)
                stage, _, chosen = line.data.partition(": ")
                found.append(Choice(callers, stage, chosen))
    for schedule in schedules:
        lines, cycles = schedule.attributes[CHOICE], schedule.attributes.get(ESTIMATE)
        if isinstance(lines, ArrayAttr) and isinstance(cycles, IntegerAttr):
            callers = tuple(filter(None, layers.get(schedule.kernel.root_reference.data, ())))
            text = [f"{cycles.value.data:,} cycles expected", *(line.data for line in lines)]
            found.append(Choice(callers, "schedule", "\n".join(text), cycles.value.data))
    return tuple(found)


@dataclass
class CompileReport:
    """What the compiler did.

    levels: op counts of each level. seconds: time of each pass or step, in order. notes, warnings:
    what a user should know. placements: where each node runs. ir: the text of the levels that were
    asked for. instructions: the number in each program. choices: what passes chose by cost.
    layer_errors: the error of each layer, worst first, if measured. partition: the regions, and why
    other ops stay on the host.
    """

    levels: list[LevelOps] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    placements: tuple[Placement, ...] = ()
    ir: dict[str, str] = field(default_factory=dict)
    instructions: dict[str, int] = field(default_factory=dict)
    choices: tuple[Choice, ...] = ()
    layer_errors: tuple[LayerError, ...] = ()
    partition: PartitionReport = field(default_factory=PartitionReport)

    @property
    def total_seconds(self) -> float:
        """The time from the model to the package."""
        return sum(self.seconds.values())

    def spend(self, step: str, seconds: float) -> None:
        """Add time to a step."""
        self.seconds[step] = self.seconds.get(step, 0.0) + seconds
