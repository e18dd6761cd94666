"""Ops of a cluster's plan: groups of layers, their instances, rectangles of tensors.

The plan is that of GraphTurbo (Zhao et al., "Effectively Scheduling Computational Graphs of Deep
Neural Networks toward Their Domain-Specific Accelerators", OSDI 2023). A *layer* is an op that
computes: a composite, or a pooling that stands alone. A group holds layers that are split together;
an instance computes one piece of a group's results. The order of the instances, and of the layers
in them, is the order of the text. Rectangles move no data: they say what is read, and where parts
lie (in MLIR ``tensor.extract_slice`` and ``tensor.insert_slice``).
"""

from abc import ABC
from collections.abc import Sequence
from itertools import combinations

from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType, i64
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, Pure, SingleBlockImplicitTerminator
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph.network import I64Array, integers, shape_of
from vtac.dialects.graph.pieces import (
    Rectangle,
    contains,
    extents,
    is_aligned,
    meet,
    type_of_piece,
    volume,
    whole,
)
from vtac.dialects.graph.structure import YieldOp


class LayersOp(IRDLOperation, ABC):
    """Layers in a region of their own: the body takes the inputs and yields the outputs."""

    inputs = var_operand_def()
    group = prop_def(StringAttr)
    body = region_def("single_block")
    outputs = var_result_def()
    traits = traits_def(IsolatedFromAbove(), SingleBlockImplicitTerminator(YieldOp), Pure())

    @property
    def yielded(self) -> Sequence[SSAValue]:
        """The values of the body that are the outputs."""
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return last.arguments

    def verify_(self) -> None:
        """The body takes the inputs and yields the outputs."""
        block = self.body.block
        if [a.type for a in block.args] != [v.type for v in self.inputs]:
            raise VerifyException("the body's arguments must have the types of the inputs")
        last = block.last_op
        if not isinstance(last, YieldOp) or [v.type for v in last.arguments] != [
            v.type for v in self.outputs
        ]:
            raise VerifyException("the body must yield values of the types of the outputs")

    def print_layers(self, printer: Printer) -> None:
        """Print ``(%a = %x : type) -> type attributes {..} {body}``."""
        printer.print_string("(")

        def print_input(item: tuple[SSAValue, SSAValue]) -> None:
            printer.print_ssa_value(item[0])
            printer.print_string(" = ")
            printer.print_operand(item[1])
            printer.print_string(" : ")
            printer.print_attribute(item[1].type)

        pairs = list(zip(self.body.block.args, self.inputs, strict=True))
        printer.print_list(pairs, print_input)
        printer.print_string(") -> ")
        if len(self.outputs) == 1:
            printer.print_attribute(self.outputs[0].type)
        else:
            with printer.in_parens():
                printer.print_list([v.type for v in self.outputs], printer.print_attribute)
        if self.attributes:
            printer.print_string(" attributes")
            printer.print_op_attributes(self.attributes)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)


Layers = tuple[list[SSAValue], list[Attribute], dict[str, Attribute], Region]


def _parse_layers(parser: Parser) -> Layers:
    """Inputs, types of the outputs, attributes and body."""

    def entry() -> tuple[Parser.UnresolvedArgument, UnresolvedOperand, Attribute]:
        argument = parser.parse_argument(expect_type=False)
        parser.parse_punctuation("=")
        operand = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        return argument, operand, parser.parse_type()

    entries = parser.parse_comma_separated_list(parser.Delimiter.PAREN, entry)
    inputs = [parser.resolve_operand(operand, type) for _, operand, type in entries]
    parser.parse_punctuation("->")
    types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
    results = [parser.parse_type()] if types is None else types
    attributes = parser.parse_optional_attr_dict_with_keyword()
    body = parser.parse_region([argument.resolve(type) for argument, _, type in entries])
    return inputs, list(results), dict(attributes.data) if attributes else {}, body


@irdl_op_definition
class GroupOp(LayersOp):
    """Layers that are split together: ``graph.group @stage2 (%a = %x : T) -> U {..}``.

    ``graph.splits`` says how it can be split, ``graph.split`` how it will be.
    """

    name = "graph.group"

    def __init__(
        self,
        group: str,
        inputs: Sequence[SSAValue],
        output_types: Sequence[Attribute],
        body: Region | Block,
    ):
        super().__init__(
            operands=[list(inputs)],
            result_types=[list(output_types)],
            properties={"group": StringAttr(group)},
            regions=[body if isinstance(body, Region) else Region(body)],
        )

    @classmethod
    def parse(cls, parser: Parser) -> "GroupOp":
        """Parse ``@name (%a = %x : type) -> type attributes {..} {body}``."""
        name = parser.parse_symbol_name().data
        inputs, types, attributes, body = _parse_layers(parser)
        op = cls(name, inputs, types, body)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""
        printer.print_string(" ")
        printer.print_symbol_name(self.group.data)
        printer.print_string(" ")
        self.print_layers(printer)


@irdl_op_definition
class InstanceOp(LayersOp):
    """One piece of a group: ``graph.instance @stage2 part 1 of 4 (%a = %x : T) -> U {..}``.

    The results are pieces; `TensorAssembleOp` puts them together. Inputs are whole tensors: windows
    in the body say what is read of them. Parts are counted from 0.
    """

    name = "graph.instance"
    part = prop_def(IntegerAttr)
    parts = prop_def(IntegerAttr)

    def __init__(
        self,
        group: str,
        part: int,
        parts: int,
        inputs: Sequence[SSAValue],
        output_types: Sequence[Attribute],
        body: Region | Block,
    ):
        super().__init__(
            operands=[list(inputs)],
            result_types=[list(output_types)],
            properties={
                "group": StringAttr(group),
                "part": IntegerAttr(part, i64),
                "parts": IntegerAttr(parts, i64),
            },
            regions=[body if isinstance(body, Region) else Region(body)],
        )

    @classmethod
    def parse(cls, parser: Parser) -> "InstanceOp":
        """Parse ``@name part 1 of 4 (%a = %x : type) -> type attributes {..} {body}``."""
        name = parser.parse_symbol_name().data
        parser.parse_keyword("part")
        part = parser.parse_integer(allow_boolean=False, allow_negative=False)
        parser.parse_keyword("of")
        parts = parser.parse_integer(allow_boolean=False, allow_negative=False)
        inputs, types, attributes, body = _parse_layers(parser)
        op = cls(name, part, parts, inputs, types, body)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""
        printer.print_string(" ")
        printer.print_symbol_name(self.group.data)
        printer.print_string(f" part {self.part.value.data} of {self.parts.value.data} ")
        self.print_layers(printer)

    def verify_(self) -> None:
        """The part is one of the parts."""
        super().verify_()
        if not self.part.value.data < self.parts.value.data:
            raise VerifyException(f"there is no part {self.part.value.data} of so few parts")


@irdl_op_definition
class TensorWindowOp(IRDLOperation):
    """A rectangle of a tensor, in its place: ``graph.window %x [2:4, :, 0:9, :] : T``.

    T is the type of the tensor. Ranges are ``first:end``, the end is not in it, and ``:`` is the
    whole dimension. No element of the packed layout is cut.
    """

    name = "graph.window"
    x = operand_def(TensorType)
    starts = prop_def(I64Array.constr(i64))
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, x: SSAValue, rectangle: Rectangle):
        super().__init__(
            operands=[x],
            result_types=[type_of_piece(x, rectangle)],
            properties={"starts": integers([start for start, _ in rectangle])},
        )

    @property
    def rectangle(self) -> Rectangle:
        """The indices of the elements that the op reads, as a range for each dimension."""
        return _rectangle(self.starts.get_values(), self.result)

    @classmethod
    def parse(cls, parser: Parser) -> "TensorWindowOp":
        """Parse ``%x [2:4, :, 0:9, :] : type``."""
        operand = parser.parse_unresolved_operand()

        def bounds() -> tuple[int, int] | None:
            start = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation(":")
            if start is None:
                return None
            return start, parser.parse_integer(allow_boolean=False, allow_negative=False)

        position = parser.pos
        ranges = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, bounds)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        x = parser.resolve_operand(operand, parser.parse_type())
        shape = shape_of(x)
        if shape is None or len(shape) != len(ranges):
            parser.raise_error(f"{x.type} has not {len(ranges)} dimensions", position, parser.pos)
        op = cls(x, tuple(r or (0, n) for r, n in zip(ranges, shape, strict=True)))
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""
        shape = shape_of(self.x) or ()
        ranges = [
            ":" if (start, end) == (0, extent) else f"{start}:{end}"
            for (start, end), extent in zip(self.rectangle, shape, strict=True)
        ]
        printer.print_string(" ")
        printer.print_operand(self.x)
        printer.print_string(f" [{', '.join(ranges)}]")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.x.type)

    def verify_(self) -> None:
        """The rectangle lies in the tensor, cuts no element, and the result is a piece of it."""
        if len(self.starts.get_values()) != len(shape_of(self.x) or ()):
            raise VerifyException("a window has a start for each dimension of the tensor")
        if self.result.type != type_of_piece(self.x, self.rectangle):
            raise VerifyException("a window keeps element type, layout and number of dimensions")
        _verify_rectangle(self.x, self.rectangle)


@irdl_op_definition
class TensorAssembleOp(IRDLOperation):
    """A tensor made of pieces: ``graph.assemble (%a at [0, 0], %b at [2, 0]) : T``.

    The pieces cover each element of the tensor exactly once. A piece lies inside the tensor from
    the start: an op that makes it writes it in place. Pieces of pieces do so, too. So a tensor that
    grows from consumer to consumer is a chain of assemblies, each with the one before as a piece,
    and lies in one place.
    """

    name = "graph.assemble"
    pieces = var_operand_def(TensorType)
    starts = prop_def(I64Array.constr(i64))
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self, pieces: Sequence[SSAValue], starts: Sequence[Sequence[int]], type: Attribute
    ):
        super().__init__(
            operands=[list(pieces)],
            result_types=[type],
            properties={"starts": integers([start for each in starts for start in each])},
        )

    @property
    def rectangles(self) -> list[Rectangle]:
        """Where each piece lies in the result."""
        flat, rank = self.starts.get_values(), len(shape_of(self.result) or ())
        return [
            _rectangle(flat[rank * i : rank * (i + 1)], piece)
            for i, piece in enumerate(self.pieces)
        ]

    @classmethod
    def parse(cls, parser: Parser) -> "TensorAssembleOp":
        """Parse ``(%a at [0, 0], %b at [2, 0]) : type``, where types of pieces follow."""

        def piece() -> tuple[UnresolvedOperand, list[int]]:
            operand = parser.parse_unresolved_operand()
            parser.parse_keyword("at")
            return operand, parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE,
                lambda: parser.parse_integer(allow_boolean=False, allow_negative=False),
            )

        position = parser.pos
        found = parser.parse_comma_separated_list(parser.Delimiter.PAREN, piece)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        pieces = parser.resolve_operands([operand for operand, _ in found], types, position)
        parser.parse_punctuation("->")
        op = cls(pieces, [starts for _, starts in found], parser.parse_type())
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""
        flat, rank = self.starts.get_values(), len(shape_of(self.result) or ())

        def print_piece(item: tuple[int, SSAValue]) -> None:
            number, piece = item
            printer.print_operand(piece)
            printer.print_string(f" at {list(flat[rank * number : rank * (number + 1)])}")

        printer.print_string(" ")
        with printer.in_parens():
            printer.print_list(list(enumerate(self.pieces)), print_piece)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        with printer.in_parens():
            printer.print_list([piece.type for piece in self.pieces], printer.print_attribute)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        """Pieces lie in the tensor, cut none of its elements, and cover each exactly once."""
        shape = shape_of(self.result) or ()
        ranks = {len(shape_of(piece) or ()) for piece in self.pieces}
        count = len(self.starts.get_values())
        if ranks != {len(shape)} or count != len(shape) * len(self.pieces):
            raise VerifyException(f"every piece has {len(shape)} dimensions and as many starts")
        for piece, rectangle in zip(self.pieces, self.rectangles, strict=True):
            if piece.type != type_of_piece(self.result, rectangle):
                raise VerifyException("an assembled tensor keeps element type and layout")
            _verify_rectangle(self.result, rectangle)
        for one, other in combinations(self.rectangles, 2):
            if meet(one, other) is not None:
                raise VerifyException(f"pieces {_text(one)} and {_text(other)} overlap")
        missing = volume(whole(self.result)) - sum(map(volume, self.rectangles))
        if missing:
            raise VerifyException(f"{missing} elements of the tensor are in no piece")


def _rectangle(starts: Sequence[int], value: SSAValue) -> Rectangle:
    shape = shape_of(value) or ()
    return tuple((start, start + n) for start, n in zip(starts, shape, strict=True))


def _verify_rectangle(tensor: SSAValue, rectangle: Rectangle) -> None:
    if min(extents(rectangle), default=1) < 1 or not contains(whole(tensor), rectangle):
        raise VerifyException(f"{_text(rectangle)} is no rectangle of {tensor.type}")
    starts, ends = zip(*rectangle, strict=True) if rectangle else ((), ())
    if not is_aligned(tensor, starts, ends):
        raise VerifyException(f"{_text(rectangle)} cuts elements of the layout of {tensor.type}")


def _text(rectangle: Rectangle) -> str:
    return f"[{', '.join(f'{start}:{end}' for start, end in rectangle)}]"
