"""``vta-split-loads``: cuts long loads of weights, so that shorter loads need not wait for them.

The load module runs one load after the other. The weights of a dense layer come in loads of
thousands of cycles, for which the inputs of the layer at hand would have to wait.
``vta-order-instructions`` can put others between the pieces, and a piece can be loaded as soon as
its own place is free.

Takes placed loads of one row of weights without pads; leaves pieces of equal size, up to one
element. Option ``beats``: the most beats of a piece; 0 leaves all loads as they are. Without it
they follow from the latency of the memory, which each piece pays where no other load is waiting,
and from the width of the port.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects.target import Target
from vtac.dialects.vta import LoadOp, StreamOp, integer, integers, streams_of

LATENCIES = 32
"""The most beats of a piece, in latencies of the memory. 32 of 16 cycles are 512 beats, 16 tiles of
weights by a port of 8 bytes."""

FEWEST, FEWEST_BYTES = 512, 4096
"""Beats, and bytes, that a piece may have on any machine. Where a narrow port takes long for few
bytes, shorter pieces delay loads more than they let others pass."""


@dataclass(frozen=True)
class SplitLoadsPass(ModulePass):
    """Cut the long loads of weights of every vta.program.

    beats: the most beats of a piece; None: what `most_elements` says.
    """

    name = "vta-split-loads"

    beats: int | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        for program in streams_of(op):
            split_loads(program, self.beats)


def split_loads(program: StreamOp, beats: int | None = None) -> None:
    """Cut the long loads of weights of one program. beats: as the option of the pass."""
    if beats == 0:
        return
    most, weights = most_elements(program.target, beats), program.target.system.weights
    for load in program.instructions():
        if isinstance(load, LoadOp) and load.memory_id is weights and _can_be_cut(load):
            _cut(load, most)


def most_elements(target: Target, beats: int | None = None) -> int:
    """The most elements of WGT in a piece. beats: as the option of the pass."""
    timing = target.timing
    most = beats
    if most is None:
        most = max(FEWEST, LATENCIES * timing.latency, timing.beats(FEWEST_BYTES))
    return max(most // timing.beats(target.element_bytes(target.system.weights)), 1)


def pieces(length: int, most: int) -> Iterator[tuple[int, int]]:
    """Starts and ends of the pieces of a load of so many elements."""
    count = -(-length // most)
    for number in range(count):
        yield length * number // count, length * (number + 1) // count


def _can_be_cut(load: LoadOp) -> bool:
    """Whether a load fills neighbouring elements from neighbouring elements of DRAM."""
    one_row = load.sizes[0] == 1 and not any(load.pad_values())
    return load.placed and one_row


def _cut(load: LoadOp, most: int) -> None:
    """Replace a load by pieces of at most ``most`` elements."""
    if load.sizes[1] <= most:
        return
    for start, end in pieces(load.sizes[1], most):
        piece = load.clone()
        piece.properties |= {
            "sram_base": integer(load.sram_base.value.data + start),
            "dram_base": integer(load.dram_base.value.data + start),
            "size": integers(1, end - start),
            "stride": integer(end - start),
        }
        Rewriter.insert_op(piece, InsertPoint.before(load))
    Rewriter.erase_op(load)
