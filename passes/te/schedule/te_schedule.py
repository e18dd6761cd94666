"""``te-schedule``: the default rule writes a schedule beside each kernel that has none.

It is ``te-declare-space``, ``te-choose-point`` and ``te-apply-point`` in a row, with template
``tiles`` and the point of its rule, without writing spaces and points down.

Products run on the GEMM core, everything else on the ALU, in place where that is possible; all of
it tile by tile, in two accumulator contexts where they fit, so that a tile is stored while the next
is computed; operands are loaded into two slots for the same reason. Which tiles: `search`.

Takes kernels of tensors whose stages are single operations (te-split-bodies). Leaves them as they
are, each with a `te.schedule`, which names the standard intrinsics (te-declare-intrinsics).

Where the driver knows recorded points for a kernel (`VtacContext.schedules`), the best of them that
holds takes the place of the rule's (`vtac.passes.te.templates.recorded`).
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import canonical_text
from vtac.passes.te.schedule.structure import readers_of
from vtac.passes.te.templates.kernels import (
    Layers,
    space_of,
    target_of_module,
    unscheduled_kernels,
)
from vtac.passes.te.templates.recorded import RECORD, chosen_point
from vtac.passes.te.templates.template import RulePoint
from vtac.passes.te.templates.tiles import TilesTemplate


@dataclass(frozen=True)
class TeSchedulePass(ModulePass):
    """Write the default schedule of each kernel."""

    name = "te-schedule"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Schedule every kernel of tensors that has no schedule; report all problems together."""
        template, target, layers = TilesTemplate(), target_of_module(op), Layers(op)
        found, problems = dict[object, RulePoint](), list[Problem]()
        recorded = ctx.schedules if isinstance(ctx, VtacContext) else None
        for kernel in unscheduled_kernels(op):
            layer = layers.of(kernel)
            try:
                space = space_of(kernel, template, target, layer)
                key = canonical_text(kernel), readers_of(kernel)
                if key not in found:
                    found[key] = space.rule(layer)
                records = () if recorded is None else recorded(kernel, target)
                chosen = chosen_point(kernel, space, found[key], records)
                schedule = chosen.space.schedule(kernel, *chosen.point)
            except CompileError as error:
                problems += layers.problems(kernel, error)
                continue
            if chosen.record is not None:
                schedule.attributes[RECORD] = chosen.record
            op.body.block.insert_op_after(schedule, kernel)
        if problems:
            raise CompileError(problems)
