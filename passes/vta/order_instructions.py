"""``vta-order-instructions``: orders the instructions of a program so that its modules wait less.

Kernels come one after the other, each with loads, compute and stores of its own. At the border of
two kernels the inputs of the second wait for the stores of the first, and in the load module's
queue its weights wait behind the inputs. This pass orders a program as a whole by a list schedule
(`list_schedule`): weights, biases and even compute instructions of the next kernels fill the gaps.
It is GraphTurbo's scheduling of instructions across layers, on one core (Zhao et al., "Effectively
Scheduling Computational Graphs of Deep Neural Networks toward Their Domain-Specific Accelerators",
OSDI 2023, section 4.4).

Instructions that touch the same elements keep their order (`precedence`), so any program that comes
out computes the same. Room limits how far instructions move: ``vta-allocate`` reuses the elements
whose last use is longest ago. A program stays as it is if the model gains nothing.

In a second try, for programs of one core that are not long, an idle module takes the most urgent
instruction instead of the first in program order (`list_schedule.urgencies`). That brings forward
what many wait for, and what is used late comes late. It is kept where it gains clearly: the model
is not exact, and differences below `MARGIN` say little about the clock.

The cores of a cluster share DDR. What one loads long before it is needed, others may need now; so
the option ``ahead`` limits how early loads start.

Takes placed instructions with inline micro-ops, and a FINISH at the end; leaves them in another
order. Other programs are left as they are.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, IntegerType, ModuleOp
from xdsl.passes import ModulePass

from vtac.dialects.target import INSTRUCTION_BYTES, Target
from vtac.dialects.vta import (
    ClusterOp,
    ComputeOp,
    InstructionOp,
    LoadOp,
    StoreOp,
    StreamOp,
    streams_of,
)
from vtac.dialects.vta.attributes import numbers
from vtac.dialects.vta.encoding import Opcode
from vtac.passes.side_by_side import begun_beside

from .list_schedule import Occupation, compute_work, earliest_loads, run, transfer_work, urgencies
from .program_precedence import precedence_of

EIGHTHS = 8
"""How early loads start is counted in eighths of WGT."""

AHEAD = 16
"""Eighths of WGT that could be filled between a load of a cluster's core and its first use."""


MARGIN = 128
"""An order by urgency is kept where it takes at least 1/128 of the cycles less by the model.

Of six small networks on chisel-pynq, two gain 0.9 and 2.0 % by the model, and 0.5 and 1.6 % by the
clock; the others gain at most 0.6 % by the model, and some of them lose up to 0.3 % by the clock.
"""

MOST_INSTRUCTIONS = 8192
"""Longer programs are not ordered by urgency, which takes as long as the first try again."""

MANY_INSTRUCTIONS = 2000
"""From so many on, a run of a program takes longer than the start of a process."""


@dataclass(frozen=True)
class OrderInstructionsPass(ModulePass):
    """Order the instructions of every vta.program across its kernels.

    ahead: the eighths of WGT that could be filled, at a core's share of DDR, between a load of a
    cluster's core and its first use, at most; 0: no limit.
    """

    name = "vta-order-instructions"

    ahead: int = AHEAD

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        for program in streams_of(op):
            order_instructions(program, self.ahead)


def order_instructions(program: StreamOp, ahead: int = AHEAD) -> None:
    """Order the instructions of one program, if that makes it faster by the model.

    ahead: as the option of the pass.
    """
    instructions = program.instructions()
    if not can_be_ordered(instructions):
        return
    *moved, _ = instructions
    target = program.target
    work = work_of_program(target, moved)
    most = _most_ahead(program, ahead)
    order = better_order(target, work, precedence_of(program, moved).before, most)
    if order is not None:
        arrange(program, [moved[number] for number in order])


def better_order(
    target: Target,
    work: Sequence[Occupation],
    before: Sequence[set[int]],
    ahead: int | None = None,
) -> list[int] | None:
    """The instructions of a program in an order that is faster by the model; None if none is.

    work: what each instruction takes, in program order and without FINISH. before: for each the
    instructions that it must follow (`predecessors`). ahead: how many cycles before its first use a
    load may start; None: any number.
    """
    fetches = ahead is None and _fetch_counts(target, work)
    in_order = partial(run, target, work, before, keep_order=True, fetches=fetches)
    if ahead is not None:
        kept = in_order()
        earliest = earliest_loads(target.system, work, before, kept.starts, ahead)
        chosen = run(target, work, before, earliest=earliest)
        return chosen.order if chosen.cycles < kept.cycles else None
    begun = begun_beside(in_order) if len(work) >= MANY_INSTRUCTIONS else in_order
    chosen = run(target, work, before, fetches=fetches)
    if len(work) <= MOST_INSTRUCTIONS:
        urgency = urgencies(target, work, before, chosen.starts)
        urgent = run(target, work, before, urgency=urgency, fetches=fetches)
        if chosen.cycles - urgent.cycles >= chosen.cycles // MARGIN:
            chosen = urgent
    return chosen.order if chosen.cycles < begun().cycles else None


def _fetch_counts(target: Target, work: Sequence[Occupation]) -> bool:
    """Whether a program's instructions take at least 1/`MARGIN` of the beats that can pass while
    its busiest module works. In longer programs the beginning says little, and fetch only there
    takes much of the channel.
    """
    busy: Counter[int] = Counter()
    for module, cycles, beats in work:
        busy[module] += cycles + (beats or 0)
    fetched = target.timing.beats((len(work) + 1) * INSTRUCTION_BYTES)
    return MARGIN * fetched >= max(busy.values(), default=0)


def _most_ahead(program: StreamOp, ahead: int) -> int | None:
    """How many cycles before its first use a load may start; None: any number.

    ahead: as the option of the pass.
    """
    cluster, target = program.parent_op(), program.target
    if not isinstance(cluster, ClusterOp) or cluster.target.cores == 1 or ahead == 0:
        return None
    size = target.wgt_depth * target.element_bytes(target.system.weights)
    return ahead * size * cluster.target.cores // (EIGHTHS * target.timing.port_bytes)


def work_of_program(target: Target, instructions: Sequence[InstructionOp]) -> list[Occupation]:
    """What each instruction takes; the same sizes and micro-ops come again and again."""
    known = dict[tuple[int | bool, ...], Occupation]()
    found = []
    for op in instructions:
        properties = op.properties
        key = op.OPCODE, "imm" in properties, *map(id, map(properties.get, _WORK))
        work = known.get(key)
        if work is None:
            work = known[key] = _work_of(op, target)
        found.append(work)
    return found


_WORK = ("memory", "size", "micro_ops", "loops")
"""The properties on which it depends what an instruction takes, besides whether ``imm`` is one."""


def _work_of(op: InstructionOp, target: Target) -> Occupation:
    if isinstance(op, LoadOp | StoreOp):
        return transfer_work(target, op.memory_id, *op.sizes)
    assert isinstance(op, ComputeOp) and op.micro_ops is not None
    return compute_work(target, op, op.micro_ops)


def can_be_ordered(instructions: Sequence[InstructionOp]) -> bool:
    """Whether all are as ``vta-allocate`` leaves them, and only the last is a FINISH."""
    finishes = [number for number, op in enumerate(instructions) if op.OPCODE is Opcode.FINISH]
    return finishes == [len(instructions) - 1] and all(map(_is_known, instructions[:-1]))


def _is_known(op: InstructionOp) -> bool:
    """Whether the elements that an instruction touches are known."""
    properties = op.properties
    if op.OPCODE in (Opcode.LOAD, Opcode.STORE):
        return op.placed and "buffer" in properties
    loops = cast("DenseArrayBase[IntegerType]", properties["loops"])
    return op.placed and "micro_ops" in properties and 0 not in numbers(loops)


def arrange(program: StreamOp, instructions: Sequence[InstructionOp]) -> None:
    """Put the instructions in this order; FINISH, which is last, stays."""
    block = program.body.block
    last = block.last_op
    assert last is not None
    for op in instructions:
        block.detach_op(op)
    block.insert_ops_before(instructions, last)
