"""The operations of a kernel, prepared for execution, since loops run thousands of times.

The IR of an operation is read once. Values of the kernel have places, numbered from 0, so that the
state of a run is a list.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from xdsl.dialects.builtin import i8
from xdsl.ir import Block, Operation, SSAValue

from vtac.dialects import te
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Target

from .lattice import ElementLine, Lattice, extents_on_lattice, lattice_of
from .storage import clamp, outer_shape, shape_of
from .transfers import Box

Numbers: TypeAlias = list[int]
"""The integer that each value of a kernel has at the moment, by the value's place."""

Places: TypeAlias = Mapping[SSAValue, int]
"""The place of each value of a kernel."""


class PreparedRange(NamedTuple):
    """A range of te: the places of its two values, or None and its two numbers."""

    values: tuple[int, int] | None
    bounds: tuple[int, int]

    @staticmethod
    def of(item: te.Range, places: Places) -> "PreparedRange":
        """The range, prepared for evaluation."""
        if item.values is None:
            return PreparedRange(None, item.bounds or (0, 0))
        start, length = item.values
        return PreparedRange((places[start], places[length]), (0, 0))

    def at(self, numbers: Numbers) -> tuple[int, int]:
        """Start and length."""
        if self.values is None:
            return self.bounds
        start, length = self.values
        return numbers[start], numbers[length]


class SymbolicBox(NamedTuple):
    """A box of a tensor whose ranges depend on loops, cut to the tensor's shape.

    known: the ranges that are numbers, (0, 0) for others. moving: of each other range the
    dimension, the places of start and length, and the tensor's extent.
    """

    known: Box
    moving: tuple[tuple[int, int, int, int], ...]

    @staticmethod
    def of(ranges: Sequence[te.Range], shape: Sequence[int], places: Places) -> "SymbolicBox":
        """The box of these ranges, one per dimension."""
        moving = tuple(
            (dim, places[item.values[0]], places[item.values[1]], shape[dim])
            for dim, item in enumerate(ranges)
            if item.values is not None
        )
        return SymbolicBox(clamp([item.bounds or (0, 0) for item in ranges], shape), moving)

    def at(self, numbers: Numbers) -> Box:
        """Start and length of each range."""
        if not self.moving:
            return self.known
        box = list(self.known)
        for dim, at, extent, size in self.moving:
            start, length = numbers[at], numbers[extent]
            if start < 0 or length < 0 or start + length > size:
                first, end = max(start, 0), min(start + length, size)
                start, length = first, max(end - first, 0)
            box[dim] = start, length
        return tuple(box)


@dataclass(slots=True)
class PreparedLoop:
    """A loop that is not part of an instruction."""

    op: te.ForOp
    over: PreparedRange
    start: int
    length: int
    body: Block
    _tiles: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)

    def tiles(self, numbers: Numbers) -> list[tuple[int, int]]:
        """Start and length of each tile."""
        over = self.over.at(numbers)
        if over not in self._tiles:
            self._tiles[over] = self.op.tiles(*over)
        return self._tiles[over]


class PreparedSpan(NamedTuple):
    """A ``te.span``: terms are coefficient, place of the start, and place of the length."""

    op: te.SpanOp
    terms: tuple[tuple[int, int, int], ...]
    start: int
    length: int

    def run(self, numbers: Numbers) -> None:
        """Set start and length."""
        ranges = [(numbers[start], numbers[length]) for _, start, length in self.terms]
        numbers[self.start], numbers[self.length] = self.op.evaluate(ranges)


class Hull(NamedTuple):
    """A ``te.hull``."""

    op: te.HullOp
    ranges: tuple[PreparedRange, ...]
    start: int
    length: int

    def run(self, numbers: Numbers) -> None:
        """Set start and length."""
        ranges = [item.at(numbers) for item in self.ranges]
        numbers[self.start], numbers[self.length] = self.op.evaluate(ranges)


class Unfuse(NamedTuple):
    """A ``te.unfuse``: places of its number, its count, and its results."""

    op: te.UnfuseOp
    pair: tuple[int, int]
    results: tuple[int, ...]

    def run(self, numbers: Numbers) -> None:
        """Set start and length of both axes."""
        number, count = self.pair
        outer, inner = self.op.evaluate(numbers[number], numbers[count])
        for place, value in zip(self.results, (*outer, *inner), strict=True):
            numbers[place] = value


class LaneCheck(NamedTuple):
    """The ranges of the lanes of a window, which must be whole."""

    ranges: tuple[PreparedRange, ...]
    lanes: tuple[int, ...]

    def failure(self, numbers: Numbers) -> str | None:
        """The fault of the lanes at the moment; None if they are whole."""
        ranges = [item.at(numbers) for item in self.ranges]
        if ranges == [(0, size) for size in self.lanes]:
            return None
        return f"the lanes {ranges} of a window cut the lanes {list(self.lanes)} of an element"


class Alloc(NamedTuple):
    """A ``te.alloc``. held: the shape, without lanes, of what its tensor has on the lattice."""

    op: te.AllocOp
    place: int
    name: str | None
    slots: int
    scope: te.Scope
    held: tuple[int, ...]
    lanes: tuple[int, ...]
    check: LaneCheck | None
    window: SymbolicBox
    lattice: Lattice | None


class PreparedCopy(NamedTuple):
    """A ``te.copy``.

    dram, sram: places of the buffers. window: what is copied, None where it is all that the
    scratchpad's buffer holds. lattice: that of the scratchpad's buffer. narrows: whether the target
    has 8 bits.
    """

    op: te.CopyOp
    dram: int
    sram: int
    is_store: bool
    check: LaneCheck | None
    window: SymbolicBox | None
    lattice: Lattice | None
    narrows: bool


class PreparedInvoke(NamedTuple):
    """A ``te.invoke`` and the loops of its instruction around it, outermost first."""

    op: te.InvokeOp
    loops: tuple[te.ForOp, ...]


class Unknown(NamedTuple):
    """An operation that cannot be run."""

    op: Operation


Step: TypeAlias = (
    PreparedLoop | PreparedSpan | Hull | Unfuse | Alloc | PreparedCopy | PreparedInvoke | Unknown
)
"""An operation prepared for execution."""


class PreparedKernel:
    """The operations of one kernel in loop form.

    target: decides which columns loads leave out. places: the place of each value.
    """

    def __init__(self, kernel: te.KernelOp, target: Target):
        self.kernel, self._target = kernel, target
        self.places: dict[SSAValue, int] = {}
        self._steps: dict[Block, list[Step]] = {}
        self._lattices: dict[SSAValue, Lattice | None] = {}
        self._number(kernel.body.block)

    def _number(self, block: Block) -> None:
        for value in block.args:
            self.places[value] = len(self.places)
        for op in block.ops:
            for value in op.results:
                self.places[value] = len(self.places)
            if isinstance(op, te.ForOp):
                self._number(op.body.block)

    def steps(self, block: Block, where: str) -> list[Step]:
        """The operations of a block. where: what a refusal is about."""
        if block not in self._steps:
            steps = [self._step(op, where) for op in block.ops if not isinstance(op, te.YieldOp)]
            self._steps[block] = steps
        return self._steps[block]

    def _step(self, op: Operation, where: str) -> Step:
        at = self.places
        match op:
            case te.ForOp() if op.hardware is not None:
                return _instruction(op, where)
            case te.ForOp():
                start, length = op.body.block.args
                return PreparedLoop(
                    op, PreparedRange.of(op.over, at), at[start], at[length], op.body.block
                )
            case te.SpanOp():
                terms = tuple((by, at[start], at[length]) for by, start, length in op.terms)
                return PreparedSpan(op, terms, at[op.start], at[op.length])
            case te.HullOp():
                ranges = tuple(PreparedRange.of(item, at) for item in op.ranges)
                return Hull(op, ranges, at[op.start], at[op.length])
            case te.UnfuseOp():
                results = tuple(at[result] for result in op.results)
                return Unfuse(op, (at[op.number], at[op.count]), results)
            case te.AllocOp():
                return self._alloc(op, where)
            case te.CopyOp():
                return self._copy(op, where)
            case te.InvokeOp():
                return PreparedInvoke(op, ())
            case _:
                return Unknown(op)

    def _alloc(self, op: te.AllocOp, where: str) -> Alloc:
        buffer, window = op.buffer, op.window
        shape, lanes = outer_shape(buffer.type, where), shape_of(buffer.type)[-te.LANES :]
        scope = te.scope_of(buffer)
        lattice = None if scope is te.Scope.DRAM else self.lattice(buffer)
        held = shape if lattice is None else extents_on_lattice(shape, lattice)
        box = SymbolicBox.of(window[: -te.LANES], shape, self.places)
        check = self._check(window, lanes)
        place, name, slots = self.places[buffer], buffer.name_hint, op.slots.value.data
        return Alloc(op, place, name, slots, scope, held, lanes, check, box, lattice)

    def _copy(self, op: te.CopyOp, where: str) -> PreparedCopy:
        is_store = te.scope_of(op.target) is te.Scope.DRAM
        sram, dram = (op.source, op.target) if is_store else (op.target, op.source)
        shape, kept = outer_shape(dram.type, where), outer_shape(sram.type, where)
        window, owner = op.window, sram.owner
        is_held = isinstance(owner, te.AllocOp) and owner.window == window and shape == kept
        cut = SymbolicBox.of(window[: -te.LANES], kept if op.pads else shape, self.places)
        return PreparedCopy(
            op,
            self.places[dram],
            self.places[sram],
            is_store,
            None if is_held else self._check(window, shape_of(sram.type)[-te.LANES :]),
            None if is_held else cut,
            self.lattice(sram),
            te.shaped(op.target).element_type == i8,
        )

    def _check(self, window: Sequence[te.Range], lanes: tuple[int, ...]) -> LaneCheck | None:
        """The check to make once the window is known; None if its lanes are always whole."""
        ranges = tuple(PreparedRange.of(item, self.places) for item in window[-te.LANES :])
        if all(item == (None, (0, size)) for item, size in zip(ranges, lanes, strict=True)):
            return None
        return LaneCheck(ranges, lanes)

    def lattice(self, buffer: SSAValue) -> Lattice | None:
        """The part of a buffer's window that is ever touched; None if that may be all of it."""
        if buffer not in self._lattices:
            lattice = lattice_of(buffer, self._target)
            is_whole = all(line == ElementLine() for line in lattice)
            self._lattices[buffer] = None if is_whole else lattice
        return self._lattices[buffer]


def _instruction(outermost: te.ForOp, where: str) -> PreparedInvoke:
    """The loops of an instruction and what they run."""
    loops = [outermost]
    while True:
        ops = list(loops[-1].body.block.ops)
        if len(ops) == 1 and isinstance(ops[0], te.InvokeOp):
            return PreparedInvoke(ops[0], tuple(loops))
        if len(ops) != 1 or not isinstance(ops[0], te.ForOp) or ops[0].hardware is None:
            raise CompileError(
                Problem(where, "the loops of an instruction must stand directly around te.invoke")
            )
        loops.append(ops[0])
