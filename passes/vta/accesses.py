"""Which elements each instruction reads and writes, where two modules could meet.

Only what more than one module touches is listed: the memories of `System.shared` (INP and WGT,
which load writes and compute reads; OUT, which compute writes and store reads), and DRAM that a
STORE writes. ACC and the micro-op buffer belong to compute alone, which runs in order. Sets are
exact, as slices where they are contiguous.

DRAM is compared byte by byte (in units of the smallest element). Buffers that are placed in a scope
share its bytes, whatever their names; every other buffer has bytes of its own.
"""

import enum
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Memory, Module, System, Target
from vtac.dialects.vta import (
    BufferKind,
    BufferOp,
    ComputeOp,
    InstructionOp,
    LoadOp,
    MicroOps,
    StoreOp,
    StreamOp,
)
from vtac.dialects.vta.attributes import MemoryAttr
from vtac.dialects.vta.encoding import Opcode

Elements: TypeAlias = slice | NDArray[np.int64]


class ScratchArea(NamedTuple):
    """The area of a memory in which placed buffers share bytes."""

    name: str


class Order(enum.Enum):
    """What only orders instructions of a cluster's core, as spaces of one element.

    WAITED: waits write it, and loads of what other units may write read it, so that they follow the
    waits before them. SENT: signals write it, and stores read it, so that signals follow the stores
    before them. BEGUN: waits write it, and stores of what other units may read or write read it, so
    that they follow the waits before them, even where nothing that they store was loaded behind
    those. Tokens let a wait follow no store: `is_one_way`.
    """

    WAITED = enum.auto()
    SENT = enum.auto()
    BEGUN = enum.auto()

    @property
    def is_one_way(self) -> bool:
        """Whether readers follow the writers before them, but writers follow no reader."""
        return self is Order.BEGUN


Space: TypeAlias = Memory | str | ScratchArea | Order


def is_one_way(space: Space) -> bool:
    """Whether an access that writes a space may precede the reads before it."""
    return isinstance(space, Order) and space.is_one_way


class Access(NamedTuple):
    """Elements of a memory, or units of bytes in DRAM, that an instruction reads or writes.

    space: the memory, the name of a DRAM buffer, or a scope, whose buffers share their bytes.
    """

    space: Space
    elements: Elements
    writes: bool


class DramRows(NamedTuple):
    """Rows in a DRAM buffer or a scope: where each starts, and its length, in units of bytes."""

    space: Space
    starts: Sequence[int]
    length: int


_COMPUTE = ("kernel", "loops", "dst", "src", "wgt", "reset")


def module_of(op: InstructionOp, system: System) -> Module:
    """The module that runs an instruction."""
    if op.OPCODE is Opcode.STORE:
        return system.moves[system.results]
    if op.OPCODE is Opcode.LOAD:
        return system.moves[cast("MemoryAttr", op.properties["memory"]).data]
    return system.runs[op.OPCODE.name]


class Accesses:
    """What instructions read and write, from their fields.

    buffers: the DRAM buffers of the program. stored: those that a STORE names. `semaphores`: those
    that hold semaphores. `changing`: in programs with semaphores, those that other units may write.
    """

    def __init__(self, target: Target, buffers: Mapping[str, BufferOp], stored: Iterable[str]):
        self.system = target.system
        self.unit = min(map(target.element_bytes, self.system.buffered))
        self._scale = {memory: target.element_bytes(memory) // self.unit for memory in Memory}
        self._places: dict[str, tuple[Space, int]] = {}
        self._sizes: dict[Space, int] = {}
        for name, buffer in buffers.items():
            space: Space = name
            offset = 0
            if buffer.place is not None:
                space, offset = ScratchArea(buffer.place[0]), buffer.place[1]
            end = -(-(offset + buffer.bytes.value.data) // self.unit)
            self._places[name] = space, offset // self.unit
            self._sizes[space] = max(end, self._sizes.get(space, 0))
        self._stored = {self._places[name][0] for name in stored}
        kinds = {name: buffer.kind.data for name, buffer in buffers.items()}
        self.semaphores = {name for name, kind in kinds.items() if kind is BufferKind.SEMAPHORE}
        written = (BufferKind.SCRATCH, BufferKind.OUTPUT) if self.semaphores else ()
        self.changing = {name for name, kind in kinds.items() if kind in written}
        self._depths = {memory: target.depth(memory) for memory in Memory}

    def size(self, space: Space) -> int:
        """Elements of a memory, units of `unit` bytes of a buffer or of all buffers of a scope."""
        if isinstance(space, Order):
            return 1
        return self._depths[space] if isinstance(space, Memory) else self._sizes[space]

    def of_transfer(
        self,
        memory: Memory,
        base: int,
        held: int,
        buffer: str,
        place: int,
        rows: tuple[int, int, int],
    ) -> list[Access]:
        """The accesses of a LOAD, or for OUT of a STORE.

        base, held: the first element in the memory, and how many. buffer, place: the DRAM buffer
        and the first element there. rows: how many rows of how many elements, and their distance.
        """
        y, x, stride = rows
        if x == 0 or y == 0:
            return []
        stores, found = memory is self.system.results, []
        if buffer in self.semaphores:
            # The data of a signal count for nothing: it reads no element of OUT.
            if stores:
                return []
            orders = [Access(order, slice(0, 1), True) for order in (Order.WAITED, Order.BEGUN)]
            return [Access(memory, slice(base, base + held), True), *orders]
        if (space := self.system.place_of(memory)) in self.system.shared:
            found.append(Access(space, slice(base, base + held), not stores))
        if buffer in self.changing:
            order = Order.BEGUN if stores else Order.WAITED
            found.append(Access(order, slice(0, 1), False))
        dram = self.dram_rows(memory, buffer, place, rows)
        if dram is not None:
            scale = self._scale[memory]
            elements = _rows(y, x * scale, stride * scale)
            found.append(Access(dram.space, shifted(elements, dram.starts[0]), stores))
        return found

    def of_bytes(self, buffer: str, offset: int, size: int, writes: bool) -> Access | None:
        """The access of a command of the DMA to bytes of a buffer; None where no STORE writes."""
        space, first = self._places[buffer]
        if space not in self._stored:
            return None
        start, end = offset // self.unit, -(-(offset + size) // self.unit)
        return Access(space, slice(first + start, first + end), writes)

    def dram_rows(
        self, memory: Memory, buffer: str, place: int, rows: tuple[int, int, int]
    ) -> "DramRows | None":
        """What a transfer touches in DRAM; None where no STORE writes, or nothing is moved.

        The arguments are those of `of_transfer`. Contiguous rows are one.
        """
        y, x, stride = rows
        space, first = self._places[buffer]
        if space not in self._stored or memory is self.system.micro_ops or x == 0 or y == 0:
            return None
        scale = self._scale[memory]
        start = first + place * scale
        if stride == x or y == 1:
            return DramRows(space, (start,), y * x * scale)
        return DramRows(space, range(start, start + y * stride * scale, stride * scale), x * scale)


class ProgramAccesses:
    """The accesses of a program's instructions, all placed and with planned micro-ops."""

    def __init__(self, program: StreamOp, instructions: Sequence[InstructionOp]):
        stored = {
            op.buffer_name
            for op in instructions
            if isinstance(op, StoreOp) and op.buffer_name is not None
        }
        self._accesses = Accesses(program.target, program.buffers(), stored)
        self._kernels = {name: op.micro_ops for name, op in program.kernels().items()}
        self._known: dict[tuple[int, ...], Sequence[Access]] = {}

    @property
    def size(self) -> Callable[[Space], int]:
        """See `Accesses.size`."""
        return self._accesses.size

    def of(self, op: InstructionOp) -> Sequence[Access]:
        """The accesses of one instruction."""
        if isinstance(op, LoadOp | StoreOp):
            return self._of_transfer(op)
        properties = op.properties
        if op.OPCODE is Opcode.FINISH:
            return ()
        # The same tile shapes come again and again, and the program keeps its attributes alive.
        key = op.OPCODE, *[id(properties.get(name)) for name in _COMPUTE]
        if key not in self._known:
            assert isinstance(op, ComputeOp)
            if op.kernel is None:
                raise CompileError(
                    Problem(
                        op.name, "its micro-ops have no place yet", "Run vta-plan-microops first."
                    )
                )
            micro_ops = self._kernels[op.kernel.root_reference.data]
            self._known[key] = compute_accesses(op, micro_ops, self._accesses.system)
        return self._known[key]

    def _of_transfer(self, op: LoadOp | StoreOp) -> Sequence[Access]:
        name = op.buffer_name
        if name is None:
            raise CompileError(
                Problem(op.name, "dependences need named DRAM buffers, not absolute addresses")
            )
        return self._accesses.of_transfer(
            op.memory_id,
            op.sram_base.value.data,
            op.sram_size,
            name,
            op.dram_base.value.data,
            (*op.sizes, op.stride.value.data),
        )


def compute_accesses(op: ComputeOp, micro_ops: MicroOps, system: System) -> list[Access]:
    """The accesses of a GEMM or ALU instruction that runs these micro-ops."""
    loops, factors = op.iterations, op.factors()
    if 0 in loops:
        return []
    return [
        Access(memory, indices(micro_ops, column, loops, factors[column]), writes)
        for memory, column, writes in op.touched()
        if memory in system.shared
    ]


def indices(
    micro_ops: MicroOps, column: int, loops: tuple[int, int], factors: tuple[int, int]
) -> Elements:
    """The elements one index (0 dst, 1 src, 2 wgt) of a compute instruction reaches."""
    offset, relative = _column(micro_ops, column)
    outer, inner = (n if by else 1 for n, by in zip(loops, factors, strict=True))
    return shifted(_reach(relative, outer, inner, *factors), offset)


@functools.lru_cache(maxsize=1 << 14)
def _column(micro_ops: MicroOps, column: int) -> tuple[int, bytes]:
    values = _distinct(micro_ops.rows[:, column].astype(np.int64))
    return int(values[0]), (values - values[0]).tobytes()


@functools.lru_cache(maxsize=1 << 14)
def _reach(relative: bytes, outer: int, inner: int, by_out: int, by_in: int) -> Elements:
    steps = np.arange(outer)[:, None] * by_out + np.arange(inner) * by_in
    return _compact(_distinct(np.frombuffer(relative, np.int64)[:, None] + steps.reshape(1, -1)))


@functools.lru_cache(maxsize=1 << 12)
def _rows(y: int, x: int, stride: int) -> Elements:
    if stride == x or y == 1:
        return slice(0, y * x)
    return _compact(_distinct(np.arange(y)[:, None] * stride + np.arange(x)))


def _distinct(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """As `numpy.unique`, which takes several times as long for the few numbers of micro-ops."""
    ordered = np.sort(values, axis=None)
    is_new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]


def _compact(values: NDArray[np.int64]) -> Elements:
    low, high = int(values[0]), int(values[-1])
    return slice(low, high + 1) if high - low + 1 == len(values) else values


def shifted(elements: Elements, by: int) -> Elements:
    """The elements whose numbers are larger by so much."""
    if isinstance(elements, slice):
        return slice(elements.start + by, elements.stop + by)
    return elements + by
