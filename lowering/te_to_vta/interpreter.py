"""Runs the loop nest of a kernel with known numbers and writes down the instructions it meets.

All sizes are known, so outer loops simply run: uneven tiles are ordinary bounds, and nothing of the
loops is left. Nothing here asks what an axis, a kernel or a layer is called.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, cast

from xdsl.dialects.builtin import LocationAttr, i8
from xdsl.ir import Attribute, Block, Operation, SSAValue

from vtac.dialects import te, vta
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Memory, Target

from .compute import OutsideWindowError
from .immediates import Table
from .instructions import Lowering
from .invocation import Invocation
from .lattice import Lattice, on_lattice
from .padding import PaddingError, padded_rectangles
from .prepared import Prepared, Window, evaluate, interval
from .storage import (
    MEMORIES,
    Buffers,
    Dram,
    Sram,
    bytes_of,
    clamp,
    lanes_of,
)
from .transfers import Rectangle, box_rectangles, rectangles


@dataclass
class _Site:
    """A ``te.alloc`` in one call: its buffers, and the elements that the largest holds."""

    number: int
    allocs: list[vta.AllocOp] = field(default_factory=list)
    size: int = 1


class KernelRun:
    """One call of a kernel. Appends instructions to `out`, located at the call's layer.

    parameters: where what is passed for each parameter lies, but for tables of immediates, whose
    values are `tables`. step: number of the call in its function. first_site: number of the first
    place in a schedule that allocates here.
    """

    def __init__(
        self,
        call: te.CallOp,
        kernel: te.KernelOp,
        parameters: Mapping[SSAValue, Dram],
        buffers: Buffers,
        step: int,
        first_site: int,
        out: list[Operation],
        prepared: Prepared,
        invocations: dict[te.InvokeOp, Invocation],
        tables: Mapping[SSAValue, Table],
        lowerings: Mapping[str, Lowering],
    ):
        self._lowerings = lowerings
        self._target: Target = buffers.target
        self._location: LocationAttr = call.location
        self._where = vta.layer_of(call) or call.callee.root_reference.data
        self._buffers = buffers
        self._out = out
        self._prepared = prepared
        self._invocations = invocations
        self._tables = tables
        self._numbers: dict[SSAValue, int] = {}
        self._step = step
        self._first_site = first_site
        self._sites: dict[te.AllocOp, _Site] = {}
        self._storage: dict[SSAValue, Dram | Sram] = dict(parameters)
        self._kernel = kernel

    def run(self) -> int:
        """Run the kernel; returns how many sites it allocated at."""
        self._block(self._kernel.body.block)
        for site in self._sites.values():
            for alloc in site.allocs:
                alloc.properties["size"] = vta.integer(site.size)
        return len(self._sites)

    def _block(self, block: Block) -> None:
        for op in self._prepared.block(block):
            handler = _HANDLERS.get(type(op))
            if handler is None:
                self._fail(f"{op.name} is not part of a tensorised loop nest")
            handler(self, op)

    def _fail(self, what: str, hint: str = "") -> NoReturn:
        raise CompileError(Problem(self._where, what, hint))

    def _for(self, op: te.ForOp) -> None:
        if op.hardware is not None:
            self._invoke(*self._prepared.nest(op, self._where))
            return
        start, length = op.body.block.args
        body = op.body.block
        for tile in self._prepared.tiles(op, self._numbers):
            self._numbers[start], self._numbers[length] = tile
            self._block(body)

    def _span(self, op: te.SpanOp) -> None:
        numbers = self._numbers
        ranges = [(numbers[start], numbers[length]) for _, start, length in op.terms]
        numbers[op.start], numbers[op.length] = op.evaluate(ranges)

    def _hull(self, op: te.HullOp) -> None:
        ranges = [evaluate(interval(item), self._numbers) for item in op.ranges]
        self._numbers[op.start], self._numbers[op.length] = op.evaluate(ranges)

    def _unfuse(self, op: te.UnfuseOp) -> None:
        outer, inner = op.evaluate(self._numbers[op.number], self._numbers[op.count])
        self._numbers.update(zip(op.results, (*outer, *inner), strict=True))

    def _alloc(self, op: te.AllocOp) -> None:
        what = self._prepared.alloc(op, self._where)
        if what.scope is te.Scope.DRAM:
            name = self._buffers.scratch(bytes_of(what.buffer.type), (self._step, self._step))
            self._storage[what.buffer] = Dram.dense(name, what.shape)
            return
        memory, lanes = MEMORIES[what.scope], what.lanes
        if lanes != lanes_of(memory, self._target):
            self._fail(
                f"the lanes of {what.buffer.type} are {list(lanes)}, those of"
                f" {memory.name.lower()} are {list(lanes_of(memory, self._target))}"
            )
        window = on_lattice(clamp(self._outer(what.window, lanes), what.shape), what.lattice)
        if op not in self._sites:
            self._sites[op] = _Site(self._first_site + len(self._sites))
        site = self._sites[op]
        alloc = vta.AllocOp.of(memory, site.number, what.slots, 1)
        alloc.location = self._location
        (result,) = alloc.results
        result.name_hint = what.name
        buffer = Sram(result, memory, what.held, lanes, window)
        site.allocs.append(alloc)
        site.size = max(site.size, buffer.elements)
        self._storage[what.buffer] = buffer
        self._out.append(alloc)

    def _outer(self, window: Window, lanes: tuple[int, ...]) -> list[tuple[int, int]]:
        """A window without its lanes, which it must hold whole."""
        ranges = window.at(self._numbers)
        if ranges[-2] != (0, lanes[0]) or ranges[-1] != (0, lanes[1]):
            self._fail(f"a window {ranges} cuts the lanes {list(lanes)} of a hardware element")
        return ranges[: -te.LANES]

    def _copy(self, op: te.CopyOp) -> None:
        what = self._prepared.copy(op)
        source, target = self._storage[what.source], self._storage[what.target]
        sram, dram = (source, target) if isinstance(source, Sram) else (target, source)
        if not isinstance(sram, Sram) or not isinstance(dram, Dram):
            self._fail("a copy must go between DRAM and a scratchpad")
        memory = sram.memory if source is dram else self._stored(op, sram)
        if what.has_pads:
            self._padded(op, sram, dram)
            return
        window = clamp(self._outer(what.window, sram.lanes), dram.shape)
        window = on_lattice(window, what.lattice)
        if any(
            length and not (first <= start and start + length <= first + held)
            for (start, length), (first, held) in zip(window, sram.window, strict=True)
        ):
            self._fail(f"a copy of {window} leaves the buffer's window {sram.window}")
        for rectangle in self._rectangles(dram, sram, window, memory, what.lattice):
            self._transfer(memory, sram.buffer, dram, rectangle)

    def _padded(self, op: te.CopyOp, sram: Sram, dram: Dram) -> None:
        """A load that fills a window with a border of zeros."""
        window = self._outer(self._prepared.copy(op).window, sram.lanes)
        whole = [(0, size) for size in sram.lanes]
        parts = op.padded([*sram.window, *whole])
        lanes = [te.Padded(*item, 0, 0) for item in whole]
        if clamp(window, sram.shape) != sram.window or parts[-te.LANES :] != lanes:
            self._fail("a load with pads fills the whole of its buffer, with whole elements")
        largest = self._target.largest_load(sram.memory)
        try:
            transfers = padded_rectangles(parts[: -te.LANES], dram.strides, largest)
        except PaddingError as error:
            self._fail(f"a load with pads: {error}", "Choose other tiles, or leave te.pad out.")
        for transfer in transfers:
            self._transfer(sram.memory, sram.buffer, dram, transfer)

    def _rectangles(
        self,
        dram: Dram,
        sram: Sram,
        window: tuple[tuple[int, int], ...],
        memory: Memory,
        lattice: Lattice | None,
    ) -> list[Rectangle]:
        starts, extents = zip(*window, strict=True) if window else ((), ())
        largest = self._target.largest_load(memory)
        if dram.packed is None or 0 in extents:
            return rectangles(starts, extents, dram.strides, sram.window, largest, lattice)
        if window not in dram.packed:
            self._fail(f"a copy of {window}, which is no box of the packed buffer {dram.name}")
        return box_rectangles(dram.packed[window], starts, extents, sram.window, largest)

    def _stored(self, op: te.CopyOp, sram: Sram) -> Memory:
        """The memory that a STORE names."""
        if sram.memory is not Memory.ACC or te.shaped(op.target).element_type != i8:
            self._fail(
                f"{op.source.type} cannot be stored as {op.target.type}",
                "Only accumulators are stored, and only their low 8 bits.",
            )
        return Memory.OUT

    def _transfer(self, memory: Memory, sram: SSAValue, dram: Dram, part: Rectangle) -> None:
        properties: dict[str, Attribute] = {
            "sram_base": vta.integer(part.sram),
            "buffer": vta.symbol(dram.name),
            "dram_base": vta.integer(dram.offset + part.dram),
            "size": vta.integers(part.y, part.x),
            "stride": vta.integer(part.stride),
        }
        op: vta.InstructionOp
        if memory is Memory.OUT:
            op = vta.StoreOp.create(operands=[sram], properties=properties, location=self._location)
        else:
            properties["memory"] = vta.memory_attr(memory)
            if any(part.pads):
                properties["pads"] = vta.integers(*part.pads)
            op = vta.LoadOp.create(operands=[sram], properties=properties, location=self._location)
        self._out.append(op)

    def _single(self, op: te.InvokeOp) -> None:
        self._invoke([], op)

    def _invoke(self, loops: Sequence[te.ForOp], op: te.InvokeOp) -> None:
        invocations = self._invocations
        if op not in invocations:
            name = op.intrinsic.lowering
            if name not in self._lowerings:
                self._fail(
                    f'{op.callee} lowers "{name}", which nothing here makes instructions of',
                    "Add a function of that name to the lowerings of the context.",
                )
            invocations[op] = Invocation(
                op, loops, self._target, self._prepared, self._lowerings[name]
            )
        invocation = invocations[op]
        operands = []
        for value in invocation.buffers:
            operand = self._storage[value]
            if not isinstance(operand, Sram):
                self._fail(f"{op.callee} works on a buffer in DRAM")
            operands.append(operand)
        try:
            table = None if invocation.table is None else self._tables[invocation.table]
            instructions = invocation.instructions(self._numbers, operands, table)
        except (OutsideWindowError, IndexError, ValueError) as error:
            raise CompileError(Problem(self._where, f"stage {op.label.data}: {error}")) from None
        buffers = [operand.buffer for operand in operands]
        for kind, properties, used in instructions:
            chosen = [buffers[number] for number in used]
            self._out.append(
                kind.create(operands=chosen, properties=properties, location=self._location)
            )

    def _nothing(self, op: Operation) -> None:
        """The kernel's end."""


_HANDLERS = cast(
    Mapping[type[Operation], Callable[[KernelRun, Operation], None]],
    {
        te.ForOp: KernelRun._for,
        te.SpanOp: KernelRun._span,
        te.HullOp: KernelRun._hull,
        te.UnfuseOp: KernelRun._unfuse,
        te.AllocOp: KernelRun._alloc,
        te.CopyOp: KernelRun._copy,
        te.InvokeOp: KernelRun._single,
        te.YieldOp: KernelRun._nothing,
    },
)
