"""``vta-join-biases``: constants that lie side by side among the accumulators come by one load.

The compute module loads biases and vectors of shifts itself, and does nothing else meanwhile: a
load of one element of accumulators takes the latency of a read (about 20 cycles on ``chisel-pynq``)
besides its 8 beats. Where ``vta-allocate`` has placed constants of several tiles, or of several
layers, next to each other, a later load moves up into an earlier one. This is legal where the later
one need not follow anything that stands behind the earlier one. Loads from different places in DRAM
read a new constant, which holds their elements one after the other; constants that nothing reads
any more are dropped.

What stands between the two loads starts later by the beats of the second, and everything behind
both starts earlier by its latency. The loads are joined where the program takes fewer cycles by the
model of `list_schedule`; ways with less and less between two loads are tried.

Takes placed instructions in their final order, with inline micro-ops. Programs of a single layer,
whose costs are asked often and which have few such loads, those of clusters, and others that
``vta-order-instructions`` leaves alone, stay as they are.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects.array_files import Array
from vtac.dialects.context import constant_attr, constant_value, resources_of
from vtac.dialects.locations import layer_of
from vtac.dialects.target import Target
from vtac.dialects.vta import (
    BufferKind,
    BufferOp,
    InstructionOp,
    LoadOp,
    ProgramOp,
    integer,
    integers,
    symbol,
)
from vtac.dialects.vtac import ResourceAttr

from .join_loads import MOST_ELEMENTS
from .list_schedule import Occupation, run, transfer_work
from .order_instructions import can_be_ordered, work_of_program
from .plan_microops import fresh
from .program_precedence import precedence_of

WINDOWS = (1 << 14, 1024, 64)
"""The most instructions between two loads that are joined, for each way that is tried."""


@dataclass(frozen=True)
class JoinBiasesPass(ModulePass):
    """Join the loads of constants that lie side by side among the accumulators."""

    name = "vta-join-biases"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        for program in op.body.block.ops:
            if isinstance(program, ProgramOp):
                join_biases(ctx, program)


class Piece(NamedTuple):
    """Elements of a constant, and the first element of the scratchpad that they go to."""

    buffer: str
    dram: int
    sram: int
    length: int

    @property
    def end(self) -> int:
        """The element of the scratchpad behind the last."""
        return self.sram + self.length


@dataclass
class Group:
    """Loads that become one, in the place of the first. pieces: in the order of their places in
    the scratchpad; length: their elements."""

    first: int
    numbers: list[int]
    pieces: deque[Piece]
    length: int

    @property
    def start(self) -> int:
        """The first element of the scratchpad."""
        return self.pieces[0].sram

    @property
    def end(self) -> int:
        """The element of the scratchpad behind the last."""
        return self.pieces[-1].end

    def add(self, number: int, piece: Piece) -> None:
        """Take a load that continues the others on either side."""
        self.numbers.append(number)
        self.length += piece.length
        if piece.sram == self.end:
            self.pieces.append(piece)
        else:
            self.pieces.appendleft(piece)


def join_biases(ctx: Context, program: ProgramOp) -> None:
    """Join the loads of biases of one program."""
    instructions = program.instructions()
    if not can_be_ordered(instructions):
        return
    *moved, _ = instructions
    pieces = _pieces(program, moved)
    if sum(piece is not None for piece in pieces) < 2 or len({*map(layer_of, moved)}) < 2:
        return
    work = work_of_program(program.target, moved)
    before = precedence_of(program, moved).before
    groups = chosen_groups(program.target, work, before, pieces)
    for group in groups:
        _join(ctx, program, group, moved)
    if groups:
        _drop_unread(program)


def chosen_groups(
    target: Target,
    work: Sequence[Occupation],
    before: Sequence[set[int]],
    pieces: Sequence[Piece | None],
) -> list[Group]:
    """The loads that become one each, at least two in each group; none if nothing is gained.

    work, before, pieces: of each instruction, in program order and without FINISH; before: those
    that it must follow; pieces: what loads of constants among the accumulators bring.
    """
    best: list[Group] = []
    least = -1
    known: list[list[Group]] = [[]]
    for window in WINDOWS:
        groups = groups_of(before, pieces, window)
        if groups in known:
            continue
        known.append(groups)
        if least < 0:
            least = run(target, work, before, keep_order=True).cycles
        cycles = run(target, *_joined(target, work, before, groups), keep_order=True).cycles
        if cycles < least:
            best, least = groups, cycles
    return best


def groups_of(
    before: Sequence[set[int]], pieces: Sequence[Piece | None], window: int
) -> list[Group]:
    """Which loads can become one, where at most `window` instructions lie between two."""
    groups = list[Group]()
    by_start, by_end = dict[int, Group](), dict[int, Group]()
    """The last group that began, or ended, at each element of the scratchpad."""
    moved = dict[int, int]()
    """The places that loads have moved up to."""
    for number, piece in enumerate(pieces):
        if piece is None:
            continue
        last = max((moved.get(other, other) for other in before[number]), default=-1)
        below, above = by_end.get(piece.sram), by_start.get(piece.end)
        found = [
            group
            for group in (below, above)
            if group is not None
            and (group.end == piece.sram or group.start == piece.end)
            and group.first > last
            and number - group.numbers[-1] <= window
            and group.length + piece.length <= MOST_ELEMENTS
        ]
        if found:
            group = max(found, key=lambda each: each.first)
            group.add(number, piece)
            moved[number] = group.first
        else:
            group = Group(number, [number], deque([piece]), piece.length)
            groups.append(group)
        by_start[group.start] = by_end[group.end] = group
    return [group for group in groups if len(group.numbers) > 1]


def _joined(
    target: Target,
    work: Sequence[Occupation],
    before: Sequence[set[int]],
    groups: Sequence[Group],
) -> tuple[list[Occupation], list[set[int]]]:
    """What the instructions that are left take, and those that each must follow."""
    memory = target.system.accumulators
    first_of = {number: group.first for group in groups for number in group.numbers}
    longer = {group.first: transfer_work(target, memory, 1, group.length) for group in groups}
    left = [number for number in range(len(work)) if first_of.get(number, number) == number]
    places = {number: place for place, number in enumerate(left)}
    needed = {number: set[int]() for number in left}
    for number, others in enumerate(before):
        own = first_of.get(number, number)
        needed[own] |= {places[first_of.get(other, other)] for other in others}
    return (
        [longer.get(number, work[number]) for number in left],
        [needed[number] - {places[number]} for number in left],
    )


def _pieces(program: ProgramOp, instructions: Sequence[InstructionOp]) -> list[Piece | None]:
    """What each instruction brings, if it loads one row of a constant among the accumulators."""
    buffers, memory = program.buffers(), program.target.system.accumulators
    size = program.target.element_bytes(memory)
    pieces = list[Piece | None]()
    for op in instructions:
        piece = None
        if isinstance(op, LoadOp) and op.memory_id is memory and op.sizes[0] == 1:
            name = op.buffer_name or ""
            buffer = buffers.get(name)
            if buffer is not None and _is_whole(buffer, size) and not any(op.pad_values()):
                sram, dram = op.sram_base.value.data, op.dram_base.value.data
                piece = Piece(name, dram, sram, op.sizes[1])
        pieces.append(piece)
    return pieces


def _is_whole(buffer: BufferOp, size: int) -> bool:
    """Whether a buffer is a constant of elements of this many bytes."""
    constant = buffer.kind.data is BufferKind.CONSTANT and buffer.value is not None
    return constant and buffer.bytes.value.data % size == 0


def _join(
    ctx: Context, program: ProgramOp, group: Group, instructions: Sequence[InstructionOp]
) -> None:
    """Make one load of these, in the place of the first."""
    first = instructions[group.first]
    piece, *others = group.pieces
    name, dram = piece.buffer, piece.dram
    for other in others:
        if other.buffer != name or other.dram != dram + other.sram - piece.sram:
            name, dram = _joined_constant(ctx, program, group.pieces), 0
            break
    total = group.length
    first.properties |= {
        "sram_base": integer(piece.sram),
        "dram_base": integer(dram),
        "buffer": symbol(name),
        "size": integers(1, total),
        "stride": integer(total),
    }
    for number in group.numbers[1:]:
        Rewriter.erase_op(instructions[number])


def _joined_constant(ctx: Context, program: ProgramOp, pieces: Sequence[Piece]) -> str:
    """The name of a new constant: the elements of these one after the other."""
    buffers = program.buffers()
    size = program.target.element_bytes(program.target.system.accumulators)
    parts = []
    for piece in pieces:
        array = _array(ctx, buffers[piece.buffer])
        elements = array.reshape(-1, size // array.itemsize)
        parts.append(elements[piece.dram : piece.dram + piece.length])
    own = buffers[pieces[0].buffer]
    name = fresh(f"{pieces[0].buffer}_joined", set(buffers))
    value: Array = np.concatenate(parts)
    joined = BufferOp(
        name,
        BufferKind.CONSTANT,
        value.nbytes,
        own.align.value.data,
        value=constant_attr(ctx, value, name),
    )
    joined.location = own.location
    Rewriter.insert_op(joined, InsertPoint.after(own))
    return name


def _array(ctx: Context, buffer: BufferOp) -> Array:
    value = buffer.value
    if isinstance(value, ResourceAttr):
        return resources_of(ctx).get_array(value)
    assert isinstance(value, DenseIntOrFPElementsAttr)
    return constant_value(ctx, value, value.type)


def _drop_unread(program: ProgramOp) -> None:
    """Erase the constants that no instruction reads."""
    read = {op.buffer_name for op in program.instructions() if isinstance(op, LoadOp)}
    for name, buffer in program.buffers().items():
        if buffer.kind.data is BufferKind.CONSTANT and name not in read:
            Rewriter.erase_op(buffer)
