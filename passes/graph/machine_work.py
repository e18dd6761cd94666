"""How much work an op is for a VTA, from shapes alone: micro-ops, ALU cycles, bytes of weights.

Spare lanes count, since the machine computes them. Estimates of regions and the plan of a cluster
are made of these numbers; `te-schedule` and the timing simulator know more.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.ir import Operation, SSAValue

from vtac.dialects.graph import (
    AddOp,
    BatchMatMulOp,
    ConcatOp,
    ConvOp,
    DepthToSpaceOp,
    GemmOp,
    MaxPoolOp,
    RequantizeOp,
    RequantizePlanesOp,
    ReshapeOp,
    ShiftLeftOp,
    SliceOp,
    SplitBytesOp,
    SumPoolOp,
    shape_of,
)
from vtac.dialects.target import Target
from vtac.passes.te.schedule.cost import Rates

PLANES = 4
"""Byte planes of an accumulator: each is shifted down and stored."""


def elements(value: SSAValue, target: Target) -> int:
    """How many elements of BATCH x BLOCK lanes hold a tensor [N, C, spatial...]."""
    return elements_in(shape_of(value) or (), target)


def elements_in(shape: Sequence[int], target: Target) -> int:
    """The same for a shape; 0 for vectors, which are constants."""
    if len(shape) < 2:
        return 0
    return _blocks(shape[0], target.batch) * _blocks(shape[1], target.block) * prod(shape[2:])


def gemm_micro_ops(op: Operation, target: Target) -> int:
    """The micro-ops of the GEMM core."""
    match op:
        case ConvOp():
            return elements(op.result, target) * _input_blocks(op, target) * prod(op.kernel_shape())
        case BatchMatMulOp() | GemmOp():
            inner = (shape_of(op.b) or (0, 0))[1]
            return elements(op.result, target) * _blocks(inner, target.block)
        case DepthToSpaceOp():
            return elements(op.result, target) * _blocks((shape_of(op.x) or ())[1], target.block)
        case SumPoolOp():
            return elements(op.result, target) * prod(op.kernel_shape())
        case ShiftLeftOp():
            return elements(op.result, target)
        case _:
            return 0


def alu_cycles(op: Operation, target: Target, rates: Rates) -> int:
    """Cycles of the ALU, without those of instructions."""
    immediate, register = rates.alu
    match op:
        case AddOp() | ConcatOp() | ReshapeOp() | SliceOp():
            return 0  # the operands of products, if any
        case BatchMatMulOp() | ConvOp() | GemmOp() | ShiftLeftOp() | SumPoolOp():
            return 0
        case MaxPoolOp():
            return elements(op.result, target) * prod(op.kernel_shape()) * register
        case RequantizeOp():  # a bias, a shift, two bounds
            return elements(op.result, target) * (register + 3 * immediate)
        case RequantizePlanesOp():  # the same, and a second byte
            return elements(op.high, target) * (register + 6 * immediate)
        case SplitBytesOp():
            return elements(op.x, target) * PLANES * immediate
        case _:
            return sum(elements(result, target) for result in op.results) * register


def weight_bytes(op: Operation, target: Target) -> int:
    """Bytes of the weights in the machine's elements of BLOCK x BLOCK."""
    block = target.block * target.block
    match op:
        case ConvOp():
            outs = _blocks((shape_of(op.w) or (0,))[0], target.block)
            return outs * _input_blocks(op, target) * prod(op.kernel_shape()) * block
        case GemmOp():
            return prod(_blocks(extent, target.block) for extent in shape_of(op.b) or ()) * block
        case _:
            return 0


def _input_blocks(op: ConvOp, target: Target) -> int:
    """How many blocks of input channels each block of output channels meets."""
    out, group = (shape_of(op.w) or (0,))[0], op.group.value.data
    channels = (shape_of(op.w) or (0, 0))[1] * group
    if _is_block_diagonal(out, channels, group, target.block):
        return 1
    return _blocks(channels, target.block)


def _blocks(count: int, block: int) -> int:
    """How many blocks hold ``count`` channels."""
    return -(-count // block)


def _is_block_diagonal(out: int, channels: int, group: int, block: int) -> bool:
    """Whether each block of output channels reads only the input block of the same number."""
    if group == 1 or _blocks(out, block) != _blocks(channels, block):
        return False
    outputs = np.arange(out)
    first = outputs // (out // group) * (channels // group)
    last = first + channels // group - 1
    own = outputs // block
    return bool(np.all(first // block == own) and np.all(last // block == own))
