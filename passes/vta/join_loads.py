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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from vtac.dialects.target import Memory, Module, System
from vtac.dialects.vta import LoadOp, StreamOp, integer, integers, streams_of

from .accesses import module_of
from .order_instructions import can_be_ordered
from .program_precedence import keep_joined, precedence_of

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


class Row(NamedTuple):
    """A load of one row of elements without pads: where they come from, and where they go."""

    memory: Memory
    buffer: str | None
    sram: int
    dram: int
    length: int

    def goes_on_in(self, other: "Row | None") -> bool:
        """Whether the other load continues this one on both sides."""
        return other is not None and other == self._replace(
            sram=self.sram + self.length, dram=self.dram + self.length, length=other.length
        )


def join_loads(program: StreamOp) -> None:
    """Join the loads of one program."""
    instructions = program.instructions()
    if not can_be_ordered(instructions):
        return
    *moved, _ = instructions
    system, found = program.target.system, cache(lambda: precedence_of(program, moved))
    runs = joined_runs(
        system,
        [module_of(op, system) for op in moved],
        [_row(op) if isinstance(op, LoadOp) else None for op in moved],
        [isinstance(op, LoadOp) for op in moved],
        lambda: found().before,
    )
    for run in runs:
        _join([op for number in run if isinstance(op := moved[number], LoadOp)])
    if runs:
        keep_joined(program, moved, found(), runs)


def joined_runs(
    system: System,
    modules: Sequence[Module],
    rows: Sequence[Row | None],
    loads: Sequence[bool],
    predecessors: Callable[[], Sequence[set[int]]],
) -> list[list[int]]:
    """The loads that become one each: numbers of instructions, at least two in each list.

    modules, rows, loads: of each instruction, in program order and without FINISH; rows: of loads
    of one row; loads: whether it is a load. predecessors: those that each must follow, asked for
    only if any two loads continue each other.
    """
    queues = [
        queue
        for loader in system.loaders
        if (queue := [number for number, module in enumerate(modules) if module is loader])
    ]
    continued = [
        [
            (row := rows[one]) is not None
            and (next := rows[other]) is not None
            and row.goes_on_in(next)
            for one, other in pairwise(queue)
        ]
        for queue in queues
    ]
    if not any(map(any, continued)):
        return []
    before, found = predecessors(), list[list[int]]()
    # The loads of modules that run other instructions, too.
    beside = [
        load and module not in system.loaders for load, module in zip(loads, modules, strict=True)
    ]
    for queue, joins in zip(queues, continued, strict=True):
        needless = _needless(system, modules, before, queue, [0, *accumulate(beside)])
        runs = _runs(queue, [j and n for j, n in zip(joins, needless, strict=True)])
        found += [part for run in runs for part in _parts(run, rows) if len(part) > 1]
    return found


def _row(load: LoadOp) -> Row | None:
    if load.sizes[0] != 1 or any(load.pad_values()):
        return None
    sram, dram = load.sram_base.value.data, load.dram_base.value.data
    return Row(load.memory_id, load.buffer_name, sram, dram, load.sizes[1])


def _needless(
    system: System,
    modules: Sequence[Module],
    before: Sequence[set[int]],
    queue: Sequence[int],
    beside: Sequence[int],
) -> list[bool]:
    """For each two neighbours in a load module's queue, whether nothing gains by two loads.

    modules, before: of each instruction, in program order; before: the instructions that it must
    follow. beside: number of other modules' loads among the first instructions, for each number of
    them.
    """
    own = modules[queue[0]]
    others = {system.moves[memory] for memory in system.moves if memory is not system.results}
    others -= system.loaders
    followers = _earliest_followers(own, modules, before)
    waited = list(_waited_for(system, modules, before, queue))
    last_load = _last_loads(own, modules, before)
    result = []
    for place, (one, other) in enumerate(pairwise(queue)):
        follower = followers.get(one)
        first = min((waited[place + 1][module] for module in others), default=-1) + 1
        result.append(
            waited[place + 1] == waited[place]
            and (follower is None or last_load[follower] >= other)
            and beside[first] == beside[followers.get(other, len(modules))]
        )
    return result


def _earliest_followers(
    own: Module, modules: Sequence[Module], before: Sequence[set[int]]
) -> dict[int, int]:
    """For each load the first instruction of another module that must follow it."""
    result: dict[int, int] = {}
    for number, needed in enumerate(before):
        if modules[number] is not own:
            for load in needed:
                result.setdefault(load, number)
    return result


def _last_loads(own: Module, modules: Sequence[Module], before: Sequence[set[int]]) -> list[int]:
    """For each instruction the last load that its module has waited for when it starts, or -1."""
    last = dict.fromkeys(modules, -1)
    result = []
    for module, needed in zip(modules, before, strict=True):
        loads = (number for number in needed if modules[number] is own)
        last[module] = max((last[module], *loads))
        result.append(last[module])
    return result


def _waited_for(
    system: System,
    modules: Sequence[Module],
    before: Sequence[set[int]],
    queue: Sequence[int],
) -> Iterator[tuple[int, ...]]:
    """For each load the last instruction of each other module that its own has waited for."""
    last = [-1] * len(system.modules)
    for number in queue:
        for needed in before[number]:
            module = modules[needed]
            if module is not modules[number]:
                last[module] = max(last[module], needed)
        yield tuple(last)


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


def _parts(run: Sequence[int], rows: Sequence[Row | None]) -> Iterator[list[int]]:
    """Loads of a run that one instruction each can hold together."""
    part, total = list[int](), 0
    for number in run:
        row = rows[number]
        length = 0 if row is None else row.length
        if part and total + length > MOST_ELEMENTS:
            yield part
            part, total = [], 0
        part.append(number)
        total += length
    yield part


def _join(loads: Sequence[LoadOp]) -> None:
    """Make one load of these."""
    first, *rest = loads
    total = sum(load.sizes[1] for load in loads)
    first.properties |= {"size": integers(1, total), "stride": integer(total)}
    for load in rest:
        Rewriter.erase_op(load)
