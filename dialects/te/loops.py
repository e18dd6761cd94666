"""Loops over ranges, and arithmetic on ranges: the control flow of kernels in loop form.

All subscripts are in coordinates of the whole tensor. A range is a pair (start, length). If the
tiles of a split do not divide a range, the last one is shorter, so no guard is needed.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Block, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from .operation import UNIT, TeOperation, integer, integer_array, string
from .ranges import Range, decode_ranges, encode_ranges, integers, parse_range, print_range

_INDEX = IndexType()


@irdl_op_definition
class ForOp(TeOperation):
    """Runs its body for each tile of a range of one axis, in order.

    label: the axis. is_reduce: whether it is a reduction axis.
    step or sizes: extents of the tiles; the last of a ``step`` may be shorter.
    hardware: the loop is part of the instruction inside it.
    The body's arguments are start (in coordinates of the tensor) and length of the tile.
    """

    name = "te.for"

    label = prop_def(StringAttr)
    static_range = prop_def(DenseArrayBase.constr(i64))
    step = opt_prop_def(IntegerAttr.constr(i64))
    sizes = opt_prop_def(DenseArrayBase.constr(i64))
    is_reduce = opt_prop_def(UnitAttr)
    hardware = opt_prop_def(UnitAttr)
    bounds = var_operand_def(IndexType)
    body = region_def("single_block")

    traits = traits_def(NoTerminator())

    def __init__(
        self,
        label: str,
        over: Range,
        body: Region | None = None,
        *,
        step: int = 1,
        sizes: Sequence[int] | None = None,
        is_reduce: bool = False,
        hardware: bool = False,
    ):
        operands, static = encode_ranges([over])
        if body is None:
            body = Region(Block(arg_types=[_INDEX, _INDEX]))
            body.block.args[0].name_hint = label
            body.block.args[1].name_hint = f"{label}_n"
        super().__init__(
            operands=[operands],
            properties={
                "label": string(label),
                "static_range": static,
                "step": integer(step) if sizes is None else None,
                "sizes": None if sizes is None else integer_array(sizes),
                "is_reduce": UNIT if is_reduce else None,
                "hardware": UNIT if hardware else None,
            },
            regions=[body],
        )

    @property
    def over(self) -> Range:
        """The range that is cut into tiles: two operands, or two numbers."""
        start, length = self._operands or integers(self.static_range)
        return Range(start, length)

    @property
    def index(self) -> SSAValue:
        """Start of the current tile, with which statements subscript."""
        return self.regions[0].block.args[0]

    @property
    def tile(self) -> Range:
        """Start and length of the current tile: the body's arguments."""
        start, length = self.regions[0].block.args
        return Range(start, length)

    def set_over(self, over: Range) -> None:
        """Run over another range."""
        operands, self.static_range = encode_ranges([over])
        self.operands = operands

    @property
    def tile_step(self) -> int | None:
        """The length of every tile but the last; None if the tiles have a list of sizes."""
        return None if self.step is None else self.step.value.data

    def tiles(self, start: int, length: int) -> list[tuple[int, int]]:
        """The tiles (start, length) of a known range, in order."""
        end, tiles = start + length, []
        if self.sizes is not None:
            for size in integers(self.sizes):
                tiles.append((start, size))
                start += size
            return tiles
        step = self.tile_step or 1
        return [(at, min(step, end - at)) for at in range(start, end, step)]

    @classmethod
    def parse(cls, parser: Parser) -> "ForOp":
        """Parse ``"h" reduce [%h : %h_n] in [0 : 56] step 14 hardware {...}``."""
        label = parser.parse_str_literal()
        is_reduce = parser.parse_optional_keyword("reduce") is not None
        with parser.in_square_brackets():
            start = parser.parse_argument(expect_type=False).resolve(_INDEX)
            parser.parse_punctuation(":")
            length = parser.parse_argument(expect_type=False).resolve(_INDEX)
        parser.parse_keyword("in")
        with parser.in_square_brackets():
            over = parse_range(parser)
        step, sizes = 1, None
        if parser.parse_optional_keyword("step"):
            step = parser.parse_integer(allow_boolean=False, allow_negative=False)
        elif parser.parse_optional_keyword("sizes"):
            sizes = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE,
                lambda: parser.parse_integer(allow_boolean=False, allow_negative=False),
            )
        hardware = parser.parse_optional_keyword("hardware") is not None
        body = parser.parse_region([start, length])
        loop = cls(
            label, over, body, step=step, sizes=sizes, is_reduce=is_reduce, hardware=hardware
        )
        loop.attributes |= parser.parse_optional_attr_dict()
        return loop

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""
        printer.print_string(" ")
        printer.print_string_literal(self.label.data)
        printer.print_string(" [" if self.is_reduce is None else " reduce [")
        print_range(printer, self.tile)
        printer.print_string("] in [")
        print_range(printer, self.over)
        printer.print_string("]")
        if self.sizes is not None:
            printer.print_string(f" sizes {integers(self.sizes)}")
        elif self.tile_step != 1:
            printer.print_string(f" step {self.tile_step}")
        printer.print_string(" hardware " if self.hardware is not None else " ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        """Arguments, range, tiles."""
        if tuple(self.body.block.arg_types) != (_INDEX, _INDEX):
            raise VerifyException("the body takes start and length of a tile, two indices")
        if len(self.static_range) != 2:
            raise VerifyException("a loop runs over one range")
        known = decode_ranges(self.static_range, self.operands)[0].bounds
        if (self.step is None) == (self.sizes is None):
            raise VerifyException("a loop has a step or sizes")
        if self.tile_step is not None and self.tile_step < 1:
            raise VerifyException("a step is at least 1")
        if self.sizes is not None:
            sizes = integers(self.sizes)
            if known is None or sum(sizes) != known[1] or min(sizes) < 1:
                raise VerifyException(f"sizes {sizes} must be positive and fill a known range")


@irdl_op_definition
class SpanOp(TeOperation):
    """The range of ``sum c * x + d``, where each x lies in a range and d in a constant range.

    start = sum of c * start over the ranges (c * last where c is negative) + offset,
    length = sum of abs(c) * (length - 1) + extra.
    The result is cut to [0, within), which may leave a length of 0. If one of the ranges is empty,
    so is the result.
    """

    name = "te.span"

    coefficients = prop_def(DenseArrayBase.constr(i64))
    offset = prop_def(IntegerAttr.constr(i64))
    extra = prop_def(IntegerAttr.constr(i64))
    within = opt_prop_def(IntegerAttr.constr(i64))
    ranges = var_operand_def(IndexType)
    start = result_def(IndexType)
    length = result_def(IndexType)

    traits = traits_def(Pure())

    def __init__(
        self,
        terms: Sequence[tuple[int, SSAValue, SSAValue]],
        offset: int,
        extra: int,
        within: int | None = None,
    ):
        super().__init__(
            operands=[[value for _, *pair in terms for value in pair]],
            properties={
                "coefficients": integer_array([term[0] for term in terms]),
                "offset": integer(offset),
                "extra": integer(extra),
                "within": None if within is None else integer(within),
            },
            result_types=[_INDEX, _INDEX],
        )

    @property
    def terms(self) -> list[tuple[int, SSAValue, SSAValue]]:
        """Coefficient, start and length of each range."""
        coefficients = integers(self.coefficients)
        return list(zip(coefficients, self.ranges[::2], self.ranges[1::2], strict=True))

    @property
    def range(self) -> Range:
        """The result."""
        return Range(self.start, self.length)

    def evaluate(self, ranges: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Start and length for known ranges; the length of an empty range is 0."""
        if any(length < 1 for _, length in ranges):
            return 0, 0
        low = high = self.offset.value.data
        high += self.extra.value.data - 1
        coefficients = integers(self.coefficients)
        for coefficient, (start, length) in zip(coefficients, ranges, strict=True):
            ends = coefficient * start, coefficient * (start + length - 1)
            low, high = low + min(ends), high + max(ends)
        if self.within is not None:
            size = self.within.value.data
            low, high = min(max(low, 0), size), min(high, size - 1)
        return low, max(high - low + 1, 0)

    @classmethod
    def parse(cls, parser: Parser) -> "SpanOp":
        """Parse ``2 * [%h : %h_n] + [-1 : 3] within 56``."""
        terms: list[tuple[int, SSAValue, SSAValue]] = []
        fixed: tuple[int, int] | None = None
        while True:
            position = parser.pos
            coefficient = parser.parse_optional_integer(allow_boolean=False)
            if coefficient is not None:
                parser.parse_characters("*")
            with parser.in_square_brackets():
                item = parse_range(parser)
            if (values := item.values) is not None:
                terms.append((1 if coefficient is None else coefficient, *values))
            elif fixed is None and coefficient is None:
                fixed = item.bounds
            else:
                parser.raise_error("one constant range at most", position, parser.pos)
            if parser.parse_optional_punctuation("+") is None:
                break
        within = None
        if parser.parse_optional_keyword("within"):
            within = parser.parse_integer(allow_boolean=False, allow_negative=False)
        attributes = parser.parse_optional_attr_dict()
        span = cls(terms, *(fixed or (0, 1)), within)
        span.attributes |= attributes
        return span

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""
        separator = " "
        for coefficient, start, length in self.terms:
            printer.print_string(separator)
            printer.print_string(f"{coefficient} * [" if coefficient != 1 else "[")
            print_range(printer, Range(start, length))
            printer.print_string("]")
            separator = " + "
        fixed = self.offset.value.data, self.extra.value.data
        if fixed != (0, 1) or separator == " ":
            printer.print_string(f"{separator}[{fixed[0]} : {fixed[1]}]")
        if self.within is not None:
            printer.print_string(f" within {self.within.value.data}")
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        """There is one coefficient for each range; extents are positive."""
        coefficients = integers(self.coefficients)
        if len(self.ranges) != 2 * len(coefficients) or 0 in coefficients:
            raise VerifyException("every range has a coefficient other than 0")
        if self.extra.value.data < 1 or (self.within is not None and self.within.value.data < 1):
            raise VerifyException("extra and within are at least 1")


@irdl_op_definition
class HullOp(TeOperation):
    """The smallest range that contains all of the given ranges, but for empty ones."""

    name = "te.hull"

    static_ranges = prop_def(DenseArrayBase.constr(i64))
    bounds = var_operand_def(IndexType)
    start = result_def(IndexType)
    length = result_def(IndexType)

    traits = traits_def(Pure())

    def __init__(self, ranges: Sequence[Range]):
        operands, static = encode_ranges(ranges)
        super().__init__(
            operands=[operands],
            properties={"static_ranges": static},
            result_types=[_INDEX, _INDEX],
        )

    @property
    def ranges(self) -> list[Range]:
        """The ranges that it contains."""
        return decode_ranges(self.static_ranges, self.operands)

    @property
    def range(self) -> Range:
        """The result."""
        return Range(self.start, self.length)

    def evaluate(self, ranges: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Start and length for known ranges."""
        filled = [(start, start + length) for start, length in ranges if length > 0]
        if not filled:
            return 0, 0
        low, high = min(start for start, _ in filled), max(end for _, end in filled)
        return low, high - low

    @classmethod
    def parse(cls, parser: Parser) -> "HullOp":
        """Parse ``[%a : %a_n], [0 : 4]``."""

        def bracketed() -> Range:
            with parser.in_square_brackets():
                return parse_range(parser)

        hull = cls(parser.parse_comma_separated_list(parser.Delimiter.NONE, bracketed))
        hull.attributes |= parser.parse_optional_attr_dict()
        return hull

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""

        def bracketed(item: Range) -> None:
            printer.print_string("[")
            print_range(printer, item)
            printer.print_string("]")

        printer.print_string(" ")
        printer.print_list(self.ranges, bracketed)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        """There is at least one range."""
        if not self.ranges:
            raise VerifyException("a hull is of one range at least")
