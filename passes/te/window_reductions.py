"""Analysis of reductions over a sliding window, for `te-split-windows` and `te-extremes-first`.

``y[.., h, w] = max over kh, kw of x[.., s * h + kh - p, t * w + kw - q]``, and the same with min or
a sum: each dimension of the window is a subscript of its own, so the window is a product of
intervals. A tap that lies inside the tensor for all outputs is where a reduction may start.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import Operation

from vtac.dialects.te import (
    LANES,
    CallOp,
    ComputeOp,
    KernelOp,
    Read,
    Row,
    combiner,
    shaped,
    yielded,
)
from vtac.passes.te.call_intervals import intervals_of_call
from vtac.passes.te.intervals import INT32, Interval, interval_of_tensor

Combining = type[arith.AddiOp] | type[arith.MaxSIOp] | type[arith.MinSIOp]
"""The operation of a reduction."""

NEUTRAL: Mapping[Combining, int] = {
    arith.AddiOp: 0,
    arith.MaxSIOp: INT32[0],
    arith.MinSIOp: INT32[1],
}
"""The neutral element of each operation of a reduction."""

Progression = tuple[int, int, int]
"""Taps: the first, the step, and how many."""


@dataclass(frozen=True)
class SlidingAxis:
    """One dimension of a window, and how the window moves along it.

    dimension: the dimension of the tensor, by number. name: the spatial axis that moves the window.
    stride, offset: tap 0 of output h lies at ``stride * h + offset``. dilation: the distance
    between neighbouring taps. taps: the number of taps. start: a tap that lies inside the tensor
    for all outputs; None if there is none.
    """

    dimension: int
    name: str
    stride: int
    offset: int
    dilation: int
    taps: int
    start: int | None

    def row(self, first: int, tap: tuple[int, int] | None = None) -> Row:
        """The subscript of a tap: of a number, or of ``first + step * variable``, given by these
        two."""
        terms = [(self.dimension, self.stride)]
        if tap is not None:
            step, variable = tap
            terms.append((variable, step * self.dilation))
        return Row.of(terms, self.offset + first * self.dilation)

    @property
    def rest(self) -> Sequence[Progression]:
        """All taps but the one that the reduction starts from."""
        assert self.start is not None
        return _without(self.start, self.taps)


def _without(start: int, taps: int) -> Sequence[Progression]:
    """The taps but one, as few progressions."""
    if taps == 3 and start == 1:
        return [(0, 2, 2)]
    parts = [(0, 1, start), (start + 1, 1, taps - 1 - start)]
    return [part for part in parts if part[2]]


@dataclass(frozen=True)
class WindowReduction:
    """A compute that reduces accumulators over a window.

    operation: combines two values. identity: the start of the reduction. axes: the dimensions of
    the window with several taps.
    """

    compute: ComputeOp
    operation: Combining
    identity: int
    axes: Sequence[SlidingAxis]

    @property
    def read(self) -> Read:
        """The only operand."""
        return self.compute.reads[0]

    @property
    def neutral(self) -> int:
        """The neutral element of the operation."""
        return NEUTRAL[self.operation]

    @property
    def may_start(self) -> bool:
        """Whether each dimension has a tap to start from."""
        return all(axis.start is not None for axis in self.axes)

    @property
    def rows_without_taps(self) -> Sequence[Row]:
        """The subscripts of the operand for tap 0 of each dimension."""
        rank = len(self.compute.spatial)
        return [
            Row.of([(v, by) for v, by in row.terms if v < rank], row.constant)
            for row in self.read.rows
        ]

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the operand."""
        return shaped(self.read.value).get_shape()

    def elements(self, extents: Sequence[int]) -> int:
        """The number of scratchpad elements that a tensor of these extents fills."""
        return prod(extents[:-LANES])


def window_reduction(compute: ComputeOp) -> WindowReduction | None:
    """The compute as a reduction over a window, if it is one."""
    if not len(compute.reduce) or compute.identity is None or compute.element_type != i32:
        return None
    found, identity = combiner(compute.body), compute.identity.value.data
    operation = next((known for known in NEUTRAL if known is found), None)
    if operation is None or not _combines_an_operand(compute):
        return None
    (read,) = compute.reads
    if not _is_left_out(operation, read.outside, identity):
        return None
    axes = _sliding_axes(compute, read)
    return WindowReduction(compute, operation, identity, axes) if axes else None


def _combines_an_operand(compute: ComputeOp) -> bool:
    """Whether the body is ``op(accumulator, x)``, x being 32 bits wide."""
    if len(compute.inputs) != 1 or shaped(compute.inputs[0]).element_type != i32:
        return False
    last = yielded(compute.body).owner
    assert isinstance(last, Operation)
    return set(last.operands) == set(compute.body.block.args)


def _is_left_out(operation: Combining, outside: int | None, identity: int) -> bool:
    """Whether reads outside the operand never change a result."""
    if outside is None or outside == NEUTRAL[operation]:
        return True
    if operation is arith.AddiOp:
        return False
    return (max if operation is arith.MaxSIOp else min)(outside, identity) == identity


def _sliding_axes(compute: ComputeOp, read: Read) -> list[SlidingAxis] | None:
    """The dimensions of the window; None where subscripts are not of the form that is wanted."""
    rank, extents, shape = len(compute.spatial), compute.extents, shaped(read.value).get_shape()
    if len(shape) != rank:
        return None
    found: list[SlidingAxis] = []
    taps = {v for v in range(rank, len(extents)) if extents[v] > 1}
    for dimension, row in enumerate(read.rows):
        terms = dict(row.terms)
        stride = terms.pop(dimension, 0)
        moving = {v: by for v, by in terms.items() if extents[v] > 1}
        if row.divisor > 1 or stride < 1 or len(moving) > 1 or not moving.keys() <= taps:
            return None
        low, high = row.interval(extents)
        if not moving and (low < 0 or high >= shape[dimension]):
            return None
        for variable, dilation in moving.items():
            taps.remove(variable)
            axis = SlidingAxis(
                dimension,
                compute.reduce.names[variable - rank],
                stride,
                row.constant,
                dilation,
                extents[variable],
                None,
            )
            found.append(_started(axis, extents[dimension], shape[dimension]))
    return None if taps else found


def _started(axis: SlidingAxis, outputs: int, size: int) -> SlidingAxis:
    """The axis with the tap to start from that leaves the fewest progressions."""
    last = axis.stride * (outputs - 1)
    inside = [
        tap
        for tap in range(axis.taps)
        if axis.offset + axis.dilation * tap >= 0
        and axis.offset + axis.dilation * tap + last < size
    ]
    start = min(inside, key=lambda tap: len(_without(tap, axis.taps)), default=None)
    return SlidingAxis(**{**vars(axis), "start": start})


def operand_interval(
    ctx: Context, kernel: KernelOp, calls: Sequence[CallOp], window: WindowReduction
) -> Interval:
    """The interval of the operand's values, over these calls of the kernel."""
    value = window.read.value
    if not calls:
        return interval_of_tensor(value)
    found = [intervals_of_call(ctx, kernel, call, {})[value] for call in calls]
    return min(low for low, _ in found), max(high for _, high in found)


def absorbs(window: WindowReduction, interval: Interval) -> bool:
    """Whether combining the identity with any value in an interval gives that value."""
    if window.operation is arith.AddiOp:
        return window.identity == 0
    end = interval[0] if window.operation is arith.MaxSIOp else interval[1]
    return (max if window.operation is arith.MaxSIOp else min)(end, window.identity) == end
