"""Which values a scalar may have: interval analysis over the bodies of a kernel's computes.

Just enough to prove that a value fits int8, so that storing and widening it again changes nothing.
"""

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i8
from xdsl.ir import Operation, SSAValue

from vtac.dialects.te import ComputeOp, combiner, shaped, yielded

Interval = tuple[int, int]

INT8: Interval = (-(1 << 7), (1 << 7) - 1)
INT32: Interval = (-(1 << 31), (1 << 31) - 1)


def interval_of_tensor(value: SSAValue) -> Interval:
    """The interval of a tensor's elements."""
    if shaped(value).element_type == i8:
        return INT8
    owner = value.owner
    if not isinstance(owner, ComputeOp):
        return INT32
    if len(owner.reduce) == 0:
        return interval_of_scalar(yielded(owner.body), owner)
    if owner.identity is None or combiner(owner.body) is arith.AddiOp:
        return INT32
    last = yielded(owner.body).owner
    assert isinstance(last, Operation)
    accumulator = owner.body.block.args[0]
    (other,) = [operand for operand in last.operands if operand is not accumulator]
    low, high = interval_of_scalar(other, owner)
    start = owner.identity.value.data
    return min(low, start), max(high, start)


def interval_of_scalar(value: SSAValue, compute: ComputeOp) -> Interval:
    """The interval of a scalar in a compute's body, its accumulator not known."""
    args: Sequence[SSAValue] = compute.body.block.args
    if value in args:
        number = args.index(value) - (1 if len(compute.reduce) else 0)
        low, high = INT32 if number < 0 else interval_of_tensor(compute.inputs[number])
        if number >= 0 and (outside := compute.reads[number].outside) is not None:
            return min(low, outside), max(high, outside)
        return low, high
    owner = value.owner
    assert isinstance(owner, Operation)
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data, owner.value.value.data
    operands = [interval_of_scalar(operand, compute) for operand in owner.operands]
    return _through(owner, operands)


def _through(op: Operation, operands: Sequence[Interval]) -> Interval:
    if isinstance(op, arith.ExtSIOp):
        return operands[0]
    if isinstance(op, arith.TruncIOp):
        low, high = operands[0]
        return (low, high) if INT8[0] <= low and high <= INT8[1] else INT8
    if isinstance(op, arith.MaxSIOp):
        return tuple(map(max, *operands))
    if isinstance(op, arith.MinSIOp):
        return tuple(map(min, *operands))
    if isinstance(op, arith.ShRSIOp) and operands[1][0] == operands[1][1]:
        return operands[0][0] >> operands[1][0], operands[0][1] >> operands[1][0]
    return INT32
