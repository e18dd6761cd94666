"""The hazard checker: whether every order that the hardware may choose gives the same result.

The checker uses the decoded binary alone. It turns tokens (the k-th pop of a queue matches its k-th
push) into vector clocks, and compares each access to shared memory with the last earlier accesses
to the same elements (`races`): two accesses of different modules to one element, one of them a
write, must be ordered in every execution (data races as happens-before violations: Lamport 1978).
Also found: deadlocks, with and without full command queues, tokens left over or lost, and stores
that FINISH does not wait for.
"""

import enum
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..dialects.target import Memory, Target
from ..dialects.vta.assembly import disassemble
from ..dialects.vta.encoding import Instruction
from .errors import Fault, SimulationError
from .footprint import DRAM, DramMap, Footprints, Space, units_of
from .legality import decode_program, verify_program, whole_inp_loads
from .races import AccessHistory, Race, SharedSpace
from .tokens import (
    Clock,
    Flow,
    clocks,
    deadlock_reason,
    overflows,
    schedule,
    verify_balance,
)

MOST_RACES = 50
"""Races after which the checker stops looking."""


class HazardKind(enum.Enum):
    """The kinds of hazards."""

    INVALID = "invalid instruction"
    RACE = "race"
    DEADLOCK = "deadlock"
    OVERFLOW = "token overflow"
    LEFTOVER = "tokens left over"
    FINISH = "not ordered before FINISH"
    UNWRITTEN = "reads what nothing has written"


@dataclass(frozen=True)
class Hazard:
    """One hazard, the instructions it concerns, and the order or token that is missing."""

    kind: HazardKind
    message: str
    instructions: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.message}"


@dataclass
class HazardReport:
    """All hazards found.

    `exact` is False where micro-ops were not known, because no DRAM was given.
    """

    hazards: list[Hazard] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    exact: bool = True

    @property
    def ok(self) -> bool:
        """Whether every legal order ends, and ends with the same result."""
        return not self.hazards

    def __str__(self) -> str:
        lines = [str(hazard) for hazard in self.hazards]
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines) if lines else "no hazards"


def check(
    target: Target, insns: NDArray[np.uint64], dram: NDArray[np.uint8] | None = None
) -> HazardReport:
    """Check a program, uint64 [N, 2], for every order that its tokens allow.

    ``dram``, the image before it runs, holds the micro-ops; without it, a GEMM or ALU counts as
    touching whole buffers. It never raises on a bad program; faults stand in the report.
    """
    report = HazardReport(exact=dram is not None)
    try:
        program = decode_program(target, insns)
        verify_program(target, program, None if dram is None else len(dram), strict=True)
    except SimulationError as error:
        places = (error.index,) if error.index >= 0 else ()
        report.hazards.append(Hazard(HazardKind.INVALID, str(error), places))
        return report
    _Checker(target, program, dram, report).run()
    return report


_Add = Callable[..., None]


class _Checker:
    """The analyses of one program, in the order in which they build on each other."""

    def __init__(
        self,
        target: Target,
        program: Sequence[Instruction],
        dram: NDArray[np.uint8] | None,
        report: HazardReport,
    ) -> None:
        self._target, self._program, self._dram, self._report = target, program, dram, report
        self._flow = Flow.of(program, target.system)

    def run(self) -> None:
        """Fill the report."""
        for index in whole_inp_loads(self._target, self._program):
            self._report.warnings.append(
                f"{self._name(index)} fills the whole INP buffer: with 256-beat bursts the Chisel"
                " design may lose its data"
            )
        order = self._check_deadlocks()
        if order is None:
            return
        start = clocks(self._flow, order)
        self._check_tokens(start)
        self._check_finish(start)
        races = _Races(self._target, self._program, self._dram, self._flow, start, self._add)
        races.find(order)
        if undefined := races.undefined_micro_ops:
            self._report.warnings.append(
                f"micro-op {undefined[0]} runs before any LOAD has written it: it is undefined at"
                " launch, and taken for zeros here"
            )

    def _name(self, index: int) -> str:
        return f"instruction {index} ({disassemble(self._program[index])})"

    def _add(self, kind: HazardKind, message: str, *instructions: int) -> None:
        self._report.hazards.append(Hazard(kind, message, instructions))

    def _check_deadlocks(self) -> list[int] | None:
        """An order in which every instruction runs, if tokens allow one."""
        depth, total = self._target.queue_depth, len(self._program)
        result = schedule(self._flow, depth, through=True)
        if len(result.order) == total:
            return result.order
        unlimited = schedule(self._flow, None, through=True)
        never = len(unlimited.order) < total
        reason = deadlock_reason(unlimited if never else result, depth)
        stuck = [index for index, _ in (unlimited if never else result).blocked]
        names = "; ".join(self._name(index) for index in stuck)
        self._add(HazardKind.DEADLOCK, f"{reason}: {names}", *stuck)
        return None if never else unlimited.order

    def _check_tokens(self, start: Sequence[Clock]) -> None:
        for message, last in verify_balance(self._flow):
            self._add(HazardKind.LEFTOVER, f"{message}: {self._name(last)}", last)
        for index, queue in overflows(self._flow, start, self._target.token_depth):
            depth = self._target.token_depth
            message = f"the {queue} token of {self._name(index)} may be one too many for {depth}"
            self._add(HazardKind.OVERFLOW, message, index)

    def _check_finish(self, start: Sequence[Clock]) -> None:
        finish = self._flow.finish
        stores = self._flow.members[self._target.system.stores]
        done = start[finish][self._target.system.stores]
        if done < len(stores):
            names = self._name(stores[done])
            more = f" and {len(stores) - done - 1} more stores" if len(stores) > done + 1 else ""
            self._add(
                HazardKind.FINISH,
                f"FINISH (instruction {finish}) does not wait for {names}{more}: no tokens lead"
                " from there to it",
                stores[done],
                finish,
            )


def shared_memories(target: Target) -> Iterator[tuple[Memory, SharedSpace]]:
    """The memories of a core that several modules reach."""
    for memory in sorted(target.system.shared):
        yield memory, SharedSpace(target.depth(memory), target.system.ways(memory))


class _Races:
    """Unordered pairs of accesses to one element, one of them a write."""

    def __init__(
        self,
        target: Target,
        program: Sequence[Instruction],
        dram: NDArray[np.uint8] | None,
        flow: Flow,
        start: Sequence[Clock],
        add: _Add,
    ) -> None:
        self._program, self._flow, self._start, self._add = program, flow, start, add
        self._places = DramMap(target, program)
        self._footprints = Footprints(target, dram, self._places)
        spaces: dict[Hashable, SharedSpace] = dict(shared_memories(target))
        spaces[DRAM] = SharedSpace(self._places.size, target.system.dram_ways)
        self._history = AccessHistory(spaces)
        self._found: set[tuple[Space, int, int]] = set()

    @property
    def undefined_micro_ops(self) -> list[int]:
        """Micro-ops that run although no LOAD has written them."""
        return self._footprints.undefined

    def find(self, order: Sequence[int]) -> None:
        """Compare accesses in an order that tokens allow: the first of a race comes first in it."""
        rank = [0] * len(self._flow.members)
        for index in order:
            module = self._flow.modules[index]
            rank[module] += 1
            try:
                for space, elements, writes in self._footprints.touches(self._program[index]):
                    for race in self._history.access(
                        space, module, writes, elements, rank[module], self._start[index]
                    ):
                        self._report(space, index, race)
            except Fault as fault:
                text = disassemble(self._program[index])
                self._add(HazardKind.INVALID, f"instruction {index} ({text}): {fault}", index)
                return
            if len(self._found) >= MOST_RACES:
                return

    def _report(self, space: Space, index: int, race: Race) -> None:
        other = self._flow.system.modules[race.module]
        first = self._flow.members[other][race.rank - 1]
        if (space, first, index) in self._found:
            return
        self._found.add((space, first, index))
        low, high = int(race.elements.min()), int(race.elements.max())
        if space == DRAM:
            low = self._places.address(low)
            high = self._places.address(high) + self._places.granule - 1
        names = [f"instruction {i} ({disassemble(self._program[i])})" for i in (first, index)]
        module = self._flow.modules[index]
        self._add(
            HazardKind.RACE,
            f"{names[0]} and {names[1]} touch {units_of(space)} {low} to {high}, and one of them"
            f" writes, but no tokens from {other} to {module} make"
            f" {index} wait for {first}",
            first,
            index,
        )
