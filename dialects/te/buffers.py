"""Buffers of the loop form, each for a window of a tensor in a scope, and copies between them."""

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, MemRefType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from .attributes import Scope, scope_of, shaped
from .operation import TeOperation, integer, integer_array, parse_value
from .packing import packing_of
from .ranges import Range, decode_ranges, encode_ranges, integers, parse_range, print_range


def _parse_window(parser: Parser) -> list[Range]:
    ranges = parser.parse_optional_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parse_range(parser)
    )
    return ranges or []


def _print_window(printer: Printer, window: Sequence[Range]) -> None:
    if window:
        printer.print_string(" [")
        printer.print_list(window, lambda item: print_range(printer, item))
        printer.print_string("]")


def _verify_window(window: Sequence[Range], buffer: SSAValue) -> None:
    shape = shaped(buffer).get_shape()
    if window and len(window) != len(shape):
        raise VerifyException(f"the window has {len(window)} ranges, the buffer {len(shape)}")
    for item, size in zip(window, shape, strict=False):
        if (known := item.bounds) is not None and not 0 <= known[0] <= known[0] + known[1] <= size:
            raise VerifyException(f"range {known[0]} : {known[1]} leaves the dimension of {size}")


@irdl_op_definition
class AllocOp(TeOperation):
    """Allocates a buffer for a window of a tensor: one range for each dimension, or all of it.

    The type has the shape of the whole tensor. slots: how many such buffers are used in turn.
    """

    name = "te.alloc"

    static_ranges = prop_def(DenseArrayBase.constr(i64))
    slots = prop_def(IntegerAttr.constr(i64))
    bounds = var_operand_def(IndexType)
    buffer = result_def(MemRefType)

    def __init__(self, type: Attribute, window: Sequence[Range] = (), slots: int = 1):
        operands, static = encode_ranges(window)
        super().__init__(
            operands=[operands],
            properties={"static_ranges": static, "slots": integer(slots)},
            result_types=[type],
        )

    @property
    def window(self) -> list[Range]:
        """The window: one range for each dimension."""
        if len(self.static_ranges):
            return decode_ranges(self.static_ranges, self.bounds)
        return [Range(0, size) for size in shaped(self.buffer).get_shape()]

    @property
    def is_whole(self) -> bool:
        """Whether the buffer holds the whole tensor."""
        return not len(self.static_ranges)

    @classmethod
    def parse(cls, parser: Parser) -> "AllocOp":
        """Parse ``[%h : %h_n, 0 : 16] slots 2 : memref<...>``."""
        window = _parse_window(parser)
        slots = 1
        if parser.parse_optional_keyword("slots"):
            slots = parser.parse_integer(allow_boolean=False, allow_negative=False)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        alloc = cls(parser.parse_type(), window, slots)
        alloc.attributes |= attributes
        return alloc

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""
        if not self.is_whole:
            _print_window(printer, self.window)
        if self.slots.value.data != 1:
            printer.print_string(f" slots {self.slots.value.data}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.buffer.type)

    def verify_(self) -> None:
        """There is one range for each dimension, and at least one slot."""
        _verify_window(decode_ranges(self.static_ranges, self.bounds), self.buffer)
        if self.slots.value.data < 1:
            raise VerifyException("a buffer has at least one slot")
        if packing_of(self.buffer) is not None:
            raise VerifyException("only parameters of a kernel are packed")


class Padded(NamedTuple):
    """A range of one dimension, and how many elements of padding lie before and after it."""

    start: int
    length: int
    before: int
    after: int


@irdl_op_definition
class CopyOp(TeOperation):
    """Copies a window between DRAM and a scratchpad: a load, or a store that keeps the low bits.

    Without a window of its own it copies the window of the scratchpad's `AllocOp`. If the source is
    packed (`PackedAttr`), the window must be one of the boxes in which it is stored.
    pads: for a load, how many elements before the tensor the buffer begins in each dimension.
    Element i of the buffer is element i - pads of the tensor, and 0 where there is none.
    """

    name = "te.copy"

    static_ranges = prop_def(DenseArrayBase.constr(i64))
    pads = opt_prop_def(DenseArrayBase.constr(i64))
    source = operand_def(MemRefType)
    target = operand_def(MemRefType)
    bounds = var_operand_def(IndexType)

    def __init__(
        self,
        source: SSAValue,
        target: SSAValue,
        window: Sequence[Range] = (),
        pads: Sequence[int] | None = None,
    ):
        operands, static = encode_ranges(window)
        super().__init__(
            operands=[source, target, operands],
            properties={
                "static_ranges": static,
                "pads": None if pads is None else integer_array(pads),
            },
        )

    @property
    def is_load(self) -> bool:
        """Whether the copy goes into a scratchpad."""
        return scope_of(self.source) is Scope.DRAM

    @property
    def scratchpad(self) -> SSAValue:
        """The buffer on the accelerator's side."""
        return self.target if self.is_load else self.source

    @property
    def window(self) -> list[Range]:
        """The window that is copied: one range for each dimension."""
        if len(self.static_ranges):
            return decode_ranges(self.static_ranges, self.bounds)
        alloc = self.scratchpad.owner
        if isinstance(alloc, AllocOp):
            return alloc.window
        return [Range(0, size) for size in shaped(self.scratchpad).get_shape()]

    def padded(self, window: Sequence[tuple[int, int]]) -> list[Padded]:
        """For each dimension, the source's range that a known window of the buffer gets, with pads.

        Without pads it is the window itself.
        """
        if self.pads is None:
            return [Padded(start, length, 0, 0) for start, length in window]
        parts = []
        shape = shaped(self.source).get_shape()
        for (start, length), pad, size in zip(window, integers(self.pads), shape, strict=True):
            first, end = start - pad, start - pad + length
            low = min(max(first, 0), size)
            high = max(min(end, size), low)
            before = min(low - first, length)
            parts.append(Padded(low, high - low, before, length - before - (high - low)))
        return parts

    def set_window(self, window: Sequence[Range]) -> None:
        """Copy this window; it is stored only if the scratchpad's allocation has another one."""
        alloc = self.scratchpad.owner
        implied = isinstance(alloc, AllocOp) and alloc.window == list(window)
        operands, self.static_ranges = encode_ranges(() if implied else window)
        self.operands = [self.source, self.target, *operands]

    @classmethod
    def parse(cls, parser: Parser) -> "CopyOp":
        """Parse ``%x to %b [%h : %h_n, 0 : 16]``."""
        source = parse_value(parser)
        parser.parse_keyword("to")
        target, window, pads = parse_value(parser), _parse_window(parser), None
        if parser.parse_optional_keyword("pads"):
            pads = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE,
                lambda: parser.parse_integer(allow_boolean=False, allow_negative=False),
            )
        copy = cls(source, target, window, pads)
        copy.attributes |= parser.parse_optional_attr_dict()
        return copy

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""
        printer.print_string(" ")
        printer.print_operand(self.source)
        printer.print_string(" to ")
        printer.print_operand(self.target)
        if len(self.static_ranges):
            _print_window(printer, self.window)
        if self.pads is not None:
            printer.print_string(f" pads {integers(self.pads)}")
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        """Shapes are equal but for pads; a load keeps the element type, a store may narrow it."""
        source, target = shaped(self.source), shaped(self.target)
        if self.pads is not None:
            self._verify_pads(integers(self.pads))
        elif source.get_shape() != target.get_shape():
            raise VerifyException(f"a copy of {source} to {target} changes the shape")
        _verify_window(decode_ranges(self.static_ranges, self.bounds), self.target)
        if self.is_load and source.element_type != target.element_type:
            raise VerifyException(f"a load of {source.element_type} as {target.element_type}")

    def _verify_pads(self, pads: Sequence[int]) -> None:
        ranks = {len(shaped(buffer).get_shape()) for buffer in (self.source, self.target)}
        if ranks != {len(pads)} or min(pads, default=0) < 0:
            raise VerifyException(
                "pads are one number from 0 on for each dimension of source and target"
            )
        if not self.is_load or packing_of(self.source) is not None:
            raise VerifyException("only a load of a tensor that is not packed has pads")
