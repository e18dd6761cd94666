"""One ``te.invoke`` with its hardware loops, prepared once and then run for every tile.

The hardware loops around an invocation are one instruction (a few, where taps are left out, fields
are too narrow, or the immediate changes: `immediates`). What depends on the kernel alone is worked
out once; for a tile only the numbers are filled in, and tiles that look alike relative to their
windows share the result.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from xdsl.ir import SSAValue

from vtac.dialects import te
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Target

from .compute import Nest, OutsideWindowError, depends_on_neighbour, plan
from .immediates import Part, Table, parts_of
from .instructions import Emitted, Lowering
from .lattice import Lattice, Line
from .prepared import Numbers, Prepared, evaluate, interval
from .storage import Sram
from .taps import Axis, Place

ANYWHERE = 1 << 40
"""A bound that no index reaches."""


class _Run(NamedTuple):
    """Values that a chain of hardware loops gives its innermost start."""

    first: int
    step: int
    iterations: int


class _Subscript(NamedTuple):
    """One dimension of an access: hardware axes and known indices, each with a coefficient."""

    axes: tuple[tuple[int, int], ...]
    known: tuple[tuple[SSAValue, int], ...]
    constant: int

    def on_line(self, line: Line) -> "_Subscript":
        """The same in the coordinates of the line that it never leaves."""
        return _Subscript(
            tuple((axis, by // line.step) for axis, by in self.axes),
            tuple((value, by // line.step) for value, by in self.known),
            (self.constant - line.first) // line.step,
        )


class _Extent(NamedTuple):
    """How one dimension moves: a step an axis, and how far it gets below and above its base."""

    steps: tuple[int, ...]
    below: int
    above: int


class Invocation:
    """A ``te.invoke`` and the hardware loops around it, outermost first."""

    def __init__(
        self,
        op: te.InvokeOp,
        loops: Sequence[te.ForOp],
        target: Target,
        prepared: Prepared,
        lowering: Lowering,
    ):
        self.op = op
        self._lowering = lowering
        self._target = target
        self._chains = _chains(loops)
        self._overs = [interval(chain[0].over) for chain in self._chains]
        self._steps = [chain[0].tile_step if len(chain) == 1 else None for chain in self._chains]
        axis_of: dict[SSAValue, int] = {
            _start(chain[-1]): axis for axis, chain in enumerate(self._chains)
        }
        self._reduce = [chain[-1].is_reduce is not None for chain in self._chains]
        inner: set[SSAValue] = {value for loop in loops for value in loop.body.block.args}
        accesses = [op.write, *op.reads]
        self.buffers = [access.buffer for access in accesses]

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
        intrinsic = op.intrinsic
        self._reads_source_as_immediate = intrinsic.instruction is te.Instruction.COPY
        self._is_elementwise = intrinsic.instruction is not te.Instruction.RESET and all(
            lanes.scope is te.Scope.ACC for lanes in intrinsic.lanes
        )
        self._cache: dict[object, list[Emitted]] = {}
        self._extents: dict[object, list[list[_Extent]]] = {}

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
            tuple((value, by) for value, by in terms if value not in axis_of),
            constant,
        )

    def instructions(
        self, numbers: Numbers, operands: Sequence[Sram], table: Table | None = None
    ) -> list[Emitted]:
        """The instructions for one tile, indices relative to the operands' buffers.

        table: the values behind `table`, if that is not None. Raises `OutsideWindowError` where an
        operand's window lacks what the invocation touches, `ValueError` for a table's value that is
        no immediate of the intrinsic.
        """
        runs = []
        for chain, item, step in zip(self._chains, self._overs, self._steps, strict=True):
            over = evaluate(item, numbers)
            if step is not None:
                runs.append(_Run(over[0], step, -(-over[1] // step)))
            else:
                runs.append(_run(chain, over, self.op))
        counts = tuple([run.iterations for run in runs])
        if 0 in counts:
            return []
        if table is None:
            whole = Part((0,) * len(counts), counts, self._immediate)
            return self._part(whole, runs, numbers, operands)
        parts = parts_of(table, self._rows(numbers, runs), counts, self.op.intrinsic)
        return [
            instruction
            for part in parts
            for instruction in self._part(part, runs, numbers, operands)
        ]

    def _rows(self, numbers: Numbers, runs: Sequence[_Run]) -> list[tuple[int, dict[int, int]]]:
        """The table's subscripts: their value at the first iteration, and the steps by axis."""
        rows = []
        for subscript in self._entry:
            first = subscript.constant
            first += sum(by * numbers[value] for value, by in subscript.known)
            first += sum(by * runs[axis].first for axis, by in subscript.axes)
            rows.append((first, {axis: by * runs[axis].step for axis, by in subscript.axes}))
        return rows

    def _part(
        self, part: Part, runs: Sequence[_Run], numbers: Numbers, operands: Sequence[Sram]
    ) -> list[Emitted]:
        """The instructions for a box of iterations with one immediate (or none)."""
        counts = part.counts
        extents = self._extents_of(counts, tuple([run.step for run in runs]))
        firsts = [run.first + run.step * at for run, at in zip(runs, part.start, strict=True)]
        places = tuple(
            [
                _places(subscripts, operand, extent, firsts, numbers)
                for subscripts, operand, extent in zip(
                    self._subscripts, operands, extents, strict=True
                )
            ]
        )
        in_place = operands[0].buffer is operands[-1].buffer
        key = (counts, places, in_place, part.immediate)
        if key not in self._cache:
            rows = [[Place(*place) for place in row] for row in places]
            self._cache[key] = self._plan(counts, rows, operands, part.immediate)
        return self._cache[key]

    def _extents_of(self, counts: tuple[int, ...], steps: tuple[int, ...]) -> list[list[_Extent]]:
        """How each dimension of each operand moves in loops of these counts and steps."""
        if (counts, steps) not in self._extents:
            self._extents[counts, steps] = [
                [_extent(subscript, counts, steps) for subscript in subscripts]
                for subscripts in self._subscripts
            ]
        return self._extents[counts, steps]

    def _plan(
        self,
        counts: Sequence[int],
        places: Sequence[Sequence[Place]],
        operands: Sequence[Sram],
        immediate: int | None,
    ) -> list[Emitted]:
        axes = [Axis(count, flag) for count, flag in zip(counts, self._reduce, strict=True)]
        for place in places[0]:
            low, high = place.reach([(0, axis.count - 1) for axis in axes])
            if low < 0 or high >= place.length:
                raise OutsideWindowError(f"it writes {low} to {high} of {place.length} elements")
        by_immediate = immediate is not None or self._reads_source_as_immediate
        refuses = self._refuses(operands, by_immediate)
        nests = plan(axes, places, self._target.uop_entries, refuses)
        return [emitted for nest in nests for emitted in self._lowering(nest, immediate)]

    def _refuses(self, operands: Sequence[Sram], immediate: bool) -> Callable[[Nest], bool]:
        """What an order of micro-ops must not do on the target."""
        if not self._is_elementwise:
            return lambda nest: False
        in_place = operands[0].buffer is operands[-1].buffer

        def refuses(nest: Nest) -> bool:
            if not in_place:
                return False
            if not immediate:
                self._check_overlap(nest)
            return not self._target.alu_bypass and depends_on_neighbour(nest, immediate)

        return refuses

    def _check_overlap(self, nest: Nest) -> None:
        rows = nest.sequence()
        if (rows[:, 0] != rows[:, 1]).any() and np.isin(rows[:, 1], rows[:, 0]).any():
            raise CompileError(
                Problem(self.op.label.data, "an operation reads elements of its own result")
            )


def _on_lattice(subscripts: list[_Subscript], lattice: Lattice | None) -> list[_Subscript]:
    if lattice is None:
        return subscripts
    return [s.on_line(line) for s, line in zip(subscripts, lattice, strict=True)]


def _extent(subscript: _Subscript, counts: Sequence[int], steps: Sequence[int]) -> _Extent:
    by = [0] * len(counts)
    for axis, coefficient in subscript.axes:
        by[axis] += coefficient * steps[axis]
    ends = [step * (count - 1) for step, count in zip(by, counts, strict=True)]
    return _Extent(tuple(by), sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends))


def _places(
    subscripts: Sequence[_Subscript],
    operand: Sram,
    extents: Sequence[_Extent],
    firsts: Sequence[int],
    numbers: Numbers,
) -> tuple[tuple[int, tuple[int, ...], int, int, int], ...]:
    """The places of an operand's element, as the fields of `Place`.

    The tensor's bounds count only where they are reached, so that tiles inside look alike.
    """
    places = []
    for (axes, known, at), (start, length), size, (steps, below, above) in zip(
        subscripts, operand.window, operand.shape, extents, strict=True
    ):
        for value, by in known:
            at += by * numbers[value]
        for axis, by in axes:
            at += by * firsts[axis]
        if at + below >= 0 and at + above < size:
            places.append((at - start, steps, length, -ANYWHERE, ANYWHERE))
        else:
            places.append((at - start, steps, length, -start, size - start))
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
