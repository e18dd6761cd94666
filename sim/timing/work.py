"""The data of a program that the clock needs: module, tokens, duration and traffic per instruction.

They depend on each instruction alone, and are computed as columns over the program, straight from
the words: fields come from `dialects.vta.encoding`, and only instructions that may be wrong are
decoded one by one.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...dialects.target import Memory, Module, Queue, System, Target, TimingPreset
from ...dialects.vta.encoding import AluOpcode, Instruction, Opcode, decode, instruction_columns
from ..errors import SimulationError
from ..legality import Column, decode_program, doubtful_transfers, objection
from .channel import ACC, INP, UOP, WGT
from .requests import Requests, cut

ZERO_COUNT = 1 << 14
"""How often a loop with a count of zero runs: counts are taken modulo 2^14."""


class InstructionKind(enum.IntEnum):
    """The kinds of instructions for the clock, by what takes their time.

    The last three exist in a cluster alone: a LOAD that waits for semaphores, a STORE that signals,
    a copy of the DMA.
    """

    SYNC = 0
    INP = 1
    WGT = 2
    ACC = 3
    UOP = 4
    STORE = 5
    GEMM = 6
    RESET = 7
    ALU = 8
    FINISH = 9
    WAIT = 10
    SIGNAL = 11
    COPY = 12


LOADS = (InstructionKind.INP, InstructionKind.WGT, InstructionKind.ACC, InstructionKind.UOP)
READERS = {
    InstructionKind.INP: INP,
    InstructionKind.WGT: WGT,
    InstructionKind.ACC: ACC,
    InstructionKind.UOP: UOP,
    InstructionKind.WAIT: INP,
}
_LOADED = {
    Memory.INP: InstructionKind.INP,
    Memory.WGT: InstructionKind.WGT,
    Memory.ACC: InstructionKind.ACC,
    Memory.ACC_8BIT: InstructionKind.ACC,
    Memory.UOP: InstructionKind.UOP,
}


@dataclass(frozen=True, slots=True)
class Pads:
    """What the padding machine does during a load: elements above, beside and below the data.

    rows: the rows of data it walks over on its way to the bottom if there is nothing beside them.
    delay: cycles by which the first request waits, one per row above.
    """

    above: int
    beside: int
    below: int
    rows: int
    delay: int

    @property
    def elements(self) -> int:
        """Zeros written."""
        return self.above + self.beside + self.below


@dataclass(frozen=True)
class WorkColumns:
    """The columns of a program: int64 [n], or lists of n.

    duration: cycles, where they do not depend on reads from DRAM; 0 for loads, which may have
    `pads`, and for FINISH. requests: of each LOAD and STORE that moves something; their number is
    in `handshakes`, their beats in `beats`, their DRAM bytes in `nbytes`. pops, pushes: the token
    queues. zero_counts: the GEMMs and ALUs with a count of zero. finish: the first FINISH. in_gb:
    the transfers that reach the global buffer of a cluster, all others reach DRAM.
    """

    target: Target
    words: NDArray[np.uint64]
    kind: Column
    module: Column
    pops: list[tuple[Queue, ...]]
    pushes: list[tuple[Queue, ...]]
    duration: Column
    micro_ops: Column
    elements: Column
    nbytes: Column
    beats: Column
    handshakes: Column
    requests: Mapping[int, Requests]
    pads: Mapping[int, Pads]
    zero_counts: Column
    finish: int
    in_gb: frozenset[int] = frozenset()

    def write_cycles(self, preset: TimingPreset, index: int) -> list[int]:
        """The cycles for which each request of a STORE holds the write channel, in the order they
        leave. Their sum is the STORE's duration where no other machine writes.
        """
        found, beats, written = [], 0, 0
        elements = int(self.elements[index])
        element = self.target.element_bytes(self.target.system.results)
        requests = self.requests[index].beats
        for number, size in enumerate(requests, 1):
            beats += size
            until = elements if number == len(requests) else beats * preset.port_bytes // element
            idle = preset.store_idle_cycles * (min(until, elements) - written)
            written = min(until, elements)
            found.append(size + idle + preset.store_request_cycles)
        return found

    def decode(self, index: int) -> Instruction:
        """One instruction."""
        return decode(self.target, self.words[index : index + 1])[0]

    def error(self, index: int, reason: str) -> SimulationError:
        """An error about one instruction."""
        return SimulationError(index, self.decode(index), reason)


def prepare(target: Target, preset: TimingPreset, words: NDArray[np.uint64]) -> WorkColumns:
    """Read a program, uint64 [N, 2]. Raises `SimulationError` on what the machine cannot run."""
    words = np.ascontiguousarray(words, np.uint64).reshape(-1, 2)
    fields = _Fields(target, words)
    _verify(target, preset, fields)
    finishes = np.flatnonzero(fields.opcode == Opcode.FINISH)
    if not len(finishes):
        raise SimulationError(-1, None, "the program has no FINISH and never ends")
    system = target.system
    kind, module = _kinds(fields), _modules(system, fields)
    micro_ops, zero_counts = _micro_ops(fields)
    traffic = _Traffic(target, preset, fields, kind)
    duration = _durations(preset, fields, kind, micro_ops)
    stores = kind == InstructionKind.STORE
    duration[stores] = traffic.store_durations()[stores]
    return WorkColumns(
        target=target,
        words=words,
        kind=kind,
        module=module,
        pops=_queues(system.pops, module, fields["pop_prev"], fields["pop_next"]),
        pushes=_queues(system.pushes, module, fields["push_prev"], fields["push_next"]),
        duration=duration,
        micro_ops=micro_ops,
        elements=traffic.elements,
        nbytes=traffic.nbytes,
        beats=traffic.beats,
        handshakes=traffic.handshakes,
        requests=traffic.requests,
        pads=traffic.pads,
        zero_counts=zero_counts,
        finish=int(finishes[0]),
    )


class _Fields:
    """The fields of all instructions by name; 0 where an instruction has no such field.

    meaningless: where bits are set that belong to no field, or the opcode or memory is unknown.
    """

    def __init__(self, target: Target, words: NDArray[np.uint64]) -> None:
        self.words = words
        self.opcode: Column = (words[:, 0] & np.uint64(7)).astype(np.int64)
        self.columns: dict[str, Column] = {}
        self.meaningless: NDArray[np.bool_] = self.opcode > max(Opcode)
        for opcode, layout in instruction_columns(target).items():
            rows = np.flatnonzero(self.opcode == opcode)
            self.meaningless[rows] = (words[rows] & layout.reserved).any(axis=1)
            for name, values in zip(layout.names, layout.extract(words[rows]), strict=True):
                if name not in self.columns:
                    self.columns[name] = np.zeros(len(words), np.int64)
                self.columns[name][rows] = values
        self.meaningless |= self["memory"] > max(Memory)

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]


def _verify(target: Target, preset: TimingPreset, fields: _Fields) -> None:
    """Raise `SimulationError` on the first instruction that the machine cannot run."""
    opcode, memory = fields.opcode, fields["memory"]
    stores = opcode == Opcode.STORE
    transfer = stores | (opcode == Opcode.LOAD)
    endless = transfer & (fields["x_size"] > 0) & (fields["y_size"] == 0)
    multiply = (opcode == Opcode.ALU) & (fields["alu_opcode"] >= AluOpcode.MUL)
    extension = multiply | (transfer & (memory == Memory.ACC_8BIT))
    suspects = fields.meaningless | endless | extension | (fields["uop_end"] > target.uop_entries)
    known = np.flatnonzero(transfer & ~fields.meaningless)
    columns = {name: column[known] for name, column in fields.columns.items()}
    suspects[known] |= doubtful_transfers(target, stores[known], columns)
    for index in np.flatnonzero(suspects).tolist():
        try:
            instruction = decode_program(target, fields.words[index : index + 1])[0]
        except SimulationError as error:
            raise SimulationError(index, None, error.reason) from None
        reason = objection(target, instruction, None, strict=False)
        if reason is None and endless[index]:
            reason = "y_size 0 with x_size > 0 never ends"
        if reason is None and extension[index] and not preset.extensions:
            reason = f"the machine of {preset.name} does not decode it: fetch stops there for good"
        if reason is not None:
            raise SimulationError(index, instruction, reason)


def _pad_bits(fields: _Fields) -> Column:
    return fields["y_pad_0"] | fields["y_pad_1"] | fields["x_pad_0"] | fields["x_pad_1"]


def _kinds(fields: _Fields) -> Column:
    opcode = fields.opcode
    by_opcode = {
        Opcode.LOAD: InstructionKind.SYNC,
        Opcode.STORE: InstructionKind.STORE,
        Opcode.GEMM: InstructionKind.GEMM,
        Opcode.FINISH: InstructionKind.FINISH,
        Opcode.ALU: InstructionKind.ALU,
    }
    kind = np.array([by_opcode[o] for o in Opcode], np.int64)[opcode]
    for memory, loaded in _LOADED.items():
        kind[(opcode == Opcode.LOAD) & (fields["memory"] == memory)] = loaded
    kind[(opcode == Opcode.GEMM) & (fields["reset"] > 0)] = InstructionKind.RESET
    transfer = (opcode == Opcode.LOAD) | (opcode == Opcode.STORE)
    kind[transfer & (fields["x_size"] == 0)] = InstructionKind.SYNC
    return kind


def _modules(system: System, fields: _Fields) -> Column:
    """The module that runs each instruction."""
    moves = np.array([system.moves[memory] for memory in Memory], np.int64)
    runs = np.array([system.runs.get(opcode.name, system.stores) for opcode in Opcode], np.int64)
    loads = fields.opcode == Opcode.LOAD
    found: Column = np.where(loads, moves[fields["memory"]], runs[fields.opcode])
    return found


def _queues(
    sides: Mapping[tuple[Module, bool, bool], tuple[Queue, ...]],
    modules: Column,
    before: Column,
    after: Column,
) -> list[tuple[Queue, ...]]:
    table: list[tuple[Queue, ...]] = [()] * len(sides)
    for (module, prev, next_), queues in sides.items():
        table[4 * module + 2 * prev + next_] = queues
    return list(map(table.__getitem__, (4 * modules + 2 * before + after).tolist()))


def _micro_ops(fields: _Fields) -> tuple[Column, Column]:
    """Micro-ops that GEMM and ALU run, and where a count is zero, which means 2^14."""
    compute = (fields.opcode == Opcode.GEMM) | (fields.opcode == Opcode.ALU)
    total = compute.astype(np.int64)
    zero = np.zeros(len(total), bool)
    span = (fields["uop_end"] - fields["uop_bgn"]) % ZERO_COUNT
    for count in (fields["iter_out"], fields["iter_in"], span):
        zero |= compute & (count == 0)
        total *= np.where(count == 0, ZERO_COUNT, count)
    return total, np.flatnonzero(zero)


def _durations(preset: TimingPreset, fields: _Fields, kind: Column, micro_ops: Column) -> Column:
    """Durations of syncs, GEMM and ALU; 0 for the rest."""
    rate = np.where(fields["use_imm"] > 0, preset.alu_immediate_cycles, preset.alu_register_cycles)
    rate[fields.opcode == Opcode.GEMM] = preset.gemm_cycles
    compute = (fields.opcode == Opcode.GEMM) | (fields.opcode == Opcode.ALU)
    duration: Column = np.where(compute, micro_ops * rate + preset.compute_overhead, 0)
    duration[kind == InstructionKind.SYNC] = 1
    result: Column = np.maximum(duration, compute)
    return result


class _Traffic:
    """The bytes that each transfer moves, and its requests."""

    def __init__(self, target: Target, preset: TimingPreset, fields: _Fields, kind: Column) -> None:
        self._preset = preset
        count = len(kind)
        sizes = np.array([target.element_bytes(m) for m in Memory], np.int64)
        element = sizes[fields["memory"]]
        self.elements: Column = fields["x_size"] * fields["y_size"]
        self.nbytes: Column = np.where(kind == InstructionKind.SYNC, 0, self.elements * element)
        self.beats, self.handshakes = np.zeros(count, np.int64), np.zeros(count, np.int64)
        moves = np.flatnonzero(np.isin(kind, (*LOADS, InstructionKind.STORE)))
        shapes, which = _distinct(
            (fields["dram_base"] * element)[moves] % preset.burst_bytes,
            (fields["x_size"] * element)[moves],
            (fields["x_stride"] * element)[moves],
            fields["y_size"][moves],
        )
        kinds = [cut(preset, *shape) for shape in shapes]
        self.beats[moves] = np.array([k.total for k in kinds], np.int64)[which]
        self.handshakes[moves] = np.array([len(k.beats) for k in kinds], np.int64)[which]
        self.requests = dict(
            zip(moves.tolist(), map(kinds.__getitem__, which.tolist()), strict=True)
        )
        self.pads = _pads(fields, moves[_pad_bits(fields)[moves] > 0])

    def store_durations(self) -> Column:
        """One request after the other: handshake and response, beats, and reading each element."""
        idle = self._preset.store_idle_cycles * self.elements
        moving = self.beats + self._preset.store_request_cycles * self.handshakes
        result: Column = np.maximum(idle + (0 if self._preset.ideal_memory else moving), 1)
        return result


def _pads(fields: _Fields, rows: NDArray[np.intp]) -> dict[int, Pads]:
    names = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1", "x_size", "y_size")
    shapes, which = _distinct(*(fields[name][rows] for name in names))
    kinds = []
    for top, bottom, left, right, width, height in shapes:
        full = left + width + right
        walk = height if bottom and not left + right else 0
        kinds.append(Pads(top * full, height * (left + right), bottom * full, walk, top))
    return dict(zip(rows.tolist(), map(kinds.__getitem__, which.tolist()), strict=True))


def _distinct(*columns: Column) -> tuple[list[list[int]], NDArray[np.intp]]:
    """The distinct rows of some columns, and which of them each row is.

    Columns are merged one by one into numbers of distinct rows, so that numbers are sorted, not
    rows.
    """
    which = np.zeros(len(columns[0]), np.intp)
    first = np.zeros(min(1, len(which)), np.intp)
    for column in columns:
        spread = int(column.max(initial=0)) + 1
        _, first, which = np.unique(which * spread + column, return_index=True, return_inverse=True)
    return np.stack([column[first] for column in columns], axis=1).tolist(), which
