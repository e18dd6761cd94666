"""Affine subscripts: how an access turns iteration variables into the index of an element.

An access is stored as an `AffineMapAttr` over the iteration variables, with one result for each
dimension of the tensor. Code works on the rows of coefficients (`Row`). The text is that of an
array access, ``%x[n, ci, 2 * h + kh - 1]``.

A subscript may be divided, as in ``%x[n, ci, (h - kh + 1) / 2]``, which is how a transposed
convolution reads its input. Where the division leaves a remainder there is no element, and the read
counts as outside the tensor: quotients are never rounded. An affine map has no exact division, so
the map stores a ``floordiv``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import gcd

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException


@dataclass(frozen=True, slots=True)
class Row:
    """One subscript: the sum of ``coefficient * variable`` over ``terms``, plus ``constant``.

    ``terms`` are pairs (variable, coefficient) in ascending order of the variable, none of them 0.
    The sum is divided by ``divisor``; where that leaves a remainder there is no index.
    """

    terms: tuple[tuple[int, int], ...]
    constant: int = 0
    divisor: int = 1

    @staticmethod
    def of(coefficients: Iterable[tuple[int, int]], constant: int = 0, divisor: int = 1) -> "Row":
        """The row of pairs (variable, coefficient) in any order; those of one variable add up."""
        total: dict[int, int] = {}
        for variable, coefficient in coefficients:
            total[variable] = total.get(variable, 0) + coefficient
        common = gcd(divisor, constant, *total.values())
        terms = sorted((v, c // common) for v, c in total.items() if c)
        return Row(tuple(terms), constant // common, divisor // common)

    @property
    def variable(self) -> int | None:
        """The variable, if the subscript is a single variable; else None."""
        if self == Row(self.terms) and len(self.terms) == 1 and self.terms[0][1] == 1:
            return self.terms[0][0]
        return None

    def renamed(self, names: Callable[[int], int]) -> "Row":
        """The subscript after each variable has been replaced by another one."""
        return Row.of([(names(v), c) for v, c in self.terms], self.constant, self.divisor)

    def substituted(self, rows: Sequence["Row"]) -> "Row":
        """The subscript with each variable replaced by ``rows[variable]``, none of them divided."""
        terms = [(v, c * k) for variable, c in self.terms for v, k in rows[variable].terms]
        constant = self.constant + sum(c * rows[v].constant for v, c in self.terms)
        return Row.of(terms, constant, self.divisor)

    def interval(self, extents: Sequence[int]) -> tuple[int, int]:
        """Smallest and largest value when each variable runs over [0, extent)."""
        low = high = self.constant
        for variable, coefficient in self.terms:
            reach = coefficient * (extents[variable] - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        return -(-low // self.divisor), high // self.divisor


_ROWS: dict[int, tuple[AffineMapAttr, tuple[Row, ...]]] = {}
"""Rows by the identity of the map, since hashing a map is slow. Each entry keeps its map alive, so
that the identity stays unique."""

_MOST_MAPS = 1 << 14


def rows_of(attr: AffineMapAttr) -> tuple[Row, ...]:
    """The rows of a map. Raises `VerifyException` where a result is not linear."""
    found = _ROWS.get(id(attr))
    if found is None:
        if len(_ROWS) == _MOST_MAPS:
            _ROWS.clear()
        found = _ROWS[id(attr)] = attr, tuple(_row(expr) for expr in attr.data.results)
    return found[1]


def _row(expr: AffineExpr) -> Row:
    if isinstance(expr, AffineDimExpr):
        return Row(((expr.position, 1),))
    if isinstance(expr, AffineConstantExpr):
        return Row((), expr.value)
    if isinstance(expr, AffineBinaryOpExpr):
        left, right = _row(expr.lhs), _row(expr.rhs)
        if expr.kind is AffineBinaryOpKind.FloorDiv and not right.terms and right.constant > 0:
            return Row.of(left.terms, left.constant, left.divisor * right.constant)
        if left.divisor * right.divisor > 1:
            raise VerifyException(f"in subscript {expr} a part is divided; all of it may be")
        if expr.kind is AffineBinaryOpKind.Add:
            return Row.of([*left.terms, *right.terms], left.constant + right.constant)
        if expr.kind is AffineBinaryOpKind.Mul and not (left.terms and right.terms):
            row, factor = (left, right.constant) if left.terms else (right, left.constant)
            return Row.of([(v, c * factor) for v, c in row.terms], row.constant * factor)
    raise VerifyException(f"subscript {expr} is not linear in the iteration variables")


@cache
def map_of(rows: tuple[Row, ...], variables: int) -> AffineMapAttr:
    """The map over that many variables with these rows; the inverse of `rows_of`."""
    return AffineMapAttr(AffineMap(variables, 0, tuple(_expression(row) for row in rows)))


def _expression(row: Row) -> AffineExpr:
    expr: AffineExpr | None = None
    for variable, coefficient in row.terms:
        term = AffineExpr.dimension(variable)
        if coefficient != 1:
            term = term * coefficient
        expr = term if expr is None else expr + term
    if expr is None:
        expr = AffineExpr.constant(row.constant)
    elif row.constant:
        expr = expr + row.constant
    return expr if row.divisor == 1 else expr // row.divisor


def identity_map(rank: int) -> AffineMapAttr:
    """The identity map over that many variables."""
    return map_of(tuple(Row(((i, 1),)) for i in range(rank)), rank)


def parse_subscripts(parser: AttrParser, variable: Callable[[], int | None]) -> tuple[Row, ...]:
    """Parse ``[row, row, ...]``; ``variable`` parses a variable, or returns None if none is there.

    A row is a sum or difference of terms, ``3``, ``h``, ``2 * h``, or such a sum, in parentheses,
    divided: ``(h - kh + 1) / 2``.
    """
    rows = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: _parse_row(parser, variable)
    )
    return tuple(rows)


def _parse_row(parser: AttrParser, variable: Callable[[], int | None]) -> Row:
    if parser.parse_optional_punctuation("("):
        row = _parse_sum(parser, variable)
        parser.parse_punctuation(")")
        parser.parse_punctuation("/")
        position = parser.pos
        divisor = parser.parse_integer(allow_boolean=False, allow_negative=False)
        if divisor == 0:
            parser.raise_error("a subscript is divided by 0", position, parser.pos)
        return Row.of(row.terms, row.constant, divisor)
    return _parse_sum(parser, variable)


def _parse_sum(parser: AttrParser, variable: Callable[[], int | None]) -> Row:
    terms: list[tuple[int, int]] = []
    constant = 0
    sign = -1 if parser.parse_optional_punctuation("-") else 1
    while True:
        factor = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
        starred = factor is not None and parser.parse_optional_characters("*") is not None
        if factor is None or starred:
            found = variable()
            if found is None:
                parser.raise_error("expected a variable or an integer in a subscript")
            terms.append((found, sign * (1 if factor is None else factor)))
        else:
            constant += sign * factor
        if parser.parse_optional_punctuation("+"):
            sign = 1
        elif parser.parse_optional_punctuation("-"):
            sign = -1
        else:
            return Row.of(terms, constant)


def print_subscripts(
    printer: Printer, rows: Sequence[Row], print_variable: Callable[[int], object]
) -> None:
    """Print what `parse_subscripts` reads."""

    def print_row(row: Row) -> None:
        if row.divisor > 1:
            printer.print_string("(")
            print_row(Row(row.terms, row.constant))
            printer.print_string(f") / {row.divisor}")
            return
        for position, (variable, coefficient) in enumerate(row.terms):
            if position:
                printer.print_string(" - " if coefficient < 0 else " + ")
            elif coefficient < 0:
                printer.print_string("-")
            if abs(coefficient) != 1:
                printer.print_string(f"{abs(coefficient)} * ")
            print_variable(variable)
        if not row.terms:
            printer.print_string(str(row.constant))
        elif row.constant:
            printer.print_string(f" {'-' if row.constant < 0 else '+'} {abs(row.constant)}")

    printer.print_string("[")
    printer.print_list(rows, print_row)
    printer.print_string("]")
