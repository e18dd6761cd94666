"""``vta-insert-dependences``: sets the token flags, derived from what instructions read and write.

Program order is the meaning of a program. The modules load, compute and store run their own
instructions in order and wait for each other only by tokens, so every pair on different modules
that touches the same elements with a write between them needs an order. The pass walks the program
once with one clock per module, which counts the instructions of every module that are known to be
done. An edge is added only where the clock does not imply the order yet, and merges the clock of
its source (vector clocks: Fidge 1988, Mattern 1989). The k-th edge between two modules therefore
has both its ends after those of the edge before, which is what the hardware's nameless tokens need:
the k-th pop matches the k-th push.

Only neighbours share queues (`System`). An order between load and store goes through an instruction
of compute, between them, that is ordered already, else through an empty LOAD there, which only pops
and pushes: of UOP, say.

Takes placed instructions with planned micro-ops and no tokens (old ones are cleared); leaves every
flag set. FINISH waits for all that was loaded and stored.
"""

import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects.errors import CompileError, DoesNotFit
from vtac.dialects.locations import layer_of
from vtac.dialects.target import Module, System
from vtac.dialects.vta import (
    TOKENS,
    InstructionOp,
    LoadOp,
    StreamOp,
    integer,
    integers,
    memory_attr,
    streams_of,
)
from vtac.dialects.vta.encoding import Opcode

from .accesses import Access, ProgramAccesses, Space, is_one_way, module_of

Edge: TypeAlias = tuple[int, int]
"""The positions of the instruction that pushes and of the one that pops, each counted in its
module."""

Place: TypeAlias = tuple[Module, int]
"""An instruction by its module and its place in the program; a carrier has that of its user."""

_ROUNDS = 8
"""How often the order is derived again when a token queue could overflow."""


@dataclass(frozen=True)
class InsertDependencesPass(ModulePass):
    """Set the token flags of every vta.program, derived from the ranges it touches."""

    name = "vta-insert-dependences"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        for program in streams_of(op):
            insert_dependences(program)


def insert_dependences(program: StreamOp) -> None:
    """Set the token flags of a program. Raises `CompileError` where no tokens can do it."""
    instructions = program.instructions()
    for op in instructions:
        for token in TOKENS:
            op.properties.pop(token, None)
    accesses, system = ProgramAccesses(program, instructions), program.target.system
    tokens = derive_tokens(
        system,
        [module_of(op, system) for op in instructions],
        [None if op.OPCODE is Opcode.FINISH else accesses.of(op) for op in instructions],
        accesses.size,
        program.target.token_depth,
    )
    if tokens is None:
        raise no_tokens(program.label, program.target.token_depth, map(layer_of, instructions))
    for op, flags in zip(instructions, tokens.flags, strict=True):
        if True in flags:
            _set_tokens(op, flags)
    for place, module, flags in tokens.carriers:
        before = instructions[place]
        carrier = LoadOp.create(
            properties={
                "memory": memory_attr(system.carrier(module)),
                "sram_base": integer(0),
                "dram_base": integer(0),
                "size": integers(0, 0),
                "stride": integer(0),
            },
            location=before.location,
        )
        _set_tokens(carrier, flags)
        Rewriter.insert_op(carrier, InsertPoint.before(before))


def no_tokens(program: str, capacity: int, layers: Iterable[str]) -> CompileError:
    """The error about a stream that needs queues of more than `capacity` tokens."""
    return CompileError(
        DoesNotFit(
            program,
            f"its tokens do not fit queues of {capacity}",
            "Choose a target with deeper token queues.",
            layers=tuple(dict.fromkeys(filter(None, layers))),
        )
    )


def _set_tokens(op: InstructionOp, flags: Sequence[bool]) -> None:
    for token, flag in zip(TOKENS, flags, strict=True):
        if flag:
            op.set_token(token)


class Tokens(NamedTuple):
    """The flags of a program's instructions; flags are in the order of `TOKENS`.

    flags: of each instruction. carriers: empty LOADs to insert, each with the place of the
    instruction before which it stands, its module (`System.carrier`), and its flags.
    """

    flags: list[list[bool]]
    carriers: list[tuple[int, Module, list[bool]]]


def derive_tokens(
    system: System,
    modules: Sequence[Module],
    accesses: Sequence[Sequence[Access] | None],
    size: Callable[[Space], int],
    capacity: int,
) -> Tokens | None:
    """The tokens of instructions in program order, from what each reads and writes.

    accesses: those of each instruction, None for FINISH, which waits for all. size: elements of a
    space. capacity: tokens that a queue holds. None if no tokens can do it.
    """
    extra: dict[Place, dict[Module, int]] = {}
    for _ in range(_ROUNDS):
        order = _Order(system, extra)
        order.derive(modules, accesses, size)
        overflows = list(order.overflows(capacity))
        if not overflows:
            return order.tokens(len(modules))
        for waits, (module, place) in overflows:
            needs = extra.setdefault(waits, {})
            needs[module] = max(needs.get(module, 0), place)
    return None


@dataclass
class _Row:
    """The instructions of one module by their places, and the clock of each at its end."""

    now: list[int]
    places: list[int] = field(default_factory=list)
    clocks: list[list[int]] = field(default_factory=list)


class _Touched:
    """The uses of one space by one module, all of them reads or all writes.

    For each element the position plus one of its last use, and the newest use of all. `rivals` are
    the uses that must be ordered with these.
    """

    def __init__(self, module: Module, writes: bool, size: int):
        self.module = module
        self.writes = writes
        self.last = np.zeros(size, np.int32)
        self.newest = 0
        self.rivals: list[_Touched] = []


class _History:
    """The instruction that touched each element last: positions plus one, by module, reads and
    writes apart."""

    def __init__(self, size: Callable[[Space], int]):
        self._size = size
        self._touched: dict[tuple[Space, Module, bool], _Touched] = {}
        self._by_space: dict[Space, list[_Touched]] = {}

    def visit(
        self, accesses: Sequence[Access], module: Module, position: int, known: Sequence[int]
    ) -> list[int]:
        """The positions that an instruction must wait for, by module; records the instruction's own
        uses. known: the positions that it waits for anyway; earlier ones are not searched.
        """
        needs = [0] * len(known)
        for space, elements, writes in accesses:
            mine = self._touched.get((space, module, writes)) or self._meet(space, module, writes)
            for rival in mine.rivals:
                other, newest = rival.module, rival.newest
                if newest > known[other] and newest > needs[other]:
                    needs[other] = max(needs[other], int(rival.last[elements].max()))
            mine.last[elements] = mine.newest = position + 1
        return needs

    def _meet(self, space: Space, module: Module, writes: bool) -> _Touched:
        """The first use of a space by a module."""
        mine = _Touched(module, writes, self._size(space))
        others = self._by_space.setdefault(space, [])
        for other in others:
            if other.module is not module:
                mine.rivals += [other] if _follows(space, writes, other.writes) else []
                other.rivals += [mine] if _follows(space, other.writes, writes) else []
        others.append(mine)
        self._touched[space, module, writes] = mine
        return mine


def _follows(space: Space, writes: bool, wrote: bool) -> bool:
    """Whether an access must follow an earlier one of the same elements."""
    return wrote or (writes and not is_one_way(space))


class _Order:
    """One derivation of the order of a program. extra: further pairs that must be ordered."""

    def __init__(self, system: System, extra: Mapping[Place, Mapping[Module, int]]):
        self._extra = extra
        self._rows = tuple(_Row([0] * len(system.modules)) for _ in system.modules)
        self._edges: dict[tuple[Module, Module], list[Edge]] = {}
        self._carriers: list[tuple[Module, int]] = []
        # The modules with which each one shares queues; and the others, each with the neighbour on
        # the way there.
        self._neighbours = [system.neighbours(module) for module in system.modules]
        self._far = [
            [(far, system.towards(module, far)) for far in system.modules if abs(far - module) > 1]
            for module in system.modules
        ]

    def derive(
        self,
        modules: Sequence[Module],
        accesses: Sequence[Sequence[Access] | None],
        size: Callable[[Space], int],
    ) -> None:
        """Walk the program and find the edges."""
        history = _History(size)
        for place, (module, touched) in enumerate(zip(modules, accesses, strict=True)):
            if touched is None:
                needs = [len(row.places) for row in self._rows]
            else:
                row = self._rows[module]
                needs = history.visit(touched, module, len(row.places), row.now)
            self._add(place, module, needs)

    def _add(self, place: int, module: Module, needs: list[int]) -> None:
        """Append an instruction to its module, with the edges that its needs still want."""
        if self._extra:
            for other, until in self._extra.get((module, place), {}).items():
                done = bisect.bisect_right(self._rows[other].places, until)
                needs[other] = max(needs[other], done)
        row = self._rows[module]
        now, position = row.now, len(row.places)
        for far, between in self._far[module]:
            if needs[far] > now[far]:
                through = self._through(between, far, needs[far], place)
                needs[between] = max(needs[between], through)
        for other in self._neighbours[module]:
            if needs[other] > now[other]:
                source = needs[other] - 1
                self._edges.setdefault((other, module), []).append((source, position))
                now = list(map(max, now, self._rows[other].clocks[source]))
        row.now = now = [*now]
        now[module] = position + 1
        row.places.append(place)
        row.clocks.append(now)

    def _through(self, between: Module, far: Module, need: int, place: int) -> int:
        """The instruction of a module (its position plus one) that knows the far one did `need`."""
        row = self._rows[between]
        first = bisect.bisect_left(row.clocks, need, key=lambda clock: clock[far])
        if first == len(row.clocks):
            needs = [0] * len(self._rows)
            needs[far] = need
            self._add(place, between, needs)
            self._carriers.append((between, first))
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

    def tokens(self, count: int) -> Tokens:
        """The flags of so many instructions, and the carriers."""
        flags = [[False] * len(TOKENS) for _ in range(count)]
        rows = [[flags[place] for place in row.places] for row in self._rows]
        carriers = []
        for module, position in self._carriers:
            own = rows[module][position] = [False] * len(TOKENS)
            carriers.append((self._rows[module].places[position], module, own))
        for (source, sink), edges in self._edges.items():
            push, pop = ("push_next", "pop_prev") if source < sink else ("push_prev", "pop_next")
            for pushed, popped in edges:
                rows[source][pushed][TOKENS.index(push)] = True
                rows[sink][popped][TOKENS.index(pop)] = True
        return Tokens(flags, carriers)
