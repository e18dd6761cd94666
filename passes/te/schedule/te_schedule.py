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

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError
from vtac.dialects.te import KernelOp, canonical_text
from vtac.passes.side_by_side import side_by_side
from vtac.passes.te.schedule.structure import readers_of
from vtac.passes.te.templates.kernels import (
    Layers,
    space_of,
    target_of_module,
    unscheduled_kernels,
)
from vtac.passes.te.templates.recorded import RECORD, chosen_point
from vtac.passes.te.templates.template import RulePoint, ScheduleSpace
from vtac.passes.te.templates.tiles import TilesTemplate


@dataclass(frozen=True)
class TeSchedulePass(ModulePass):
    """Write the default schedule of each kernel."""

    name = "te-schedule"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Schedule every kernel of tensors that has no schedule; report all problems together."""
        template, target, layers = TilesTemplate(), target_of_module(op), Layers(op)
        recorded = ctx.schedules if isinstance(ctx, VtacContext) else None
        kernels = list(unscheduled_kernels(op))
        spaces, errors = dict[KernelOp, ScheduleSpace](), dict[KernelOp, CompileError]()
        for kernel in kernels:
            try:
                spaces[kernel] = space_of(kernel, template, target, layers.of(kernel))
            except CompileError as error:
                errors[kernel] = error
        points = _points(spaces, layers)
        for kernel, space in spaces.items():
            try:
                point = points[kernel]
                if isinstance(point, CompileError):
                    raise point
                records = () if recorded is None else recorded(kernel, target)
                chosen = chosen_point(kernel, space, point, records)
                schedule = chosen.space.schedule(kernel, *chosen.point)
            except CompileError as error:
                errors[kernel] = error
                continue
            if chosen.record is not None:
                schedule.attributes[RECORD] = chosen.record
            op.body.block.insert_op_after(schedule, kernel)
        problems = [
            problem
            for kernel in kernels
            if kernel in errors
            for problem in layers.problems(kernel, errors[kernel])
        ]
        if problems:
            raise CompileError(problems)


def _key(kernel: KernelOp) -> Hashable:
    """What the rule's point depends on."""
    return canonical_text(kernel), readers_of(kernel)


def _points(
    spaces: Mapping[KernelOp, ScheduleSpace], layers: Layers
) -> dict[KernelOp, RulePoint | CompileError]:
    """The point of the rule for each kernel, or why there is none; kernels of one key share it."""
    keys = {kernel: _key(kernel) for kernel in spaces}
    first = dict[Hashable, KernelOp]()
    for kernel, key in keys.items():
        first.setdefault(key, kernel)
    rules = [partial(spaces[kernel].rule, layers.of(kernel)) for kernel in first.values()]
    found = dict(zip(first, side_by_side(rules), strict=True))
    return {kernel: found[key] for kernel, key in keys.items()}
