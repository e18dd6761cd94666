"""Finds the instructions of a program that must stay in order: those that touch the same elements.

Two instructions conflict if both touch an element and one of them writes it. Conflicts inside a
module count as well, in contrast to `accesses`, which serves programs whose order is fixed. So ACC
is a space here: GEMM, ALU and loads of accumulators write it, the ALU reads it. Reads of the same
elements by one module also keep their order. That costs little, and it makes the last touch of an
element by each module all that must be remembered: whoever comes later follows the earlier ones
through it.

Scratchpads are compared by hulls, which stay inside a buffer, since an index of an instruction
belongs to one buffer. DRAM is compared row by row.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from vtac.dialects.target import Memory, Module
from vtac.dialects.vta import ComputeOp, MicroOps

from .accesses import Accesses, Order, Space

_Factors: TypeAlias = tuple[int, int]

_NOBODY = -1
"""The number of no instruction: who touched an element last that nobody has touched."""


class Span(NamedTuple):
    """Elements [start, end) of a space that an instruction reads or writes."""

    space: Space
    start: int
    end: int
    writes: bool


class _Touches:
    """The touches of a space by one module, all of them reads or all writes.

    The space is cut where spans begin and end. starts: the first element of each part, in rising
    order; the last part has no end. last: which instruction touched each part last. relevant: the
    touches, these among them, that a further one of this kind must follow.
    """

    def __init__(self) -> None:
        self.starts: list[int] = [-1]
        self.last: list[int] = [_NOBODY]
        self.relevant: list[_Touches] = [self]


class _Spaces:
    """The touches of all spaces, by space, module, and whether they write."""

    def __init__(self) -> None:
        self.kinds: dict[tuple[Space, Module, bool], _Touches] = {}
        self._by_space: dict[Space, list[tuple[Module, bool, _Touches]]] = {}

    def meet(self, space: Space, module: Module, writes: bool) -> _Touches:
        """The first touch of this kind."""
        mine = self.kinds[space, module, writes] = _Touches()
        others = self._by_space.setdefault(space, [])
        for other, wrote, touches in others:
            if writes or wrote or other is module:
                mine.relevant.append(touches)
                touches.relevant.append(mine)
        others.append((module, writes, mine))
        return mine


def predecessors(modules: Sequence[Module], spans: Sequence[Sequence[Span]]) -> list[set[int]]:
    """For each instruction the numbers of those that it must follow; what these follow is implied.

    modules, spans: of each instruction, in program order. An order of the instructions in which
    each follows those has the same predecessors: on no element do touches change places of which
    one must follow the other.
    """
    spaces = _Spaces()
    result = []
    for number, (module, touched) in enumerate(zip(modules, spans, strict=True)):
        found = {_NOBODY, number}
        for space, start, end, writes in touched:
            mine = spaces.kinds.get((space, module, writes)) or spaces.meet(space, module, writes)
            for touches in mine.relevant:
                starts = touches.starts
                first = bisect_right(starts, start) - 1
                last = bisect_left(starts, end, first + 1)
                if last == first + 1:
                    found.add(touches.last[first])
                else:
                    found.update(touches.last[first:last])
            starts = mine.starts
            first = bisect_left(starts, start)
            last = bisect_right(starts, end, first)
            if last == first + 2 and starts[first] == start and starts[first + 1] == end:
                mine.last[first] = number
            else:
                # The last part within the span goes on behind it.
                behind = mine.last[last - 1]
                starts[first:last], mine.last[first:last] = (start, end), (number, behind)
        found -= {_NOBODY, number}
        result.append(found)
    return result


def transfer_spans(
    accesses: Accesses,
    memory: Memory,
    base: int,
    held: int,
    buffer: str,
    place: int,
    rows: tuple[int, int, int],
) -> list[Span]:
    """The spans of a LOAD, or for OUT of a STORE. The arguments are those of `of_transfer`."""
    y, x, _ = rows
    if x == 0 or y == 0:
        return []
    system, found = accesses.system, []
    stores = memory is system.results
    if buffer in accesses.semaphores:
        # A wait follows the signals before it, so that no cycle of units waits for itself.
        if stores:
            return [Span(Order.WAITED, 0, 1, False), Span(Order.SENT, 0, 1, True)]
        written = [Span(order, 0, 1, True) for order in (Order.WAITED, Order.BEGUN)]
        return [Span(memory, base, base + held, True), *written]
    if buffer in accesses.changing:
        orders = [Order.SENT, Order.BEGUN] if stores else [Order.WAITED]
        found += [Span(order, 0, 1, False) for order in orders]
    if memory is not system.micro_ops:
        found.append(Span(system.place_of(memory), base, base + held, not stores))
    dram = accesses.dram_rows(memory, buffer, place, rows)
    if dram is not None:
        found += [Span(dram.space, at, at + dram.length, stores) for at in dram.starts]
    return found


def compute_spans(op: ComputeOp, micro_ops: MicroOps) -> list[Span]:
    """The spans of a GEMM or ALU instruction that runs these micro-ops, on absolute indices.

    An accumulation reads what it writes, which needs no span.
    """
    factors = op.factors()
    return [
        Span(memory, *_hull(micro_ops, column, op.iterations, factors[column]), writes)
        for memory, column, writes in op.touched()
    ]


def _hull(
    micro_ops: MicroOps, column: int, loops: tuple[int, int], factors: _Factors
) -> tuple[int, int]:
    """The first element that an index (0 dst, 1 src, 2 wgt) reaches, and the one behind the
    last."""
    low, high = _bounds(micro_ops)[column]
    return low, high + (loops[0] - 1) * factors[0] + (loops[1] - 1) * factors[1] + 1


@lru_cache(maxsize=1 << 12)
def _bounds(micro_ops: MicroOps) -> list[tuple[int, int]]:
    """The least and the greatest value of each column."""
    rows = micro_ops.rows
    return list(zip(rows.min(axis=0).tolist(), rows.max(axis=0).tolist(), strict=True))
