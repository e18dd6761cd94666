"""Which elements of a scratchpad's window are ever touched, where steps leave some out.

A convolution of kernel 1 and stride 2 reads every second row and column. The window that loops name
contains all of them, and so would a load. Since every access has known coefficients, the elements
that any of them can reach lie on a lattice, a step and a first element per dimension; only that is
loaded and kept, in coordinates of the lattice. Where whole rows are loaded sooner than single
elements of them (`vtac.dialects.te.steps`), the lattice of a GEMM's inputs has every column.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import Block, SSAValue

from vtac.dialects import te
from vtac.dialects.target import Target

Subscript: TypeAlias = tuple[Sequence[tuple[SSAValue, int]], int]
"""Indices, each with a coefficient, and a constant."""


@dataclass(frozen=True, slots=True)
class ElementLine:
    """The elements of one dimension: ``first``, ``first + step``, and so on."""

    step: int = 1
    first: int = 0

    def within(self, start: int, length: int) -> tuple[int, int]:
        """The part of [start, start + length) on the line, in the line's own coordinates."""
        low = -(-(start - self.first) // self.step)
        return low, max(0, -(-(start + length - self.first) // self.step) - low)

    def size(self, extent: int) -> int:
        """Elements of [0, extent) on the line."""
        return self.within(0, extent)[1]


Lattice = tuple[ElementLine, ...]
"""A line per dimension before the lanes."""


def lattice_of(buffer: SSAValue, target: Target) -> Lattice:
    """The lattice of a scratchpad's buffer: where it is only filled by plain loads, and read."""
    rank = len(te.shaped(buffer).get_shape()) - te.LANES
    subscripts: list[Sequence[Subscript]] = []
    for operation in dict.fromkeys(use.operation for use in buffer.uses):
        if isinstance(operation, te.InvokeOp) and operation.destination is not buffer:
            reads = (read for read in operation.reads if read.buffer is buffer)
            subscripts += [read.subscripts for read in reads]
        elif not isinstance(operation, te.CopyOp) or not _is_plain_load(operation, buffer):
            return (ElementLine(),) * rank
    lattice = tuple(_line(subscript[dim] for subscript in subscripts) for dim in range(rank))
    if te.scope_of(buffer) is not te.Scope.INP:
        return lattice
    shape = te.shaped(buffer).get_shape()[: -te.LANES]
    steps = te.loaded_steps(target, shape, [line.step for line in lattice])
    pairs = zip(lattice, steps, strict=True)
    return tuple(line if step == line.step else ElementLine() for line, step in pairs)


def on_lattice(
    window: tuple[tuple[int, int], ...], lattice: Lattice | None
) -> tuple[tuple[int, int], ...]:
    """The part of a window on the lattice, in its coordinates. None is the lattice of all."""
    if lattice is None:
        return window
    return tuple(line.within(*item) for item, line in zip(window, lattice, strict=True))


def extents_on_lattice(shape: Sequence[int], lattice: Lattice) -> tuple[int, ...]:
    """The shape of what a tensor has on the lattice."""
    return tuple(line.size(extent) for extent, line in zip(shape, lattice, strict=True))


def _is_plain_load(copy: te.CopyOp, buffer: SSAValue) -> bool:
    plain = te.packing_of(copy.source) is None and copy.pads is None
    return copy.target is buffer and plain


def _line(subscripts: Iterable[Subscript]) -> ElementLine:
    """Where these subscripts of one dimension can point to, whatever the indices."""
    step, first = 0, None
    for terms, constant in subscripts:
        first = constant if first is None else first
        factors = [coefficient for index, coefficient in terms if not _is_zero(index)]
        step = math.gcd(step, constant - first, *factors)
    return ElementLine(step, (first or 0) % step) if step > 1 else ElementLine()


def _is_zero(index: SSAValue) -> bool:
    """Whether an index is that of a loop that runs once, from 0."""
    loop = index.owner.parent_op() if isinstance(index.owner, Block) else None
    if not isinstance(loop, te.ForOp) or (bounds := loop.over.bounds) is None:
        return False
    return loop.tiles(*bounds) == [(0, bounds[1])] and index is loop.index
