"""Instructions too large for a plan: the same work piece after piece, in bounded memory.

A legal instruction may run 2^14 x 2^14 x 2^13 micro-ops. A loop that adds nothing to any index
repeats the same work, for which there is a short cut in most cases; any other loop has at most as
many iterations as a buffer has elements. The remaining work is done in pieces, unless it would take
unreasonably long: each of the limits below stands for about ten seconds on one slow core. Beyond
them, an instruction is refused with a diagnostic.

* GEMM: sums commute, so iterations are cut anywhere; loops that add nothing are a factor.
* ALU with an immediate, each micro-op on its own accumulator: these commute, too, so n operations
  on one accumulator become a single one: n times a sum, a power, or one longer shift.
* Any other ALU: pieces in program order. Iterations that are all the same end where one of them
  changes nothing, as those of MIN, MAX and SHR soon do.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..dialects.vta.encoding import Alu, AluOpcode
from .alu_plan import AluPlan, depends_on_previous, plan_alu
from .buffers import Buffers, Rows
from .elements import Indices, Loop
from .errors import Fault
from .gemm_plan import GemmPlan
from .steps import AluStep, Multiply, settling

MOST_MICRO_OPS = 1 << 27
"""Most micro-ops of a GEMM in matrix products, not counting loops that add nothing to any index;
and of an ALU instruction whose neighbouring micro-ops are checked for dependences."""

MOST_SINGLE = 1 << 23
"""Most micro-ops that run one by one: of a GEMM whose loops all add to dst, src and wgt, of an ALU
in order."""

MOST_LEVELS = 1 << 18
"""Most levels of one ALU instruction: the length of its longest chain of dependent micro-ops."""

_ALU_PIECE = 1 << 14
_OVERHEAD = 8
"""The fixed cost of a piece, in levels."""
_APART_PIECE = 1 << 20

Piece = tuple[Indices, tuple[Loop, Loop]]
"""Micro-ops and the loops around them."""


def _limited(micro_ops: int, most: int) -> None:
    if micro_ops > most:
        raise Fault(f"{micro_ops} micro-ops of one instruction would take the simulator too long")


def gemm_pieces(micro_ops: Indices, loops: Sequence[Loop], most: int) -> Iterator[Piece]:
    """A GEMM instruction as several of at most so many micro-ops, [n, 3], absolute.

    Raises `Fault` where they would take too long.
    """
    outer, inner = loops
    counts = [1 if not any(loop.factors) else loop.count for loop in (outer, inner)]
    total = len(micro_ops) * counts[0] * counts[1]
    _limited(total, MOST_MICRO_OPS)
    if not any(0 in loop.factors for loop, n in zip(loops, counts, strict=True) if n > 1):
        _limited(total, MOST_SINGLE)
    sizes = [*counts, len(micro_ops)]
    while sizes[0] * sizes[1] * sizes[2] > most:
        largest = sizes.index(max(sizes))
        sizes[largest] = -(-sizes[largest] // 2)
    for i in range(0, counts[0], sizes[0]):
        for j in range(0, counts[1], sizes[1]):
            shift = i * np.array(outer.factors) + j * np.array(inner.factors)
            part = tuple(
                loop if not any(loop.factors) else replace(loop, count=min(size, loop.count - at))
                for loop, size, at in ((outer, sizes[0], i), (inner, sizes[1], j))
            )
            for u in range(0, len(micro_ops), sizes[2]):
                yield micro_ops[u : u + sizes[2]] + shift, (part[0], part[1])


def run_gemm(buffers: Buffers, plan: GemmPlan, bases: tuple[int, int, int]) -> None:
    """Multiply and accumulate one piece."""
    dst, src, wgt = bases
    for product in plan.products:
        for chunk in product.chunks:
            multiply = Multiply(buffers, chunk)
            multiply.into(multiply.sums, src, wgt)()
            settling(buffers, product.placement, multiply.sums, dst, plan.repeats)()


def in_program_order(
    micro_ops: Indices, loops: Sequence[Loop], size: int
) -> Iterator[list[Indices]]:
    """The columns of micro-ops [n, columns] inside two loops, at most ``size`` at a time."""
    outer, inner = loops
    count = len(micro_ops)
    total = outer.count * inner.count * count
    _limited(total, MOST_MICRO_OPS)
    for first in range(0, total, size):
        place = np.arange(first, min(first + size, total))
        u, rest = place % count, place // count
        j, i = rest % inner.count, rest // inner.count
        yield [
            micro_ops[u, column] + i * outer.factors[column] + j * inner.factors[column]
            for column in range(micro_ops.shape[1])
        ]


def adjacent(micro_ops: Indices, loops: Sequence[Loop], *, immediate: bool) -> bool:
    """Whether a micro-op [n, columns] depends on the one just before it (see `alu_plan`).

    Of iterations that are all the same, two are enough to check.
    """
    columns = range(micro_ops.shape[1])
    shown = [
        loop if any(loop.factors[c] for c in columns) else replace(loop, count=min(loop.count, 2))
        for loop in loops
    ]
    last: list[Indices] | None = None
    for piece in in_program_order(micro_ops, shown, _APART_PIECE):
        dst, *src = piece if last is None else map(np.concatenate, zip(last, piece, strict=True))
        if depends_on_previous(dst, src[0] if src else None, immediate=immediate):
            return True
        last = [column[-1:] for column in piece]
    return False


def alu_step(
    buffers: Buffers, alu: Alu, micro_ops: Indices, loops: Sequence[Loop]
) -> Callable[[], None]:
    """The step of an ALU instruction with absolute micro-ops [n, columns]; it may raise `Fault`."""
    outer, inner = loops
    own = micro_ops.shape[1] == 1 or (
        bool((micro_ops[:, 0] == micro_ops[:, 1]).all())
        and all(loop.dst == loop.src for loop in loops)
    )
    if alu.use_imm and own:
        times = _times(len(buffers.acc), micro_ops[:, 0], loops)
        return lambda: _operate_often(buffers.acc, alu, times)
    return _InOrder(buffers, alu, micro_ops, outer, inner).run


def _times(depth: int, dst: Indices, loops: Sequence[Loop]) -> NDArray[np.int64]:
    """How many micro-ops work on each accumulator."""
    times = np.bincount(dst, minlength=depth)
    for loop in loops:
        if not loop.dst:
            times = times * loop.count
            continue
        sums = np.zeros_like(times)
        for shift in range(0, loop.count * loop.dst, loop.dst):
            sums[shift:] += times[: depth - shift]
        times = sums
    return times


def _operate_often(acc: Rows, alu: Alu, times: NDArray[np.int64]) -> None:
    """acc[d] = op(... op(acc[d], imm) ..., imm), ``times`` times."""
    met, imm = np.flatnonzero(times), alu.imm
    count, left = times[met, None], acc[met]
    match alu.alu_opcode:
        case AluOpcode.MIN:
            result = np.minimum(left, imm)
        case AluOpcode.MAX:
            result = np.maximum(left, imm)
        case AluOpcode.ADD:
            result = (left + count * imm).astype(np.int32)
        case AluOpcode.SHR if imm >= 0:
            result = left >> np.minimum(count * imm, 31).astype(np.int32)
        case AluOpcode.SHR:
            shifted = left.astype(np.int64) << np.minimum(-imm * count, 32)
            result = shifted.astype(np.int32)
        case AluOpcode.MUL:
            powers = [[pow(imm, int(n), 1 << 32)] for n in count[:, 0]]
            result = (left * np.array(powers, np.uint32).view(np.int32)).astype(np.int32)
    acc[met] = result


class _InOrder:
    """An ALU instruction in program order, one piece planned and run after the other."""

    def __init__(
        self, buffers: Buffers, alu: Alu, micro_ops: Indices, outer: Loop, inner: Loop
    ) -> None:
        self._buffers, self._alu, self._micro_ops = buffers, alu, micro_ops
        self._outer, self._inner = outer, inner
        self._columns = range(micro_ops.shape[1])
        self._done = self._levels = 0

    def _idle(self, loop: Loop) -> bool:
        return not any(loop.factors[column] for column in self._columns)

    def run(self) -> None:
        """Run it. Raises `Fault` where it takes too long."""
        self._done = self._levels = 0
        outer, inner, once = self._outer, self._inner, Loop(1, 0, 0, 0)
        if self._idle(outer) and self._idle(inner):
            self._repeat(outer.count * inner.count, self._micro_ops, (once, once))
        elif self._idle(outer):
            self._repeat(outer.count, self._micro_ops, (once, inner))
        elif self._idle(inner):
            for i in range(outer.count):
                shift = np.array([i * outer.factors[column] for column in self._columns])
                self._repeat(inner.count, self._micro_ops + shift, (once, once))
        else:
            self._pass(self._micro_ops, (outer, inner))

    def _repeat(self, times: int, micro_ops: Indices, loops: tuple[Loop, Loop]) -> None:
        acc = self._buffers.acc
        pieces = in_program_order(micro_ops, loops, _ALU_PIECE)
        first = next(pieces)
        short = len(first[0]) == loops[0].count * loops[1].count * len(micro_ops)
        known = self._planned(first) if short else None
        for _ in range(times):
            before = acc.copy()
            if known is None:
                self._pass(micro_ops, loops)
            else:
                self._take(known)
            if (acc == before).all():
                break

    def _pass(self, micro_ops: Indices, loops: tuple[Loop, Loop]) -> None:
        for piece in in_program_order(micro_ops, loops, _ALU_PIECE):
            self._take(self._planned(piece))

    def _planned(self, piece: list[Indices]) -> tuple[AluPlan, AluStep]:
        dst, *src = piece
        plan = plan_alu(dst, src[0] if src else None, reads_dst=not self._alu.use_imm)
        return plan, AluStep(self._buffers, self._alu, plan, 0)

    def _take(self, planned: tuple[AluPlan, AluStep]) -> None:
        plan, step = planned
        self._done += sum(level.size for level in plan.levels)
        self._levels += len(plan.levels) + _OVERHEAD
        _limited(self._done, MOST_SINGLE)
        if self._levels > MOST_LEVELS:
            raise Fault("so long a chain of micro-ops would take the simulator too long")
        step()
