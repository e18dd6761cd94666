"""Undoes the fusion of two loops: finds the two tiles that a number of a pair of tiles means."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IndexType, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .operation import TeOperation, integer_array
from .ranges import Range, integers, parse_range, print_range

_INDEX = IndexType()


@irdl_op_definition
class UnfuseOp(TeOperation):
    """The ranges of two loops for a range of iterations of the loop into which they were fused.

    The fused loop counts pairs of tiles; the inner tile changes first. For one pair, the results
    are its two tiles. For several pairs they are the smallest ranges that contain all of their
    tiles, which is the whole inner range if the outer tile changes. This is
    ``affine.delinearize_index`` of MLIR, on ranges. ranges: start and length of the outer loop,
    then of the inner one. steps: lengths of their tiles.
    """

    name = "te.unfuse"

    ranges = prop_def(DenseArrayBase.constr(i64))
    steps = prop_def(DenseArrayBase.constr(i64))
    number = operand_def(_INDEX)
    count = operand_def(_INDEX)
    outer = result_def(_INDEX)
    outer_length = result_def(_INDEX)
    inner = result_def(_INDEX)
    inner_length = result_def(_INDEX)

    traits = traits_def(Pure())

    def __init__(
        self,
        pairs: tuple[SSAValue, SSAValue],
        ranges: Sequence[tuple[int, int]],
        steps: Sequence[int],
    ):
        super().__init__(
            operands=list(pairs),
            properties={
                "ranges": integer_array([part for item in ranges for part in item]),
                "steps": integer_array(steps),
            },
            result_types=[_INDEX] * 4,
        )

    @property
    def pairs(self) -> Range:
        """The iterations of the fused loop."""
        return Range(self.number, self.count)

    @property
    def outer_range(self) -> Range:
        """The part of the outer loop's range."""
        return Range(self.outer, self.outer_length)

    @property
    def inner_range(self) -> Range:
        """The part of the inner loop's range."""
        return Range(self.inner, self.inner_length)

    @property
    def pair_count(self) -> int:
        """How many iterations the fused loop has."""
        _, outer, _, inner = integers(self.ranges)
        steps = integers(self.steps)
        return -(-outer // steps[0]) * -(-inner // steps[1])

    def evaluate(self, number: int, count: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Outer and inner range (start, length) for a known range of pairs."""
        start, extent, inner_start, inner_extent = integers(self.ranges)
        step, inner_step = integers(self.steps)
        row = -(-inner_extent // inner_step)
        if count < 1:
            return (start, 0), (inner_start, 0)
        (first, column), (last, end) = divmod(number, row), divmod(number + count - 1, row)
        if first != last:
            column, end = 0, row - 1
        return (
            _tiles(start, extent, step, first, last),
            _tiles(inner_start, inner_extent, inner_step, column, end),
        )

    @classmethod
    def parse(cls, parser: Parser) -> "UnfuseOp":
        """Parse ``[%f : %f_n] into [0 : 8] step 2, [0 : 5] step 1``."""
        with parser.in_square_brackets():
            values = parse_range(parser).values
        if values is None:
            parser.raise_error("the iterations of a fused loop are two values")
        parser.parse_keyword("into")
        found: list[tuple[tuple[int, int], int]] = []
        for separator in (",", None):
            with parser.in_square_brackets():
                bounds = parse_range(parser).bounds
            if bounds is None:
                parser.raise_error("the ranges of fused loops are known")
            parser.parse_keyword("step")
            step = parser.parse_integer(allow_boolean=False, allow_negative=False)
            found.append((bounds, step))
            if separator is not None:
                parser.parse_punctuation(",")
        unfuse = cls(values, [item for item, _ in found], [step for _, step in found])
        unfuse.attributes |= parser.parse_optional_attr_dict()
        return unfuse

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""
        printer.print_string(" [")
        print_range(printer, self.pairs)
        start, extent, inner_start, inner_extent = integers(self.ranges)
        step, inner_step = integers(self.steps)
        printer.print_string(
            f"] into [{start} : {extent}] step {step},"
            f" [{inner_start} : {inner_extent}] step {inner_step}"
        )
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        """Two ranges that are not empty, with steps."""
        ranges, steps = integers(self.ranges), integers(self.steps)
        if len(ranges) != 4 or len(steps) != 2 or min(ranges[1], ranges[3], *steps) < 1:
            raise VerifyException("two ranges that are not empty, each with a step of at least 1")


def _tiles(start: int, extent: int, step: int, first: int, last: int) -> tuple[int, int]:
    """Start and length of the tiles from one number to another."""
    low, high = first * step, min((last + 1) * step, extent)
    return start + low, high - low
