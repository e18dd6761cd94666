"""From kernels in loop form straight to words, for those who judge many schedules.

``lower_to_binary`` gives the words that ``te-to-vta``, ``vta-place-scratch``, ``vta-allocate``,
``vta-split-loads``, ``vta-order-instructions``, ``vta-join-loads``, ``vta-join-compute``,
``vta-plan-microops``, ``vta-insert-dependences`` and `encode_program` give, but makes no operation
for an instruction. It decides with the functions with which these passes decide. What the words of
a compute instruction say and what it touches follow from its tile and its addresses, and are worked
out once for equal ones, also of other schedules.
"""

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Memory, Module, System
from vtac.dialects.vta import BufferKind, ComputeOp, MicroOps, ProgramOp
from vtac.dialects.vta.encoding import EncodingError, Opcode, encode_rows
from vtac.dialects.vta.program import BinaryProgram, Buffer
from vtac.passes.vta.accesses import (
    Access,
    Accesses,
    compute_accesses,
    shifted,
)
from vtac.passes.vta.allocate import addresses_of, compute_use, index_bases, moved
from vtac.passes.vta.insert_dependences import derive_tokens, no_tokens
from vtac.passes.vta.join_compute import joined, joined_computes, kind_of
from vtac.passes.vta.join_loads import Row as LoadedRow
from vtac.passes.vta.join_loads import joined_runs
from vtac.passes.vta.list_schedule import Occupation, compute_work, transfer_work
from vtac.passes.vta.order_instructions import better_order
from vtac.passes.vta.place_scratch import place_scratch
from vtac.passes.vta.plan_microops import (
    MICRO_OP_BYTES,
    MICRO_OPS_ALIGN,
    fresh,
    load_parts,
    stretches_of,
    too_many,
)
from vtac.passes.vta.precedence import Span, compute_spans, predecessors, transfer_spans
from vtac.passes.vta.program_precedence import Precedence, joined_predecessors
from vtac.passes.vta.spare_slots import Use
from vtac.passes.vta.split_loads import most_elements, pieces

from .te_to_vta import lower_to_columns
from .te_to_vta.columns import CallColumns, PlainCompute, PlainTransfer
from .te_to_vta.instructions import Emitted
from .vta_to_binary import encode_buffer

Row: TypeAlias = tuple[int, ...]
"""The values of an instruction's fields, in the order of `encoding.instruction_fields`, the tokens
left out."""


class _Step(NamedTuple):
    """An instruction. buffer: the DRAM buffer of a transfer. spans: what keeps it in order."""

    opcode: Opcode
    row: Row
    module: Module
    accesses: Sequence[Access] | None
    buffer: str | None
    spans: Sequence[Span] = ()


def lower_to_binary(ctx: Context, function: FuncOp, module: ModuleOp) -> BinaryProgram:
    """The program of one accelerator function whose kernels are in the module; both stay.

    The buffer of micro-ops has its size, but no data; there are no names. Raises `CompileError`
    where the function is no sequence of calls of kernels in loop form, or does not fit the machine.
    """
    program, columns = lower_to_columns(ctx, function, module)
    place_scratch(program)
    return _Assembler(program, columns).binary()


@dataclass(frozen=True, slots=True, eq=False)
class _Placed:
    """A compute instruction on absolute indices; `row` lacks the range of its micro-ops.

    op: the same for all places, with its micro-ops as they are before they are moved.
    """

    opcode: Opcode
    micro_ops: MicroOps
    row: Row
    accesses: Sequence[Access]
    spans: Sequence[Span]
    op: ComputeOp
    module: Module

    def with_uops(self, begin: int) -> Row:
        """Its row, where its micro-ops begin there."""
        reset, _, _, *rest = self.row
        return reset, begin, begin + self.micro_ops.count, *rest


@functools.lru_cache(maxsize=1 << 12)
def _unplaced(instruction: Emitted, system: System) -> _Placed:
    """An instruction on the indices that its micro-ops have before they are moved."""
    micro_ops = instruction.properties["micro_ops"]
    assert isinstance(micro_ops, MicroOps)
    op = instruction.kind.create(properties=dict(instruction.properties))
    return _Placed(
        op.OPCODE,
        micro_ops,
        tuple(op.fields().values()),
        compute_accesses(op, micro_ops, system),
        compute_spans(op, micro_ops),
        op,
        system.runs[op.OPCODE.name],
    )


@functools.lru_cache(maxsize=1 << 14)
def _placed(instruction: Emitted, shift: tuple[int, int, int], system: System) -> _Placed:
    """An instruction whose micro-ops have these numbers added to their indices dst, src, wgt."""
    found = _unplaced(instruction, system)
    by = {(memory, writes): shift[index] for memory, index, writes in found.op.touched()}
    accesses = [
        each._replace(elements=shifted(each.elements, by[each.space, each.writes]))  # type: ignore[index]
        for each in found.accesses
    ]
    spans = [
        Span(space, start + by[space, writes], end + by[space, writes], writes)  # type: ignore[index]
        for space, start, end, writes in found.spans
    ]
    micro_ops = moved(found.micro_ops, *shift)
    return replace(found, micro_ops=micro_ops, accesses=accesses, spans=spans)


class _Assembler:
    """Makes a binary of the instructions of a program, which has buffers and nothing else."""

    def __init__(self, program: ProgramOp, columns: CallColumns):
        self._program, self._columns = program, columns
        self._target, self._system = program.target, program.target.system
        buffers = program.buffers()
        self._buffers = [encode_buffer(op, {}, self._target) for op in buffers.values()]
        stored = {
            instruction.dram
            for instruction in columns.instructions
            if type(instruction) is PlainTransfer and instruction.memory is self._system.results
        }
        self._micro_ops = fresh("uops", set(buffers))
        self._accesses = Accesses(self._target, buffers, stored)

    def binary(self) -> BinaryProgram:
        """The encoded program."""
        name, target = self._program.sym_name.data, self._target
        steps = self._steps()
        tokens = derive_tokens(
            self._system,
            [step.module for step in steps],
            [step.accesses for step in steps],
            self._accesses.size,
            target.token_depth,
        )
        if tokens is None:
            layers = (buffer.where for buffer in self._columns.buffers())
            raise no_tokens(f"vta.program @{name}", target.token_depth, layers)
        ordered = list(zip(steps, tokens.flags, strict=True))
        for place, module, flags in reversed(tokens.carriers):
            row = (int(self._system.carrier(module)), *(0,) * 9)
            ordered.insert(place, (_Step(Opcode.LOAD, row, module, (), None), flags))
        try:
            words = encode_rows(target, [(step.opcode, (*f, *step.row)) for step, f in ordered])
        except EncodingError as error:
            raise CompileError(Problem(f"vta.program @{name}", str(error))) from None
        relocations = tuple(
            [(place, step.buffer) for place, (step, _) in enumerate(ordered) if step.buffer]
        )
        return BinaryProgram(name, target, words, relocations, tuple(self._buffers))

    def _steps(self) -> list[_Step]:
        """All instructions in program order, with the loads of micro-ops, FINISH last."""
        bases = addresses_of(self._columns.buffers(), list(self._uses()), self._target)
        most = most_elements(self._target)
        instructions: list[_Step | _Placed] = []
        for each in self._columns.instructions:
            if isinstance(each, PlainTransfer):
                can_be_cut = each.memory is self._system.weights
                parts = _pieces(each, most) if can_be_cut else [each]
                instructions += [self._transfer(part, bases) for part in parts]
            else:
                instructions.append(self._compute(each, bases))
        work = [self._work(each) for each in instructions]
        before = predecessors([w.module for w in work], [each.spans for each in instructions])
        order = better_order(self._target, work, before)
        if order is not None:
            instructions = [instructions[number] for number in order]
            places = {number: place for place, number in enumerate(order)}
            before = [{places[other] for other in before[number]} for number in order]
        instructions = self._joined_computes(*self._joined(instructions, before))
        computes = [
            (number, each.micro_ops)
            for number, each in enumerate(instructions)
            if type(each) is _Placed
        ]
        stretches = stretches_of(computes, self._target.uop_entries)
        steps: list[_Step] = []
        done = start = 0
        for stretch, following in itertools.zip_longest(stretches, stretches[1:]):
            steps += self._loads(start, stretch.used)
            start += stretch.used
            end = len(instructions) if following is None else following.ops[0]
            steps += _with_micro_ops(instructions[done:end], stretch.begins)
            done = end
        if stretches:
            self._declare_micro_ops(start)
        else:
            steps += [each for each in instructions if type(each) is _Step]
        finish = _Step(Opcode.FINISH, (), self._system.runs[Opcode.FINISH.name], None, None)
        return [*steps, finish]

    def _uses(self) -> Iterator[Use]:
        """What loads and computes."""
        columns, target = self._columns, self._target
        for place, each in zip(columns.places(), columns.instructions, strict=True):
            if isinstance(each, PlainCompute):
                found = _unplaced(each.instruction, self._system)
                yield compute_use(place, target, found.op, found.micro_ops, each.buffers)
            elif each.memory is not self._system.results:
                work = transfer_work(target, each.memory, each.part.y, each.part.x)
                yield Use(place, 0, work.beats or 0, None, ())

    def _joined(
        self, instructions: Sequence[_Step | _Placed], before: Sequence[set[int]]
    ) -> tuple[list[_Step | _Placed], Sequence[set[int]]]:
        """The instructions with neighbouring loads joined, see ``vta-join-loads``.

        before: for each instruction those that it must follow. They come back for what is left.
        """
        modules = [each.module for each in instructions]
        runs = joined_runs(
            self._system,
            modules,
            [_loaded_row(each) for each in instructions],
            [type(each) is _Step and each.opcode is Opcode.LOAD for each in instructions],
            lambda: before,
        )
        result: list[_Step | _Placed | None] = list(instructions)
        for first, *rest in runs:
            parts = [each for n in (first, *rest) if type(each := instructions[n]) is _Step]
            memory, sram, dram, *_ = parts[0].row
            length = sum(part.row[4] for part in parts)
            moved = (Memory(memory), sram, length, parts[0].buffer or "", dram, (1, length, length))
            result[first] = parts[0]._replace(
                row=(memory, sram, dram, 1, length, length, 0, 0, 0, 0),
                accesses=self._accesses.of_transfer(*moved),
                spans=transfer_spans(self._accesses, *moved),
            )
            for number in rest:
                result[number] = None
        if not runs:
            return list(instructions), before
        left = [each for each in result if each is not None]
        return left, joined_predecessors(before, runs)

    def _joined_computes(
        self, instructions: Sequence[_Step | _Placed], before: Sequence[set[int]]
    ) -> list[_Step | _Placed]:
        """The instructions with compute instructions joined, see ``vta-join-compute``."""
        computes = [each if type(each) is _Placed else None for each in instructions]
        groups = joined_computes(
            self._target,
            [self._work(each) for each in instructions],
            lambda: Precedence([each.spans for each in instructions], before),
            [None if each is None else kind_of(each.op) for each in computes],
            [None if each is None else each.micro_ops for each in computes],
        )
        if groups is None:
            return list(instructions)
        result: list[_Step | _Placed] = []
        for group in groups:
            members = [each for number in group if (each := computes[number]) is not None]
            if len(members) > 1:
                first = members[0]
                micro_ops = joined([each.micro_ops for each in members])
                accesses = compute_accesses(first.op, micro_ops, self._system)
                result.append(replace(first, micro_ops=micro_ops, accesses=accesses))
            else:
                result.append(instructions[group[0]])
        return result

    def _work(self, each: _Step | _Placed) -> Occupation:
        if type(each) is _Placed:
            return compute_work(self._target, each.op, each.micro_ops)
        assert type(each) is _Step
        memory, _, _, y, x, *_ = each.row
        return transfer_work(self._target, Memory(memory), y, x)

    def _transfer(self, each: PlainTransfer, bases: Sequence[int]) -> _Step:
        memory, buffer, dram, place, part = each
        base, place = part.sram + bases[buffer], place + part.dram
        above, below, left, right = part.pads
        held = (above + part.y + below) * (left + part.x + right) if part.x and part.y else 0
        moved = (memory, base, held, dram, place, (part.y, part.x, part.stride))
        return _Step(
            Opcode.STORE if memory is self._system.results else Opcode.LOAD,
            (int(memory), base, place, part.y, part.x, part.stride, above, below, left, right),
            self._system.moves[memory],
            self._accesses.of_transfer(*moved),
            dram,
            transfer_spans(self._accesses, *moved),
        )

    def _compute(self, each: PlainCompute, bases: Sequence[int]) -> _Placed:
        instruction = each.instruction
        resets = "reset" in instruction.properties
        at = [bases[buffer] for buffer in each.buffers]
        bases = index_bases(instruction.kind.OPCODE, resets, at)
        placed = _placed(instruction, bases, self._system)
        if placed.micro_ops.count > self._target.uop_entries:
            where = self._columns.buffers()[each.buffers[0]].where
            raise too_many(placed.micro_ops, self._target.uop_entries, where)
        return placed

    def _loads(self, start: int, count: int) -> Iterator[_Step]:
        """The loads of a stretch of micro-ops."""
        memory = self._system.micro_ops
        for sram, dram, part in load_parts(start, count):
            row = (int(memory), sram, dram, 1, part, part, 0, 0, 0, 0)
            yield _Step(Opcode.LOAD, row, self._system.moves[memory], (), self._micro_ops)

    def _declare_micro_ops(self, count: int) -> None:
        size = MICRO_OP_BYTES * count
        self._buffers.append(Buffer(self._micro_ops, BufferKind.MICRO_OPS, size, MICRO_OPS_ALIGN))


def _pieces(each: PlainTransfer, most: int) -> Iterator[PlainTransfer]:
    """A load of weights, or its pieces where it is long, see ``vta-split-loads``."""
    part = each.part
    if part.y != 1 or any(part.pads) or part.x <= most:
        yield each
        return
    for start, end in pieces(part.x, most):
        length = end - start
        yield each._replace(
            part=part._replace(
                sram=part.sram + start, dram=part.dram + start, x=length, stride=length
            )
        )


def _loaded_row(each: _Step | _Placed) -> LoadedRow | None:
    """What a load of one row without pads loads; None for anything else."""
    if type(each) is not _Step or each.opcode is not Opcode.LOAD:
        return None
    memory, sram, dram, y, x, _, *pads = each.row
    if y != 1 or any(pads):
        return None
    return LoadedRow(Memory(memory), each.buffer, sram, dram, x)


def _with_micro_ops(
    instructions: Iterable[_Step | _Placed], begins: Mapping[MicroOps, int]
) -> Iterator[_Step]:
    """Instructions whose micro-ops lie where `begins` says."""
    known: dict[_Placed, _Step] = {}
    for each in instructions:
        if type(each) is _Step:
            yield each
            continue
        assert type(each) is _Placed
        step = known.get(each)
        if step is None:
            row = each.with_uops(begins[each.micro_ops])
            step = known[each] = _Step(each.opcode, row, each.module, each.accesses, None)
        yield step
