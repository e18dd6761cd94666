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

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from vtac.dialects.target import Memory
from vtac.dialects.vta import ComputeOp, GemmOp, MicroOps

from .accesses import Accesses, Module, Order, Space

_Factors: TypeAlias = tuple[int, int]

_NOBODY = -1
"""The number of no instruction: who touched an element last that nobody has touched."""


class Span(NamedTuple):
    """Elements [start, end) of a space that an instruction reads or writes."""

    space: Space
    start: int
    end: int
    writes: bool


class _Cells:
    """A space, cut into cells where any span starts or ends.

    numbers: the cell that starts at each such element. last: for the reads and the writes of each
    module, which instruction touched each cell last.
    """

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.last: dict[tuple[Module, bool], list[int]] = {}

    def number(self) -> None:
        """Number the cells, when all ends of spans are known."""
        self.numbers = {element: number for number, element in enumerate(sorted(self.numbers))}

    def touched(self, module: Module, writes: bool) -> list[int]:
        """Which instruction of a module read or wrote each cell last."""
        last = self.last.get((module, writes))
        if last is None:
            last = self.last[module, writes] = [_NOBODY] * len(self.numbers)
        return last


def predecessors(modules: Sequence[Module], spans: Sequence[Sequence[Span]]) -> list[set[int]]:
    """For each instruction the numbers of those that it must follow; what these follow is implied.

    modules, spans: of each instruction, in program order. An order of the instructions in which
    each follows those has the same predecessors: on no element do touches change places of which
    one must follow the other.
    """
    spaces: dict[Space, _Cells] = {}
    within = list[list[_Cells]]()
    for touched in spans:
        cells = [spaces.get(span[0]) or spaces.setdefault(span[0], _Cells()) for span in touched]
        for here, (_, start, end, _) in zip(cells, touched, strict=True):
            here.numbers[start] = here.numbers[end] = 0
        within.append(cells)
    for here in spaces.values():
        here.number()
    result = []
    for number, (module, touched, cells) in enumerate(zip(modules, spans, within, strict=True)):
        found, places = set[int](), list[tuple[list[int], int, int]]()
        for here, (_, start, end, writes) in zip(cells, touched, strict=True):
            first, behind = here.numbers[start], here.numbers[end]
            for (other, wrote), last in here.last.items():
                if writes or wrote or other is module:
                    found.update(last[first:behind])
            places.append((here.touched(module, writes), first, behind))
        for last, first, behind in places:
            last[first:behind] = [number] * (behind - first)
        found.discard(_NOBODY)
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
        written = [Span(order, 0, 1, True) for order in (Order.WAITED, Order.BEGUN)]
        return [Span(memory, base, base + held, True), *written]
    if buffer in accesses.changing:
        orders = [Order.SENT, Order.BEGUN] if stores else [Order.WAITED]
        found += [Span(order, 0, 1, False) for order in orders]
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
    low, high = _bounds(micro_ops, column)
    return low, high + (loops[0] - 1) * factors[0] + (loops[1] - 1) * factors[1] + 1


@lru_cache(maxsize=1 << 12)
def _bounds(micro_ops: MicroOps, column: int) -> tuple[int, int]:
    """The least and the greatest value of a column."""
    values = micro_ops.rows[:, column]
    return int(values.min()), int(values.max())
