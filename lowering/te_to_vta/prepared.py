"""What a kernel's operations say, worked out once: loops run thousands of times."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from xdsl.ir import Operation, SSAValue

from vtac.dialects import te
from vtac.dialects.errors import CompileError, Problem

from .lattice import Lattice, lattice_of
from .storage import LANES, outer_shape, shape_of

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


Buffer: TypeAlias = tuple[te.Scope, tuple[int, ...], tuple[int, ...]]
"""Scope of a buffer, shape of its tensor before the lanes, and lanes."""


@dataclass
class Prepared:
    """The operations of kernels, by operation."""

    _nests: dict[te.ForOp, Loops] = field(default_factory=dict)
    _ranges: dict[Operation, list[Interval]] = field(default_factory=dict)
    _buffers: dict[te.AllocOp, Buffer] = field(default_factory=dict)
    _lattices: dict[SSAValue, Lattice] = field(default_factory=dict)

    def nest(self, outermost: te.ForOp, where: str) -> Loops:
        """The loops of an instruction."""
        if outermost not in self._nests:
            self._nests[outermost] = _hardware_nest(outermost, where)
        return self._nests[outermost]

    def window(self, op: te.AllocOp | te.CopyOp) -> list[Interval]:
        """The window of a buffer or a copy, lanes included."""
        if op not in self._ranges:
            self._ranges[op] = [interval(item) for item in op.window]
        return self._ranges[op]

    def over(self, op: te.ForOp) -> Interval:
        """What a loop runs over."""
        if op not in self._ranges:
            self._ranges[op] = [interval(op.over)]
        return self._ranges[op][0]

    def buffer(self, op: te.AllocOp, where: str) -> Buffer:
        """Scope, shape and lanes of a buffer."""
        if op not in self._buffers:
            type = op.buffer.type
            shape = outer_shape(type, where)
            self._buffers[op] = te.scope_of(op.buffer), shape, shape_of(type)[-LANES:]
        return self._buffers[op]

    def lattice(self, buffer: SSAValue) -> Lattice:
        """What of a buffer's window is ever touched."""
        if buffer not in self._lattices:
            self._lattices[buffer] = lattice_of(buffer)
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
