"""``vta-stage-weights``: the DMA copies weights into the global buffer before cores need them.

While a layer computes, DDR is often idle; behind it layers follow that wait for nothing but their
weights. So weights are copied into the room that the global buffer has left, piece by piece, in the
order in which they are used, each as early as there is room from then until its last use
(prefetching across layers, GraphTurbo, section 4.4). Weights that several cores or tiles read are
also read from DDR once instead of each time. `staging` chooses.

Takes ``vta.cluster`` with a global buffer and a DMA, with scratch in its places, before
``vta-insert-semaphores``; leaves further scratch in the global buffer, loads from it, and the
commands of the DMA. Declined, by a rough clock, for weights that would come later than if the cores
read them from DDR, and for those that are read once by a step that would not wait for DDR. Other
programs are left as they are.

Options: ``most``, the most copies; 0 stages nothing. ``early``: cores are taken to read weights
during their step before, as far as WGT has room; what is there in time that way is left in DDR.
``late``: copies wait until steps are over even where DDR is idle, so that they take none of it from
loads that come at the same time.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects.vta import (
    BufferKind,
    BufferOp,
    ClusterOp,
    CopyOp,
    DmaOp,
    StepOp,
    integer,
    symbol,
)
from vtac.dialects.vta.attributes import GLOBAL_SCOPE

from .plan_microops import fresh
from .staging import choose

MOST_COPIES = 4000
"""Copies of a program at most, for the sake of compile time."""


@dataclass(frozen=True)
class StageWeightsPass(ModulePass):
    """Copy weights into the global buffer of every vta.cluster that has a DMA.

    most: the most copies. early: whether weights that cores can read ahead are left in DDR. late:
    whether copies wait for steps where DDR is idle.
    """

    name = "vta-stage-weights"

    most: int = MOST_COPIES
    early: bool = False
    late: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        for program in op.body.block.ops:
            if isinstance(program, ClusterOp) and program.target.dma and program.target.gb_bytes:
                stage_weights(program, self.most, early=self.early, late=self.late)


def stage_weights(
    program: ClusterOp, most: int = MOST_COPIES, *, early: bool = False, late: bool = False
) -> None:
    """Stage the weights of one program. most, early, late: as the options of the pass."""
    staged = choose(program, most, early=early, late=late)
    if not staged:
        return
    core = program.target.core
    element = core.element_bytes(core.system.weights)
    taken = set(program.buffers())
    copies: dict[int, list[CopyOp]] = {}
    last = list(program.buffers().values())[-1]
    for each in staged:
        piece = each.piece
        name = fresh(f"{piece.constant}_staged", taken)
        taken.add(name)
        place = GLOBAL_SCOPE, each.taken.start
        live = each.taken.first, each.taken.last
        buffer = BufferOp(name, BufferKind.SCRATCH, piece.size, element, place=place, live=live)
        Rewriter.insert_op(buffer, InsertPoint.after(last))
        for _, op in piece.uses:
            base = op.dram_base.value.data - piece.start // element
            op.properties["buffer"], op.properties["dram_base"] = symbol(name), integer(base)
        copy = CopyOp((piece.constant, piece.start), (name, 0), piece.size)
        copies.setdefault(each.taken.first, []).append(copy)
    _write(program, copies)


def _write(program: ClusterOp, copies: dict[int, list[CopyOp]]) -> None:
    """Write the stream of the DMA, and number all steps anew: copies stand before their step."""
    markers: dict[int, StepOp] = {
        op.number.value.data: op for core in program.cores().values() for op in core.all_of(StepOp)
    }
    stream: list[Operation] = []
    number = 0
    for step in sorted({*markers, *copies}):
        for copy in copies.get(step, ()):
            stream += [StepOp(number), copy]
            number += 1
        if step in markers:
            markers[step].properties["number"] = integer(number)
            number += 1
    program.body.block.add_op(DmaOp(Region(Block(stream))))
