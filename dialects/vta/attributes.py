"""Attributes and types of the vta dialect: memories, opcodes, micro-ops, types of buffers.

A network is thousands of instructions, so attributes are shared: ``integer`` and ``integers``
return the same attribute for the same values, and a list of micro-ops is one packed value.
"""

import enum
import functools
import struct
from collections.abc import Iterator, Mapping, Sequence
from enum import auto
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, SymbolRefAttr, i64
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import (
    Attribute,
    Data,
    ParametrizedAttribute,
    SpacedOpaqueSyntaxAttribute,
    TypeAttribute,
)
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from ..target import Memory
from .encoding import AluOpcode

Choice = TypeVar("Choice", bound=enum.Enum)


@functools.lru_cache(maxsize=1 << 16)
def integer(value: int) -> IntegerAttr[IntegerType]:
    """The shared ``i64`` attribute of a number."""
    return IntegerAttr(value, i64)


@functools.lru_cache(maxsize=1 << 16)
def integers(*values: int) -> DenseArrayBase[IntegerType]:
    """The shared ``array<i64>`` attribute of some numbers."""
    return DenseArrayBase.from_list(i64, values)


@functools.lru_cache(maxsize=1 << 16)
def symbol(name: str) -> SymbolRefAttr:
    """The shared reference to a name of the program."""
    return SymbolRefAttr(name)


def numbers(attr: DenseArrayBase[IntegerType]) -> tuple[int, ...]:
    """The numbers of an ``array<i64>``."""
    return _unpack(attr.data.data)


@functools.lru_cache(maxsize=1 << 16)
def _unpack(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 8}q", data)


def _parse_choice(parser: AttrParser, choices: Mapping[str, Choice], what: str) -> Choice:
    position = parser.pos
    name = parser.parse_identifier()
    if name not in choices:
        parser.raise_error(
            f"{name} is no {what}; expected {', '.join(choices)}", position, parser.pos
        )
    return choices[name]


@irdl_attr_definition
class MemoryAttr(Data[Memory], SpacedOpaqueSyntaxAttribute):
    """One of the machine's memories: ``inp``; alone, ``#vta<memory inp>``."""

    name = "vta.memory"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Memory:
        """Parse the name of a memory."""
        return _parse_choice(parser, {m.name.lower(): m for m in Memory}, "memory")

    def print_parameter(self, printer: Printer) -> None:
        """Print the name of the memory."""
        printer.print_string(self.data.name.lower())


@irdl_attr_definition
class AluOpcodeAttr(Data[AluOpcode], SpacedOpaqueSyntaxAttribute):
    """What an ALU instruction computes: ``max``; alone, ``#vta<alu_opcode max>``."""

    name = "vta.alu_opcode"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> AluOpcode:
        """Parse the name of an operation."""
        return _parse_choice(parser, {o.name.lower(): o for o in AluOpcode}, "ALU operation")

    def print_parameter(self, printer: Printer) -> None:
        """Print the name of the operation."""
        printer.print_string(self.data.name.lower())


class BufferKind(StrEnum):
    """What a DRAM buffer is for, which says who fills it and who reads it.

    The one of kind ``semaphore`` is all semaphores of a cluster: a STORE to it is a signal, a LOAD
    of it a wait (`cluster`).
    """

    INPUT = auto()
    OUTPUT = auto()
    CONSTANT = auto()
    SCRATCH = auto()
    MICRO_OPS = auto()
    SEMAPHORE = auto()


SCRATCH_SCOPE = "dram"
"""The scope of scratch buffers that are placed: the memory behind the port, as te calls it."""

GLOBAL_SCOPE = "gb"
"""The scope of scratch buffers in the global buffer of a cluster."""


@irdl_attr_definition
class BufferKindAttr(EnumAttribute[BufferKind], SpacedOpaqueSyntaxAttribute):
    """The kind of a DRAM buffer: ``input``; alone, ``#vta<buffer_kind input>``."""

    name = "vta.buffer_kind"


@irdl_attr_definition
class SramType(ParametrizedAttribute, TypeAttribute):
    """A buffer in one of the memories, not placed yet: ``!vta.sram<inp>``."""

    name = "vta.sram"

    memory: MemoryAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse ``<inp>``."""
        with parser.in_angle_brackets():
            return (MemoryAttr(MemoryAttr.parse_parameter(parser)),)

    def print_parameters(self, printer: Printer) -> None:
        """Print ``<inp>``."""
        with printer.in_angle_brackets():
            self.memory.print_parameter(printer)

    def verify(self) -> None:
        """Only INP, WGT and ACC hold what programs name; OUT shares the places of ACC."""
        if self.memory.data not in (Memory.INP, Memory.WGT, Memory.ACC):
            raise VerifyException(f"no buffers are kept in {self.memory.data.name.lower()}")


_MEMORIES = {memory: MemoryAttr(memory) for memory in Memory}
_SRAM_TYPES = {m: SramType(_MEMORIES[m]) for m in (Memory.INP, Memory.WGT, Memory.ACC)}


def memory_attr(memory: Memory) -> MemoryAttr:
    """The shared attribute of a memory."""
    return _MEMORIES[memory]


def sram_type(memory: Memory) -> SramType:
    """The shared type of buffers in a memory; ACC_8BIT and OUT mean ACC."""
    return _SRAM_TYPES[Memory.ACC if memory in (Memory.ACC_8BIT, Memory.OUT) else memory]


@irdl_attr_definition
class MicroOps(Data[bytes]):
    """A list of micro-ops, each the three indices dst, src, wgt.

    The text folds runs: ``<[0, 0, 0] times 14 by [1, 1, 0], [3, 9, 1]>``. Kept as packed int32, so
    that equal lists are equal attributes at the price of one comparison of bytes.
    """

    name = "vta.micro_ops"

    @classmethod
    def of(cls, rows: ArrayLike) -> "MicroOps":
        """The attribute of rows [N, 3] of dst, src, wgt."""
        return cls(np.ascontiguousarray(rows, dtype="<i4").tobytes())

    @functools.cached_property
    def rows(self) -> NDArray[np.int32]:
        """The micro-ops, int32 [N, 3], read-only."""
        return np.frombuffer(self.data, dtype="<i4").reshape(-1, 3)

    @property
    def count(self) -> int:
        """How many micro-ops these are."""
        return len(self.data) // 12

    def verify(self) -> None:
        """Whole triples, none of them negative."""
        if len(self.data) % 12:
            raise VerifyException("micro-ops are triples of 32-bit indices")
        if (self.rows < 0).any():
            raise VerifyException("the indices of micro-ops must not be negative")

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> bytes:
        """Parse ``<[dst, src, wgt] times N by [step, step, step], ...>``."""
        rows: list[NDArray[np.int64]] = []

        def triple() -> NDArray[np.int64]:
            position = parser.pos
            values = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_integer
            )
            if len(values) != 3 or not all(-(1 << 31) <= value < 1 << 31 for value in values):
                parser.raise_error("expected [dst, src, wgt]", position, parser.pos)
            return np.array(values, dtype=np.int64)

        def run() -> None:
            start = triple()
            if parser.parse_optional_keyword("times") is None:
                rows.append(start[None])
                return
            position = parser.pos
            times = parser.parse_integer(allow_boolean=False, allow_negative=False)
            if times > 1 << 20:
                parser.raise_error("that is more than any machine holds", position, parser.pos)
            parser.parse_keyword("by")
            rows.append(start + np.arange(times)[:, None] * triple())

        parser.parse_comma_separated_list(parser.Delimiter.ANGLE, run)
        joined = np.concatenate(rows) if rows else np.empty((0, 3), np.int64)
        if (joined < 0).any() or (joined >= 1 << 31).any():
            parser.raise_error("the indices of micro-ops must be 0 to 2147483647")
        return joined.astype("<i4").tobytes()

    def print_parameter(self, printer: Printer) -> None:
        """Print ``<[dst, src, wgt], ...>`` with runs folded."""
        with printer.in_angle_brackets():
            printer.print_string(", ".join(self._runs()))

    def _runs(self) -> Iterator[str]:
        rows = self.rows.astype(np.int64)
        steps = np.diff(rows, axis=0)
        start = 0
        while start < len(rows):
            end = start + 1
            while end < len(rows) and (steps[end - 1] == steps[start]).all():
                end += 1
            if end - start < 3:
                yield str(rows[start].tolist())
                start += 1
            else:
                yield f"{rows[start].tolist()} times {end - start} by {steps[start].tolist()}"
                start = end
