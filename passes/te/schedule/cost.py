"""What a tiling costs, in cycles, by a formula; for many tilings at once.

Compute, reads and writes run side by side when their buffers have two slots: the longest of them
counts, and before it the first loads, after it the last store. Rates are those of the HLS and the
Chisel design; instructions have a fixed cost, micro-ops must be loaded. A search that wants to be
sure asks the timing simulator about the best few; this only has to rank.
"""

from dataclasses import dataclass

import numpy as np

from vtac.dialects.target import Memory, Target
from vtac.passes.te.schedule.footprint import Extents, Flags

DISTURBANCE = 100
"""Even traffic that runs beside compute costs something: one part in so many."""


@dataclass(frozen=True)
class Rates:
    """Cycles of a machine.

    alu: an element in an ALU operation, with an immediate and with a second operand.
    instruction: what a GEMM or ALU instruction costs besides its elements.
    load: what the first load costs besides its beats.
    fetch: an instruction.
    beat: bytes a cycle on the memory port.
    store: an output element. row: what a request of a store costs besides.
    burst: output elements of a request at most.
    launch: until the first instruction starts.
    """

    alu: tuple[int, int]
    instruction: int
    load: int
    fetch: int
    beat: int
    store: int
    row: int
    burst: int
    launch: int

    @staticmethod
    def of(target: Target) -> "Rates":
        """The rates behind the target's timing preset."""
        element = target.element_bytes(Memory.OUT)
        if target.timing.startswith("chisel"):
            burst = 16 if target.timing.startswith("chisel-de10") else 256
            writes, launch = -(-8 * burst // element), 23 + 2 * (burst // 2)
            return Rates((1, 2), 7, 23, 5, 8, 3 * -(-element // 16), 3, max(writes, 1), launch)
        beat = 16 if target.timing.startswith("ultra96") else 8
        return Rates((2, 2), 5, 23, 2, beat, -(-element // beat), 3, 256 * beat // element, 279)


@dataclass(frozen=True)
class Work:
    """What a kernel does under each tiling: totals, except where a single tile is meant.

    compute: cycles in which the compute module works, instructions included.
    loaded, loads, first_load: bytes read, instructions that read them, and the bytes that must be
        there before the first tile can start.
    stored, store_rows, last_store: output elements, rows in which they leave, those of one tile.
    chunks, tiles: how often the products go on to other operands, and to other accumulators.
    other: the cycles of compute that are not those of products.
    instructions: of all modules.
    micro_ops: words that the kernel's micro-ops take if none is loaded twice, and once a GEMM.
    overlaps: whether loads (then stores) may run beside compute.
    """

    compute: Extents
    loaded: Extents
    loads: Extents
    first_load: Extents
    stored: Extents
    store_rows: Extents
    last_store: Extents
    chunks: Extents
    tiles: Extents
    other: Extents
    instructions: Extents
    micro_ops: Extents
    micro_ops_again: Extents
    load_overlaps: Flags
    store_overlaps: Flags


def cycles(work: Work, rates: Rates, target: Target) -> Extents:
    """Expected cycles from the first load to the last store."""
    fits = work.micro_ops <= target.uop_entries
    micro_ops = np.where(fits, work.micro_ops, work.micro_ops_again)
    compute = work.compute + micro_ops * 4 // rates.beat
    reads = (work.loaded + 4 * micro_ops) // rates.beat + work.loads * rates.load
    # Loads run ahead by two slots only: while the ALU works, they come to a stop.
    ahead = np.minimum(2 * reads // work.chunks, reads // work.tiles)
    reads = reads + np.maximum(work.other - ahead * work.tiles, 0)
    writes = work.stored * rates.store + work.store_rows * rates.row
    beside: Extents = np.maximum(compute, work.instructions * rates.fetch)
    beside = np.where(work.load_overlaps, np.maximum(beside, reads), beside + reads)
    beside = np.where(work.store_overlaps, np.maximum(beside, writes), beside + writes)
    start = rates.load + work.first_load // rates.beat
    end = work.last_store * rates.store
    total: Extents = beside + start + end + (reads + writes) // DISTURBANCE
    return total
