"""``te-schedule``: the default rule writes a schedule beside each kernel that has none.

Products run on the GEMM core, everything else on the ALU, in place where that is possible; all of
it tile by tile, in two accumulator contexts where they fit, so that a tile is stored while the next
is computed; operands are loaded into two slots for the same reason. Which tiles: `search`.

Takes kernels of tensors whose stages are single operations (te-split-bodies). Leaves them as they
are, each with a `te.schedule`, which names the standard intrinsics (te-declare-intrinsics).
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NameLoc
from xdsl.passes import ModulePass

from vtac.dialects.errors import CompileError, DoesNotFit, Problem
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.dialects.te import (
    CallOp,
    KernelOp,
    ScheduleOp,
    canonical_text,
    copying_intrinsics,
)
from vtac.passes.te.schedule.emit import schedule_of
from vtac.passes.te.schedule.refine import Candidate
from vtac.passes.te.schedule.search import search
from vtac.passes.te.schedule.structure import structure_of


@dataclass(frozen=True)
class TeSchedulePass(ModulePass):
    """Write the default schedule of each kernel."""

    name = "te-schedule"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Schedule every kernel of tensors that has no schedule; report all problems together."""
        target = op.attributes.get(TARGET_ATTRIBUTE)
        if not isinstance(target, Target):
            raise CompileError(
                Problem("", "there is no vtac.target on the module", "vta-opt --target sets one.")
            )
        scheduled = {s.kernel.root_reference.data for s in op.ops if isinstance(s, ScheduleOp)}
        layers, found = _layers(op), dict[str, Candidate]()
        copying, problems = copying_intrinsics(target), list[Problem]()
        for kernel in list(op.ops):
            if not isinstance(kernel, KernelOp) or kernel.is_lowered:
                continue
            name = kernel.sym_name.data
            if name in scheduled:
                continue
            layer = ", ".join(layers.get(name, ())) or f"te.kernel @{name}"
            try:
                structure = structure_of(kernel, layer)
                key = canonical_text(kernel)
                if key not in found:
                    found[key] = search(structure, target, layer)
                _, tiling, cycles = found[key]
                schedule = schedule_of(kernel, structure, tiling, cycles, copying)
                op.body.block.insert_op_after(schedule, kernel)
            except CompileError as error:
                problems += [
                    DoesNotFit(p.where, p.what, p.hint, tuple(layers.get(name, ())))
                    for p in error.problems
                ]
        if problems:
            raise CompileError(problems)


def _layers(module: ModuleOp) -> dict[str, list[str]]:
    """For each kernel, the layers that call it: what messages are about."""
    layers: dict[str, list[str]] = {}
    for call in module.walk():
        if isinstance(call, CallOp) and isinstance(call.location, NameLoc):
            callee = call.callee.root_reference.data
            layers.setdefault(callee, []).append(call.location.desc.data)
    return layers
