"""``vta-join-compute``: makes one compute instruction of several that differ in micro-ops alone.

Besides its micro-ops an instruction takes cycles of its own (six on ``chisel-pynq``, and one before
it starts). Taps of a depthwise convolution whose windows have equal extents, the corners of a
correction of borders, or clips of neighbouring blocks have equal loops and factors, and often
nothing between them needs one of them to be done. The later one then gives its micro-ops to the
earlier one. This is legal where nothing between the two touches what the later one writes, or
writes what it reads; accumulations may change places, since sums do not care about their order.

What stands between the two starts later by the cycles of the micro-ops that go past it, and the
later one starts earlier. So two instructions are joined only if, by the model of `list_schedule`,

- all that was loaded for the later one is there when the earlier one starts;
- no load starts later, because it waits for one of the instructions that are delayed; and
- no store starts so late that a load which waits for it would.

Two ways are tried, accumulations alone and all compute instructions; the better one is kept, where
it takes at least 1/`MARGIN` of the cycles less by the model.

The model runs a core alone, as if what it waits for were there. Where several cores of a cluster
work, it therefore says less of what is gained, though what it joins is right there, too: a wait
follows the signals before it, so no instruction is joined with an earlier one for which, by way of
other units, its loads wait. No signal comes later by the model, since other units wait for it. With
the option ``several`` such programs are joined; the clock tries that.

Takes placed instructions with inline micro-ops, in their final order; leaves fewer of them.
Programs in which several cores work, unless they are wanted, and others that
``vta-order-instructions`` leaves alone, stay as they are.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from vtac.dialects.target import Target
from vtac.dialects.vta import (
    BufferKind,
    ComputeOp,
    GemmOp,
    InstructionOp,
    MicroOps,
    StoreOp,
    StreamOp,
    streams_of,
    works_alone,
)
from vtac.dialects.vta.encoding import Opcode

from .list_schedule import ListSchedule, Occupation, run
from .order_instructions import arrange, can_be_ordered, work_of_program
from .plan_microops import MICRO_OP_BYTES, stretches_of
from .precedence import Span
from .program_precedence import Precedence, precedence_of

MARGIN = 1024
"""Instructions are joined where the model takes at least 1/1024 of the cycles less."""

WINDOW = 64
"""The most instructions between two that are joined, the later one included."""

MOST_INSTRUCTIONS = 1 << 15
"""Longer programs stay as they are."""

_FIELDS = ("operation", "imm", "unused_imm", "reset", "loops", "dst", "src", "wgt")
"""The properties of compute instructions that are equal where they differ in micro-ops alone."""


@dataclass(frozen=True)
class JoinComputePass(ModulePass):
    """Join compute instructions of every vta.program that differ in their micro-ops alone.

    several: in the programs of clusters in which several cores work, too.
    """

    name = "vta-join-compute"

    several: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        for program in streams_of(op):
            if self.several or works_alone(program):
                join_compute(program)


class Kind(NamedTuple):
    """What a compute instruction shares with those it can be joined with: its opcode, and its
    fields but the micro-ops. accumulates: whether it adds to accumulators."""

    opcode: Opcode
    fields: Hashable
    accumulates: bool


def kind_of(op: ComputeOp) -> Kind:
    """The kind of a compute instruction."""
    accumulates = isinstance(op, GemmOp) and "reset" not in op.properties
    return Kind(op.OPCODE, tuple(map(op.properties.get, _FIELDS)), accumulates)


def join_compute(program: StreamOp) -> None:
    """Join the compute instructions of one program."""
    instructions = program.instructions()
    if not can_be_ordered(instructions):
        return
    *moved, _ = instructions
    computes = [op if isinstance(op, ComputeOp) else None for op in moved]
    groups = joined_computes(
        program.target,
        work_of_program(program.target, moved),
        lambda: precedence_of(program, moved),
        [None if op is None else kind_of(op) for op in computes],
        [None if op is None else op.micro_ops for op in computes],
        _signals(program, moved),
    )
    if groups is None:
        return
    for first, *others in groups:
        if others:
            moved[first].properties["micro_ops"] = joined([
                micro_ops
                for number in (first, *others)
                if (op := computes[number]) is not None and (micro_ops := op.micro_ops) is not None
            ])  # fmt: skip
        for number in others:
            Rewriter.erase_op(moved[number])
    arrange(program, [moved[first] for first, *_ in groups])


def _signals(program: StreamOp, instructions: Sequence[InstructionOp]) -> set[int]:
    """The numbers of the instructions that signal to other units."""
    buffers = program.buffers()
    return {
        number
        for number, op in enumerate(instructions)
        if isinstance(op, StoreOp)
        and op.buffer_name is not None
        and buffers[op.buffer_name].kind.data is BufferKind.SEMAPHORE
    }


def joined(micro_ops: Sequence[MicroOps]) -> MicroOps:
    """These micro-ops one after the other."""
    return MicroOps.of(np.concatenate([each.rows for each in micro_ops]))


def joined_computes(
    target: Target,
    work: Sequence[Occupation],
    precedence: Callable[[], Precedence],
    kinds: Sequence[Kind | None],
    micro_ops: Sequence[MicroOps | None],
    signals: Collection[int] = (),
) -> list[list[int]] | None:
    """The instructions in their new order, those that become one in one list; None: as they are.

    work, kinds, micro_ops: of each instruction, in program order and without FINISH; kinds and
    micro_ops are None for transfers. precedence: asked for only if enough instructions are alike.
    signals: the stores for which other units wait.
    """
    if len(work) > MOST_INSTRUCTIONS or not _could_gain(target, work, kinds):
        return None
    spans, before = precedence()
    program = _Program(target, work, before, spans, kinds, micro_ops, signals)
    kept = run(target, work, before, keep_order=True)
    least = kept.cycles + program.micro_op_cycles({}) - kept.cycles // MARGIN
    best: list[list[int]] | None = None
    known: list[dict[int, list[int]]] = []
    for opcodes in ({Opcode.GEMM}, {Opcode.GEMM, Opcode.ALU}):
        runs = _Joiner(program, kept, opcodes).run()
        if not runs or runs in known:
            continue
        known.append(runs)
        loading, gone = program.micro_op_cycles(runs), sum(map(len, runs.values()))
        if kept.cycles - gone * _own_cycles(target) + loading >= least:
            continue
        groups, after = program.joined(runs)
        cycles = after.cycles + loading
        if cycles < least:
            best, least = [groups[number] for number in after.order], cycles
    return best


def _own_cycles(target: Target) -> int:
    """Cycles that a compute instruction takes besides its micro-ops; joining saves no more."""
    return target.timing.compute_overhead + 1


def _could_gain(target: Target, work: Sequence[Occupation], kinds: Sequence[Kind | None]) -> bool:
    """Whether the instructions of equal kinds within a window take enough cycles."""
    last, count = dict[Kind, int](), 0
    for number, kind in enumerate(kinds):
        if kind is not None:
            count += number - last.get(kind, -WINDOW - 1) <= WINDOW
            last[kind] = number
    modules = {*target.system.runs.values()}
    cycles = sum(each.cycles for each in work if each.module in modules)
    return count * _own_cycles(target) > cycles // MARGIN


@dataclass(frozen=True)
class _Program:
    """The instructions of a program: see `joined_computes`."""

    target: Target
    work: Sequence[Occupation]
    before: Sequence[set[int]]
    spans: Sequence[Sequence[Span]]
    kinds: Sequence[Kind | None]
    micro_ops: Sequence[MicroOps | None]
    signals: Collection[int]

    def micro_op_cycles(self, runs: dict[int, list[int]]) -> int:
        """Cycles in which micro-ops are loaded, where each of these takes in the others."""
        gone = {number for others in runs.values() for number in others}
        lists = [
            (number, self._micro_ops_of(number, runs.get(number, [])))
            for number, each in enumerate(self.micro_ops)
            if each is not None and number not in gone
        ]
        timing = self.target.timing
        stretches = stretches_of(lists, self.target.uop_entries)
        return sum(timing.latency + timing.beats(MICRO_OP_BYTES * each.used) for each in stretches)

    def _micro_ops_of(self, first: int, others: Sequence[int]) -> MicroOps:
        lists = [each for n in (first, *others) if (each := self.micro_ops[n]) is not None]
        return joined(lists) if others else lists[0]

    def joined(self, runs: dict[int, list[int]]) -> tuple[list[list[int]], ListSchedule]:
        """The instructions that become one each, in program order, and how they run."""
        first_of = {number: first for first, others in runs.items() for number in others}
        groups = [
            [number, *runs.get(number, [])]
            for number in range(len(self.work))
            if number not in first_of
        ]
        places = {number: place for place, group in enumerate(groups) for number in group}
        overhead = self.target.timing.compute_overhead
        work, before = list[Occupation](), list[set[int]]()
        for place, group in enumerate(groups):
            own = self.work[group[0]]
            more = sum(self.work[number].cycles - overhead for number in group[1:])
            work.append(own._replace(cycles=own.cycles + more))
            # Accumulations may change places; what else came behind the first one, nobody passed.
            needed = {places[other] for number in group for other in self.before[number]}
            before.append({other for other in needed if other < place})
        return groups, run(self.target, work, before, keep_order=True)


@dataclass
class _Joiner:
    """Finds which instructions take in which others, from the first instruction to the last.

    kept: how the program runs as it is. late: for each instruction by when it must be done, so that
    no instruction of another module that waits for it delays a load.
    """

    program: _Program
    kept: ListSchedule
    opcodes: set[Opcode]
    runs: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Work out how much instructions can be delayed."""
        program = self.program
        self._ends = list(self.kept.ends)
        self._delays = [0] * len(program.work)
        self._gone = [False] * len(program.work)
        self._spans = [list(spans) for spans in program.spans]
        self._late = self._latest()
        self._held = [0 if each is None else each.count for each in program.micro_ops]

    def _latest(self) -> list[int]:
        """By when each instruction must be done.

        Stores may start late, as long as no instruction that waits for them does; loads, compute
        instructions and signals start when they do.
        """
        work, starts, ends = self.program.work, self.kept.starts, self.kept.ends
        others, next_store = [self.kept.cycles] * len(work), self.kept.cycles
        system = self.program.target.system
        storing = system.moves[system.results]
        for number in reversed(range(len(work))):
            module, start = work[number].module, starts[number]
            if module is storing:
                if number not in self.program.signals:
                    start += min(others[number], next_store) - ends[number]
                next_store = start
            for earlier in self.program.before[number]:
                if work[earlier].module is not module:
                    others[earlier] = min(others[earlier], start)
        return others

    def run(self) -> dict[int, list[int]]:
        """For instructions those that they take in."""
        last = dict[Kind, int]()
        for number, kind in enumerate(self.program.kinds):
            if kind is None or kind.opcode not in self.opcodes:
                continue
            first = last.get(kind)
            if first is not None and number - first <= WINDOW and self._can_join(first, number):
                self._join(first, number)
            else:
                last[kind] = number
        return self.runs

    def _cycles(self, number: int) -> int:
        """The cycles that an instruction's micro-ops take."""
        overhead = self.program.target.timing.compute_overhead
        return self.program.work[number].cycles - overhead

    def _can_join(self, first: int, number: int) -> bool:
        program, cycles = self.program, self._cycles(number)
        work, kinds, own = program.work, program.kinds, self._spans[number]
        module = work[number].module
        if self._may_not_pass(first, number) or not self._has_room(first, number):
            return False
        start = self.kept.starts[first] + self._delays[first]
        if any(
            work[other].module is not module and self.kept.ends[other] > start
            for other in program.before[number]
        ):
            return False
        if self._ends[first] + self._delays[first] + cycles > self._late[first]:
            return False
        for other in range(first + 1, number):
            if self._gone[other]:
                continue
            if work[other].module is module:
                if self._ends[other] + self._delays[other] + cycles > self._late[other]:
                    return False
                if kinds[other] is not None and not self._may_not_pass(other, number):
                    continue
            if _meet(self._spans[other], own):
                return False
        return True

    def _may_not_pass(self, first: int, number: int) -> bool:
        """Whether an instruction must follow an earlier compute instruction."""
        one, other = self.program.kinds[first], self.program.kinds[number]
        assert one is not None and other is not None
        if one.accumulates and other.accumulates and self.program.target.timing.gemm_distance == 1:
            return False
        return _meet(self._spans[first], self._spans[number])

    def _has_room(self, first: int, number: int) -> bool:
        """Whether the micro-op memory holds the micro-ops of both."""
        held = self._held[first] + self._held[number]
        return held <= self.program.target.uop_entries

    def _join(self, first: int, number: int) -> None:
        cycles, module = self._cycles(number), self.program.work[number].module
        for other in range(first + 1, number):
            if self.program.work[other].module is module:
                self._delays[other] += cycles
        self._ends[first] += cycles
        self._late[first] = min(self._late[first], self._late[number])
        self._spans[first] = _union(self._spans[first], self._spans[number])
        self._gone[number] = True
        self._held[first] += self._held[number]
        self.runs.setdefault(first, []).append(number)


def _union(one: Sequence[Span], other: Sequence[Span]) -> list[Span]:
    """The spans of both, with neighbours and equal ones as one."""
    result = list[Span]()
    for span in sorted((*one, *other), key=lambda s: (s.space, s.writes, s.start)):
        last = result[-1] if result else None
        if (
            last
            and (last.space, last.writes) == (span.space, span.writes)
            and span.start <= last.end
        ):
            result[-1] = last._replace(end=max(last.end, span.end))
        else:
            result.append(span)
    return result


def _meet(one: Sequence[Span], other: Sequence[Span]) -> bool:
    """Whether any element is touched by both, and written by one."""
    return any(
        a.space == b.space and (a.writes or b.writes) and a.start < b.end and b.start < a.end
        for a in one
        for b in other
    )
