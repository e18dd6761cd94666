"""How operations of te are made: quickly, for schedules make and replace thousands of them.

xDSL's constructor interprets its arguments by the definition of the operation, which takes longer
than all the rest. Here they are only flattened; the verifier finds what does not fit. Attributes
that recur, small numbers and lists of them, are made once and shared. And how they are parsed where
an operand has no type beside it.
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
"""How many attributes of a kind are kept."""


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
    """The operation of that kind and name in the module that ``op`` is in."""
    around = op
    while (parent := around.parent_op()) is not None:
        around = parent
    for other in around.regions[0].block.ops if around.regions else ():
        if type(other) is kind and _symbol(other) == name:
            return other
    return None


def parse_value(parser: Parser) -> SSAValue:
    """Parse an operand that is defined before it, and so has a type that is not written again."""
    value = parse_optional_value(parser)
    return parser.raise_error("Expected an operand.") if value is None else value


def parse_optional_value(parser: Parser) -> SSAValue | None:
    """As `parse_value`, where there may be none."""
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
    """The base of the operations of te. An operand may be optional or variadic, a result not."""

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
        """The operands of each of the parts that a definition with `AttrSizedOperandSegments` has.

        What the accessors of the parts give, for those who want several of them.
        """
        sizes = self.properties[AttrSizedOperandSegments.attribute_name]
        assert isinstance(sizes, DenseArrayBase)
        operands, found, start = tuple(self._operands), list[tuple[SSAValue, ...]](), 0
        for size in _sizes_of(sizes.data.data):
            found.append(operands[start : start + size])
            start += size
        return found

    def __post_init__(self) -> None:
        """No property has a default; xDSL would look at all of them each time."""
        Operation.__post_init__(self)  # type: ignore[no-untyped-call]
