"""The report of a compilation: levels with op counts, seconds, notes, warnings, choices."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
)
from xdsl.dialects.func import FuncOp

from vtac.dialects.locations import layer_of
from vtac.dialects.te import CallOp, KernelOp, ScheduleOp
from vtac.passes.graph.cluster.graph_bind_cores import UNCUT
from vtac.passes.te.accelerated import accelerated_functions
from vtac.passes.te.cut_calls import BOUND_WHOLE, UNCUT_ATTRIBUTE
from vtac.passes.te.epilogue_costs import CHOICES
from vtac.passes.te.schedule.describe import CHOICE, ESTIMATE
from vtac.passes.te.templates.recorded import RECORD
from vtac.runtime.package import Placement
from vtac.tools.reports.clock_choice import ClockChoice
from vtac.tools.reports.layer_errors import LayerError
from vtac.tools.reports.partition_report import PartitionReport
from vtac.tools.reports.plan_summary import PlanSummary


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

    cycles: those that a call is expected to take, if the choice is a schedule. record: what a
    schedule comes from if there was a record for its kernel.
    """

    layers: tuple[str, ...]
    stage: str
    chosen: str
    cycles: int | None = None
    record: "RecordChoice | None" = None


@dataclass(frozen=True)
class RecordChoice:
    """A record of tuning that there was for a kernel.

    name, source: of the record and of its file. template: with its version. cycles: of the kernel
    alone, as the record has it; default: those of the default schedule then. refused: why the
    default schedule was taken nevertheless; empty if the record was used.
    """

    name: str
    source: str
    template: str
    cycles: int
    default: int | None
    refused: str

    @property
    def gain(self) -> float | None:
        """How many times fewer cycles than by default."""
        return None if self.default is None else self.default / self.cycles

    def __str__(self) -> str:
        record = f"record {self.name} of {self.source}"
        if self.refused:
            return f"default, not {record}: {self.refused}"
        gain = "" if self.gain is None else f", {self.gain:.4f} times fewer than the default"
        return f"tuned: {record}, {self.cycles:,} cycles{gain}"


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
            record = _record_of(schedule)
            text += [] if record is None else [str(record)]
            chosen = "\n".join(text)
            found.append(Choice(callers, "schedule", chosen, cycles.value.data, record))
    return tuple(found)


def uncut_layers(module: ModuleOp) -> dict[str, str]:
    """For each layer of a cluster that is not cut into parts, the reason.

    It is that of ``graph-bind-cores``, or of ``te-cut-calls`` where that pass cannot do what a
    binding asks for.
    """
    found: dict[str, str] = {}
    for function in accelerated_functions(module):
        for op in function.walk():
            why = op.attributes.get(UNCUT, op.attributes.get(UNCUT_ATTRIBUTE))
            if isinstance(why, StringAttr) and why.data != BOUND_WHOLE:
                found[layer_of(op) or op.name] = why.data
    return found


def _record_of(schedule: ScheduleOp) -> RecordChoice | None:
    """What a schedule says of a record for its kernel."""
    entries = schedule.attributes.get(RECORD)
    if not isinstance(entries, DictionaryAttr):
        return None

    def text(name: str) -> str:
        value = entries.data.get(name)
        return value.data if isinstance(value, StringAttr) else ""

    def number(name: str) -> int | None:
        value = entries.data.get(name)
        return value.value.data if isinstance(value, IntegerAttr) else None

    return RecordChoice(
        text("name"),
        text("source"),
        text("template"),
        number("cycles") or 0,
        number("default"),
        text("refused"),
    )


@dataclass
class CompileReport:
    """What the compiler did.

    levels: op counts of each level. seconds: time of each pass or step, in order. notes, warnings:
    what a user should know. placements: where each node runs. ir: the text of the levels that were
    asked for. instructions: the number in each program. choices: what passes chose by cost.
    layer_errors: the error of each layer, worst first, if measured. partition: the regions, and why
    other ops stay on the host. uncut: for each layer that one core of a cluster computes alone, why
    it is not cut into parts. plan: where the tensors between the layers of a cluster lie. tried:
    what the clock tried on a cluster.
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
    uncut: dict[str, str] = field(default_factory=dict)
    plan: PlanSummary = field(default_factory=PlanSummary)
    tried: tuple[ClockChoice, ...] = ()

    @property
    def schedules(self) -> tuple[Choice, ...]:
        """The choices that are schedules: one for each kernel."""
        return tuple(choice for choice in self.choices if choice.cycles is not None)

    @property
    def tuned(self) -> tuple[tuple[Choice, RecordChoice], ...]:
        """The schedules that come from records, with them."""
        found = ((choice, choice.record) for choice in self.schedules)
        return tuple((c, record) for c, record in found if record and not record.refused)

    @property
    def total_seconds(self) -> float:
        """The time from the model to the package."""
        return sum(self.seconds.values())

    def note_records(self, notes: Sequence[str]) -> None:
        """Note which records of tuning could not be used. notes: about the files of records."""
        self.notes += notes
        for choice in self.schedules:
            if choice.record is not None and choice.record.refused:
                layers = ", ".join(choice.layers)
                self.notes.append(f"{layers}: the schedule is the {choice.record}")

    def copy(self) -> "CompileReport":
        """The report as it is now. Times are counted in one account from then on, too."""
        lists = {name: [*getattr(self, name)] for name in ("levels", "notes", "warnings")}
        tables = {name: {**getattr(self, name)} for name in ("ir", "instructions", "uncut")}
        return replace(self, **lists, **tables)  # type: ignore[arg-type]

    def spend(self, step: str, seconds: float) -> None:
        """Add time to a step."""
        self.seconds[step] = self.seconds.get(step, 0.0) + seconds
