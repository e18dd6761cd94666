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

import bisect
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from vtac.dialects.target import Memory
from vtac.dialects.vta import ComputeOp, GemmOp, MicroOps

from .accesses import Accesses, Module, Order, Space

_Factors: TypeAlias = tuple[int, int]


class Span(NamedTuple):
    """Elements [start, end) of a space that an instruction reads or writes."""

    space: Space
    start: int
    end: int
    writes: bool


class _Touches:
    """The last touch of each element by one module, all reads or all writes.

    Kept as disjoint spans in rising order, each with the number of an instruction.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._numbers: list[int] = []

    def _first(self, start: int) -> int:
        """The first span that ends behind `start`."""
        return bisect.bisect_right(self._ends, start)

    def add_to(self, found: set[int], start: int, end: int) -> None:
        """Add the instructions that touched elements of [start, end) last."""
        at, starts = self._first(start), self._starts
        while at < len(starts) and starts[at] < end:
            found.add(self._numbers[at])
            at += 1

    def record(self, start: int, end: int, number: int) -> None:
        """An instruction touches [start, end)."""
        first = last = self._first(start)
        pieces = [(start, end, number)]
        if first < len(self._starts) and self._starts[first] < start:
            pieces.insert(0, (self._starts[first], start, self._numbers[first]))
        while last < len(self._starts) and self._starts[last] < end:
            if self._ends[last] > end:
                pieces.append((end, self._ends[last], self._numbers[last]))
            last += 1
        starts, ends, numbers = zip(*pieces, strict=True)
        self._starts[first:last] = starts
        self._ends[first:last] = ends
        self._numbers[first:last] = numbers


def predecessors(modules: Sequence[Module], spans: Sequence[Iterable[Span]]) -> list[set[int]]:
    """For each instruction the numbers of those that it must follow; what these follow is implied.

    modules, spans: of each instruction, in program order.
    """
    touches: dict[Space, dict[tuple[Module, bool], _Touches]] = {}
    result = []
    for number, (module, touched) in enumerate(zip(modules, spans, strict=True)):
        found = set[int]()
        for space, start, end, writes in touched:
            for (other, wrote), earlier in touches.get(space, {}).items():
                if writes or wrote or other is module:
                    earlier.add_to(found, start, end)
        for space, start, end, writes in touched:
            here = touches.setdefault(space, {})
            here.setdefault((module, writes), _Touches()).record(start, end, number)
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
    stores, found = memory is Memory.OUT, []
    if buffer in accesses.semaphores:
        # A wait follows the signals before it, so that no cycle of units waits for itself.
        if stores:
            return [Span(Order.WAITED, 0, 1, False), Span(Order.SENT, 0, 1, True)]
        return [Span(memory, base, base + held, True), Span(Order.WAITED, 0, 1, True)]
    if buffer in accesses.changing:
        order = Order.SENT if stores else Order.WAITED
        found.append(Span(order, 0, 1, False))
    if memory is not Memory.UOP:
        space = Memory.ACC if memory is Memory.ACC_8BIT else memory
        found.append(Span(space, base, base + held, not stores))
    dram = accesses.dram_rows(memory, buffer, place, rows)
    if dram is not None:
        found += [Span(dram.space, at, at + dram.length, stores) for at in dram.starts]
    return found


def compute_spans(op: ComputeOp, micro_ops: MicroOps) -> list[Span]:
    """The spans of a GEMM or ALU instruction that runs these micro-ops, on absolute indices.

    A reset leaves OUT as it is. An accumulation reads what it writes, which needs no span.
    """
    dst, src, wgt = op.factors()
    written = _hull(micro_ops, 0, op.iterations, dst)
    if isinstance(op, GemmOp) and op.reset is not None:
        return [Span(Memory.ACC, *written, True)]
    read = _hull(micro_ops, 1, op.iterations, src)
    found = [Span(Memory.ACC, *written, True), Span(Memory.OUT, *written, True)]
    if isinstance(op, GemmOp):
        found.append(Span(Memory.INP, *read, False))
        found.append(Span(Memory.WGT, *_hull(micro_ops, 2, op.iterations, wgt), False))
    else:
        found.append(Span(Memory.ACC, *read, False))
    return found


def _hull(
    micro_ops: MicroOps, column: int, loops: tuple[int, int], factors: _Factors
) -> tuple[int, int]:
    """The first element that an index (0 dst, 1 src, 2 wgt) reaches, and the one behind the
    last."""
    values = micro_ops.rows[:, column]
    steps = sum((count - 1) * by for count, by in zip(loops, factors, strict=True))
    return int(values.min()), int(values.max()) + steps + 1
