"""What the hardware does with one element, declared as an expression over its lanes.

An intrinsic is a small compute (axes, subscripts, a body) with a scope for each operand, and the
name of the instruction to which it lowers. Schedules name intrinsics. Tensorize uses one only where
it proves that a loop body equals the declaration. The idea is that of ``decl_tensor_intrin`` in
TVM, which trusts the schedule where we prove.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolNameConstraint,
    UnitAttr,
    i32,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Region
from xdsl.irdl import (
    base,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from .affine import Row, map_of, rows_of
from .attributes import (
    SUPPORTED_ELEMENTS,
    DomainAttr,
    Outside,
    Scope,
    ScopeAttr,
    outside_value,
)
from .body import combiner, verify_body
from .operation import TeOperation
from .reads import parse_place, print_place


class Instruction(StrEnum):
    """What an intrinsic lowers to."""

    GEMM = "gemm"
    RESET = "reset"
    COPY = "copy"
    ADD = "add"
    MAX = "max"
    MIN = "min"
    SHR = "shr"
    MUL = "mul"
    LOAD = "load"
    STORE = "store"

    @property
    def is_alu(self) -> bool:
        """Whether it is an operation of the ALU, not one of the GEMM core and no transfer."""
        return not self.is_transfer and self not in (Instruction.GEMM, Instruction.RESET)

    @property
    def is_transfer(self) -> bool:
        """Whether it moves elements between main memory and a scratchpad."""
        return self in (Instruction.LOAD, Instruction.STORE)


@irdl_attr_definition
class InstructionAttr(EnumAttribute[Instruction]):
    """``#te.instruction<add>``: the instruction behind an intrinsic."""

    name = "te.instruction"

    def print_parameter(self, printer: Printer) -> None:
        """Print ``<add>``."""
        with printer.in_angle_brackets():
            printer.print_string(self.data.value)

    @classmethod
    def parse_parameter(cls, parser: Parser) -> Instruction:  # type: ignore[override]
        """Parse ``<add>``."""
        with parser.in_angle_brackets():
            return parser.parse_str_enum(Instruction)


@dataclass(frozen=True, slots=True)
class Lanes:
    """One operand of an intrinsic: an element of ``scope``, subscripted by the lane axes.

    outside: the value that the instruction takes for a source element outside the tensor, if it can
    (as a LOAD does for pads).
    """

    scope: Scope
    rows: tuple[Row, ...]
    element: IntegerType
    outside: int | None = None


@irdl_op_definition
class IntrinsicOp(TeOperation):
    """Declares an instruction's effect on one element of each operand.

    spatial, reduce: the lane axes. scopes, maps, elements, outside: the destination, then the
    sources. updates: the body's first argument is the destination's old value.
    immediate: smallest and largest value of a constant, the body's last argument (of i32).
    lowers: one of the machine's instructions, or the name of a lowering that the context has.
    """

    name = "te.intrinsic"

    sym_name = prop_def(SymbolNameConstraint())
    spatial = prop_def(DomainAttr)
    reduce = prop_def(DomainAttr)
    scopes = prop_def(ArrayAttr[ScopeAttr])
    maps = prop_def(ArrayAttr[AffineMapAttr])
    elements = prop_def(ArrayAttr[IntegerType])
    outside = prop_def(ArrayAttr[Outside])
    updates = opt_prop_def(UnitAttr)
    immediate = opt_prop_def(DenseArrayBase.constr(i64))
    lowers = prop_def(base(InstructionAttr) | base(StringAttr))
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    def __init__(
        self,
        sym_name: str,
        spatial: DomainAttr,
        reduce: DomainAttr,
        operands: Sequence[Lanes],
        body: Region,
        lowers: Instruction | str,
        *,
        updates: bool,
        immediate: tuple[int, int] | None = None,
    ):
        variables = len(spatial) + len(reduce)
        super().__init__(
            properties={
                "sym_name": StringAttr(sym_name),
                "spatial": spatial,
                "reduce": reduce,
                "scopes": ArrayAttr(ScopeAttr(lanes.scope) for lanes in operands),
                "maps": ArrayAttr(map_of(lanes.rows, variables) for lanes in operands),
                "elements": ArrayAttr(lanes.element for lanes in operands),
                "outside": ArrayAttr(
                    UnitAttr() if lanes.outside is None else IntegerAttr(lanes.outside, i32)
                    for lanes in operands
                ),
                "updates": UnitAttr() if updates else None,
                "immediate": None
                if immediate is None
                else DenseArrayBase.from_list(i64, immediate),
                "lowers": InstructionAttr(lowers)
                if isinstance(lowers, Instruction)
                else StringAttr(lowers),
            },
            regions=[body],
        )

    @property
    def lanes(self) -> list[Lanes]:
        """The destination, then the sources."""
        return [
            Lanes(scope.data, rows_of(map), element, outside_value(outside))
            for scope, map, element, outside in zip(
                self.scopes, self.maps, self.elements, self.outside, strict=True
            )
        ]

    @property
    def instruction(self) -> Instruction | None:
        """The machine's own instruction to which it lowers, None for any other lowering."""
        return self.lowers.data if isinstance(self.lowers, InstructionAttr) else None

    @property
    def lowering(self) -> str:
        """The name of what it lowers to."""
        return self.lowers.data

    @property
    def immediate_bounds(self) -> tuple[int, int] | None:
        """Smallest and largest immediate, if it takes one."""
        if self.immediate is None:
            return None
        low, high = self.immediate.get_values()
        return int(low), int(high)

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of the lane axes, those of spatial axes before those of reduction axes."""
        return self.spatial.extents + self.reduce.extents

    def lane_shape(self, operand: int) -> tuple[int, ...]:
        """Shape of one element of an operand; operand 0 is the destination."""
        return tuple(row.interval(self.extents)[1] + 1 for row in rows_of(self.maps.data[operand]))

    @classmethod
    def parse(cls, parser: Parser) -> "IntrinsicOp":
        """Parse ``@add (b = 1, o = 16) updates acc[b, o] : i32 with (...) lowers add {...}``."""
        name = parser.parse_symbol_name().data
        with parser.in_parens():
            spatial = DomainAttr(DomainAttr.parse_axes(parser))
        reduce = DomainAttr(())
        if parser.parse_optional_keyword("reduce"):
            with parser.in_parens():
                reduce = DomainAttr(DomainAttr.parse_axes(parser))
        updates = parser.parse_keyword_in(("updates", "writes")) == "updates"
        names = spatial.names + reduce.names
        operands = [_parse_lanes(parser, names)]
        if parser.parse_optional_keyword("with"):
            operands += parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: _parse_lanes(parser, names)
            )
        immediate = None
        if parser.parse_optional_keyword("immediate"):
            low = parser.parse_integer(allow_boolean=False)
            parser.parse_keyword("to")
            immediate = low, parser.parse_integer(allow_boolean=False)
        parser.parse_keyword("lowers")
        lowers: Instruction | str | None = parser.parse_optional_str_literal()
        if lowers is None:
            lowers = parser.parse_str_enum(Instruction)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region()
        intrinsic = cls(
            name, spatial, reduce, operands, body, lowers, updates=updates, immediate=immediate
        )
        if attributes is not None:
            intrinsic.attributes |= attributes.data
        return intrinsic

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name)
        printer.print_string(" (")
        self.spatial.print_axes(printer)
        printer.print_string(")")
        if self.reduce.data:
            printer.print_string(" reduce (")
            self.reduce.print_axes(printer)
            printer.print_string(")")
        printer.print_string(" updates " if self.updates is not None else " writes ")
        names = self.spatial.names + self.reduce.names
        destination, *sources = self.lanes
        _print_lanes(printer, destination, names)
        if sources:
            printer.print_string(" with (")
            printer.print_list(sources, lambda lanes: _print_lanes(printer, lanes, names))
            printer.print_string(")")
        if (bounds := self.immediate_bounds) is not None:
            printer.print_string(f" immediate {bounds[0]} to {bounds[1]}")
        printer.print_string(" lowers ")
        if (instruction := self.instruction) is None:
            printer.print_string_literal(self.lowering)
        else:
            printer.print_string(instruction.value)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body)

    def verify_(self) -> None:
        """The destination has exactly the spatial axes, and the body fits the operands."""
        if len({len(p) for p in (self.scopes, self.maps, self.elements, self.outside)}) > 1:
            raise VerifyException("every operand has a scope, a map and an element type")
        destination, *sources = self.lanes
        if sorted(_variables(destination)) != list(range(len(self.spatial))):
            raise VerifyException("the destination is subscripted by each spatial axis once")
        for lanes in (destination, *sources):
            variables = _variables(lanes)
            if len(set(variables)) != len(variables):
                raise VerifyException("a lane axis subscripts an operand once")
            if lanes.element not in SUPPORTED_ELEMENTS:
                raise VerifyException(f"elements are i8 or i32, not {lanes.element}")
        if destination.outside is not None:
            raise VerifyException("what is outside of the destination is not written")
        if self.immediate is not None:
            bounds = self.immediate.get_values()
            if len(bounds) != 2 or bounds[0] > bounds[1]:
                raise VerifyException("immediate is a smallest and a largest value")
        arguments = [destination.element] if self.updates is not None else []
        arguments += [lanes.element for lanes in sources]
        arguments += [i32] if self.immediate is not None else []
        verify_body(self.body, arguments, destination.element)
        if self.reduce.data:
            if self.updates is None:
                raise VerifyException("an intrinsic that reduces updates its destination")
            combiner(self.body)


def _variables(lanes: Lanes) -> list[int]:
    variables = [row.variable for row in lanes.rows]
    if None in variables:
        raise VerifyException("an operand of an intrinsic is subscripted by lane axes alone")
    return [variable for variable in variables if variable is not None]


def _parse_lanes(parser: Parser, names: Sequence[str]) -> Lanes:
    scope = parser.parse_str_enum(Scope)
    rows, outside = parse_place(parser, names)
    position = parser.pos
    element = parser.parse_type()
    if not isinstance(element, IntegerType):
        parser.raise_error("elements are integers", position, parser.pos)
    return Lanes(scope, rows, element, outside)


def _print_lanes(printer: Printer, lanes: Lanes, names: Sequence[str]) -> None:
    printer.print_string(lanes.scope.value)
    print_place(printer, lanes.rows, lanes.outside, names)
    printer.print_attribute(lanes.element)
