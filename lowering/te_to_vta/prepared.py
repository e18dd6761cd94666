"""What a kernel's operations say, worked out once: loops run thousands of times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from xdsl.ir import Block, Operation, SSAValue

from vtac.dialects import te
from vtac.dialects.errors import CompileError, Problem

from .lattice import Lattice, Line, extents_on_lattice, lattice_of
from .storage import outer_shape, shape_of

Numbers: TypeAlias = Mapping[SSAValue, int]
"""What the values of a kernel are at the moment."""

Loops: TypeAlias = tuple[list[te.ForOp], te.InvokeOp]
"""The loops of an instruction, outermost first, and what they run."""


class Interval(NamedTuple):
    """A range of te: its two values, or its two numbers."""

    values: tuple[SSAValue, SSAValue] | None
    bounds: tuple[int, int]


def interval(item: te.Range) -> Interval:
    """A range, in the form that is quick to evaluate."""
    return Interval(item.values, item.bounds or (0, 0))


def evaluate(item: Interval, numbers: Numbers) -> tuple[int, int]:
    """Start and length."""
    if item.values is None:
        return item.bounds
    start, length = item.values
    return numbers[start], numbers[length]


class Window(NamedTuple):
    """The ranges of a window: those that are numbers, and the dimensions of those that are not."""

    known: list[tuple[int, int]]
    moving: list[tuple[int, SSAValue, SSAValue]]

    @staticmethod
    def of(ranges: Sequence[te.Range]) -> "Window":
        """A window of te, in the form that is quick to evaluate."""
        values = [(dim, item.values) for dim, item in enumerate(ranges)]
        moving = [(dim, *pair) for dim, pair in values if pair is not None]
        return Window([item.bounds or (0, 0) for item in ranges], moving)

    def at(self, numbers: Numbers) -> list[tuple[int, int]]:
        """Start and length of each range."""
        ranges = list(self.known)
        for dim, start, length in self.moving:
            ranges[dim] = numbers[start], numbers[length]
        return ranges


class Alloc(NamedTuple):
    """A ``te.alloc``: shape and held are of its tensor before the lanes, and of what is kept."""

    buffer: SSAValue
    name: str | None
    slots: int
    scope: te.Scope
    shape: tuple[int, ...]
    held: tuple[int, ...]
    lanes: tuple[int, ...]
    window: Window
    lattice: Lattice | None


class Copy(NamedTuple):
    """A ``te.copy``. lattice: that of the scratchpad's buffer."""

    source: SSAValue
    target: SSAValue
    window: Window
    lattice: Lattice | None
    has_pads: bool


@dataclass
class Prepared:
    """The operations of kernels, by operation."""

    _nests: dict[te.ForOp, Loops] = field(default_factory=dict)
    _blocks: dict[Block, list[Operation]] = field(default_factory=dict)
    _overs: dict[te.ForOp, Interval] = field(default_factory=dict)
    _tiles: dict[tuple[te.ForOp, int, int], list[tuple[int, int]]] = field(default_factory=dict)
    _allocs: dict[te.AllocOp, Alloc] = field(default_factory=dict)
    _copies: dict[te.CopyOp, Copy] = field(default_factory=dict)
    _lattices: dict[SSAValue, Lattice | None] = field(default_factory=dict)

    def nest(self, outermost: te.ForOp, where: str) -> Loops:
        """The loops of an instruction."""
        if outermost not in self._nests:
            self._nests[outermost] = _hardware_nest(outermost, where)
        return self._nests[outermost]

    def block(self, block: Block) -> list[Operation]:
        """The operations of a block."""
        if block not in self._blocks:
            self._blocks[block] = list(block.ops)
        return self._blocks[block]

    def tiles(self, op: te.ForOp, numbers: Numbers) -> list[tuple[int, int]]:
        """Start and length of each tile of a loop."""
        if op not in self._overs:
            self._overs[op] = interval(op.over)
        start, length = evaluate(self._overs[op], numbers)
        if (op, start, length) not in self._tiles:
            self._tiles[op, start, length] = op.tiles(start, length)
        return self._tiles[op, start, length]

    def alloc(self, op: te.AllocOp, where: str) -> Alloc:
        """What an allocation says, its window with the lanes."""
        if op not in self._allocs:
            buffer, slots = op.buffer, op.slots.value.data
            shape, lanes = outer_shape(buffer.type, where), shape_of(buffer.type)[-te.LANES :]
            scope, window = te.scope_of(buffer), Window.of(op.window)
            lattice = None if scope is te.Scope.DRAM else self.lattice(buffer)
            held = shape if lattice is None else extents_on_lattice(shape, lattice)
            self._allocs[op] = Alloc(
                buffer, buffer.name_hint, slots, scope, shape, held, lanes, window, lattice
            )
        return self._allocs[op]

    def copy(self, op: te.CopyOp) -> Copy:
        """What a copy says, its window with the lanes."""
        if op not in self._copies:
            source, target = op.source, op.target
            sram = source if te.scope_of(target) is te.Scope.DRAM else target
            window = Window.of(op.window)
            self._copies[op] = Copy(source, target, window, self.lattice(sram), op.pads is not None)
        return self._copies[op]

    def lattice(self, buffer: SSAValue) -> Lattice | None:
        """What of a buffer's window is ever touched; None if that may be all of it."""
        if buffer not in self._lattices:
            lattice = lattice_of(buffer)
            is_whole = all(line == Line() for line in lattice)
            self._lattices[buffer] = None if is_whole else lattice
        return self._lattices[buffer]


def _hardware_nest(outermost: te.ForOp, where: str) -> Loops:
    """The loops of an instruction and what they run."""
    loops = [outermost]
    while True:
        ops = list(loops[-1].body.block.ops)
        if len(ops) == 1 and isinstance(ops[0], te.InvokeOp):
            return loops, ops[0]
        if len(ops) != 1 or not isinstance(ops[0], te.ForOp) or ops[0].hardware is None:
            raise CompileError(
                Problem(where, "the loops of an instruction must stand directly around te.invoke")
            )
        loops.append(ops[0])
