"""What a tiling costs, in cycles, by a formula; for many tilings at once.

Compute, reads and writes run side by side when their buffers have two slots: the longest of them
counts, and before it the first loads, after it the last store. Rates are those of the HLS and the
Chisel design; instructions have a fixed cost, micro-ops must be loaded. A search that wants to be
sure asks the timing simulator about the best few; this only has to rank.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from vtac.dialects.target import (
    INSTRUCTION_BYTES,
    LOAD_OVERHEAD,
    Memory,
    Target,
    TimingPreset,
)
from vtac.passes.te.schedule.footprint import Extents, Flags

DISTURBANCE = 100
"""Even traffic that runs beside compute costs something: one part in so many."""


@dataclass(frozen=True)
class Rates:
    """Cycles of a machine.

    gemm: a micro-op of the GEMM core.
    alu: an element in an ALU operation, with an immediate and with a second operand.
    copy: an element of accumulators copied to others, and the instructions which that takes.
    instruction: what a GEMM or ALU instruction costs besides its elements.
    load: what the first load costs besides its beats.
    fetch: an instruction.
    beat: bytes a cycle on the memory port.
    shares_port: whether loads of the compute module wait for those of the load module.
    request: bytes of a read request at most. request_interval: from one request to the next.
    store_instruction: what a store instruction costs besides its requests.
    store: an output element. row: what a request of a store costs besides.
    burst: output elements of a request at most.
    launch: until the first instruction starts.
    fetch_ahead: of further requests for instructions that share the port with loads: `FetchAhead`.
    """

    gemm: int
    alu: tuple[int, int]
    copy: tuple[int, int]
    instruction: int
    load: int
    fetch: int
    beat: int
    shares_port: bool
    request: int
    request_interval: int
    store: int
    row: int
    burst: int
    store_instruction: int
    launch: int
    fetch_ahead: "FetchAhead"

    @staticmethod
    @lru_cache(maxsize=64)
    def of(target: Target) -> "Rates":
        """The rates of a target, derived from its `TimingPreset` and the rules of the clock."""
        timing, element = target.timing, target.element_bytes(Memory.OUT)
        ideal = timing.ideal_memory
        added = timing.gemm_cycles + timing.alu_register_cycles, 2  # to accumulators that are reset
        return Rates(
            gemm=timing.gemm_cycles,
            alu=(timing.alu_immediate_cycles, timing.alu_register_cycles),
            copy=(timing.alu_immediate_cycles, 1) if target.alu_imm_src else added,
            instruction=timing.compute_overhead + 1,
            load=_IDEAL_LOAD if ideal else timing.latency + LOAD_OVERHEAD,
            fetch=_fetch(timing),
            beat=IDEAL_BEAT if ideal else _bytes_a_cycle(timing),
            shares_port=not ideal and timing.read_channels < _OWN_LOAD_CHANNEL,
            request=timing.burst_bytes,
            request_interval=0 if ideal else timing.request_interval,
            store=max(timing.store_idle_cycles + (0 if ideal else timing.beats(element)), 1),
            row=0 if ideal else timing.store_request_cycles,
            burst=max(timing.burst_bytes // element, 1),
            store_instruction=_STORE,
            launch=_launch(timing),
            fetch_ahead=FetchAhead.of(timing),
        )


@dataclass(frozen=True)
class FetchAhead:
    """The requests for instructions that follow the first, which was waited for at launch.

    Fetch goes on until a queue is full, long before most instructions are due. While it does, loads
    share the port with it.

    instructions: of one request. beats: that it occupies the port of the load module, 0 where
    fetch has another.
    latency, dispatch: cycles from a request to its first beat on an idle port, and from its last
    beat to the next request. waits: cycles for which loads that were requested before may delay it.
    depth: instructions that a queue holds.
    """

    instructions: int
    beats: int
    latency: int
    dispatch: int
    waits: int
    depth: int

    @staticmethod
    def of(timing: TimingPreset) -> "FetchAhead":
        """That of a machine."""
        count = timing.fetch_instructions
        alone = timing.ideal_memory or timing.read_channels >= _OWN_LOAD_CHANNEL
        return FetchAhead(
            count,
            0 if alone else timing.beats(INSTRUCTION_BYTES * count),
            timing.latency + 1,
            2 if timing.fetch_ahead else count + 4,
            timing.latency + timing.outstanding * timing.burst_beats,
            timing.queue_depth,
        )


_OWN_LOAD_CHANNEL = 2
"""With so many read channels, the load module shares its own with nobody."""

_STORE = 1
"""Cycles of a store that are neither elements nor requests."""

_IDEAL_LOAD, IDEAL_BEAT = 6, 1 << 30
"""A load's cycles where memory is ideal, and bytes a cycle that no transfer reaches."""

_FETCH = 5
"""Cycles of a fetch that are neither beats, nor latency, nor dispatch."""


def _bytes_a_cycle(timing: TimingPreset) -> int:
    """Bytes of a stream of full bursts that pass the port in a cycle, at least one.

    A request of B beats takes B cycles, unless too few requests may be under way to hide the
    latency. How often a reader may ask is counted by load (`request_interval`).
    """
    beats = timing.burst_beats
    answered = -(-(timing.latency + 2 + beats) // timing.outstanding)
    return max(timing.burst_bytes // max(beats, answered), 1)


def _fetch(timing: TimingPreset) -> int:
    """Cycles of an instruction while fetch alone uses the memory."""
    count = timing.fetch_instructions
    coming = 0 if timing.ideal_memory else timing.beats(INSTRUCTION_BYTES * count) + timing.latency
    coming += _FETCH
    return max((max(coming, count) if timing.fetch_ahead else coming + count) // count, 1)


def _launch(timing: TimingPreset) -> int:
    """Cycles from launch to the start of the first instruction of a long program."""
    if timing.ideal_memory:
        return LOAD_OVERHEAD
    return (
        timing.latency + LOAD_OVERHEAD + timing.beats(INSTRUCTION_BYTES * timing.fetch_instructions)
    )


@dataclass(frozen=True)
class KernelWork:
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


def cycles(work: KernelWork, rates: Rates, target: Target) -> Extents:
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
