"""``te-apply-schedule``: runs the primitives of each schedule on its kernel's loop nest, in order.

Takes kernels that ``te-to-loops`` has just lowered, each with at most one `te.ScheduleOp`, and the
declarations of the intrinsics that the schedules name. Leaves the scheduled nests; the schedules
are gone. Options: ``kernel`` applies the schedule of that kernel only; ``steps`` stops after so
many primitives (and keeps the schedule), to print the nest at that point.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.traits import SymbolTable

from vtac.dialects import te
from vtac.dialects.errors import CompileError, Problem

from .primitives import RULES, Nest, NestStage, RefusedPrimitive


@dataclass(frozen=True)
class TeApplySchedule(ModulePass):
    """Run the primitives of schedules on the loop nests of their kernels."""

    name = "te-apply-schedule"

    kernel: str | None = None
    steps: int | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Apply every schedule, or the one of ``kernel``. Raises `CompileError` on a refusal."""
        for schedule in list(op.body.block.ops):
            if not isinstance(schedule, te.ScheduleOp):
                continue
            if self.kernel is None or schedule.kernel.root_reference.data == self.kernel:
                apply_schedule(schedule, self.steps)
                if self.steps is None:
                    Rewriter.erase_op(schedule)


def apply_schedule(schedule: te.ScheduleOp, steps: int | None = None) -> None:
    """Run the first ``steps`` primitives of a schedule, or all."""
    name = schedule.kernel.root_reference.data
    kernel = SymbolTable.lookup_symbol(schedule, name)
    if not isinstance(kernel, te.KernelOp) or not kernel.is_lowered:
        raise CompileError(
            Problem(f"te.schedule @{name}", "the kernel is not in loop form", "run te-to-loops")
        )
    nest = Nest(kernel, stages_of(kernel))
    arguments = schedule.body.block.args
    if len(arguments) != len(nest.stages):
        raise CompileError(
            Problem(
                f"te.schedule @{name}",
                f"it has {len(arguments)} stages, the kernel {len(nest.stages)}",
            )
        )
    nest.handles.update(zip(arguments, nest.stages, strict=True))
    for number, step in enumerate(schedule.body.block.ops, start=1):
        if steps is not None and number > steps:
            return
        assert isinstance(step, te.Primitive)
        nest.forget(step)
        try:
            RULES[type(step)](nest, step)
        except RefusedPrimitive as refused:
            where = f"te.schedule @{name}, step {number} ({step.name})"
            raise CompileError(Problem(where, refused.what, refused.hint)) from None


def stages_of(kernel: te.KernelOp) -> list[NestStage]:
    """The stages of a kernel as ``te-to-loops`` leaves it: one nest per statement, in order."""
    stages: list[NestStage] = []
    start: NestStage | None = None
    for root in kernel.body.block.ops:
        if not isinstance(root, te.ForOp | te.UpdateOp):
            continue
        loops: list[te.ForOp] = []
        current = root
        while isinstance(current, te.ForOp):
            loops.append(current)
            inner = current.body.block.first_op
            assert isinstance(inner, te.ForOp | te.UpdateOp)
            current = inner
        stage = NestStage(current.label.data, len(stages), current.destination, loops, [current])
        if current.is_init is not None:
            start = stage
            continue
        if start is not None:
            stage.init, stage.identity = start, constant_start(start.update)
            start.owner, start = stage, None
        stages.append(stage)
    return stages


def constant_start(update: te.UpdateOp) -> int | None:
    """The constant that a statement without operands writes."""
    owner = te.yielded(update.body).owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None
