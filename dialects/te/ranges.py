"""Ranges of indices, written ``start : length``; both parts are integers, or both are SSA values.

An operation keeps its ranges as one array of integers (two a range; `DYNAMIC` marks values) and a
list of operands (two a dynamic range), like the mixed offsets and sizes of MLIR's subviews.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import cast

from xdsl.dialects.builtin import I64, DenseArrayBase, IndexType, IntegerType, i64
from xdsl.ir import SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

DYNAMIC = -1
"""In the array of integers: this part of the range is an operand. (No length is negative.)"""


@dataclass(frozen=True, slots=True)
class Range:
    """The indices from ``start`` on, ``length`` of them."""

    start: int | SSAValue
    length: int | SSAValue

    @property
    def values(self) -> tuple[SSAValue, SSAValue] | None:
        """Start and length, if they are SSA values."""
        if isinstance(self.start, SSAValue) and isinstance(self.length, SSAValue):
            return self.start, self.length
        return None

    @property
    def bounds(self) -> tuple[int, int] | None:
        """Start and length, if they are known."""
        if isinstance(self.start, int) and isinstance(self.length, int):
            return self.start, self.length
        return None


def integers(array: DenseArrayBase) -> list[int]:
    """The elements of an array of integers."""
    return list(_elements(array))


@cache
def _elements(array: DenseArrayBase) -> tuple[int, ...]:
    """Looked up: lowering reads the same few arrays again and again."""
    return tuple(cast("DenseArrayBase[IntegerType]", array).get_values())


@cache
def _array(elements: tuple[int, ...]) -> DenseArrayBase[I64]:
    return DenseArrayBase.from_list(i64, elements)


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
    return operands, _array(tuple(static))


def decode_ranges(static: DenseArrayBase, operands: Sequence[SSAValue]) -> list[Range]:
    """The inverse of `encode_ranges`. Raises `VerifyException` where the two do not agree."""
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
