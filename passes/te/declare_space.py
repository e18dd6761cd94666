"""``te-declare-space``: writes the schedule space of each kernel that has no schedule.

Takes kernels of tensors whose stages are single operations (te-split-bodies). Leaves a `te.space`
behind each: the knobs that a template declares for it. Options: ``kernel``, only this one;
``template``, by default ``tiles``. A kernel that the template refuses is a problem.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import SpaceOp
from vtac.passes.te.templates.find import DEFAULT, template_named
from vtac.passes.te.templates.kernels import (
    Layers,
    declared_spaces,
    space_of,
    target_of_module,
    unscheduled_kernels,
)


@dataclass(frozen=True)
class TeDeclareSpacePass(ModulePass):
    """Write the schedule space of each kernel."""

    name = "te-declare-space"

    kernel: str = ""
    template: str = DEFAULT

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Declare the spaces; report all problems together."""
        template, target, layers = template_named(self.template), target_of_module(op), Layers(op)
        known = {kernel for kernel, _ in declared_spaces(op)}
        problems: list[Problem] = []
        for kernel in unscheduled_kernels(op, self.kernel):
            if kernel in known:
                continue
            try:
                space = space_of(kernel, template, target, layers.of(kernel))
            except CompileError as error:
                problems += layers.problems(kernel, error)
                continue
            declared = SpaceOp.of(kernel.sym_name.data, template.name, template.version, space)
            op.body.block.insert_op_after(declared, kernel)
        if problems:
            raise CompileError(problems)
