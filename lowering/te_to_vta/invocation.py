"""One ``te.invoke`` with its hardware loops, prepared once and then run for every tile.

The hardware loops around an invocation are one instruction (a few, where taps are left out, fields
are too narrow, or the immediate changes: `immediates`). What depends on the kernel alone is worked
out once; for a tile only the numbers are filled in, and tiles that look alike relative to their
windows share the result.
"""

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from xdsl.ir import SSAValue

from vtac.dialects import te
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Target

from .compute import Neighbours, OutsideWindowError, plan
from .immediates import Part, Table, parts_of
from .instructions import Emitted, Lowering
from .lattice import ElementLine, Lattice
from .prepared import Numbers, PreparedKernel, PreparedRange
from .storage import Sram
from .taps import ElementDimension, TapLoop

ANYWHERE = 1 << 40
"""A bound that no index reaches."""


class _Run(NamedTuple):
    """Values that a chain of hardware loops gives its innermost start."""

    first: int
    step: int
    iterations: int


class _Subscript(NamedTuple):
    """One dimension of an access: hardware axes and known values, each with a coefficient.

    Values are named by their places.
    """

    axes: tuple[tuple[int, int], ...]
    known: tuple[tuple[int, int], ...]
    constant: int

    def on_line(self, line: ElementLine) -> "_Subscript":
        """The same in the coordinates of the line that it never leaves."""
        return _Subscript(
            tuple((axis, by // line.step) for axis, by in self.axes),
            tuple((place, by // line.step) for place, by in self.known),
            (self.constant - line.first) // line.step,
        )


class _Extent(NamedTuple):
    """How one dimension moves: one step per axis, and how far it gets below and above its base."""

    steps: tuple[int, ...]
    below: int
    above: int


Relative: TypeAlias = tuple[int, int, int, int]
"""An `ElementDimension` without its steps: base, length, low and high."""


class Invocation:
    """A ``te.invoke`` and the hardware loops around it, outermost first.

    buffers: places of the operands' buffers, destination first. table: the kernel's parameter from
    which immediates come, if any.
    """

    def __init__(
        self,
        op: te.InvokeOp,
        loops: Sequence[te.ForOp],
        target: Target,
        prepared: PreparedKernel,
        lowering: Lowering,
    ):
        self.op = op
        self._lowering = lowering
        self._target = target
        self._places = prepared.places
        self._chains = _chains(loops)
        self._overs = [PreparedRange.of(chain[0].over, self._places) for chain in self._chains]
        self._steps = [chain[0].tile_step if len(chain) == 1 else None for chain in self._chains]
        axis_of: dict[SSAValue, int] = {
            _start(chain[-1]): axis for axis, chain in enumerate(self._chains)
        }
        self._reduce = [chain[-1].is_reduce is not None for chain in self._chains]
        inner: set[SSAValue] = {value for loop in loops for value in loop.body.block.args}
        accesses = [op.write, *op.reads]
        self.buffers = [self._places[access.buffer] for access in accesses]

        def split(access: te.Access) -> list[_Subscript]:
            return [self._split(*subscript, axis_of, inner) for subscript in access.subscripts]

        self._subscripts = [
            _on_lattice(split(access), prepared.lattice(access.buffer)) for access in accesses
        ]
        constant = op.constant
        self.table: SSAValue | None = None
        if isinstance(constant, te.Access):
            self.table = constant.buffer
            self._entry = split(constant)
        else:
            self._immediate = constant
        intrinsic = self._intrinsic = op.intrinsic
        self._reads_source_as_immediate = intrinsic.instruction is te.Instruction.COPY
        self._is_elementwise = intrinsic.instruction is not te.Instruction.RESET and all(
            lanes.scope is te.Scope.ACC for lanes in intrinsic.lanes
        )
        self._found: dict[object, Sequence[Emitted]] = {}
        self._extents: dict[object, list[list[_Extent]]] = {}
        self._parts: dict[object, tuple[Table, list[Part]]] = {}

    def _split(
        self,
        terms: Sequence[tuple[SSAValue, int]],
        constant: int,
        axis_of: Mapping[SSAValue, int],
        inner: set[SSAValue],
    ) -> _Subscript:
        if any(value in inner and value not in axis_of for value, _ in terms):
            raise CompileError(
                Problem(
                    self.op.label.data,
                    "an access of an instruction uses a loop that is not the innermost of its axis",
                )
            )
        return _Subscript(
            tuple((axis_of[value], by) for value, by in terms if value in axis_of),
            tuple((self._places[value], by) for value, by in terms if value not in axis_of),
            constant,
        )

    def instructions(
        self, numbers: Numbers, operands: Sequence[Sram], table: Table | None = None
    ) -> Sequence[Emitted]:
        """The instructions for one tile, indices relative to the operands' buffers.

        table: the values behind `table`, if that is not None. Raises `OutsideWindowError` where an
        operand's window lacks what the invocation touches, `ValueError` for a table's value that is
        no immediate of the intrinsic.
        """
        runs = []
        for chain, item, step in zip(self._chains, self._overs, self._steps, strict=True):
            over = item.at(numbers)
            if step is not None:
                runs.append(_Run(over[0], step, -(-over[1] // step)))
            else:
                runs.append(_run(chain, over, self.op))
        counts = tuple([run.iterations for run in runs])
        if 0 in counts:
            return ()
        if table is None:
            whole = Part((0,) * len(counts), counts, self._immediate)
            return self._part(whole, runs, numbers, operands)
        return [
            instruction
            for part in self._parts_of(table, numbers, runs, counts)
            for instruction in self._part(part, runs, numbers, operands)
        ]

    def _parts_of(
        self, table: Table, numbers: Numbers, runs: Sequence[_Run], counts: tuple[int, ...]
    ) -> list[Part]:
        """The boxes of iterations with one immediate each."""
        rows = self._rows(numbers, runs)
        # Other calls of the kernel have other tables; those seen are kept, so that ids stay theirs.
        key = (id(table), counts, tuple([(first, *steps.items()) for first, steps in rows]))
        if key not in self._parts:
            self._parts[key] = table, parts_of(table, rows, counts, self._intrinsic)
        return self._parts[key][1]

    def _rows(self, numbers: Numbers, runs: Sequence[_Run]) -> list[tuple[int, dict[int, int]]]:
        """The table's subscripts: their value at the first iteration, and the steps by axis."""
        rows = []
        for subscript in self._entry:
            first = subscript.constant
            first += sum(by * numbers[place] for place, by in subscript.known)
            first += sum(by * runs[axis].first for axis, by in subscript.axes)
            rows.append((first, {axis: by * runs[axis].step for axis, by in subscript.axes}))
        return rows

    def _part(
        self, part: Part, runs: Sequence[_Run], numbers: Numbers, operands: Sequence[Sram]
    ) -> Sequence[Emitted]:
        """The instructions for a box of iterations with one immediate (or none)."""
        counts = part.counts
        steps = tuple([run.step for run in runs])
        extents = self._extents.get((counts, steps)) or self._extents_of(counts, steps)
        firsts = [run.first + run.step * at for run, at in zip(runs, part.start, strict=True)]
        relative = tuple(
            [
                _relative(subscripts, operand, extent, firsts, numbers)
                for subscripts, operand, extent in zip(
                    self._subscripts, operands, extents, strict=True
                )
            ]
        )
        in_place = operands[0].buffer is operands[-1].buffer
        if self._changes_nothing(part.immediate, in_place and relative[0] == relative[-1]):
            return ()
        orders = tuple([operand.order for operand in operands])
        key = (counts, steps, relative, orders, in_place, part.immediate)
        found = self._found.get(key)
        if found is None:
            places = tuple(
                _in_order(
                    [
                        ElementDimension(base, extent.steps, length, low, high)
                        for (base, length, low, high), extent in zip(row, dims, strict=True)
                    ],
                    order,
                )
                for row, dims, order in zip(relative, extents, orders, strict=True)
            )
            found = self._found[key] = self._emitted(counts, places, in_place, part.immediate)
        return found

    def _changes_nothing(self, immediate: int | None, is_same_element: bool) -> bool:
        """Whether an instruction leaves the accumulators that it reads as they are.

        Tables have such entries where blocks of channels are not shifted.
        """
        is_shift = self._intrinsic.instruction is te.Instruction.SHR
        return is_shift and immediate == 0 and is_same_element and self.table is not None

    def _extents_of(self, counts: tuple[int, ...], steps: tuple[int, ...]) -> list[list[_Extent]]:
        """How each dimension of each operand moves in loops of these counts and steps."""
        extents = self._extents[counts, steps] = [
            [_extent(subscript, counts, steps) for subscript in subscripts]
            for subscripts in self._subscripts
        ]
        return extents

    def _emitted(
        self,
        counts: Sequence[int],
        places: tuple[tuple[ElementDimension, ...], ...],
        in_place: bool,
        immediate: int | None,
    ) -> Sequence[Emitted]:
        axes = tuple(TapLoop(count, flag) for count, flag in zip(counts, self._reduce, strict=True))
        by_immediate = immediate is not None or self._reads_source_as_immediate
        rule = Neighbours(in_place and self._is_elementwise, by_immediate, self._target.alu_bypass)
        entries = self._target.uop_entries
        return _instructions(self._lowering, axes, places, entries, rule, immediate)


@functools.lru_cache(maxsize=1 << 14)
def _instructions(
    lowering: Lowering,
    axes: tuple[TapLoop, ...],
    places: tuple[tuple[ElementDimension, ...], ...],
    entries: int,
    rule: Neighbours,
    immediate: int | None,
) -> Sequence[Emitted]:
    """The instructions of an invocation: equal tiles of other kernels and schedules share them."""
    for place in places[0]:
        low, high = place.reach([(0, axis.count - 1) for axis in axes])
        if low < 0 or high >= place.length:
            raise OutsideWindowError(f"it writes {low} to {high} of {place.length} elements")
    nests = plan(axes, places, entries, rule.refuses)
    return tuple(emitted for nest in nests for emitted in lowering(nest, immediate))


def _on_lattice(subscripts: list[_Subscript], lattice: Lattice | None) -> list[_Subscript]:
    if lattice is None:
        return subscripts
    return [s.on_line(line) for s, line in zip(subscripts, lattice, strict=True)]


def _in_order(
    dims: Sequence[ElementDimension], order: Sequence[int] | None
) -> tuple[ElementDimension, ...]:
    """The dimensions of a place from the outermost of its buffer to the innermost."""
    return tuple(dims) if order is None else tuple([dims[dim] for dim in order])


def _extent(subscript: _Subscript, counts: Sequence[int], steps: Sequence[int]) -> _Extent:
    by = [0] * len(counts)
    for axis, coefficient in subscript.axes:
        by[axis] += coefficient * steps[axis]
    ends = [step * (count - 1) for step, count in zip(by, counts, strict=True)]
    return _Extent(tuple(by), sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends))


def _relative(
    subscripts: Sequence[_Subscript],
    operand: Sram,
    extents: Sequence[_Extent],
    firsts: Sequence[int],
    numbers: Numbers,
) -> tuple[Relative, ...]:
    """The place of an operand's element in its window.

    The tensor's bounds count only where they are reached, so that tiles inside look alike.
    """
    places = []
    for (axes, known, at), (start, length), size, (_, below, above) in zip(
        subscripts, operand.window, operand.shape, extents, strict=True
    ):
        for place, by in known:
            at += by * numbers[place]
        for axis, by in axes:
            at += by * firsts[axis]
        if at + below >= 0 and at + above < size:
            places.append((at - start, length, -ANYWHERE, ANYWHERE))
        else:
            places.append((at - start, length, -start, size - start))
    return tuple(places)


def _chains(loops: Sequence[te.ForOp]) -> list[list[te.ForOp]]:
    """The loops by axis: a loop over the tile of another one continues its chain."""
    chains: list[list[te.ForOp]] = []
    for loop in loops:
        values = loop.over.values
        parent = [c for c in chains if values is not None and values[0] is _start(c[-1])]
        if parent:
            parent[0].append(loop)
        else:
            chains.append([loop])
    return chains


def _start(loop: te.ForOp) -> SSAValue:
    return loop.body.block.args[0]


def _run(chain: Sequence[te.ForOp], over: tuple[int, int], op: te.InvokeOp) -> _Run:
    """The starts of the innermost loop of a chain, which must advance evenly."""
    tiles = [over]
    for loop in chain:
        tiles = [tile for outer in tiles for tile in loop.tiles(*outer)]
    starts = [start for start, _ in tiles]
    if len(starts) < 2:
        return _Run(starts[0] if starts else 0, 1, len(starts))
    step = starts[1] - starts[0]
    if any(b - a != step for a, b in itertools.pairwise(starts)):
        raise CompileError(
            Problem(op.label.data, f"the starts {starts} of a hardware loop are not even")
        )
    return _Run(starts[0], step, len(starts))
