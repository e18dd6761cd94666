"""The bits of VTA's instructions and micro-ops, derived from the target.

An instruction is two 64-bit words, a micro-op one of 32 bits; where each field lies follows from
the depths of the buffers (Apache tvm-vta, ``hw_spec.h``; the technical report, section 2.2). No
other module knows the layout of bits. Instructions are small frozen values, whole programs arrays:
``encode(target, decode(target, words)) == words`` for every valid program. Bits that belong to no
field must be zero.
"""

import collections
import enum
import functools
import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..target import Memory, Target


class EncodingError(ValueError):
    """A value that does not fit its field, or bits that mean nothing.

    `index` is the instruction (or micro-op) it happened at.
    """

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index


class Opcode(enum.IntEnum):
    """What an instruction does (3 bits)."""

    LOAD = 0
    STORE = 1
    GEMM = 2
    FINISH = 3
    ALU = 4


class AluOpcode(enum.IntEnum):
    """What an ALU instruction computes (3 bits)."""

    MIN = 0
    MAX = 1
    ADD = 2
    SHR = 3
    MUL = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """What every instruction has: the tokens it pops before it starts and pushes when done."""

    pop_prev: bool = False
    pop_next: bool = False
    push_prev: bool = False
    push_next: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer(Instruction):
    """A rectangle of elements between DRAM and a buffer.

    All sizes are in elements. In DRAM row r starts at ``dram_base + r * x_stride``; in the buffer
    the rows lie densely, surrounded by zeros where a LOAD has pads.
    """

    memory: Memory
    sram_base: int
    dram_base: int
    y_size: int
    x_size: int
    x_stride: int
    y_pad_0: int = 0
    y_pad_1: int = 0
    x_pad_0: int = 0
    x_pad_1: int = 0

    @property
    def sram_width(self) -> int:
        """Elements of a row in the buffer."""
        return self.x_pad_0 + self.x_size + self.x_pad_1

    @property
    def sram_size(self) -> int:
        """Elements in the buffer; 0 for the transfer of nothing, whatever its pads."""
        if self.x_size == 0:
            return 0
        return self.sram_width * (self.y_pad_0 + self.y_size + self.y_pad_1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load(Transfer):
    """LOAD: DRAM to a buffer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store(Transfer):
    """STORE: OUT to DRAM."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute(Instruction):
    """Two loops around a range of micro-ops; each loop has one factor per index."""

    reset: bool = False
    uop_bgn: int
    uop_end: int
    iter_out: int
    iter_in: int
    dst_factor_out: int = 0
    dst_factor_in: int = 0
    src_factor_out: int = 0
    src_factor_in: int = 0

    @property
    def micro_ops(self) -> int:
        """Micro-ops that run: the range times both iteration counts."""
        return self.iter_out * self.iter_in * max(0, self.uop_end - self.uop_bgn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm(Compute):
    """GEMM: multiply and accumulate, or with `reset` clear accumulators."""

    wgt_factor_out: int = 0
    wgt_factor_in: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Alu(Compute):
    """ALU: elementwise on accumulators, with an immediate or a second accumulator."""

    alu_opcode: AluOpcode
    use_imm: bool = False
    imm: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Instruction):
    """FINISH: the end of the program."""


_CLASSES: Mapping[Opcode, type[Instruction]] = {
    Opcode.LOAD: Load,
    Opcode.STORE: Store,
    Opcode.GEMM: Gemm,
    Opcode.FINISH: Finish,
    Opcode.ALU: Alu,
}
_OPCODES = {cls: opcode for opcode, cls in _CLASSES.items()}


def opcode_of(instruction: Instruction) -> Opcode:
    """The opcode of an instruction."""
    return _OPCODES[type(instruction)]


_MEMBERS = {"memory": tuple(Memory), "alu_opcode": tuple(AluOpcode)}
_LAST_OPCODE = max(Opcode)
_FLAGS = ("pop_prev", "pop_next", "push_prev", "push_next", "reset", "use_imm")


@dataclass(frozen=True, slots=True)
class Field:
    """Where one field lies: `width` bits of `word` from bit `offset`."""

    name: str
    word: int
    offset: int
    width: int
    signed: bool = False

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value."""
        if self.signed:
            return -(1 << (self.width - 1)), (1 << (self.width - 1)) - 1
        return 0, (1 << self.width) - 1

    def extract(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The field of each row of ``words`` [N, 2]."""
        mask = np.uint64((1 << self.width) - 1)
        values = ((words[:, self.word] >> np.uint64(self.offset)) & mask).astype(np.int64)
        if self.signed:
            half = 1 << (self.width - 1)
            values = (values ^ half) - half
        return values


def _pack(word: int, widths: Iterable[tuple[str, int]], offset: int = 0) -> list[Field]:
    packed = []
    for name, width in widths:
        packed.append(Field(name, word, offset, width, signed=name == "imm"))
        offset += width
    return packed


_HEADER = [("pop_prev", 1), ("pop_next", 1), ("push_prev", 1), ("push_next", 1)]
_OPCODE_BITS = 3
_HEADER_BITS = _OPCODE_BITS + len(_HEADER)


@functools.lru_cache(maxsize=64)
def instruction_fields(target: Target) -> Mapping[Opcode, Sequence[Field]]:
    """The fields of each kind of instruction, the opcode (the 3 lowest bits) left out."""
    uop, inp = target.log_uop_depth, target.log_inp_depth
    wgt, acc = target.log_wgt_depth, target.log_acc_depth
    header = _pack(0, _HEADER, _OPCODE_BITS)
    transfer = [
        *header,
        *_pack(0, [("memory", 3), ("sram_base", 16), ("dram_base", 32)], _HEADER_BITS),
        *_pack(1, [("y_size", 16), ("x_size", 16), ("x_stride", 16)]),
        *_pack(1, [(f"{axis}_pad_{side}", 4) for axis in "yx" for side in (0, 1)], 48),
    ]
    loops = [("reset", 1), ("uop_bgn", uop), ("uop_end", uop + 1), ("iter_out", 14)]
    compute = [*header, *_pack(0, [*loops, ("iter_in", 14)], _HEADER_BITS)]

    def factors(**widths: int) -> list[tuple[str, int]]:
        return [(f"{i}_factor_{way}", bits) for i, bits in widths.items() for way in ("out", "in")]

    operation = [("alu_opcode", 3), ("use_imm", 1), ("imm", 16)]
    return {
        Opcode.LOAD: transfer,
        Opcode.STORE: transfer,
        Opcode.GEMM: [*compute, *_pack(1, factors(dst=acc, src=inp, wgt=wgt))],
        Opcode.FINISH: header,
        Opcode.ALU: [*compute, *_pack(1, [*factors(dst=acc, src=acc), *operation])],
    }


@functools.lru_cache(maxsize=64)
def micro_op_fields(target: Target) -> Sequence[Field]:
    """The fields dst, src, wgt of a micro-op."""
    acc, inp = target.log_acc_depth, target.log_inp_depth
    return _pack(0, [("dst", acc), ("src", max(acc, inp)), ("wgt", target.log_wgt_depth)])


def encode(target: Target, instructions: Iterable[Instruction]) -> NDArray[np.uint64]:
    """The words, uint64 [N, 2], of instructions. Raises `EncodingError` on values out of range."""
    getters = {
        opcode: operator.attrgetter(*(field.name for field in layout))
        for opcode, layout in instruction_fields(target).items()
    }
    opcodes = ((_OPCODES[type(instruction)], instruction) for instruction in instructions)
    return encode_rows(target, [(opcode, getters[opcode](found)) for opcode, found in opcodes])


def encode_rows(target: Target, rows: Sequence[tuple[Opcode, Sequence[int]]]) -> NDArray[np.uint64]:
    """The words, uint64 [N, 2], of instructions given as the values of their fields.

    The values of a row are in the order of `instruction_fields`. Raises `EncodingError` on the
    first instruction with a value out of range.
    """
    found: dict[Opcode, tuple[list[int], list[Sequence[int]]]] = {}
    for place, (opcode, values) in enumerate(rows):
        places, same = found.setdefault(opcode, ([], []))
        places.append(place)
        same.append(values)
    result = np.zeros((len(rows), 2), np.uint64)
    faults: list[tuple[int, str]] = []
    for opcode, (places, same) in found.items():
        words = np.zeros((len(same), 2), np.uint64)
        words[:, 0] = int(opcode)
        for field, column in zip(
            instruction_fields(target)[opcode], zip(*same, strict=True), strict=True
        ):
            low, high = field.limits
            if min(column) < low or max(column) > high:
                row = next(row for row, value in enumerate(column) if not low <= value <= high)
                text = f"{field.name} is {int(column[row])}, but its {field.width} bits hold"
                faults.append((places[row], f"({opcode.name}): {text} {low} to {high}"))
                continue
            bits = np.array(column, np.int64) & (high - low)
            words[:, field.word] |= bits.astype(np.uint64) << np.uint64(field.offset)
        result[places] = words
    if faults:
        index, text = min(faults, key=lambda fault: fault[0])
        raise EncodingError(f"instruction {index} {text}", index)
    return result


def decode(target: Target, words: NDArray[np.uint64]) -> list[Instruction]:
    """The instructions of ``words``, uint64 [N, 2].

    Raises `EncodingError` (of the first bad instruction) on an unknown opcode, memory or ALU
    opcode, and on reserved bits that are not zero.
    """
    words = np.ascontiguousarray(words, dtype=np.uint64).reshape(-1, 2)
    opcodes = words[:, 0] & np.uint64((1 << _OPCODE_BITS) - 1)
    result: list[Instruction | None] = [None] * len(words)
    faults: list[tuple[int, str]] = [
        (int(i), f"unknown opcode {opcodes[i]}") for i in np.flatnonzero(opcodes > _LAST_OPCODE)[:1]
    ]
    for opcode, columns in instruction_columns(target).items():
        where = np.flatnonzero(opcodes == opcode)
        if len(where) == 0:
            continue
        rows = words[where]
        values = columns.extract(rows)
        faults += ((int(where[i]), text) for i, text in _faults(opcode, columns, rows, values))
        if not faults:
            made = _construct(opcode, columns, values)
            for index, instruction in zip(where.tolist(), made, strict=True):
                result[index] = instruction
    if faults:
        index, text = min(faults)
        word_0, word_1 = (int(word) for word in words[index])
        raise EncodingError(
            f"instruction {index} (words {word_0:#018x} {word_1:#018x}): {text}", index
        )
    return [instruction for instruction in result if instruction is not None]


class Columns:
    """The fields of one kind of instruction side by side, so that all are extracted at once.

    names: of the fields, in their order. reserved: the bits of both words that belong to none.
    """

    def __init__(self, layout: Sequence[Field]) -> None:
        self.names = [field.name for field in layout]
        self._words = [field.word for field in layout]
        self._offsets = np.array([[field.offset] for field in layout], np.uint64)
        self._masks = np.array([[(1 << field.width) - 1] for field in layout], np.uint64)
        half = [[(1 << field.width) >> 1 if field.signed else 0] for field in layout]
        self._half = np.array(half, np.int64) if any(field.signed for field in layout) else None
        used = [(1 << _OPCODE_BITS) - 1, 0]
        for field in layout:
            used[field.word] |= ((1 << field.width) - 1) << field.offset
        self.reserved: NDArray[np.uint64] = ~np.array(used, np.uint64)

    def extract(self, rows: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The fields [F, n] of rows [n, 2], as `Field.extract` has them."""
        words = rows.T[self._words]
        values = ((words >> self._offsets) & self._masks).astype(np.int64)
        return values if self._half is None else (values ^ self._half) - self._half


@functools.lru_cache(maxsize=64)
def instruction_columns(target: Target) -> Mapping[Opcode, Columns]:
    """For each opcode the `Columns` that extract the fields of its instructions."""
    return {opcode: Columns(layout) for opcode, layout in instruction_fields(target).items()}


def _faults(
    opcode: Opcode, columns: Columns, rows: NDArray[np.uint64], values: NDArray[np.int64]
) -> list[tuple[int, str]]:
    """The first row with reserved bits set, and the first with an undefined enumerator."""
    found = []
    reserved = rows & columns.reserved
    if reserved.any():
        row, word = (int(place[0]) for place in np.nonzero(reserved))
        bits = int(reserved[row, word])
        found.append((row, f"{opcode.name} has reserved bits {bits:#x} of word {word} set"))
    for name, column in zip(columns.names, values, strict=True):
        if name in _MEMBERS and column.max() >= len(_MEMBERS[name]):
            row = int(np.argmax(column >= len(_MEMBERS[name])))
            found.append((row, f"{opcode.name} has unknown {name} {column[row]}"))
    return found


def _construct(opcode: Opcode, columns: Columns, values: NDArray[np.int64]) -> list[Instruction]:
    """The instructions of one opcode, filled field by field from values [F, n].

    A column goes into its slot of all instances at once, past the constructor, which is what makes
    programs of 100,000 instructions decode in a fraction of a second; every field has a slot.
    """
    cls = _CLASSES[opcode]
    made: list[Instruction] = list(map(cls.__new__, itertools.repeat(cls, values.shape[1])))
    for name, column in zip(columns.names, values.tolist(), strict=True):
        if name in _FLAGS:
            column = map((False, True).__getitem__, column)
        elif name in _MEMBERS:
            column = map(_MEMBERS[name].__getitem__, column)
        collections.deque(map(getattr(cls, name).__set__, made, column), maxlen=0)
    return made


def encode_micro_ops(
    target: Target, dst: ArrayLike, src: ArrayLike, wgt: ArrayLike = 0
) -> NDArray[np.uint32]:
    """Micro-ops, uint32 [N], of their three indices (broadcast against each other).

    Raises `EncodingError` where an index does not fit its field.
    """
    columns = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(c, np.int64)) for c in (dst, src, wgt))
    )
    words = np.zeros(columns[0].shape, dtype=np.uint32)
    for field, column in zip(micro_op_fields(target), columns, strict=True):
        high = field.limits[1]
        for index in np.flatnonzero((column < 0) | (column > high))[:1]:
            raise EncodingError(
                f"micro-op {index}: {field.name} is {column[index]}, but its {field.width} bits"
                f" hold 0 to {high}",
                int(index),
            )
        words |= column.astype(np.uint32) << np.uint32(field.offset)
    return words


def decode_micro_ops(target: Target, words: NDArray[np.uint32]) -> NDArray[np.int32]:
    """The indices dst, src, wgt, int32 [N, 3], of micro-ops.

    Raises `EncodingError` on reserved bits that are not zero.
    """
    words = np.asarray(words, dtype=np.uint32)
    offsets, masks, reserved = micro_op_bits(target)
    if (words & reserved).any():
        index = int(np.flatnonzero(words & reserved)[0])
        raise EncodingError(
            f"micro-op {index} ({int(words[index]):#010x}) has reserved bits set", index
        )
    return ((words[:, None] >> offsets) & masks).astype(np.int32)


@functools.lru_cache(maxsize=64)
def micro_op_bits(target: Target) -> tuple[NDArray[np.uint32], NDArray[np.uint32], np.uint32]:
    """Offsets and masks of the fields of a micro-op, and the bits that belong to none."""
    layout = micro_op_fields(target)
    masks = [(1 << field.width) - 1 for field in layout]
    used = sum(mask << field.offset for mask, field in zip(masks, layout, strict=True))
    offsets = np.array([field.offset % 32 for field in layout], np.uint32)
    return offsets, np.array(masks, np.uint32), ~np.uint32(used)


def field_names(kind: type[Instruction]) -> tuple[str, ...]:
    """The names of an instruction's fields, tokens first."""
    return tuple(field.name for field in fields(kind))
