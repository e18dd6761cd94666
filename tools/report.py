"""What the compiler did, for people: levels with op counts, seconds, notes."""

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
    """The module at one level: how many ops of each kind."""

    name: str
    ops: Counter[str]

    @property
    def total(self) -> int:
        """All of them."""
        return self.ops.total()


def count_ops(name: str, module: ModuleOp) -> LevelOps:
    """The ops of a module by name."""
    ops, regions = Counter[str](), list(module.regions)
    for region in regions:  # and those found on the way; `walk` is slow on long programs
        for block in region.blocks:
            for op in block.ops:
                ops[op.name] += 1
                regions += op.regions
    return LevelOps(name, ops)


@dataclass(frozen=True)
class Choice:
    """What a pass chose by cost for a stage of a kernel, and the layers that call it."""

    layers: tuple[str, ...]
    stage: str
    chosen: str


def choices_of(module: ModuleOp) -> tuple[Choice, ...]:
    """What is written on the kernels of a module (`te.choices`), and on their schedules."""
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
            found.append(Choice(callers, "schedule", "\n".join(text)))
    return tuple(found)


@dataclass
class CompileReport:
    """What happened on the way.

    seconds: by pass or step, in order; notes, warnings: what a user should know; ir: the text of
    the levels that were asked for; instructions: of each program; choices: what was chosen by cost;
    layer_errors: of each layer, worst first, if they were measured;
    partition: the regions, and why the rest stayed on the host.
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
        """From the model to the package."""
        return sum(self.seconds.values())

    def spend(self, step: str, seconds: float) -> None:
        """Add time to a step."""
        self.seconds[step] = self.seconds.get(step, 0.0) + seconds
