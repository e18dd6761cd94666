"""``vta-split-loads``: cuts long loads of weights, so that shorter loads need not wait for them.

The load module runs one load after the other. The weights of a dense layer come in loads of
thousands of cycles, for which the inputs of the layer at hand would have to wait.
``vta-order-instructions`` can put others between the pieces, and a piece can be loaded as soon as
its own place is free.

Takes placed loads of one row of weights without pads; leaves pieces of equal size, up to one
element. Option ``beats``: the most beats of a piece; 0 leaves all loads as they are.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects.target import Memory
from vtac.dialects.vta import LoadOp, integer, integers, streams_of

BEATS = 512
"""The most beats of a piece: 16 tiles of weights by a port of 8 bytes. Each piece pays the latency
of a load, some 20 cycles, where no other load is waiting."""


@dataclass(frozen=True)
class SplitLoadsPass(ModulePass):
    """Cut the long loads of weights of every vta.program.

    beats: the most beats of a piece.
    """

    name = "vta-split-loads"

    beats: int = BEATS

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        for program in streams_of(op):
            if self.beats:
                target = program.target
                beats = target.timing.beats(target.element_bytes(Memory.WGT))
                most = max(self.beats // beats, 1)
                for load in program.instructions():
                    if isinstance(load, LoadOp) and _can_be_cut(load):
                        _cut(load, most)


def _can_be_cut(load: LoadOp) -> bool:
    """Whether a load fills neighbouring elements of WGT from neighbouring elements of DRAM."""
    one_row = load.sizes[0] == 1 and not any(load.pad_values())
    return load.memory_id is Memory.WGT and load.placed and one_row


def _cut(load: LoadOp, most: int) -> None:
    """Replace a load by pieces of at most ``most`` elements."""
    length = load.sizes[1]
    count = -(-length // most)
    if count < 2:
        return
    for number in range(count):
        start, end = length * number // count, length * (number + 1) // count
        piece = load.clone()
        piece.properties |= {
            "sram_base": integer(load.sram_base.value.data + start),
            "dram_base": integer(load.dram_base.value.data + start),
            "size": integers(1, end - start),
            "stride": integer(end - start),
        }
        Rewriter.insert_op(piece, InsertPoint.before(load))
    Rewriter.erase_op(load)
