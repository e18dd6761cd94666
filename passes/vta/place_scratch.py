"""``vta-place-scratch``: intermediates share memory where their lifetimes allow it.

Every scratch buffer with a lifetime gets an offset in one area of DRAM: the largest first, each at
the lowest offset at which no buffer lies that is alive at the same time (first fit by decreasing
size: "greedy by size" of Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
Inference", 2020). The runtime allocates the area once for each program.

Takes programs whose scratch has lifetimes (``te-to-vta``); leaves scratch with a place, but for
buffers without a lifetime and those that are placed already. Dependences are derived afterwards
(``vta-insert-dependences``) and compare bytes, so that a layer waits for what it overwrites.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from vtac.dialects.intervals import Interval, first_fit
from vtac.dialects.vta import BufferKind, BufferOp, ClusterOp, ProgramOp
from vtac.dialects.vta.attributes import SCRATCH_SCOPE


@dataclass(frozen=True)
class PlaceScratchPass(ModulePass):
    """Give the scratch buffers of every vta.program their places."""

    name = "vta-place-scratch"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        for program in op.body.block.ops:
            if isinstance(program, ProgramOp | ClusterOp):
                place_scratch(program)


def place_scratch(program: ProgramOp | ClusterOp) -> None:
    """Place the scratch of one program."""
    free: list[tuple[int, int, int, BufferOp]] = []
    taken: list[Interval] = []
    for number, op in enumerate(program.buffers().values()):
        live, place = op.lifetime, op.place
        if op.kind.data is not BufferKind.SCRATCH or live is None:
            continue
        if place is None:
            free.append((-op.bytes.value.data, live[0], number, op))
        elif place[0] == SCRATCH_SCOPE:
            taken.append(Interval(place[1], place[1] + op.bytes.value.data, *live))
    for _, _, _, op in sorted(free, key=lambda item: item[:3]):
        live = op.lifetime
        assert live is not None
        size = op.bytes.value.data
        start = first_fit(size, op.align.value.data, live, taken)
        taken.append(Interval(start, start + size, *live))
        op.set_place(SCRATCH_SCOPE, start)
