"""Runs the loop nest of a kernel with known numbers and tells a sink what it meets.

All sizes are known, so outer loops simply run: uneven tiles are ordinary bounds, and nothing of the
loops is left. Nothing here asks what an axis, a kernel or a layer is called.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias, cast

from xdsl.ir import Block, SSAValue

from vtac.dialects import te
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.locations import layer_of
from vtac.dialects.target import Memory, Target

from .compute import OutsideWindowError
from .immediates import Table
from .instructions import Lowering
from .invocation import Invocation
from .lattice import on_lattice
from .padding import PaddingError, padded_rectangles
from .prepared import (
    Alloc,
    Hull,
    LaneCheck,
    PreparedCopy,
    PreparedInvoke,
    PreparedKernel,
    PreparedLoop,
    PreparedSpan,
    Step,
    Unfuse,
    Unknown,
)
from .sink import Sink
from .storage import MEMORIES, Dram, DramBuffers, Sram, bytes_of, lanes_of
from .transfers import Box, Transfers

Storage: TypeAlias = Dram | Sram | None
"""Where a tensor lies: in DRAM or in a scratchpad; None before it lies anywhere."""


@dataclass
class SharedKernel:
    """A kernel, and what its calls find out together."""

    prepared: PreparedKernel
    lowerings: Mapping[str, Lowering]
    invocations: dict[te.InvokeOp, Invocation] = field(default_factory=dict)
    transfers: dict[tuple[te.CopyOp, tuple[int, ...]], Transfers] = field(default_factory=dict)


class KernelRun:
    """One call of a kernel, told to a sink.

    parameters: where what is passed for each parameter lies, but for tables of immediates, whose
    values are `tables`. step: number of the call in its function. first_site: number of the first
    place in a schedule that allocates here.
    """

    def __init__(
        self,
        call: te.CallOp,
        shared: SharedKernel,
        parameters: Mapping[SSAValue, Dram],
        buffers: DramBuffers,
        step: int,
        first_site: int,
        sink: Sink,
        tables: Mapping[SSAValue, Table],
    ):
        self._shared, self._prepared = shared, shared.prepared
        self._target: Target = buffers.target
        self._where = layer_of(call) or call.callee.root_reference.data
        self._buffers, self._sink = buffers, sink
        self._tables = tables
        self._step, self._first_site = step, first_site
        self._sites: dict[te.AllocOp, int] = {}
        self._sizes: dict[int, int] = {}
        count = len(self._prepared.places)
        self._numbers = [0] * count
        self._storage: list[Storage] = [None] * count
        for parameter, dram in parameters.items():
            self._storage[self._prepared.places[parameter]] = dram

    def run(self) -> int:
        """Run the kernel; returns how many sites it allocated at."""
        self._block(self._prepared.kernel.body.block)
        self._sink.finish(self._sizes)
        return len(self._sites)

    def _block(self, block: Block) -> None:
        for step in self._prepared.steps(block, self._where):
            _HANDLERS[type(step)](self, step)

    def _fail(self, what: str, hint: str = "") -> NoReturn:
        raise CompileError(Problem(self._where, what, hint))

    def _unknown(self, step: Unknown) -> None:
        self._fail(f"{step.op.name} is not part of a tensorised loop nest")

    def _for(self, loop: PreparedLoop) -> None:
        numbers, start, length = self._numbers, loop.start, loop.length
        for tile in loop.tiles(numbers):
            numbers[start], numbers[length] = tile
            self._block(loop.body)

    def _arithmetic(self, step: PreparedSpan | Hull | Unfuse) -> None:
        step.run(self._numbers)

    def _check_lanes(self, check: LaneCheck | None) -> None:
        """Refuse a window that does not hold its lanes whole."""
        if check is not None and (failure := check.failure(self._numbers)) is not None:
            self._fail(failure)

    def _alloc(self, what: Alloc) -> None:
        if what.scope is te.Scope.DRAM:
            size = bytes_of(what.op.buffer.type)
            name = self._buffers.scratch(size, (self._step, self._step))
            self._storage[what.place] = Dram.dense(name, what.held)
            return
        memory, lanes = MEMORIES[what.scope], what.lanes
        if lanes != lanes_of(memory, self._target):
            self._fail(
                f"the lanes of {what.op.buffer.type} are {list(lanes)}, those of"
                f" {memory.name.lower()} are {list(lanes_of(memory, self._target))}"
            )
        self._check_lanes(what.check)
        window = on_lattice(what.window.at(self._numbers), what.lattice)
        site = self._sites.setdefault(what.op, self._first_site + len(self._sites))
        buffer = self._sink.allocate(memory, site, what.slots, what.name)
        sram = Sram(buffer, memory, what.held, window)
        self._sizes[site] = max(self._sizes.get(site, 1), sram.elements)
        self._storage[what.place] = sram

    def _copy(self, what: PreparedCopy) -> None:
        sram, dram = self._storage[what.sram], self._storage[what.dram]
        if not isinstance(sram, Sram) or not isinstance(dram, Dram):
            self._fail("a copy must go between DRAM and a scratchpad")
        memory = self._stored(what, sram) if what.is_store else sram.memory
        self._check_lanes(what.check)
        window = sram.window
        if what.window is not None:
            window = what.window.at(self._numbers)
            if what.op.pads is not None:
                self._padded(what, window, sram, dram)
                return
            window = on_lattice(window, what.lattice)
            if any(
                length and not (first <= start and start + length <= first + held)
                for (start, length), (first, held) in zip(window, sram.window, strict=True)
            ):
                self._fail(f"a copy of {window} leaves the buffer's window {sram.window}")
        transfers = self._transfers(what, dram, memory)
        if what.window is None and sram.memory is Memory.INP:
            # What fills a buffer of inputs as a whole says in which order it holds them.
            sram = self._storage[what.sram] = sram._replace(order=transfers.order(window))
        try:
            place, parts = transfers.of(window, sram.window, sram.order)
        except KeyError:
            self._fail(f"a copy of {window}, which is no box of the packed buffer {dram.name}")
        for part in parts:
            self._sink.transfer(memory, sram.buffer, dram.name, dram.offset + place, part)

    def _transfers(self, what: PreparedCopy, dram: Dram, memory: Memory) -> Transfers:
        """The transfers of a copy; calls for which the tensor lies alike share them."""
        known, key = self._shared.transfers, (what.op, dram.strides)
        if key not in known:
            largest = self._target.largest_load(memory)
            known[key] = Transfers(dram.strides, largest, what.lattice, dram.packed)
        return known[key]

    def _padded(self, what: PreparedCopy, window: Box, sram: Sram, dram: Dram) -> None:
        """A load that fills a window with a border of zeros."""
        whole = [(0, size) for size in lanes_of(sram.memory, self._target)]
        parts = what.op.padded([*sram.window, *whole])
        lanes = [te.Padded(*item, 0, 0) for item in whole]
        if window != sram.window or parts[-te.LANES :] != lanes:
            self._fail("a load with pads fills the whole of its buffer, with whole elements")
        largest = self._target.largest_load(sram.memory)
        try:
            transfers = padded_rectangles(parts[: -te.LANES], dram.strides, largest)
        except PaddingError as error:
            self._fail(f"a load with pads: {error}", "Choose other tiles, or leave te.pad out.")
        for transfer in transfers:
            self._sink.transfer(sram.memory, sram.buffer, dram.name, dram.offset, transfer)

    def _stored(self, what: PreparedCopy, sram: Sram) -> Memory:
        """The memory that a STORE names."""
        if sram.memory is not Memory.ACC or not what.narrows:
            self._fail(
                f"{what.op.source.type} cannot be stored as {what.op.target.type}",
                "Only accumulators are stored, and only their low 8 bits.",
            )
        return Memory.OUT

    def _invocation(self, step: PreparedInvoke) -> Invocation:
        """What is known of an invocation."""
        op, known = step.op, self._shared.invocations
        if op not in known:
            name = op.intrinsic.lowering
            if name not in self._shared.lowerings:
                self._fail(
                    f'{op.callee} lowers "{name}", which nothing here makes instructions of',
                    "Add a function of that name to the lowerings of the context.",
                )
            lowering = self._shared.lowerings[name]
            known[op] = Invocation(op, step.loops, self._target, self._prepared, lowering)
        return known[op]

    def _invoke(self, step: PreparedInvoke) -> None:
        invocation = self._shared.invocations.get(step.op) or self._invocation(step)
        operands: list[Sram] = []
        for place in invocation.buffers:
            operand = self._storage[place]
            if not isinstance(operand, Sram):
                self._fail(f"{step.op.callee} works on a buffer in DRAM")
            operands.append(operand)
        try:
            table = None if invocation.table is None else self._tables[invocation.table]
            instructions = invocation.instructions(self._numbers, operands, table)
        except (OutsideWindowError, IndexError, ValueError) as error:
            where = f"stage {step.op.label.data}"
            raise CompileError(Problem(self._where, f"{where}: {error}")) from None
        buffers = [operand.buffer for operand in operands]
        for instruction in instructions:
            self._sink.compute(instruction, buffers)


_HANDLERS = cast(
    Mapping[type[Step], Callable[[KernelRun, Step], None]],
    {
        PreparedLoop: KernelRun._for,
        PreparedSpan: KernelRun._arithmetic,
        Hull: KernelRun._arithmetic,
        Unfuse: KernelRun._arithmetic,
        Alloc: KernelRun._alloc,
        PreparedCopy: KernelRun._copy,
        PreparedInvoke: KernelRun._invoke,
        Unknown: KernelRun._unknown,
    },
)
