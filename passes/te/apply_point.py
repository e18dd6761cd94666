"""``te-apply-point``: writes the schedule that a point stands for.

Takes kernels with a `te.space` and a `te.point`. Leaves a `te.schedule` instead of both. Options:
``kernel``, only this one; ``point``, its text (``tile.j=2 order=j,i``), instead of a `te.point`.
A point that does not fit the machine is refused with what it needs and what there is.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Target
from vtac.dialects.te import KernelOp, Point, PointOp, ScheduleOp, SpaceOp, parse_point
from vtac.passes.te.templates.kernels import (
    Layers,
    declared_spaces,
    declaring,
    point_beside,
    space_of,
    target_of_module,
)


@dataclass(frozen=True)
class TeApplyPointPass(ModulePass):
    """Replace each space and its point by a schedule."""

    name = "te-apply-point"

    kernel: str = ""
    point: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Write the schedules; report all problems together."""
        target, layers, problems = target_of_module(op), Layers(op), list[Problem]()
        block = op.body.block
        for kernel, declared in declared_spaces(op, self.kernel):
            beside = point_beside(declared)
            try:
                schedule = self._schedule(kernel, declared, beside, target, layers.of(kernel))
            except CompileError as error:
                problems += layers.problems(kernel, error)
                continue
            for old in (beside, declared):
                if old is not None:
                    block.erase_op(old)
            block.insert_op_after(schedule, kernel)
        if problems:
            raise CompileError(problems)

    def _schedule(
        self,
        kernel: KernelOp,
        declared: SpaceOp,
        beside: PointOp | None,
        target: Target,
        layer: str,
    ) -> ScheduleOp:
        point, cost = self._chosen(beside, layer)
        space = space_of(kernel, declaring(declared, layer), target, layer)
        wrong = declared.knobs.check(point)
        if wrong is None:
            point = {name: declared.knobs.value(point, name) for name in declared.knobs.knobs}
            wrong = space.check(point)
        if wrong is not None:
            raise CompileError(Problem(layer, wrong, "te-declare-space writes all knobs."))
        problem = space.problem(point)
        if problem is not None:
            raise CompileError(
                Problem(layer, f"the point does not fit: {problem.what}", problem.hint)
            )
        return space.schedule(kernel, space.with_values({}, point), cost)

    def _chosen(self, beside: PointOp | None, layer: str) -> tuple[Point, int | None]:
        """The point to apply, and its cost if that is known."""
        if self.point:
            try:
                return parse_point(self.point), None
            except ValueError as error:
                raise CompileError(Problem(layer, f"the point cannot be read: {error}")) from error
        if beside is None:
            hint = "te-choose-point writes one; so does the option point."
            raise CompileError(Problem(layer, "its te.space has no te.point", hint))
        return beside.point, None if beside.cost is None else beside.cost.value.data
