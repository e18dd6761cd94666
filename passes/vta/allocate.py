"""``vta-allocate``: gives every SRAM buffer its place, and makes all indices absolute.

Buffers of one site (one place in a schedule) have the same size and use `slots` places in turn,
normally two, so that one is loaded while the other is computed on. Sites that are alive at the same
time lie apart; a site is alive from its first buffer to the last use of any of its buffers.

Spare room lets instructions start early (``vta-order-instructions``), since a buffer can be loaded
only after the last use of the elements in its place. So a site lies where the last use is longest
ago; behind the end of a memory its slots go on at the beginning. The sites of a layer take more
slots than they need while they leave half of a memory to other layers, those of the last layer as
many as fit. Option ``most-slots``: up to how many in other layers; 0 keeps those of the schedule.

Takes instructions on ``vta.alloc`` values; leaves none of them.
"""

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from vtac.dialects.errors import CompileError, DoesNotFit, Problem
from vtac.dialects.locations import layer_of
from vtac.dialects.target import Memory, Target
from vtac.dialects.vta import (
    AllocOp,
    MicroOps,
    StreamOp,
    integer,
    streams_of,
)
from vtac.dialects.vta.encoding import Opcode

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
    addresses = addresses_of(buffers, program.target, most_slots)
    _rewrite(program, dict(zip([op.buffer for op in allocs], addresses, strict=True)))


class SramBuffer(NamedTuple):
    """An SRAM buffer without a place.

    site: number of the place in a schedule that it comes from. born, last: when it comes to life
    and when it is used for the last time, both counted in program order. where: its layer.
    """

    site: int
    memory: Memory
    slots: int
    size: int
    where: str
    born: int
    last: int


def addresses_of(
    buffers: Sequence[SramBuffer], target: Target, most_slots: int = MOST_SLOTS
) -> list[int]:
    """The first element of each buffer in its memory; buffers are in the order of their birth.

    most_slots: see `AllocatePass`. Raises `CompileError` where they do not fit.
    """
    sites = _sites(buffers)
    problems: list[Problem] = []
    for memory in target.system.buffered:
        here = [site for site in sites if site.memory is memory]
        problems += _place_memory(here, target.depth(memory), most_slots)
    if problems:
        raise CompileError(problems)
    addresses = [0] * len(buffers)
    for site in sites:
        for turn, number in enumerate(site.buffers):
            addresses[number] = site.bases[turn % site.slots]
    return addresses


@dataclass
class _Site:
    """The buffers of one place in a schedule: when each is alive, and where they lie.

    buffers: their numbers, in the order of their birth. last: the last use of any of them. bases:
    the first element of each slot.
    """

    number: int
    memory: Memory
    slots: int
    size: int
    where: str
    buffers: list[int] = field(default_factory=list)
    lives: list[tuple[int, int]] = field(default_factory=list)
    last: int = -1
    bases: list[int] = field(default_factory=list)

    @property
    def places(self) -> int:
        """The number of slots that are in use."""
        return min(self.slots, len(self.buffers))

    @property
    def elements(self) -> int:
        """Elements of all its slots."""
        return self.places * self.size

    @property
    def life(self) -> tuple[int, int]:
        """First place in the program where it is alive, and last."""
        return self.lives[0][0], self.last

    def regions(self) -> Iterator[tuple[int, int]]:
        """The elements of each slot that is used: the first, and the one behind the last."""
        return ((base, base + self.size) for base in self.bases)

    def meets(self, other: "_Site", exactly: bool) -> bool:
        """Whether both are alive at the same time: as a whole, or (exactly) buffer by buffer."""
        if not _overlap(self.life, other.life):
            return False
        if not exactly:
            return True
        starts = np.array([life[0] for life in other.lives])
        ends = np.array([life[1] for life in other.lives])
        return any(bool(((starts <= end) & (ends >= start)).any()) for start, end in self.lives)


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


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


def _sites(buffers: Sequence[SramBuffer]) -> list[_Site]:
    """The sites of buffers, in the order in which they come to life."""
    sites: dict[int, _Site] = {}
    for place, (number, memory, slots, size, where, born, last) in enumerate(buffers):
        site = sites.get(number)
        if site is None:
            site = sites[number] = _Site(number, memory, slots, size, where)
        elif (memory, slots, size) != (site.memory, site.slots, site.size):
            raise CompileError(
                Problem(site.where, f"the buffers of site {number} differ in size or slots")
            )
        site.buffers.append(place)
        site.lives.append((born, last))
        site.last = max(site.last, last)
    return list(sites.values())


def _place_memory(sites: Sequence[_Site], depth: int, most_slots: int) -> list[Problem]:
    """Give the sites of one memory their bases; returns what did not fit."""
    problems = [problem for site in sites for problem in _check_slots(site)]
    if problems:
        return problems
    used = np.zeros(depth, np.int64)
    groups = _groups(sites)
    for group in groups:
        # No layer follows the last one that would need room.
        is_last = group is groups[-1]
        room, most = depth if is_last else depth // 2, most_slots
        if is_last and most_slots:
            most = max(len(site.buffers) for site in group)
        if not _place_group(group, used, room, most):
            problems.append(_does_not_fit(group, depth))
    return problems


def _check_slots(site: _Site) -> Iterable[Problem]:
    for turn in range(site.places):
        lives = site.lives[turn :: site.slots]
        if any(_overlap(one, other) for one, other in itertools.pairwise(lives)):
            yield Problem(
                site.where,
                f"more than {site.slots} buffers of site {site.number} in"
                f" {site.memory.name.lower()} are alive at a time",
            )
            return


def _groups(sites: Sequence[_Site]) -> list[list[_Site]]:
    """Sites whose lives hang together: normally those of a layer."""
    groups: list[list[_Site]] = []
    end = -1
    for site in sorted(sites, key=lambda site: site.life):
        if site.life[0] > end:
            groups.append([])
        groups[-1].append(site)
        end = max(end, site.life[1])
    return groups


def _place_group(
    group: Sequence[_Site], used: NDArray[np.int64], room: int, most_slots: int
) -> bool:
    """Place the sites of a group, with more slots than they need if these take at most ``room``.

    used: when each element of the memory is used for the last time; brought up to date.
    """
    needed = [site.slots for site in group]
    _widen(group, room, most_slots)
    placed = _place_by_age(group, used)
    if not placed:
        for site, slots in zip(group, needed, strict=True):
            site.slots = slots
        placed = _place_by_age(group, used) or any(
            _first_fit(group, len(used), exactly=exactly) for exactly in (False, True)
        )
    if placed:
        for site in group:
            for start, end in site.regions():
                np.maximum(used[start:end], site.life[1], out=used[start:end])
    return placed


def _widen(group: Sequence[_Site], room: int, most_slots: int) -> None:
    """Give sites more slots, the smallest first, while they take at most `room` elements."""
    total = sum(site.elements for site in group)
    for site in sorted(group, key=lambda site: (site.size, site.number)):
        while site.slots < min(most_slots, len(site.buffers)) and total + site.size <= room:
            site.slots += 1
            total += site.size


def _place_by_age(group: Sequence[_Site], used: NDArray[np.int64]) -> bool:
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

    def add(self, site: _Site) -> None:
        """Record where a site lies."""
        number = self._places.setdefault(tuple(site.regions()), len(self._places))
        self._first[self._count], self._last[self._count] = site.life
        self._number[self._count] = number
        self._count += 1

    def last_uses(self, site: _Site, used: NDArray[np.int64]) -> NDArray[np.int64]:
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


def _first_fit(group: Sequence[_Site], depth: int, *, exactly: bool) -> bool:
    """Place each site, the largest first, as low as possible; whether all fit."""
    placed: list[_Site] = []
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


def _does_not_fit(group: Sequence[_Site], depth: int) -> Problem:
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
