"""Rectangles of tensors between kernels: `WindowOp` reads one, `AssembleOp` puts them together.

Neither of them moves data. A window is an offset and strides in the buffer of its tensor, and calls
write the parts of an assembled tensor in place. `BufferAssignment` decides which buffer holds each
value, and where. In MLIR these are ``tensor.extract_slice`` and ``tensor.insert_slice``, before
bufferization.
"""

from collections.abc import Sequence
from itertools import combinations
from math import prod

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .attributes import shaped
from .operation import TeOperation, integer_array, parse_value
from .packing import Box
from .ranges import integers


@irdl_op_definition
class WindowOp(TeOperation):
    """A rectangle of a tensor, in its buffer: ``te.window %x [0 : 1, 4 : 2] : T to U``.

    One range ``start : length`` for each dimension; the lengths are the shape of the result.
    """

    name = "te.window"

    starts = prop_def(DenseArrayBase.constr(i64))
    x = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    def __init__(self, x: SSAValue, starts: Sequence[int], type: Attribute):
        super().__init__(
            operands=[x], properties={"starts": integer_array(starts)}, result_types=[type]
        )

    @property
    def box(self) -> Box:
        """Start and length in each dimension of the operand."""
        shape = shaped(self.result).get_shape()
        return tuple(zip(integers(self.starts), shape, strict=True))

    @classmethod
    def parse(cls, parser: Parser) -> "WindowOp":
        """Parse ``%x [0 : 1, 4 : 2] : tensor<..> to tensor<..>``."""
        x, position = parse_value(parser), parser.pos

        def bounds() -> tuple[int, int]:
            start = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation(":")
            return start, parser.parse_integer(allow_boolean=False, allow_negative=False)

        box = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, bounds)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        if parser.parse_type() != x.type:
            parser.raise_error(f"the operand is {x.type}", position, parser.pos)
        parser.parse_keyword("to")
        type = parser.parse_type()
        lengths = [length for _, length in box]
        if not isinstance(type, TensorType) or list(type.get_shape()) != lengths:
            parser.raise_error(f"a window of {lengths} is no {type}", position, parser.pos)
        window = cls(x, [start for start, _ in box], type)
        window.attributes |= attributes
        return window

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""
        printer.print_string(" ")
        printer.print_operand(self.x)
        printer.print_string(f" [{', '.join(f'{start} : {n}' for start, n in self.box)}]")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.x.type)
        printer.print_string(" to ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        """The rectangle lies in the tensor; elements have the same type."""
        before, after = shaped(self.x), shaped(self.result)
        if before.element_type != after.element_type:
            raise VerifyException("a window keeps the element type")
        _verify_box(integers(self.starts), after.get_shape(), before.get_shape())


@irdl_op_definition
class AssembleOp(TeOperation):
    """A tensor made of rectangles: ``te.assemble (%a at [0, 0], %b at [0, 4]) : T``.

    The parts cover each element of the tensor exactly once.
    """

    name = "te.assemble"

    starts = prop_def(DenseArrayBase.constr(i64))
    parts = var_operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    def __init__(self, parts: Sequence[SSAValue], starts: Sequence[Sequence[int]], type: Attribute):
        flat = [start for each in starts for start in each]
        super().__init__(
            operands=[parts], properties={"starts": integer_array(flat)}, result_types=[type]
        )

    @property
    def boxes(self) -> list[Box]:
        """Where each part lies in the result."""
        flat, rank = integers(self.starts), len(shaped(self.result).get_shape())
        return [
            tuple(zip(flat[rank * i : rank * (i + 1)], shaped(part).get_shape(), strict=True))
            for i, part in enumerate(self.parts)
        ]

    @classmethod
    def parse(cls, parser: Parser) -> "AssembleOp":
        """Parse ``(%a at [0, 0], %b at [0, 4]) : tensor<..>``."""

        def part() -> tuple[SSAValue, list[int]]:
            value = parse_value(parser)
            parser.parse_keyword("at")
            return value, parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE,
                lambda: parser.parse_integer(allow_boolean=False, allow_negative=False),
            )

        parts = parser.parse_comma_separated_list(parser.Delimiter.PAREN, part)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        values = [value for value, _ in parts]
        assembled = cls(values, [starts for _, starts in parts], parser.parse_type())
        assembled.attributes |= attributes
        return assembled

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""
        printer.print_string(" (")

        def print_part(item: tuple[SSAValue, Box]) -> None:
            printer.print_operand(item[0])
            printer.print_string(f" at {[start for start, _ in item[1]]}")

        printer.print_list(zip(self.parts, self.boxes, strict=True), print_part)
        printer.print_string(")")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        """Parts of the same element type that lie in the tensor and cover each element once."""
        type = shaped(self.result)
        shape = type.get_shape()
        ranks = {len(shaped(part).get_shape()) for part in self.parts}
        if ranks != {len(shape)} or len(integers(self.starts)) != len(shape) * len(self.parts):
            raise VerifyException(f"every part has {len(shape)} dimensions and as many starts")
        for part, box in zip(self.parts, self.boxes, strict=True):
            if shaped(part).element_type != type.element_type:
                raise VerifyException("an assembled tensor keeps the element type")
            starts, lengths = zip(*box, strict=True) if box else ((), ())
            _verify_box(starts, lengths, shape)
        for one, other in combinations(self.boxes, 2):
            if _meet(one, other):
                raise VerifyException(f"parts at {_text(one)} and {_text(other)} overlap")
        missing = prod(shape) - sum(prod(length for _, length in box) for box in self.boxes)
        if missing:
            raise VerifyException(f"{missing} elements of the tensor are in no part")


def _verify_box(starts: Sequence[int], lengths: Sequence[int], shape: Sequence[int]) -> None:
    if not len(starts) == len(lengths) == len(shape):
        raise VerifyException(f"a rectangle of rank {len(lengths)} in a tensor of {len(shape)}")
    for start, length, size in zip(starts, lengths, shape, strict=True):
        if not (start >= 0 and length >= 1 and start + length <= size):
            raise VerifyException(f"range {start} : {length} leaves the dimension of {size}")


def _meet(one: Box, other: Box) -> bool:
    return all(a < b + m and b < a + n for (a, n), (b, m) in zip(one, other, strict=True))


def _text(box: Box) -> str:
    return str([start for start, _ in box])
