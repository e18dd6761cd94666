"""Ranges of indices, written ``start : length``; both parts are integers, or both are SSA values.

An operation stores its ranges as an array of integers, two for each range, in which `DYNAMIC`
stands for SSA values, and a list of operands, two for each dynamic range. MLIR's ``memref.subview``
stores its mixed offsets and sizes in the same way.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from struct import unpack

from xdsl.dialects.builtin import I64, DenseArrayBase, IndexType
from xdsl.ir import SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from .operation import integer_array

DYNAMIC = -1
"""Marks a part of a range that is an operand in the array of integers. (No length is negative.)"""


@dataclass(frozen=True, slots=True)
class Range:
    """``length`` indices from ``start`` on."""

    start: int | SSAValue
    length: int | SSAValue

    @property
    def values(self) -> tuple[SSAValue, SSAValue] | None:
        """Start and length if they are SSA values, else None."""
        if isinstance(self.start, int) or isinstance(self.length, int):
            return None
        return self.start, self.length

    @property
    def bounds(self) -> tuple[int, int] | None:
        """Start and length if they are integers, else None."""
        if isinstance(self.start, int) and isinstance(self.length, int):
            return self.start, self.length
        return None


def integers(array: DenseArrayBase) -> list[int]:
    """The elements of an array of i64."""
    return list(_integers(array.data.data))


@lru_cache(1 << 14)
def _integers(data: bytes) -> tuple[int, ...]:
    return unpack(f"<{len(data) // 8}q", data)


def encode_ranges(ranges: Iterable[Range]) -> tuple[list[SSAValue], DenseArrayBase[I64]]:
    """Operands and array for a list of ranges."""
    operands: list[SSAValue] = []
    static: list[int] = []
    for item in ranges:
        if (values := item.values) is not None:
            operands += values
            static += (DYNAMIC, DYNAMIC)
        elif (bounds := item.bounds) is not None:
            static += bounds
        else:
            raise ValueError("a range is two integers or two values")
    return operands, integer_array(static)


def decode_ranges(static: DenseArrayBase, operands: Iterable[SSAValue]) -> list[Range]:
    """The inverse of `encode_ranges`. Raises `VerifyException` if the two do not agree."""
    numbers = integers(static)
    rest: Iterator[SSAValue] = iter(operands)
    ranges: list[Range] = []
    for start, length in zip(numbers[::2], numbers[1::2], strict=False):
        if length != DYNAMIC:
            ranges.append(Range(start, length))
            continue
        pair = next(rest, None), next(rest, None)
        if pair[0] is None or pair[1] is None:
            raise VerifyException("fewer operands than its ranges need")
        ranges.append(Range(pair[0], pair[1]))
    if len(numbers) % 2 or next(rest, None) is not None:
        raise VerifyException("more operands than its ranges need")
    return ranges


def parse_range(parser: Parser) -> Range:
    """Parse ``start : length``."""
    position = parser.pos
    start = _parse_part(parser)
    parser.parse_punctuation(":")
    length = _parse_part(parser)
    if isinstance(start, int) != isinstance(length, int):
        parser.raise_error("a range is two integers or two values", position, parser.pos)
    return Range(start, length)


def _parse_part(parser: Parser) -> int | SSAValue:
    operand = parser.parse_optional_unresolved_operand()
    if operand is None:
        return parser.parse_integer(allow_boolean=False)
    return parser.resolve_operand(operand, IndexType())


def print_range(printer: Printer, item: Range) -> None:
    """Print ``start : length``."""
    for position, part in enumerate((item.start, item.length)):
        if position:
            printer.print_string(" : ")
        if isinstance(part, SSAValue):
            printer.print_operand(part)
        else:
            printer.print_string(str(part))
