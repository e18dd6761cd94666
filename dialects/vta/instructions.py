"""The instructions of the vta dialect: one operation for each, with every field as a property.

Fields and their meaning are those of ``encoding``. Two forms, told apart by the operands: before
``vta-allocate`` an instruction names SRAM buffers as SSA values and its indices are relative to
them; afterwards there are no operands and indices are absolute. Micro-ops stand inline
(``micro_ops <...>``) until ``vta-plan-microops`` moves them into kernels and gives each instruction
its place in the micro-op buffer (``kernel @u0 uops [0, 16]``).

The four dependence flags are written as words: ``pop_prev pop_next push_prev push_next``.

A network has thousands of instructions, and each is asked for its fields many times. What is asked
most reads ``properties``, since xDSL's accessors take several times as long.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    IntegerType,
    SymbolRefAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from ..quick import QuickOperation
from ..target import TARGET_ATTRIBUTE, Memory, Target, target_at
from . import encoding
from .attributes import MemoryAttr, SramType, integers, numbers, sram_type
from .encoding import Opcode

TOKENS = ("pop_prev", "pop_next", "push_prev", "push_next")
"""The dependence flags: prev and next are the neighbours in the row load, compute, store."""

INTEGER = IntegerAttr.constr(i64)
INTEGERS = DenseArrayBase.constr(i64)
_Integers: TypeAlias = DenseArrayBase[IntegerType]
_UNIT = UnitAttr()
_NO_PADS = integers(0, 0, 0, 0)
FLAGS = (
    "(`pop_prev` $pop_prev^)? (`pop_next` $pop_next^)?"
    " (`push_prev` $push_prev^)? (`push_next` $push_next^)?"
)
"""The dependence flags in an assembly format."""


def enclosing_target(op: Operation) -> Target:
    """The target of the program around an operation. Raises `VerifyException` if there is none."""
    target = target_at(op.parent_op())
    if target is None:
        raise VerifyException(f"{op.name} must stand in a vta.program with a {TARGET_ATTRIBUTE}")
    return target


@functools.lru_cache(maxsize=256)
def _limits(target: Target, opcode: Opcode) -> list[tuple[str, int, int]]:
    """Name, smallest and largest value of each field but the tokens."""
    fields = encoding.instruction_fields(target)[opcode]
    return [(field.name, *field.limits) for field in fields if field.name not in TOKENS]


@functools.cache
def _defaults(kind: "type[InstructionOp]") -> tuple[tuple[str, Attribute], ...]:
    """The properties of an operation that have a default, and that default."""
    properties = kind.get_irdl_definition().properties
    return tuple(
        (name, definition.default_value)
        for name, definition in properties.items()
        if definition.default_value is not None
    )


class InstructionOp(QuickOperation, ABC):
    """What every instruction has: tokens, SRAM buffers as operands until they are placed."""

    OPCODE: ClassVar[Opcode]

    pop_prev = opt_prop_def(UnitAttr)
    pop_next = opt_prop_def(UnitAttr)
    push_prev = opt_prop_def(UnitAttr)
    push_next = opt_prop_def(UnitAttr)

    def __post_init__(self) -> None:
        """Fill in default properties, quicker than xDSL, which looks at all properties each
        time."""
        for name, value in _defaults(type(self)):
            self.properties.setdefault(name, value)
        Operation.__post_init__(self)  # type: ignore[no-untyped-call]

    @classmethod
    @abstractmethod
    def memories(cls, properties: Mapping[str, Attribute]) -> Sequence[Memory]:
        """The memories of the operands, in order, for an instruction with these properties."""

    @abstractmethod
    def fields(self) -> dict[str, int]:
        """The fields by their names in `encoding`, in their order there, tokens left out."""

    def row(self) -> tuple[int, ...]:
        """The values of all fields, in the order of `encoding.instruction_fields`.

        Raises `ValueError` before its indices are absolute.
        """
        if not self.placed:
            raise ValueError(f"{self.name} still names SRAM buffers: run vta-allocate first")
        properties = self.properties
        tokens = [name in properties for name in TOKENS]
        return *tokens, *self.fields().values()

    def tokens(self) -> dict[str, bool]:
        """The dependence flags by name."""
        return {name: name in self.properties for name in TOKENS}

    def set_token(self, name: str, value: bool = True) -> None:
        """Set or clear one dependence flag."""
        if value:
            self.properties[name] = _UNIT
        else:
            self.properties.pop(name, None)

    @property
    def placed(self) -> bool:
        """Whether SRAM indices are absolute."""
        return not self._operands

    def verify_(self) -> None:
        """Every field fits its bits on the target, operands lie in the right memories."""
        target = enclosing_target(self)
        for operand, memory in zip(self.operands, self.memories(self.properties), strict=False):
            if operand.type != sram_type(memory):
                raise VerifyException(
                    f"{self.name}: expected a buffer in {memory.name.lower()}, got {operand.type}"
                )
        values = self.fields()
        for name, low, high in _limits(target, self.OPCODE):
            if not low <= values[name] <= high:
                raise VerifyException(
                    f"{self.name}: {name} is {values[name]}, but its"
                    f" {(high - low).bit_length()} bits hold {low} to {high}"
                )
        self.verify_instruction(target)

    def verify_instruction(self, target: Target) -> None:
        """Check what the widths of fields do not express."""


def verify_lengths(op: IRDLOperation, **lengths: int) -> None:
    """Check how many numbers these properties hold, where they are there."""
    for name, length in lengths.items():
        attr = op.properties.get(name)
        if attr is not None and (not isinstance(attr, DenseArrayBase) or len(attr) != length):
            raise VerifyException(f"{op.name}: {name} must be {length} numbers")


@irdl_custom_directive
class SramBuffers(CustomDirective):
    """The SRAM buffers of an instruction; their types follow from the instruction."""

    buffers: VariadicOperandVariable
    types: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parse ``%a, %b``, perhaps nothing."""
        self.buffers.parse(parser, state)
        operands = state.operands[self.buffers.index] or ()
        assert issubclass(state.op_type, InstructionOp)
        memories = state.op_type.memories(state.properties)
        if len(operands) > len(memories):
            parser.raise_error(f"expected at most {len(memories)} SRAM buffers")
        types = [sram_type(memory) for memory in memories[: len(operands)]]
        self.types.set(state, types)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Print ``%a, %b``."""
        self.buffers.print(printer, state, op)


class TransferOp(InstructionOp, ABC):
    """A rectangle of elements between a DRAM buffer and an SRAM buffer.

    size is [y, x] and stride the elements between rows in DRAM. Without a buffer dram_base is
    absolute. All counts are elements of the memory.
    """

    buffers = var_operand_def(SramType)
    sram_base = prop_def(INTEGER)
    buffer = opt_prop_def(FlatSymbolRefAttrConstr)
    dram_base = prop_def(INTEGER)
    size = prop_def(INTEGERS)
    stride = prop_def(INTEGER)

    @property
    def memory_id(self) -> Memory:
        """The memory it loads or stores."""
        memory = self.properties.get("memory")
        return Memory.OUT if memory is None else cast(MemoryAttr, memory).data

    @property
    def buffer_name(self) -> str | None:
        """Name of the DRAM buffer."""
        buffer = self.properties.get("buffer")
        return None if buffer is None else cast(SymbolRefAttr, buffer).root_reference.data

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows, and elements per row."""
        y, x = numbers(cast(_Integers, self.properties["size"]))
        return y, x

    def pad_values(self) -> tuple[int, ...]:
        """Pads: rows above and below, elements left and right."""
        return (0, 0, 0, 0)

    @property
    def sram_size(self) -> int:
        """Elements it fills or reads in the memory, pads included."""
        y, x = self.sizes
        above, below, left, right = self.pad_values()
        return (above + y + below) * (left + x + right) if x and y else 0

    def fields(self) -> dict[str, int]:
        """See `InstructionOp`."""
        y, x = self.sizes
        above, below, left, right = self.pad_values()
        return {
            "memory": int(self.memory_id),
            "sram_base": self.sram_base.value.data,
            "dram_base": self.dram_base.value.data,
            "y_size": y,
            "x_size": x,
            "x_stride": self.stride.value.data,
            "y_pad_0": above,
            "y_pad_1": below,
            "x_pad_0": left,
            "x_pad_1": right,
        }

    def verify_instruction(self, target: Target) -> None:
        """The memory can be loaded, and the transfer stays inside it."""
        memory = self.memory_id
        if memory is Memory.ACC_8BIT and not target.acc_load_int8:
            raise VerifyException(f"{self.name}: the target has no acc_8bit loads")
        end = self.sram_base.value.data + self.sram_size
        if end > target.depth(memory):
            raise VerifyException(
                f"{self.name}: needs {memory.name.lower()} up to element {end}, but the target has"
                f" {target.depth(memory)}"
            )


@irdl_op_definition
class LoadOp(TransferOp):
    """LOAD: ``vta.load inp %b sram 0 from @x dram 4 size [14, 16] stride 58 pads [1, 1, 0, 0]``."""

    name = "vta.load"
    OPCODE: ClassVar[Opcode] = Opcode.LOAD

    memory = prop_def(MemoryAttr)
    pads = prop_def(INTEGERS, default_value=_NO_PADS)

    custom_directives = (SramBuffers,)
    assembly_format = (
        "$memory custom<SramBuffers>($buffers, type($buffers)) `sram` $sram_base (`from` $buffer^)?"
        f" `dram` $dram_base `size` $size `stride` $stride (`pads` $pads^)? {FLAGS} attr-dict"
    )

    @classmethod
    def memories(cls, properties: Mapping[str, Attribute]) -> Sequence[Memory]:
        """The memory that is loaded."""
        memory = properties.get("memory")
        return (memory.data,) if isinstance(memory, MemoryAttr) else ()

    def pad_values(self) -> tuple[int, ...]:
        """Pads: rows above and below, elements left and right."""
        return numbers(cast(_Integers, self.properties["pads"]))

    def verify_(self) -> None:
        """As every transfer; OUT is not loaded."""
        verify_lengths(self, size=2, pads=4)
        if self.memory.data is Memory.OUT:
            raise VerifyException("vta.load: out is written by GEMM and ALU, not loaded")
        if self.memory.data is Memory.UOP and self.buffers:
            raise VerifyException("vta.load: micro-ops are not kept in SRAM buffers")
        super().verify_()


@irdl_op_definition
class StoreOp(TransferOp):
    """STORE: ``vta.store %acc sram 0 to @y dram 64 size [14, 16] stride 58``. Reads OUT."""

    name = "vta.store"
    OPCODE: ClassVar[Opcode] = Opcode.STORE

    custom_directives = (SramBuffers,)
    assembly_format = (
        "custom<SramBuffers>($buffers, type($buffers)) `sram` $sram_base (`to` $buffer^)?"
        f" `dram` $dram_base `size` $size `stride` $stride {FLAGS} attr-dict"
    )

    @classmethod
    def memories(cls, properties: Mapping[str, Attribute]) -> Sequence[Memory]:
        """OUT, which shares its places with ACC."""
        return (Memory.OUT,)

    def verify_(self) -> None:
        """As every transfer."""
        verify_lengths(self, size=2)
        super().verify_()


@irdl_op_definition
class FinishOp(InstructionOp):
    """FINISH: the end of the program; waits for the tokens it pops."""

    name = "vta.finish"
    OPCODE: ClassVar[Opcode] = Opcode.FINISH

    assembly_format = f"{FLAGS} attr-dict"

    @classmethod
    def memories(cls, properties: Mapping[str, Attribute]) -> Sequence[Memory]:
        """None."""
        return ()

    def fields(self) -> dict[str, int]:
        """See `InstructionOp`."""
        return {}

    def verify_instruction(self, target: Target) -> None:
        """Nothing follows it."""
        if self.next_op is not None:
            raise VerifyException("vta.finish must be the last operation of its program")
