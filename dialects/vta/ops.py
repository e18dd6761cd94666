"""Programs of the vta dialect, and what instructions name: DRAM and SRAM buffers, kernels.

```
vta.program @vta_0 attributes {vtac.target = #target.vta<"pynq">} {
  vta.buffer @x input index 0 bytes 1024 align 256
  %b = vta.alloc site 3 slots 2 size 64 : !vta.sram<inp>
  vta.load inp %b sram 0 from @x dram 0 size [1, 64] stride 64
  ...
  vta.finish
}
```
A program is flat: all its operations stand in one block, in the order in which the machine fetches.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import combinations
from typing import TypeVar, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FlatSymbolRefAttrConstr,
    IntegerAttr,
    LocationAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import (
    AnyOf,
    BaseAttr,
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import (
    IsolatedFromAbove,
    NoTerminator,
    SymbolOpInterface,
    SymbolTable,
    SymbolUserOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from ..quick import QuickOperation
from ..target import TARGET_ATTRIBUTE, Memory, Target
from ..vtac import ResourceAttr
from .attributes import (
    BufferKind,
    BufferKindAttr,
    MicroOps,
    SramType,
    integer,
    integers,
    sram_type,
    symbol,
)
from .compute import ComputeOp
from .instructions import InstructionOp, TransferOp, enclosing_target

_INTEGER = IntegerAttr.constr(i64)

_Wanted = TypeVar("_Wanted", bound=Operation)


class StreamOp(IRDLOperation, ABC):
    """Instructions that one core fetches, in program order, and the kernels that they run.

    Passes over instructions take each stream by itself (`streams_of`).
    """

    body = region_def("single_block")

    @property
    @abstractmethod
    def target(self) -> Target:
        """The machine that runs the instructions."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Its name for messages."""

    @property
    def shared_buffers(self) -> dict[str, "BufferOp"]:
        """The DRAM buffers that are declared outside, by name."""
        return {}

    @property
    def micro_op_buffer(self) -> str:
        """The name that its buffer of micro-ops gets."""
        return "uops"

    def instructions(self) -> list[InstructionOp]:
        """The instructions, in program order."""
        return self.all_of(InstructionOp)  # type: ignore[type-abstract]

    def buffers(self) -> dict[str, "BufferOp"]:
        """The DRAM buffers by name: those outside, then its own, in the order of the text."""
        own = {op.sym_name.data: op for op in self.all_of(BufferOp)}
        return {**self.shared_buffers, **own}

    def kernels(self) -> dict[str, "KernelOp"]:
        """The micro-op kernels by name, in the order of the text."""
        return {op.sym_name.data: op for op in self.all_of(KernelOp)}

    def all_of(self, wanted: type[_Wanted]) -> list[_Wanted]:
        """The operations of a class, in the order of the text.

        `isinstance` asks abstract classes, which takes long, so each class of operations is asked
        once. The loop follows the links between operations, which is faster than their iterator.
        """
        found: list[_Wanted] = []
        known: dict[type[Operation], bool] = {}
        op = self.body.block.first_op
        while op is not None:
            kind = type(op)
            if kind not in known:
                known[kind] = issubclass(kind, wanted)
            if known[kind]:
                found.append(cast(_Wanted, op))
            op = op._next_op  # the property behind which it lies takes as long as the rest
        return found

    def verify_stream(self) -> None:
        """Every name that an instruction uses is defined; transfers stay in their buffers."""
        buffers, kernels = self.buffers(), self.kernels()
        element_bytes = {memory: self.target.element_bytes(memory) for memory in Memory}
        for op in self.body.block.ops:
            if isinstance(op, TransferOp):
                self._verify_transfer(op, buffers, element_bytes)
            elif isinstance(op, ComputeOp) and op.kernel is not None:
                self._verify_kernel(op, kernels)
            elif isinstance(op, BufferOp) and op.kernels is not None:
                op.verify_kernels(kernels)

    @staticmethod
    def _verify_transfer(
        op: TransferOp, buffers: dict[str, "BufferOp"], element_bytes: dict[Memory, int]
    ) -> None:
        name = op.buffer_name
        if name is None:
            return
        if name not in buffers:
            raise VerifyException(f"{op.name}: there is no vta.buffer @{name}")
        y, x = op.sizes
        rows_end = (y - 1) * op.stride.value.data + x if y and x else 0
        end = (op.dram_base.value.data + rows_end) * element_bytes[op.memory_id]
        if end > buffers[name].bytes.value.data:
            raise VerifyException(
                f"{op.name}: reaches byte {end} of @{name}, which has"
                f" {buffers[name].bytes.value.data}"
            )

    @staticmethod
    def _verify_kernel(op: ComputeOp, kernels: dict[str, "KernelOp"]) -> None:
        assert op.kernel is not None and op.uops is not None
        name = op.kernel.root_reference.data
        if name not in kernels:
            raise VerifyException(f"{op.name}: there is no vta.kernel @{name}")
        begin, end = op.uops.get_values()
        count = kernels[name].micro_ops.count
        if end - begin != count:
            raise VerifyException(
                f"{op.name}: uops [{begin}, {end}] are {end - begin} micro-ops, @{name} has {count}"
            )


@irdl_op_definition
class ProgramOp(StreamOp):
    """One accelerator program: buffers, kernels, and instructions in program order."""

    name = "vta.program"

    sym_name = prop_def(SymbolNameConstraint())

    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface(), SymbolTable())

    assembly_format = "$sym_name attr-dict-with-keyword $body"

    def __init__(self, name: str, target: Target, body: Region):
        super().__init__(
            properties={"sym_name": StringAttr(name)},
            attributes={TARGET_ATTRIBUTE: target},
            regions=[body],
        )

    @property
    def target(self) -> Target:
        """The machine the program is for."""
        return cast(Target, self.attributes[TARGET_ATTRIBUTE])

    @property
    def label(self) -> str:
        """``vta.program @name``."""
        return f"{self.name} @{self.sym_name.data}"

    def verify_(self) -> None:
        """The program has a target, and every name that an instruction uses is defined."""
        if not isinstance(self.attributes.get(TARGET_ATTRIBUTE), Target):
            raise VerifyException(f"vta.program needs the attribute {TARGET_ATTRIBUTE}")
        verify_places(list(self.buffers().values()))
        self.verify_stream()


@irdl_op_definition
class BufferOp(IRDLOperation):
    """A buffer in DRAM: ``vta.buffer @x input index 0 bytes 1024 align 256``.

    index counts the inputs or outputs of the program. A constant has its value, small ones inline;
    the buffer of micro-ops is the concatenation of kernels. Sizes and alignment are bytes.

    live: of scratch, the first and the last step of the program (call of a kernel) at which its
    contents count. scope, offset: of scratch that is placed, the memory that holds it and its first
    byte in the area that all scratch of that memory shares:
    ``vta.buffer @t scratch in "dram" offset 256 live [1, 2] bytes 1024 align 256``. Scratch without
    a place, and every other buffer, gets an address of its own when the program is loaded.
    """

    name = "vta.buffer"

    sym_name = prop_def(SymbolNameConstraint())
    kind = prop_def(BufferKindAttr)
    index = opt_prop_def(_INTEGER)
    bytes = prop_def(_INTEGER)
    align = prop_def(_INTEGER)
    value = opt_prop_def(AnyOf((BaseAttr(ResourceAttr), BaseAttr(DenseIntOrFPElementsAttr))))
    kernels = opt_prop_def(ArrayAttr.constr(FlatSymbolRefAttrConstr))
    scope = opt_prop_def(StringAttr)
    offset = opt_prop_def(_INTEGER)
    live = opt_prop_def(DenseArrayBase.constr(i64))

    traits = traits_def(SymbolOpInterface())

    assembly_format = (
        "$sym_name $kind (`index` $index^)? (`in` $scope^)? (`offset` $offset^)? (`live` $live^)?"
        " `bytes` $bytes `align` $align (`value` $value^)? (`kernels` $kernels^)? attr-dict"
    )

    def __init__(
        self,
        name: str,
        kind: BufferKind,
        bytes: int,
        align: int,
        index: int | None = None,
        value: Attribute | None = None,
        kernels: Sequence[str] | None = None,
        place: tuple[str, int] | None = None,
        live: tuple[int, int] | None = None,
    ):
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "kind": BufferKindAttr(kind),
                "index": None if index is None else integer(index),
                "bytes": integer(bytes),
                "align": integer(align),
                "value": value,
                "kernels": None
                if kernels is None
                else ArrayAttr([symbol(kernel) for kernel in kernels]),
                "live": None if live is None else integers(*live),
            }
        )
        if place is not None:
            self.set_place(*place)

    @property
    def place(self) -> tuple[str, int] | None:
        """Scope and offset in bytes, if it is placed."""
        if self.scope is None or self.offset is None:
            return None
        return self.scope.data, self.offset.value.data

    def set_place(self, scope: str, offset: int) -> None:
        """Place it, at an offset in bytes in the area of a scope."""
        self.properties |= {"scope": StringAttr(scope), "offset": integer(offset)}

    @property
    def lifetime(self) -> tuple[int, int] | None:
        """First and last step, if they are known."""
        if self.live is None:
            return None
        first, last = self.live.get_values()
        return int(first), int(last)

    def verify_(self) -> None:
        """The buffer has exactly the properties of its kind; sizes are possible."""
        kind = self.kind.data
        present = {
            "index": (self.index is not None, kind in (BufferKind.INPUT, BufferKind.OUTPUT)),
            "value": (self.value is not None, kind is BufferKind.CONSTANT),
            "kernels": (self.kernels is not None, kind is BufferKind.MICRO_OPS),
        }
        for what, (given, needed) in present.items():
            if given != needed:
                verb = "needs" if needed else "takes no"
                raise VerifyException(f"vta.buffer: {kind.value} {verb} {what}")
        self._verify_place()
        align = self.align.value.data
        if self.bytes.value.data < 0 or align < 1 or align & (align - 1):
            raise VerifyException("vta.buffer: expected bytes >= 0 and a power of two to align to")

    def _verify_place(self) -> None:
        """Only scratch is placed, at an aligned offset; a lifetime has two steps in order."""
        if self.kind.data is not BufferKind.SCRATCH and (
            self.scope is not None or self.offset is not None or self.live is not None
        ):
            kind = self.kind.data.value
            raise VerifyException(f"vta.buffer: {kind} has no place and no lifetime")
        if (self.scope is None) != (self.offset is None):
            raise VerifyException("vta.buffer: a place is a scope and an offset")
        offset = 0 if self.offset is None else self.offset.value.data
        if offset < 0 or offset % self.align.value.data:
            raise VerifyException(f"vta.buffer: offset {offset} is not aligned")
        steps = [] if self.live is None else list(self.live.get_values())
        if self.live is not None and (len(steps) != 2 or not 0 <= steps[0] <= steps[1]):
            raise VerifyException("vta.buffer: a lifetime is a first and a last step")

    def kernel_names(self) -> list[str]:
        """The kernels of a buffer of micro-ops, in order."""
        if self.kernels is None:
            return []
        return [kernel.root_reference.data for kernel in self.kernels]

    def verify_kernels(self, kernels: dict[str, "KernelOp"]) -> None:
        """The kernels are there and fill the buffer."""
        for name in self.kernel_names():
            if name not in kernels:
                raise VerifyException(f"vta.buffer: there is no vta.kernel @{name}")
        total = sum(kernels[name].micro_ops.count for name in self.kernel_names())
        if self.bytes.value.data != 4 * total:
            raise VerifyException(
                f"vta.buffer: its kernels are {4 * total} bytes, not {self.bytes.value.data}"
            )


def verify_places(buffers: Sequence[BufferOp]) -> None:
    """Buffers that are alive at the same time do not share bytes of a scope."""
    placed = [(op, place, live) for op in buffers if (place := op.place) and (live := op.lifetime)]
    for (a, (scope, start), alive), (b, (other, begin), lives) in combinations(placed, 2):
        apart = start + a.bytes.value.data <= begin or begin + b.bytes.value.data <= start
        if scope == other and not apart and alive[0] <= lives[1] and lives[0] <= alive[1]:
            names = f"@{a.sym_name.data} and @{b.sym_name.data}"
            raise VerifyException(
                f"vta.buffer: {names} share bytes of {scope} while both are alive"
            )


@irdl_op_definition
class KernelOp(QuickOperation):
    """A list of micro-ops that instructions run: ``vta.kernel @u0 <[0, 0, 0] times 4 by ...>``."""

    name = "vta.kernel"

    sym_name = prop_def(SymbolNameConstraint())
    micro_ops = prop_def(MicroOps)

    traits = traits_def(SymbolOpInterface())

    assembly_format = "$sym_name $micro_ops attr-dict"

    def __init__(self, name: str, micro_ops: MicroOps):
        self.fill((), (), {"sym_name": StringAttr(name), "micro_ops": micro_ops}, ())

    def verify_(self) -> None:
        """It has micro-ops, and fits the micro-op buffer."""
        entries = enclosing_target(self).uop_entries
        if not 1 <= self.micro_ops.count <= entries:
            raise VerifyException(
                f"vta.kernel: {self.micro_ops.count} micro-ops; expected 1 to {entries}"
            )


@irdl_op_definition
class AllocOp(QuickOperation):
    """An SRAM buffer, not placed yet: ``%b = vta.alloc site 3 slots 2 size 64 : !vta.sram<inp>``.

    site numbers the place in the schedule it comes from; buffers of one site have the same size (in
    elements) and share `slots` places, used in turn.
    """

    name = "vta.alloc"

    site = prop_def(_INTEGER)
    slots = prop_def(_INTEGER)
    size = prop_def(_INTEGER)
    buffer = result_def(SramType)

    assembly_format = "`site` $site `slots` $slots `size` $size attr-dict `:` type($buffer)"

    @classmethod
    def of(
        cls,
        memory: Memory,
        site: int,
        slots: int,
        size: int,
        location: LocationAttr | None = None,
    ) -> "AllocOp":
        """A buffer of `size` elements in a memory."""
        return cls.create(
            location=location,
            result_types=[sram_type(memory)],
            properties={
                "site": integer(site),
                "slots": integer(slots),
                "size": integer(size),
            },
        )

    def verify_(self) -> None:
        """Counts are positive."""
        for name in ("slots", "size"):
            value = cast("IntegerAttr", self.properties[name]).value.data
            if value < 1:
                raise VerifyException(f"vta.alloc: {name} is {value}, expected at least 1")


class LaunchesProgram(SymbolUserOpInterface):
    """The callee is a program with as many inputs and outputs as the op has operands and
    results."""

    def verify(self, op: Operation) -> None:
        """Compare with the program's inputs and outputs."""
        assert isinstance(op, LaunchOp)
        program = SymbolTable.lookup_symbol(op, op.program)
        if program is None or program.name not in ("vta.program", "vta.cluster"):
            raise VerifyException(f"vta.launch: there is no program {op.program}")
        declared = [inner for inner in program.regions[0].block.ops if isinstance(inner, BufferOp)]
        kinds = [buffer.kind.data for buffer in declared]
        counts = kinds.count(BufferKind.INPUT), kinds.count(BufferKind.OUTPUT)
        if (len(op.arguments), len(op.outputs)) != counts:
            raise VerifyException(
                f"vta.launch: {op.program} has {counts[0]} inputs and {counts[1]} outputs, not"
                f" {len(op.arguments)} and {len(op.outputs)}"
            )


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """The host runs a program: ``%y = vta.launch @vta_0(%x) : (t) -> t``. Stands in functions."""

    name = "vta.launch"

    program = prop_def(FlatSymbolRefAttrConstr)
    arguments = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)

    traits = traits_def(LaunchesProgram())

    assembly_format = (
        "$program `(` $arguments `)` attr-dict `:` functional-type($arguments, $outputs)"
    )

    def __init__(
        self, program: str, arguments: Sequence[SSAValue], result_types: Sequence[Attribute]
    ):
        super().__init__(
            operands=[arguments],
            properties={"program": SymbolRefAttr(program)},
            result_types=[result_types],
        )
