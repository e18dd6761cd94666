"""The base class of operations of te, which constructs them quickly, and helpers to parse operands.

Schedules create and replace thousands of operations. The constructor of xDSL interprets its
arguments by the definition of the operation, which takes longer than everything else. The one here
only flattens them and leaves errors to the verifier. Attributes that recur, such as small numbers
and lists of them, are created once and shared.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from struct import unpack
from typing import TypeVar

from xdsl.dialects.builtin import I64, DenseArrayBase, IntegerAttr, StringAttr, UnitAttr, i32, i64
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import AttrSizedOperandSegments
from xdsl.parser import Parser

from ..quick import QuickOperation

UNIT = UnitAttr()

_SHARED = 1 << 14
"""How many attributes of each type are kept for sharing."""


@lru_cache(_SHARED)
def integer(value: int) -> IntegerAttr[I64]:
    """The attribute ``value : i64``."""
    return IntegerAttr(value, i64)


@lru_cache(_SHARED)
def string(value: str) -> StringAttr:
    """The attribute ``"value"``."""
    return StringAttr(value)


def integer_array(values: Sequence[int]) -> DenseArrayBase[I64]:
    """The attribute ``array<i64: values>``."""
    return _integer_array(tuple(values))


@lru_cache(_SHARED)
def _integer_array(values: tuple[int, ...]) -> DenseArrayBase[I64]:
    return DenseArrayBase.from_list(i64, values)


@lru_cache(_SHARED)
def _segments(sizes: tuple[int, ...]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i32, sizes)


@lru_cache(_SHARED)
def _sizes_of(segments: bytes) -> tuple[int, ...]:
    return unpack(f"<{len(segments) // 4}i", segments)


T = TypeVar("T", bound=Operation)


def declared(op: Operation, kind: type[T], name: str) -> T | None:
    """The operation of that class and name in the module around ``op``, None if there is none."""
    around = op
    while (parent := around.parent_op()) is not None:
        around = parent
    for other in around.regions[0].block.ops if around.regions else ():
        if type(other) is kind and _symbol(other) == name:
            return other
    return None


def parse_value(parser: Parser) -> SSAValue:
    """Parse an operand without a type: it is defined before, and has the type given there."""
    value = parse_optional_value(parser)
    return parser.raise_error("Expected an operand.") if value is None else value


def parse_optional_value(parser: Parser) -> SSAValue | None:
    """As `parse_value`; None if no operand follows."""
    operand = parser.parse_optional_unresolved_operand()
    if operand is None:
        return None
    values = parser.ssa_values.get(operand.operand_name, ())
    if operand.index >= len(values):
        parser.raise_error("SSA value used before assignment", operand.span)
    return values[operand.index]


def _symbol(op: Operation) -> str | None:
    symbol = op.properties.get("sym_name")
    return symbol.data if isinstance(symbol, StringAttr) else None


class TeOperation(QuickOperation):
    """Base class of the operations of te. Operands may be optional or variadic, results may not."""

    def __init__(
        self,
        *,
        operands: Sequence[SSAValue | Sequence[SSAValue] | None] = (),
        result_types: Sequence[Attribute] = (),
        properties: Mapping[str, Attribute | None] | None = None,
        regions: Sequence[Region] = (),
    ) -> None:
        flat: list[SSAValue] = []
        sizes: list[int] = []
        for operand in operands:
            before = len(flat)
            if isinstance(operand, Sequence):
                flat += operand
            elif operand is not None:
                flat.append(operand)
            sizes.append(len(flat) - before)
        given = {} if properties is None else {k: v for k, v in properties.items() if v is not None}
        for option in self.get_irdl_definition().options:
            if isinstance(option, AttrSizedOperandSegments):
                given[option.attribute_name] = _segments(tuple(sizes))
        self.fill(flat, result_types, given, regions)

    @property
    def segments(self) -> list[tuple[SSAValue, ...]]:
        """The operands of each operand definition, for classes with `AttrSizedOperandSegments`.

        This is faster than asking the accessors of several definitions one after the other.
        """
        sizes = self.properties[AttrSizedOperandSegments.attribute_name]
        assert isinstance(sizes, DenseArrayBase)
        operands, found, start = tuple(self._operands), list[tuple[SSAValue, ...]](), 0
        for size in _sizes_of(sizes.data.data):
            found.append(operands[start : start + size])
            start += size
        return found

    def __post_init__(self) -> None:
        """Leave out xDSL's search for default values of properties; operations of te have none."""
        Operation.__post_init__(self)  # type: ignore[no-untyped-call]
