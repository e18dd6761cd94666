"""Operands of computes and updates: subscripts, and the value of reads outside the shape."""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, UnitAttr
from xdsl.ir import SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer

from .affine import Row, parse_subscripts, print_subscripts
from .attributes import Outside, shaped


@dataclass(frozen=True, slots=True)
class Read:
    """One operand of a compute or an update.

    value: tensor or buffer that is read.
    rows: one subscript for each dimension, over the statement's variables.
    outside: what a read outside the shape yields, if there can be one.
    """

    value: SSAValue
    rows: tuple[Row, ...]
    outside: int | None = None

    def bordered(self, extents: Sequence[int], outside: int) -> "Read":
        """The read with a value for elements outside the tensor, if the variables can lead there.

        extents: of the statement's variables. outside: that value, unless the read has one.
        """
        if self.outside is None:
            for row, size in zip(self.rows, shaped(self.value).get_shape(), strict=True):
                low, high = row.interval(extents)
                if low < 0 or high >= size:
                    return Read(self.value, self.rows, outside)
        return self


def outside_attr(reads: Sequence[Read]) -> ArrayAttr[Outside]:
    """The attribute ``outside`` of a list of reads."""
    return ArrayAttr(
        UnitAttr()
        if read.outside is None
        else IntegerAttr(read.outside, shaped(read.value).element_type)
        for read in reads
    )


def parse_read(parser: Parser, names: Sequence[str]) -> Read:
    """Parse what `print_read` prints. names: of the variables, in order."""
    operand = parser.parse_unresolved_operand()
    rows, outside = parse_place(parser, names)
    return Read(parser.resolve_operand(operand, parser.parse_type()), rows, outside)


def parse_place(parser: Parser, names: Sequence[str]) -> tuple[tuple[Row, ...], int | None]:
    """Parse ``[i, 2 * j - 1] outside 0 :``, of which the value outside may be missing.

    names: of the variables, in order. A name that is none of them is an error at its place.
    """

    def variable() -> int | None:
        position = parser.pos
        name = parser.parse_optional_identifier()
        if name is not None and name not in names:
            parser.raise_error(f"there is no axis {name}", position, parser.pos)
        return None if name is None else names.index(name)

    rows = parse_subscripts(parser, variable)
    outside = None
    if parser.parse_optional_keyword("outside"):
        outside = parser.parse_integer(allow_boolean=False)
    parser.parse_punctuation(":")
    return tuple(rows), outside


def print_read(printer: Printer, read: Read, names: Sequence[str]) -> None:
    """Print ``%x[i, 2 * j - 1] outside 0 : type``. names: of the variables, in order."""
    printer.print_operand(read.value)
    print_place(printer, read.rows, read.outside, names)
    printer.print_attribute(read.value.type)


def print_place(
    printer: Printer, rows: Sequence[Row], outside: int | None, names: Sequence[str]
) -> None:
    """Print what `parse_place` reads."""
    print_subscripts(printer, rows, lambda index: printer.print_string(names[index]))
    if outside is not None:
        printer.print_string(f" outside {outside}")
    printer.print_string(" : ")
