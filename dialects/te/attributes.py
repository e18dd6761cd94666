"""Types and attributes of te: scopes, iteration domains, and the handles of schedules.

A scope is a memory that can hold the value of a compute. A domain is an ordered list of named axes
with their extents. Names serve readers and error messages; no pass depends on them.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from xdsl.dialects.builtin import (
    IntegerAttr,
    IntegerType,
    MemRefType,
    NoneAttr,
    TensorType,
    UnitAttr,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, Data, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

LANES = 2
"""How many last dimensions of a tensor, and last axes of a stage, make one hardware element."""


class Scope(StrEnum):
    """The memories of the accelerator that te knows: main memory and three scratchpads."""

    DRAM = "dram"
    INP = "inp"
    WGT = "wgt"
    ACC = "acc"


@irdl_attr_definition
class ScopeAttr(EnumAttribute[Scope]):
    """``#te.scope<acc>``: the memory space of a buffer."""

    name = "te.scope"

    def print_parameter(self, printer: Printer) -> None:
        """Print ``<acc>``."""
        with printer.in_angle_brackets():
            printer.print_string(self.data.value)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Scope:
        """Parse ``<acc>``."""
        with parser.in_angle_brackets():
            return parser.parse_str_enum(Scope)


@irdl_attr_definition
class DomainAttr(Data[tuple[tuple[str, int], ...]]):
    """``#te.domain<h = 56, w = 56>``: names and extents of axes, in order."""

    name = "te.domain"

    def __init__(self, axes: Mapping[str, int] | Sequence[tuple[str, int]]):
        pairs = axes.items() if isinstance(axes, Mapping) else axes
        super().__init__(tuple((name, extent) for name, extent in pairs))

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self.data)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the axes, in order."""
        return tuple(name for name, _ in self.data)

    @property
    def extents(self) -> tuple[int, ...]:
        """Extents of the axes, in order."""
        return tuple(extent for _, extent in self.data)

    def verify(self) -> None:
        """Names are identifiers and differ; extents are positive."""
        for name, extent in self.data:
            if not name.isidentifier():
                raise VerifyException(f"axis name {name!r} is not an identifier")
            if extent < 1:
                raise VerifyException(f"axis {name} has extent {extent}; it must be at least 1")
        if len(set(self.names)) != len(self.data):
            raise VerifyException(f"axis names must differ: {', '.join(self.names)}")

    @classmethod
    def parse_axes(cls, parser: AttrParser) -> "tuple[tuple[str, int], ...]":
        """Parse ``h = 56, w = 56``; there may be no axis at all."""
        axes: list[tuple[str, int]] = []
        while (name := parser.parse_optional_identifier()) is not None:
            parser.parse_punctuation("=")
            axes.append((name, parser.parse_integer(allow_boolean=False, allow_negative=False)))
            if parser.parse_optional_punctuation(",") is None:
                break
        return tuple(axes)

    def print_axes(self, printer: Printer) -> None:
        """Print ``h = 56, w = 56``."""
        printer.print_string(", ".join(f"{name} = {extent}" for name, extent in self.data))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, int], ...]:
        """Parse ``<h = 56, w = 56>``."""
        with parser.in_angle_brackets():
            return cls.parse_axes(parser)

    def print_parameter(self, printer: Printer) -> None:
        """Print ``<h = 56, w = 56>``."""
        with printer.in_angle_brackets():
            self.print_axes(printer)


@irdl_attr_definition
class StageType(ParametrizedAttribute, TypeAttribute):
    """A handle on one stage of a kernel: a compute, its initialisation, or a cached operand."""

    name = "te.stage"


@irdl_attr_definition
class AxisType(ParametrizedAttribute, TypeAttribute):
    """A handle on one loop of a stage."""

    name = "te.axis"


Outside = IntegerAttr | UnitAttr
"""What a read outside an operand's shape yields; ``unit`` if no read lies outside."""

SUPPORTED_ELEMENTS = (IntegerType(8), IntegerType(32))
"""Element types of tensors and buffers."""


def outside_value(attr: Attribute) -> int | None:
    """The number in an `Outside` attribute, None for ``unit``."""
    return attr.value.data if isinstance(attr, IntegerAttr) else None


def shaped(value: SSAValue) -> "TensorType[Attribute] | MemRefType[Attribute]":
    """The type of a tensor or buffer. Raises `VerifyException` on anything else."""
    if not isinstance(value.type, TensorType | MemRefType):
        raise VerifyException(f"expected a tensor or a memref, not {value.type}")
    return value.type


def scope_of(value: SSAValue) -> Scope:
    """The memory in which a buffer lies; one without a memory space is in DRAM."""
    space = value.type.memory_space if isinstance(value.type, MemRefType) else None
    return space.data if isinstance(space, ScopeAttr) else Scope.DRAM


def buffer_type(
    shape: Sequence[int], element: Attribute, scope: Scope = Scope.DRAM
) -> "MemRefType[Attribute]":
    """The type of a buffer that holds (a window of) a tensor of that shape."""
    return _buffer_type(tuple(shape), element, scope)


@lru_cache(1 << 12)
def _buffer_type(
    shape: tuple[int, ...], element: Attribute, scope: Scope
) -> "MemRefType[Attribute]":
    return MemRefType(element, shape, NoneAttr(), ScopeAttr(scope))
