"""``vta-join-loads``: joins neighbouring loads whose separation shortens no wait.

``vta-split-loads`` cuts long loads so that ``vta-order-instructions`` may put others between the
pieces, and so that the modules wait for a part instead of a whole. Where the order leaves pieces
next to each other in the queue of the load module, each still pays the time of an instruction: its
fetch, and the latency of its first request. Two such loads become one if

- the second continues the first in DRAM and in its scratchpad, and both are one row without pads;
- the second waits for no later instruction of another module than the load module has waited for
  up to the first;
- no instruction can start with the data of the first alone: the earliest one that touches them
  waits for the second, or for a load behind it, anyway; and
- no load of accumulators can run beside the second: the compute module's loads come last at the
  read port, and a gap between two loads of weights is where they are served.

Takes placed instructions with inline micro-ops, in their final order; leaves fewer loads. Other
programs are left as they are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from vtac.dialects.vta import InstructionOp, LoadOp, StreamOp, integer, integers, streams_of

from .accesses import Module, module_of
from .order_instructions import can_be_ordered, predecessors_of

MOST_ELEMENTS = (1 << 16) - 1
"""What the field ``x_size`` of a transfer can hold."""


@dataclass(frozen=True)
class JoinLoadsPass(ModulePass):
    """Join neighbouring loads of every vta.program where nothing waits for the first alone."""

    name = "vta-join-loads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        for program in streams_of(op):
            join_loads(program)


def join_loads(program: StreamOp) -> None:
    """Join the loads of one program."""
    instructions = program.instructions()
    if not can_be_ordered(instructions):
        return
    *moved, _ = instructions
    modules = [module_of(op) for op in moved]
    queue = [number for number, module in enumerate(modules) if module is Module.LOAD]
    continued = [_continues(moved[one], moved[other]) for one, other in pairwise(queue)]
    if not any(continued):
        return
    before = predecessors_of(program, moved)
    beside = [
        isinstance(op, LoadOp) and module is Module.COMPUTE
        for op, module in zip(moved, modules, strict=True)
    ]
    needless = _needless(modules, before, queue, [0, *accumulate(beside)])
    runs = _runs(queue, [c and n for c, n in zip(continued, needless, strict=True)])
    for run in runs:
        _join([op for number in run if isinstance(op := moved[number], LoadOp)])


def _continues(one: InstructionOp, other: InstructionOp) -> bool:
    """Whether the second load is one row that goes on where the row of the first ends."""
    if not isinstance(one, LoadOp) or not isinstance(other, LoadOp):
        return False
    length = one.sizes[1]
    return (
        one.memory_id is other.memory_id
        and one.buffer_name == other.buffer_name
        and one.sizes[0] == other.sizes[0] == 1
        and not any((*one.pad_values(), *other.pad_values()))
        and other.sram_base.value.data == one.sram_base.value.data + length
        and other.dram_base.value.data == one.dram_base.value.data + length
    )


def _needless(
    modules: Sequence[Module],
    before: Sequence[set[int]],
    queue: Sequence[int],
    beside: Sequence[int],
) -> list[bool]:
    """For each two neighbours in the load module's queue, whether nothing gains by two loads.

    modules, before: of each instruction, in program order; before: the instructions that it must
    follow. beside: number of the compute module's loads among the first instructions, for each
    number of them.
    """
    followers = _earliest_followers(modules, before)
    waited = list(_waited_for(modules, before, queue))
    last_load = _last_loads(modules, before)
    result = []
    for place, (one, other) in enumerate(pairwise(queue)):
        follower = followers.get(one)
        may_run_beside = waited[place + 1][0] + 1, followers.get(other, len(modules))
        result.append(
            waited[place + 1] == waited[place]
            and (follower is None or last_load[follower] >= other)
            and beside[may_run_beside[0]] == beside[may_run_beside[1]]
        )
    return result


def _earliest_followers(modules: Sequence[Module], before: Sequence[set[int]]) -> dict[int, int]:
    """For each load the first instruction of another module that must follow it."""
    result: dict[int, int] = {}
    for number, needed in enumerate(before):
        if modules[number] is not Module.LOAD:
            for load in needed:
                result.setdefault(load, number)
    return result


def _last_loads(modules: Sequence[Module], before: Sequence[set[int]]) -> list[int]:
    """For each instruction the last load that its module has waited for when it starts, or -1."""
    last = dict.fromkeys(Module, -1)
    result = []
    for module, needed in zip(modules, before, strict=True):
        loads = (number for number in needed if modules[number] is Module.LOAD)
        last[module] = max((last[module], *loads))
        result.append(last[module])
    return result


def _waited_for(
    modules: Sequence[Module], before: Sequence[set[int]], queue: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """For each load the last compute and store instruction that its module has waited for."""
    last = {Module.COMPUTE: -1, Module.STORE: -1}
    for number in queue:
        for needed in before[number]:
            module = modules[needed]
            if module is not Module.LOAD:
                last[module] = max(last[module], needed)
        yield last[Module.COMPUTE], last[Module.STORE]


def _runs(queue: Sequence[int], joined: Sequence[bool]) -> Iterator[list[int]]:
    """The groups of neighbours in the queue that become one load."""
    run = [queue[0]]
    for number, with_last in zip(queue[1:], joined, strict=True):
        if with_last:
            run.append(number)
        else:
            yield run
            run = [number]
    yield run


def _join(loads: Sequence[LoadOp]) -> None:
    """Make one load of these, or several where one instruction cannot hold all elements."""
    while len(loads) > 1:
        lengths, count, total = [load.sizes[1] for load in loads], 0, 0
        while count < len(loads) and total + lengths[count] <= MOST_ELEMENTS:
            total += lengths[count]
            count += 1
        first, *rest = loads[: max(count, 1)]
        if rest:
            first.properties |= {"size": integers(1, total), "stride": integer(total)}
        for load in rest:
            Rewriter.erase_op(load)
        loads = loads[max(count, 1) :]
