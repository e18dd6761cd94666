"""``vta-allocate``: gives every SRAM buffer its place, and makes all indices absolute.

Buffers of one site (one place in a schedule) have the same size and use `slots` places in turn,
normally two, so that one is loaded while the other is computed on. Sites that are alive at the same
time lie apart; a site is alive from its first buffer to the last use of any of its buffers.

Spare room lets instructions start early (``vta-order-instructions``), since a buffer can be loaded
only after the last use of the elements in its place. So a site lies where the last use is longest
ago; behind the end of a memory its slots go on at the beginning. The sites of a layer take more
slots than they need while they leave half of a memory to other layers, those of the last layer as
many as fit, unless that takes too many micro-ops (`spare_slots`). Option ``most-slots``: up to how
many in other layers; 0 keeps those of the schedule.

Takes instructions on ``vta.alloc`` values; leaves none of them.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from vtac.dialects.errors import CompileError, DoesNotFit, Problem
from vtac.dialects.locations import layer_of
from vtac.dialects.target import Target
from vtac.dialects.vta import (
    AllocOp,
    ComputeOp,
    LoadOp,
    MicroOps,
    StreamOp,
    integer,
    streams_of,
    works_alone,
)
from vtac.dialects.vta.encoding import Opcode

from .list_schedule import compute_work, transfer_work
from .sites import BufferSite, SramBuffer, check_slots, sites_of
from .spare_slots import MOST_ADDED, Use, widen

MOST_SLOTS = 8
"""Slots up to which a site takes more than it needs.

Every further place of a buffer needs further micro-ops.
"""

_NEVER_FREE = int(np.iinfo(np.int64).max)
"""The time of last use of elements that the same layer needs."""


@dataclass(frozen=True)
class AllocatePass(ModulePass):
    """Place the SRAM buffers of every vta.program.

    most_slots: up to how many slots a site takes more than its schedule asks for.
    """

    name = "vta-allocate"

    most_slots: int = MOST_SLOTS

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        problems: list[Problem] = []
        for program in streams_of(op):
            try:
                allocate(program, self.most_slots)
            except CompileError as error:
                problems += error.problems
        if problems:
            raise CompileError(problems)


def allocate(program: StreamOp, most_slots: int = MOST_SLOTS) -> None:
    """Place the SRAM buffers of a program. Raises `CompileError` where they do not fit."""
    allocs, buffers = _buffers(program)
    uses = _uses(program, [op.buffer for op in allocs])
    most_added = MOST_ADDED if works_alone(program) else None
    addresses = addresses_of(buffers, uses, program.target, most_slots, most_added)
    _rewrite(program, dict(zip([op.buffer for op in allocs], addresses, strict=True)))


def addresses_of(
    buffers: Sequence[SramBuffer],
    uses: Sequence[Use],
    target: Target,
    most_slots: int = MOST_SLOTS,
    most_added: int | None = MOST_ADDED,
) -> list[int]:
    """The first element of each buffer in its memory; buffers are in the order of their birth.

    uses: what loads and computes, in program order. most_slots: see `AllocatePass`. most_added: see
    `widen`. Raises `CompileError` where they do not fit.
    """
    sites = sites_of(buffers)
    problems = [problem for site in sites for problem in check_slots(site)]
    if problems:
        raise CompileError(problems)
    for memory, groups in widen(sites, uses, target, most_slots, most_added).items():
        problems += _place_memory(groups, target.depth(memory))
    if problems:
        raise CompileError(problems)
    addresses = [0] * len(buffers)
    for site in sites:
        for turn, number in enumerate(site.buffers):
            addresses[number] = site.bases[turn % site.slots]
    return addresses


def _buffers(program: StreamOp) -> tuple[list[AllocOp], list[SramBuffer]]:
    """The SRAM buffers of a program, in the order in which they come to life."""
    allocs: list[tuple[int, AllocOp]] = []
    last_use: dict[SSAValue, int] = {}
    for number, op in enumerate(program.body.block.ops):
        if isinstance(op, AllocOp):
            allocs.append((number, op))
        else:
            for operand in op._operands:
                last_use[operand] = number
    buffers = [
        SramBuffer(
            op.site.value.data,
            op.buffer.type.memory.data,
            op.slots.value.data,
            op.size.value.data,
            layer_of(op),
            born,
            last_use.get(op.buffer, born),
        )
        for born, op in allocs
    ]
    return [op for _, op in allocs], buffers


def _uses(program: StreamOp, buffers: Sequence[SSAValue]) -> list[Use]:
    """What loads and computes in a program; buffers: in the order of their birth."""
    numbers = {buffer: number for number, buffer in enumerate(buffers)}
    target, found = program.target, list[Use]()
    for place, op in enumerate(program.body.block.ops):
        if isinstance(op, LoadOp):
            beats = transfer_work(target, op.memory_id, *op.sizes).beats or 0
            found.append(Use(place, 0, beats, None, ()))
        elif isinstance(op, ComputeOp) and op.micro_ops is not None and op.operands:
            used = [numbers[operand] for operand in op.operands]
            found.append(compute_use(place, target, op, op.micro_ops, used))
    return found


def compute_use(
    place: int, target: Target, op: ComputeOp, micro_ops: MicroOps, buffers: Sequence[int]
) -> Use:
    """What a compute instruction with these micro-ops and buffers does, see `Use`."""
    kernel = op.OPCODE, "reset" in op.properties, micro_ops
    cycles = compute_work(target, op, micro_ops).cycles
    return Use(place, cycles, 0, (kernel, micro_ops.count), buffers)


def _place_memory(groups: Sequence[Sequence[BufferSite]], depth: int) -> list[Problem]:
    """Give the sites of one memory their bases; returns what did not fit."""
    used = np.zeros(depth, np.int64)
    return [_does_not_fit(group, depth) for group in groups if not _place_group(group, used)]


def _place_group(group: Sequence[BufferSite], used: NDArray[np.int64]) -> bool:
    """Place the sites of a group, with the slots asked for if they do not fit with more.

    used: when each element of the memory is used for the last time; brought up to date.
    """
    placed = _place_by_age(group, used)
    if not placed:
        for site in group:
            site.slots = site.asked
        placed = _place_by_age(group, used) or any(
            _first_fit(group, len(used), exactly=exactly) for exactly in (False, True)
        )
    if placed:
        for site in group:
            for start, end in site.regions():
                np.maximum(used[start:end], site.life[1], out=used[start:end])
    return placed


def _place_by_age(group: Sequence[BufferSite], used: NDArray[np.int64]) -> bool:
    """Place each site, the largest first, where the last use is longest ago; whether all fit."""
    placed = _Placed(len(group))
    for site in sorted(group, key=lambda site: (-site.elements, site.number)):
        bases = _longest_ago(placed.last_uses(site, used), site.size, site.places)
        if bases is None:
            return False
        site.bases = bases
        placed.add(site)
    return True


class _Placed:
    """The sites of a group that have a place: few places, each with many sites in turn."""

    def __init__(self, most: int):
        self._count = 0
        self._first, self._last, self._number = np.zeros((3, most), np.int64)
        self._places: dict[tuple[tuple[int, int], ...], int] = {}

    def add(self, site: BufferSite) -> None:
        """Record where a site lies."""
        number = self._places.setdefault(tuple(site.regions()), len(self._places))
        self._first[self._count], self._last[self._count] = site.life
        self._number[self._count] = number
        self._count += 1

    def last_uses(self, site: BufferSite, used: NDArray[np.int64]) -> NDArray[np.int64]:
        """When each element is used for the last time, before or apart from a site of this group.

        Never free are the elements of sites that are alive at the same time as this one.
        """
        first, last, number = (
            array[: self._count] for array in (self._first, self._last, self._number)
        )
        begin, end = site.life
        until = np.where((first <= end) & (begin <= last), _NEVER_FREE, last)
        latest = np.full(len(self._places), -1, np.int64)
        np.maximum.at(latest, number, until)
        found = used.copy()
        for place, time in zip(self._places, latest.tolist(), strict=True):
            for low, high in place:
                np.maximum(found[low:high], time, out=found[low:high])
        return found


def _longest_ago(last: NDArray[np.int64], size: int, places: int) -> list[int] | None:
    """The bases of so many slots, one behind the other, and behind the end of the memory at 0.

    They lie where the latest of the last uses of their elements is least; of several such places,
    where slots are free earliest on average, then the first of them. None if they fit nowhere.
    """
    if size * places > len(last):
        return None
    free = _sliding_maximum(last, size)
    start = np.arange(len(free))[:, None]
    place = np.arange(places)
    behind = (len(last) - start) // size
    bases = np.where(place < behind, start + place * size, (place - behind) * size)
    fits = (places - behind[:, 0]) * size <= start[:, 0]
    uses = free[bases]
    latest = np.where(fits, uses.max(axis=1), _NEVER_FREE)
    if latest.min() == _NEVER_FREE:
        return None
    best = np.lexsort([uses[:, 0], uses.mean(axis=1), latest])[0]
    found: list[int] = bases[best].tolist()
    return found


def _sliding_maximum(values: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The maximum of each `size` neighbours, in three operations per element.

    A window spans at most two blocks of `size` elements: it is a suffix of one and a prefix of the
    other (van Herk, "A fast algorithm for local minimum and maximum filters").
    """
    count = len(values) - size + 1
    padded = np.zeros(-(-len(values) // size) * size, np.int64)
    padded[: len(values)] = values
    blocks = padded.reshape(-1, size)
    prefixes = np.maximum.accumulate(blocks, axis=1).ravel()
    suffixes = np.maximum.accumulate(blocks[:, ::-1], axis=1)[:, ::-1].ravel()
    return np.maximum(suffixes[:count], prefixes[size - 1 : size - 1 + count])


def _first_fit(group: Sequence[BufferSite], depth: int, *, exactly: bool) -> bool:
    """Place each site, the largest first, as low as possible; whether all fit."""
    placed: list[BufferSite] = []
    for site in sorted(group, key=lambda site: (-site.elements, site.number)):
        taken = [other for other in placed if site.meets(other, exactly)]
        base = 0
        for start, end in sorted(region for other in taken for region in other.regions()):
            if base + site.elements <= start:
                break
            base = max(base, end)
        if base + site.elements > depth:
            return False
        site.bases = [base + place * site.size for place in range(site.places)]
        placed.append(site)
    return True


def _does_not_fit(group: Sequence[BufferSite], depth: int) -> Problem:
    memory = group[0].memory.name.lower()
    needs = ", ".join(f"{site.places} x {site.size}" for site in group)
    total = sum(site.elements for site in group)
    layers = tuple(dict.fromkeys(site.where for site in group if site.where))
    return DoesNotFit(
        ", ".join(layers),
        f"needs {total} elements of {memory} ({needs}), the target has {depth}",
        "Choose smaller tiles, fewer slots, or a target with larger buffers.",
        layers,
    )


def _rewrite(program: StreamOp, addresses: dict[SSAValue, int]) -> None:
    for op in program.instructions():
        if op.placed:
            continue
        bases = [addresses[operand] for operand in op.operands]
        properties = op.properties
        micro_ops = properties.get("micro_ops")
        if isinstance(micro_ops, MicroOps):
            shift = index_bases(op.OPCODE, "reset" in properties, bases)
            properties["micro_ops"] = moved(micro_ops, *shift)
        elif "sram_base" in properties:
            base = cast("IntegerAttr", properties["sram_base"])
            properties["sram_base"] = integer(base.value.data + bases[0])
        op.operands = ()
    block = program.body.block
    for alloc in program.all_of(AllocOp):
        assert alloc.buffer.first_use is None
        block.detach_op(alloc)


def index_bases(opcode: Opcode, resets: bool, bases: Sequence[int]) -> tuple[int, int, int]:
    """What is added to dst, src and wgt of the micro-ops of an instruction.

    bases: the addresses of its buffers, destination first.
    """
    if opcode is not Opcode.GEMM:
        return bases[0], bases[-1], 0
    if resets:
        return bases[0], 0, 0
    return bases[0], bases[1], bases[2]


@functools.lru_cache(maxsize=1 << 14)
def moved(micro_ops: MicroOps, dst: int, src: int, wgt: int) -> MicroOps:
    """The micro-ops with these numbers added to their indices."""
    return MicroOps.of(micro_ops.rows + np.array((dst, src, wgt), np.int32))
