"""``te-estimate``: writes on each schedule how many cycles its kernel takes.

Takes the level ``te``: kernels of tensor expressions, schedules of any origin (``te-schedule``'s,
``te-schedule-conv2d``'s, written by hand), and a ``vtac.target``. Sets the attribute ``estimate``
of every schedule to the cycles that the target's clock counts for one call of the kernel alone; the
first call says which arguments are constants, and what nothing calls has none. Schedules and
kernels are not changed. Option: ``kernel`` looks at that kernel only.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from vtac.dialects import te
from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.passes.te.schedule.describe import ESTIMATE
from vtac.tools.tensor_expressions.kernel_clock import KernelClock


@dataclass(frozen=True)
class TeEstimatePass(ModulePass):
    """Write on each schedule the cycles that its kernel takes."""

    name = "te-estimate"

    kernel: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Time each schedule, or the one of ``kernel``. Raises `CompileError` on a refusal."""
        if not isinstance(ctx, VtacContext):
            raise TypeError("te-estimate needs a VtacContext")
        problems: list[Problem] = []
        for schedule in op.body.block.ops:
            if not isinstance(schedule, te.ScheduleOp):
                continue
            name = schedule.kernel.root_reference.data
            if self.kernel is None or name == self.kernel:
                try:
                    cycles = KernelClock(op, name, ctx).cycles(schedule)
                    schedule.attributes[ESTIMATE] = IntegerAttr(cycles, i64)
                except CompileError as error:
                    problems += error.problems
        if problems:
            raise CompileError(problems)
