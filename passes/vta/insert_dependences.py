"""``vta-insert-dependences``: sets the token flags, derived from what instructions read and write.

Program order is the meaning of a program. The modules load, compute and store run their own
instructions in order and wait for each other only by tokens, so every pair on different modules
that touches the same elements with a write between them needs an order. The pass walks the program
once with one clock a module: how many instructions of every module are known to be done. An edge is
added only where the clock does not know yet, and brings with it what its source knew (vector
clocks: Fidge 1988, Mattern 1989). The k-th edge between two modules therefore has both its ends
after those of the edge before, which is what the hardware's nameless tokens need: the k-th pop
matches the k-th push.

Load and store share no queue. An order between them goes through a compute instruction that knows
already, else through an empty LOAD UOP, which only pops and pushes.

Takes placed instructions with planned micro-ops and no tokens (old ones are cleared); leaves every
flag set. FINISH waits for all that was loaded and stored.
"""

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects.errors import CompileError, DoesNotFit
from vtac.dialects.target import Memory
from vtac.dialects.vta import (
    TOKENS,
    InstructionOp,
    LoadOp,
    ProgramOp,
    integer,
    integers,
    layer_of,
    memory_attr,
)
from vtac.dialects.vta.encoding import Opcode

from .accesses import Accesses, Module, Space, module_of

Edge: TypeAlias = tuple[int, int]
"""Positions, each counted in its module, of the one who pushes and the one who pops."""

Queue: TypeAlias = tuple[Module, Module]

Place: TypeAlias = tuple[Module, int]
"""An instruction by its module and its place in the program; a carrier has that of its user."""

_ROUNDS = 8
"""How often the order is derived again when a token queue could overflow."""

_NEIGHBOURS = ((Module.COMPUTE,), (Module.LOAD, Module.STORE), (Module.COMPUTE,))
"""For each module those with which it shares queues."""

_FAR = (Module.STORE, None, Module.LOAD)
"""For each module the one with which it shares no queue."""


@dataclass(frozen=True)
class InsertDependencesPass(ModulePass):
    """Set the token flags of every vta.program, derived from the ranges it touches."""

    name = "vta-insert-dependences"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        for program in op.body.block.ops:
            if isinstance(program, ProgramOp):
                insert_dependences(program)


def insert_dependences(program: ProgramOp) -> None:
    """Set the token flags of a program. Raises `CompileError` where no tokens can do it."""
    instructions = program.instructions()
    for op in instructions:
        for token in TOKENS:
            op.properties.pop(token, None)
    capacity = program.target.token_depth
    extra: dict[Place, dict[Module, int]] = {}
    for _ in range(_ROUNDS):
        order = _Order(program, instructions, extra)
        order.derive()
        overflows = list(order.overflows(capacity))
        if not overflows:
            order.apply()
            return
        for waits, (module, place) in overflows:
            needs = extra.setdefault(waits, {})
            needs[module] = max(needs.get(module, 0), place)
    raise CompileError(
        DoesNotFit(
            f"vta.program @{program.sym_name.data}",
            f"its tokens do not fit queues of {capacity}",
            layers=tuple(dict.fromkeys(filter(None, map(layer_of, instructions)))),
        )
    )


@dataclass
class _Row:
    """The instructions of one module, and what each knows when it is done."""

    ops: list[InstructionOp | None] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    clocks: list[list[int]] = field(default_factory=list)
    now: list[int] = field(default_factory=lambda: [0, 0, 0])


class _Touched:
    """The uses of one space by one module, all of them reads or all writes.

    For each element the position plus one of the last; and the newest of all. `rivals` are those
    that must be ordered with them.
    """

    def __init__(self, module: Module, writes: bool, size: int):
        self.module = module
        self.writes = writes
        self.last = np.zeros(size, np.int32)
        self.newest = 0
        self.rivals: list[_Touched] = []


class _History:
    """Who touched each element last: positions plus one, by module, reads and writes apart."""

    def __init__(self, accesses: Accesses):
        self._accesses = accesses
        self._touched: dict[tuple[Space, Module, bool], _Touched] = {}
        self._by_space: dict[Space, list[_Touched]] = {}

    def visit(
        self, op: InstructionOp, module: Module, position: int, known: Sequence[int]
    ) -> list[int]:
        """What `op` must wait for, by module, and from now on what others must wait for.

        known: what it waits for anyway; nothing before that is looked for.
        """
        needs = [0, 0, 0]
        for space, elements, writes in self._accesses.of(op):
            mine = self._touched.get((space, module, writes)) or self._meet(space, module, writes)
            for rival in mine.rivals:
                other, newest = rival.module, rival.newest
                if newest > known[other] and newest > needs[other]:
                    needs[other] = max(needs[other], int(rival.last[elements].max()))
            mine.last[elements] = mine.newest = position + 1
        return needs

    def _meet(self, space: Space, module: Module, writes: bool) -> _Touched:
        """The first use of a space by a module."""
        mine = _Touched(module, writes, self._accesses.size(space))
        others = self._by_space.setdefault(space, [])
        for other in others:
            if other.module is not module and (writes or other.writes):
                mine.rivals.append(other)
                other.rivals.append(mine)
        others.append(mine)
        self._touched[space, module, writes] = mine
        return mine


class _Order:
    """One derivation of the order of a program."""

    def __init__(
        self,
        program: ProgramOp,
        instructions: Sequence[InstructionOp],
        extra: Mapping[Place, Mapping[Module, int]],
    ):
        self._program = program
        self._instructions = instructions
        self._extra = extra
        self._rows = tuple(_Row() for _ in Module)
        self._edges: dict[Queue, list[Edge]] = {}
        self._carriers: list[tuple[int, InstructionOp]] = []

    def derive(self) -> None:
        """Walk the program and find the edges."""
        history = _History(Accesses(self._program, self._instructions))
        for place, op in enumerate(self._instructions):
            module = module_of(op)
            if op.OPCODE is Opcode.FINISH:
                needs = [len(row.ops) for row in self._rows]
            else:
                row = self._rows[module]
                needs = history.visit(op, module, len(row.ops), row.now)
            self._add(op, place, module, needs)

    def _add(self, op: InstructionOp | None, place: int, module: Module, needs: list[int]) -> None:
        """Append an instruction to its module, with the edges that its needs still want."""
        for other, until in self._extra.get((module, place), {}).items():
            done = bisect.bisect_right(self._rows[other].places, until)
            needs[other] = max(needs[other], done)
        row = self._rows[module]
        now, position, far = row.now, len(row.ops), _FAR[module]
        if far is not None and needs[far] > now[far]:
            needs[Module.COMPUTE] = max(
                needs[Module.COMPUTE], self._through_compute(far, needs[far], place, op)
            )
        for other in _NEIGHBOURS[module]:
            if needs[other] > now[other]:
                source = needs[other] - 1
                self._edges.setdefault((other, module), []).append((source, position))
                now = list(map(max, now, self._rows[other].clocks[source]))
        row.now = now = [*now]
        now[module] = position + 1
        row.ops.append(op)
        row.places.append(place)
        row.clocks.append(now)

    def _through_compute(self, far: Module, need: int, place: int, op: InstructionOp | None) -> int:
        """The compute instruction (its position plus one) that knows the far module did `need`."""
        row = self._rows[Module.COMPUTE]
        first = bisect.bisect_left(row.clocks, need, key=lambda clock: clock[far])
        if first == len(row.clocks):
            assert op is not None
            self._carriers.append((len(row.ops), op))
            needs = [0, 0, 0]
            needs[far] = need
            self._add(None, place, Module.COMPUTE, needs)
        return first + 1

    def overflows(self, capacity: int) -> Iterator[tuple[Place, Place]]:
        """Orders that are missing so that no queue can hold more than `capacity` tokens.

        Each says who must wait, and for whom. The k-th push must come after the pop of the push
        `capacity` before it. Where program order has them the other way round, that pop takes the
        later token instead.
        """
        for (source, sink), edges in self._edges.items():
            pushers, poppers = self._rows[source], self._rows[sink]
            for (_, popped), (pushed, _) in zip(edges, edges[capacity:], strict=False):
                if pushers.clocks[pushed][sink] > popped:
                    continue
                push = (source, pushers.places[pushed])
                pop = (sink, poppers.places[popped])
                yield (push, pop) if pop[1] < push[1] else (pop, push)

    def apply(self) -> None:
        """Insert the carriers and set the flags."""
        compute = self._rows[Module.COMPUTE]
        for position, before in self._carriers:
            carrier = LoadOp.create(
                properties={
                    "memory": memory_attr(Memory.UOP),
                    "sram_base": integer(0),
                    "dram_base": integer(0),
                    "size": integers(0, 0),
                    "stride": integer(0),
                },
                location=before.location,
            )
            Rewriter.insert_op(carrier, InsertPoint.before(before))
            compute.ops[position] = carrier
        for (source, sink), edges in self._edges.items():
            way = ("push_next", "pop_prev") if source < sink else ("push_prev", "pop_next")
            for pair in edges:
                for row, position, token in zip((source, sink), pair, way, strict=True):
                    op = self._rows[row].ops[position]
                    assert op is not None
                    op.set_token(token)
