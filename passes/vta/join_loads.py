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
from itertools import accumulate, pairwise
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from vtac.dialects.target import Memory
from vtac.dialects.vta import LoadOp, StreamOp, integer, integers, streams_of

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
    runs = joined_runs(
        [module_of(op) for op in moved],
        [_row(op) if isinstance(op, LoadOp) else None for op in moved],
        [isinstance(op, LoadOp) for op in moved],
        lambda: predecessors_of(program, moved),
    )
    for run in runs:
        _join([op for number in run if isinstance(op := moved[number], LoadOp)])


def joined_runs(
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
    queue = [number for number, module in enumerate(modules) if module is Module.LOAD]
    continued = [
        (row := rows[one]) is not None
        and (next := rows[other]) is not None
        and row.goes_on_in(next)
        for one, other in pairwise(queue)
    ]
    if not any(continued):
        return []
    before = predecessors()
    beside = [
        load and module is Module.COMPUTE for load, module in zip(loads, modules, strict=True)
    ]
    needless = _needless(modules, before, queue, [0, *accumulate(beside)])
    found = _runs(queue, [c and n for c, n in zip(continued, needless, strict=True)])
    parts = (part for run in found for part in _parts(run, rows))
    return [part for part in parts if len(part) > 1]


def _row(load: LoadOp) -> Row | None:
    if load.sizes[0] != 1 or any(load.pad_values()):
        return None
    sram, dram = load.sram_base.value.data, load.dram_base.value.data
    return Row(load.memory_id, load.buffer_name, sram, dram, load.sizes[1])


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
