"""Statements of the loop form: a scalar update, and the invocation of an intrinsic.

Both subscript buffers by the starts of the surrounding loops' tiles, in coordinates of the whole
tensor: ``%x[%n, %ci, %h + %kh - 1]``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    FlatSymbolRefAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    i32,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

from .affine import Row, map_of, parse_subscripts, print_subscripts, rows_of
from .attributes import Outside, Scope, outside_value, scope_of, shaped
from .body import verify_body
from .intrinsics import IntrinsicOp
from .operation import (
    UNIT,
    TeOperation,
    declared,
    parse_optional_value,
    parse_value,
    string,
)
from .reads import Read, outside_attr


@dataclass(frozen=True, slots=True)
class Access:
    """A buffer and its subscripts over SSA values: terms are (index, coefficient)."""

    buffer: SSAValue
    subscripts: tuple[tuple[tuple[tuple[SSAValue, int], ...], int], ...]
    outside: int | None = None

    @staticmethod
    def of(
        buffer: SSAValue,
        rows: Sequence[Row],
        indices: Sequence[SSAValue],
        outside: int | None = None,
    ) -> "Access":
        """An access from rows over a list of indices."""
        subscripts = tuple(
            [(tuple([(indices[v], c) for v, c in row.terms]), row.constant) for row in rows]
        )
        return Access(buffer, subscripts, outside)


@lru_cache(1 << 14)
def _row(terms: tuple[tuple[int, int], ...], constant: int) -> Row:
    return Row.of(terms, constant)


def _number(accesses: Sequence[Access]) -> tuple[list[SSAValue], list[tuple[Row, ...]]]:
    """The distinct indices, in order of first use, and each access's rows over them."""
    position: dict[SSAValue, int] = {}
    for access in accesses:
        for terms, _ in access.subscripts:
            for value, _ in terms:
                position.setdefault(value, len(position))
    rows = [
        tuple([_row(tuple([(position[v], c) for v, c in terms]), k) for terms, k in subscripts])
        for subscripts in (access.subscripts for access in accesses)
    ]
    return list(position), rows


@irdl_op_definition
class UpdateOp(TeOperation):
    """Writes one element: ``destination[...] = body(sources[...])``.

    label: the stage. accumulate: the body's first argument is the element's old value. is_init: the
    statement sets what the stage's reduction starts from. maps: destination, then sources, over
    ``indices``. outside: as in `ComputeOp`, one entry for each source.
    """

    name = "te.update"

    label = prop_def(StringAttr)
    accumulate = opt_prop_def(UnitAttr)
    is_init = opt_prop_def(UnitAttr)
    maps = prop_def(ArrayAttr[AffineMapAttr])
    outside = prop_def(ArrayAttr[Outside])
    destination = operand_def(MemRefType)
    sources = var_operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    body = region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        label: str,
        write: Access,
        reads: Sequence[Access],
        body: Region,
        *,
        accumulate: bool = False,
        is_init: bool = False,
    ):
        indices, rows = _number([write, *reads])
        super().__init__(
            operands=[write.buffer, [read.buffer for read in reads], indices],
            properties={
                "label": string(label),
                "accumulate": UNIT if accumulate else None,
                "is_init": UNIT if is_init else None,
                "maps": ArrayAttr(map_of(row, len(indices)) for row in rows),
                "outside": outside_attr([Read(read.buffer, (), read.outside) for read in reads]),
            },
            regions=[body],
        )

    @property
    def write(self) -> Access:
        """The destination."""
        (destination,), _, indices = self.segments
        return Access.of(destination, rows_of(self.maps.data[0]), indices)

    @property
    def reads(self) -> list[Access]:
        """The sources."""
        _, sources, indices = self.segments
        return [
            Access.of(buffer, rows_of(map), indices, outside_value(outside))
            for buffer, map, outside in zip(
                sources, self.maps.data[1:], self.outside.data, strict=True
            )
        ]

    @classmethod
    def parse(cls, parser: Parser) -> "UpdateOp":
        """Parse ``"conv" accumulate %y[%h] ins (%x[%h + %k] outside 0) {...}``."""
        label = parser.parse_str_literal()
        is_init = parser.parse_optional_keyword("init") is not None
        accumulate = parser.parse_optional_keyword("accumulate") is not None
        write = _parse_access(parser)
        reads: list[Access] = []
        if parser.parse_optional_keyword("ins"):
            reads = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: _parse_access(parser)
            )
        body = parser.parse_region()
        update = cls(label, write, reads, body, accumulate=accumulate, is_init=is_init)
        update.attributes |= parser.parse_optional_attr_dict()
        return update

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""
        printer.print_string(" ")
        printer.print_string_literal(self.label.data)
        if self.is_init is not None:
            printer.print_string(" init")
        printer.print_string(" accumulate " if self.accumulate is not None else " ")
        _print_access(printer, self.write)
        if self.sources:
            printer.print_string(" ins (")
            printer.print_list(self.reads, lambda read: _print_access(printer, read))
            printer.print_string(")")
        printer.print_string(" ")
        printer.print_region(self.body)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        """Check subscripts and body."""
        accesses = [self.destination, *self.sources]
        if len(self.maps) != len(accesses) or len(self.outside) != len(self.sources):
            raise VerifyException("each access needs a map, and each source an entry in outside")
        _verify_maps(self.maps, len(self.indices), [len(shaped(a).get_shape()) for a in accesses])
        element = shaped(self.destination).element_type
        arguments = [element] if self.accumulate is not None else []
        arguments += [shaped(source).element_type for source in self.sources]
        verify_body(self.body, arguments, element)


class InvokesIntrinsic(SymbolUserOpInterface):
    """The callee is an intrinsic, and the operands fit its declaration."""

    def verify(self, op: Operation) -> None:
        """Check operands, scopes, elements and the immediate."""
        assert isinstance(op, InvokeOp)
        intrinsic = declared(op, IntrinsicOp, op.callee.root_reference.data)
        if intrinsic is None:
            raise VerifyException(f"there is no te.intrinsic {op.callee}")
        operands, lanes = [op.destination, *op.sources], intrinsic.lanes
        if len(operands) != len(lanes):
            raise VerifyException(f"{op.callee} takes {len(lanes)} operands, not {len(operands)}")
        for number, (operand, lane) in enumerate(zip(operands, lanes, strict=True)):
            type, scope, shape = shaped(operand), scope_of(operand), intrinsic.lane_shape(number)
            if scope is not lane.scope or type.element_type != lane.element:
                raise VerifyException(
                    f"operand {number} of {op.callee} is {lane.element} in {lane.scope.value}, not"
                    f" {type.element_type} in {scope.value}"
                )
            if type.get_shape()[-len(shape) :] != shape:
                raise VerifyException(f"operand {number} of {op.callee} ends in {shape}: {type}")
        _verify_maps(
            op.maps,
            len(op.indices),
            [
                len(shaped(operand).get_shape()) - len(lane.rows)
                for operand, lane in zip(operands, lanes, strict=True)
            ]
            + ([] if op.table is None else [len(shaped(op.table).get_shape())]),
        )
        _verify_immediate(op, intrinsic)


def _verify_immediate(op: "InvokeOp", intrinsic: IntrinsicOp) -> None:
    bounds = intrinsic.immediate_bounds
    given = (op.immediate is not None) + (op.table is not None)
    if given != (0 if bounds is None else 1):
        raise VerifyException(f"{op.callee} {'has no' if bounds is None else 'needs an'} immediate")
    if op.table is not None:
        if shaped(op.table).element_type != i32 or scope_of(op.table) is not Scope.DRAM:
            raise VerifyException(f"a table of immediates holds i32 in dram, not {op.table.type}")
        if not isinstance(op.table.owner, Block):
            raise VerifyException("a table of immediates is a parameter of the kernel")
    if bounds is not None and op.immediate is not None:
        value = op.immediate.value.data
        if not bounds[0] <= value <= bounds[1]:
            raise VerifyException(
                f"immediate {value} of {op.callee} is not within {bounds[0]} to {bounds[1]}"
            )


@irdl_op_definition
class InvokeOp(TeOperation):
    """Runs an intrinsic on one element of each operand, where every source element exists.

    maps: destination, then sources, over ``indices``. They subscript the dimensions before the
    lanes; the intrinsic covers the lanes. If a source element lies outside its tensor, nothing
    happens (tensorize has proved that the value outside would not change the accumulator).
    immediate, table: the constant of an intrinsic that takes one; or a parameter of the kernel that
    holds one constant for each element, which the last of ``maps`` subscripts. Calls pass a
    `te.constant` for it.
    """

    name = "te.invoke"

    callee = prop_def(FlatSymbolRefAttr)
    label = prop_def(StringAttr)
    maps = prop_def(ArrayAttr[AffineMapAttr])
    immediate = opt_prop_def(IntegerAttr.constr(i32))
    destination = operand_def(MemRefType)
    sources = var_operand_def(MemRefType)
    table = opt_operand_def(MemRefType)
    indices = var_operand_def(IndexType)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    traits = traits_def(InvokesIntrinsic())

    def __init__(
        self,
        callee: str,
        label: str,
        write: Access,
        reads: Sequence[Access],
        constant: int | Access | None = None,
    ):
        table = constant if isinstance(constant, Access) else None
        indices, rows = _number([write, *reads, *([] if table is None else [table])])
        super().__init__(
            operands=[
                write.buffer,
                [read.buffer for read in reads],
                None if table is None else table.buffer,
                indices,
            ],
            properties={
                "callee": SymbolRefAttr(callee),
                "label": string(label),
                "maps": ArrayAttr(map_of(row, len(indices)) for row in rows),
                "immediate": IntegerAttr(constant, i32) if isinstance(constant, int) else None,
            },
        )

    @property
    def write(self) -> Access:
        """The destination."""
        (destination,), _, _, indices = self.segments
        return Access.of(destination, rows_of(self.maps.data[0]), indices)

    @property
    def reads(self) -> list[Access]:
        """The sources."""
        _, sources, _, indices = self.segments
        return [
            Access.of(buffer, rows_of(map), indices)
            for buffer, map in zip(sources, self.maps.data[1:], strict=False)
        ]

    @property
    def constant(self) -> int | Access | None:
        """The immediate: a number, or an access to the table with it; None if there is none."""
        if self.table is not None:
            return Access.of(self.table, rows_of(self.maps.data[-1]), self.indices)
        return None if self.immediate is None else self.immediate.value.data

    @property
    def intrinsic(self) -> IntrinsicOp:
        """The declaration."""
        found = declared(self, IntrinsicOp, self.callee.root_reference.data)
        assert found is not None
        return found

    @classmethod
    def parse(cls, parser: Parser) -> "InvokeOp":
        """Parse ``@shr_imm "shift" %acc[%h] () immediate 3``, or ``immediate %table[%h]``."""
        callee = parser.parse_symbol_name().data
        label = parser.parse_str_literal()
        write = _parse_access(parser)
        reads = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: _parse_access(parser)
        )
        constant: int | Access | None = None
        if parser.parse_optional_keyword("immediate"):
            constant = parser.parse_optional_integer(allow_boolean=False)
            constant = _parse_access(parser) if constant is None else constant
        invoke = cls(callee, label, write, reads, constant)
        invoke.attributes |= parser.parse_optional_attr_dict()
        return invoke

    def print(self, printer: Printer) -> None:
        """Print what `parse` reads."""
        printer.print_string(" ")
        printer.print_symbol_name(self.callee.root_reference)
        printer.print_string(" ")
        printer.print_string_literal(self.label.data)
        printer.print_string(" ")
        _print_access(printer, self.write)
        printer.print_string(" (")
        printer.print_list(self.reads, lambda read: _print_access(printer, read))
        printer.print_string(")")
        constant = self.constant
        if isinstance(constant, Access):
            printer.print_string(" immediate ")
            _print_access(printer, constant)
        elif constant is not None:
            printer.print_string(f" immediate {constant}")
        printer.print_op_attributes(self.attributes)


def _verify_maps(maps: ArrayAttr[AffineMapAttr], indices: int, ranks: Sequence[int]) -> None:
    for number, (map, rank) in enumerate(zip(maps, ranks, strict=True)):
        if map.data.num_dims != indices or len(map.data.results) != rank:
            raise VerifyException(
                f"map {number} must take {indices} indices and give {rank} subscripts"
            )
        rows_of(map)


def _parse_access(parser: Parser) -> Access:
    buffer = parse_value(parser)
    indices: dict[SSAValue, int] = {}

    def variable() -> int | None:
        value = parse_optional_value(parser)
        return None if value is None else indices.setdefault(value, len(indices))

    rows = parse_subscripts(parser, variable)
    outside = None
    if parser.parse_optional_keyword("outside"):
        outside = parser.parse_integer(allow_boolean=False)
    return Access.of(buffer, rows, list(indices), outside)


def _print_access(printer: Printer, access: Access) -> None:
    printer.print_operand(access.buffer)
    values: dict[SSAValue, int] = {}
    rows = [
        Row(tuple((values.setdefault(v, len(values)), c) for v, c in terms), k)
        for terms, k in access.subscripts
    ]
    ordered = list(values)
    print_subscripts(printer, rows, lambda index: printer.print_operand(ordered[index]))
    if access.outside is not None:
        printer.print_string(f" outside {access.outside}")
