"""Which values the stages of a kernel may have in one call: interval analysis with known constants.

Unlike `intervals`, which knows a kernel alone, this knows the arguments of a call: weights bound a
product channel by channel, and an activation that another kernel has clipped lies within the clip's
bounds.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i8
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array, constant_value
from vtac.dialects.te import (
    CallOp,
    ComputeOp,
    ConstantOp,
    KernelOp,
    Read,
    combiner,
    shaped,
    yielded,
)
from vtac.passes.te.intervals import INT8, INT32, Interval
from vtac.passes.te.legalize_casts import is_product


def intervals_of_call(
    ctx: Context, kernel: KernelOp, call: CallOp, known: Mapping[SSAValue, Interval]
) -> dict[SSAValue, Interval]:
    """The interval of every tensor in a kernel, for one call.

    known: intervals of values of the calling function; constants need not be among them.
    """
    analysis = _Call(ctx, call, known)
    return analysis.run(kernel)


class _Call:
    def __init__(self, ctx: Context, call: CallOp, known: Mapping[SSAValue, Interval]):
        self.arrays: dict[SSAValue, Array] = {}
        self.intervals: dict[SSAValue, Interval] = {}
        self._ctx, self._call, self._known = ctx, call, known

    def run(self, kernel: KernelOp) -> dict[SSAValue, Interval]:
        for parameter, value in zip(kernel.body.block.args, self._call.arguments, strict=True):
            owner = value.owner
            if isinstance(owner, ConstantOp):
                array = constant_value(self._ctx, owner.value, value.type)
                self.arrays[parameter] = array
                self.intervals[parameter] = int(array.min()), int(array.max())
            else:
                self.intervals[parameter] = self._known.get(value, _of_type(value))
        for compute in kernel.computes:
            self.intervals[compute.result] = self._compute(compute)
        return self.intervals

    def _compute(self, compute: ComputeOp) -> Interval:
        if is_product(compute):
            return self._product(compute)
        scalars: dict[SSAValue, Interval] = {}
        arguments = list(compute.body.block.args)
        if len(compute.reduce):
            if combiner(compute.body) is arith.AddiOp:
                return INT32
            scalars[arguments.pop(0)] = self._start(compute)
        for argument, read in zip(arguments, compute.reads, strict=True):
            scalars[argument] = self._read(read)
        for op in compute.body.block.ops:
            if op.results:
                scalars[op.results[0]] = _through(op, [scalars[v] for v in op.operands])
        return scalars[yielded(compute.body)]

    def _read(self, read: Read) -> Interval:
        low, high = self.intervals[read.value]
        if read.outside is None:
            return low, high
        return min(low, read.outside), max(high, read.outside)

    def _start(self, compute: ComputeOp) -> Interval:
        """The interval from which a reduction starts."""
        if compute.init is not None:
            return self.intervals[compute.init]
        assert compute.identity is not None
        return compute.identity.value.data, compute.identity.value.data

    def _product(self, compute: ComputeOp) -> Interval:
        """The interval of a product, from separate sums of each output's positive and negative
        weights."""
        start = self._start(compute)
        for weights, x in (compute.reads, compute.reads[::-1]):
            rows = [row.variable for row in weights.rows]
            if weights.value in self.arrays and weights.outside is None and None not in rows:
                low, high = self._read(x)
                plus, minus, often = _sums(compute, weights, self.arrays[weights.value])
                least = int((plus * low + minus * high).min()) * often + start[0]
                most = int((plus * high + minus * low).max()) * often + start[1]
                return _wrapped(least, most)
        return INT32


def _of_type(value: SSAValue) -> Interval:
    return INT8 if shaped(value).element_type == i8 else INT32


def _sums(compute: ComputeOp, read: Read, weights: Array) -> tuple[Array, Array, int]:
    """Sums of positive and of negative weights over the reduction, and how often each is used.

    Every subscript of the weights is an axis.
    """
    spatial = len(compute.spatial)
    reduced: list[int] = []
    rest = dict(enumerate(compute.reduce.extents, start=spatial))
    for dim, row in enumerate(read.rows):
        if row.variable in rest:
            del rest[row.variable]
            reduced.append(dim)
    axes = tuple(reduced)
    plus = np.maximum(weights, 0).sum(axis=axes, dtype=np.int64)
    minus = np.minimum(weights, 0).sum(axis=axes, dtype=np.int64)
    return plus, minus, int(np.prod(list(rest.values()), dtype=np.int64))


def _through(op: Operation, operands: Sequence[Interval]) -> Interval:
    """The interval of a scalar operation."""
    if isinstance(op, arith.ConstantOp):
        assert isinstance(op.value, IntegerAttr)
        return op.value.value.data, op.value.value.data
    if isinstance(op, arith.ExtSIOp):
        return operands[0]
    if isinstance(op, arith.TruncIOp):
        low, high = operands[0]
        return (low, high) if INT8[0] <= low and high <= INT8[1] else INT8
    (a, b), (c, d) = operands
    if isinstance(op, arith.AddiOp):
        return _wrapped(a + c, b + d)
    if isinstance(op, arith.MaxSIOp):
        return max(a, c), max(b, d)
    if isinstance(op, arith.MinSIOp):
        return min(a, c), min(b, d)
    if isinstance(op, arith.ShRSIOp) and 0 <= c <= d <= 31:
        ends = a >> c, a >> d, b >> c, b >> d
        return min(ends), max(ends)
    if isinstance(op, arith.ShLIOp) and 0 <= c <= d <= 31:
        ends = a << c, a << d, b << c, b << d
        return _wrapped(min(ends), max(ends))
    return INT32


def _wrapped(low: int, high: int) -> Interval:
    return (low, high) if INT32[0] <= low and high <= INT32[1] else INT32
