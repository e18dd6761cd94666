"""What the instructions of a program touch, and which of them must follow which, for its passes.

Several passes in a row ask for it. It is kept for the next one, like an analysis that a pass of
MLIR preserves, and found again where instructions have changed since.
"""

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from vtac.dialects.vta import ComputeOp, InstructionOp, LoadOp, StoreOp, StreamOp
from vtac.dialects.vta.encoding import Opcode

from .accesses import Accesses, module_of
from .precedence import Span, compute_spans, predecessors, transfer_spans


class Precedence(NamedTuple):
    """Of each instruction in program order, without FINISH: what it touches, and the numbers of
    those that it must follow."""

    spans: Sequence[Sequence[Span]]
    before: Sequence[set[int]]


class _Kept:
    """The precedence of a program's instructions, by operation.

    It holds for every order in which each instruction follows its predecessors (`predecessors`),
    as long as no instruction changes.
    """

    def __init__(self, instructions: Sequence[InstructionOp], found: Precedence):
        # Operations are told apart by their identity, which the list keeps from being given again.
        self._kept = list(instructions)
        names = list(map(id, instructions))
        fields = [tuple(op.properties.values()) for op in instructions]
        self._fields = dict(zip(names, fields, strict=True))
        self._spans = dict(zip(names, found.spans, strict=True))
        self._before = {
            name: [names[number] for number in numbers]
            for name, numbers in zip(names, found.before, strict=True)
        }

    def of(self, instructions: Sequence[InstructionOp]) -> Precedence | None:
        """The precedence of these; None if other ones were looked at."""
        if len(instructions) != len(self._fields):
            return None
        names = list(map(id, instructions))
        places = {name: place for place, name in enumerate(names)}
        found = []
        for place, (name, op) in enumerate(zip(names, instructions, strict=True)):
            if self._fields.get(name) != tuple(op.properties.values()):
                return None
            before = {places.get(other, place) for other in self._before[name]}
            if before and max(before) >= place:
                return None
            found.append(before)
        return Precedence([self._spans[name] for name in names], found)


_KEPT: WeakKeyDictionary[StreamOp, _Kept] = WeakKeyDictionary()
"""What is known of programs, from one pass to the next."""


def precedence_of(program: StreamOp, instructions: Sequence[InstructionOp]) -> Precedence:
    """The precedence of a program's instructions, all but FINISH; kept for the next that asks."""
    known = _KEPT.get(program)
    found = None if known is None else known.of(instructions)
    if found is None:
        spans = spans_of_program(program, instructions)
        system = program.target.system
        before = predecessors([module_of(op, system) for op in instructions], spans)
        found = Precedence(spans, before)
        _KEPT[program] = _Kept(instructions, found)
    return found


def keep_joined(
    program: StreamOp,
    instructions: Sequence[InstructionOp],
    found: Precedence,
    runs: Sequence[Sequence[int]],
) -> None:
    """Keep the precedence for the next pass, after each of these runs has become its first
    instruction, which touches what the others did.

    instructions, found: as they were before.
    """
    gone = {number for _, *rest in runs for number in rest}
    spans = list(found.spans)
    for first, *rest in runs:
        spans[first] = [span for number in (first, *rest) for span in found.spans[number]]
    left = [number for number in range(len(instructions)) if number not in gone]
    _KEPT[program] = _Kept(
        [instructions[number] for number in left],
        Precedence([spans[number] for number in left], joined_predecessors(found.before, runs)),
    )


def joined_predecessors(
    before: Sequence[set[int]], runs: Sequence[Sequence[int]]
) -> list[set[int]]:
    """The predecessors of what is left when each run becomes one instruction, where its first is.

    before: those of each instruction; every instruction of a run can stand where the first does.
    """
    first_of = {number: first for first, *rest in runs for number in rest}
    left = [number for number in range(len(before)) if number not in first_of]
    places = {number: place for place, number in enumerate(left)}
    places |= {number: places[first] for number, first in first_of.items()}
    rest_of = {first: rest for first, *rest in runs}
    found = []
    for number in left:
        needed = {places[other] for other in before[number]}
        for other in rest_of.get(number, ()):
            needed |= {places[earlier] for earlier in before[other]}
        needed.discard(places[number])
        found.append(needed)
    return found


def spans_of_program(program: StreamOp, instructions: Sequence[InstructionOp]) -> list[list[Span]]:
    """The spans that each instruction touches."""
    stored = {op.buffer_name for op in instructions if isinstance(op, StoreOp) and op.buffer_name}
    accesses = Accesses(program.target, program.buffers(), stored)
    # The same tile shapes come again and again, and the program keeps its attributes alive.
    known = dict[tuple[int, ...], list[Span]]()
    found = []
    for op in instructions:
        if op.OPCODE not in (Opcode.GEMM, Opcode.ALU):
            found.append(_spans_of(op, accesses))
            continue
        key = op.OPCODE, *map(id, map(op.properties.get, _COMPUTE))
        spans = known.get(key)
        if spans is None:
            spans = known[key] = _spans_of(op, accesses)
        found.append(spans)
    return found


_COMPUTE = ("micro_ops", "loops", "dst", "src", "wgt", "reset")
"""The properties on which the spans of a compute instruction depend; transfers have none."""


def _spans_of(op: InstructionOp, accesses: Accesses) -> list[Span]:
    if isinstance(op, LoadOp | StoreOp):
        rows = (*op.sizes, op.stride.value.data)
        base, place = op.sram_base.value.data, op.dram_base.value.data
        assert op.buffer_name is not None
        return transfer_spans(
            accesses, op.memory_id, base, op.sram_size, op.buffer_name, place, rows
        )
    assert isinstance(op, ComputeOp) and op.micro_ops is not None
    return compute_spans(op, op.micro_ops)
