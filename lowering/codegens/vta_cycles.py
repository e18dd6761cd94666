"""Estimates the cycles of a region on a VTA from the graph alone: shapes and the rates of the
machine. GEMM micro-ops take a cycle, ALU elements one or two, and a beat of the memory port is a
cycle; of work in parallel only the longest counts. Every composite loads its operands and stores
its results, as if none stayed on the chip. The estimate only has to decide whether a launch pays;
`te-schedule` and the timing simulator know more.
"""

from collections.abc import Sequence
from math import ceil, prod

import numpy as np
from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Operation, SSAValue

from vtac.dialects.graph import (
    AddOp,
    BatchMatMulOp,
    CompositeOp,
    ConcatOp,
    ConvOp,
    DepthToSpaceOp,
    GemmOp,
    MaxPoolOp,
    RequantizeOp,
    ReshapeOp,
    ShiftLeftOp,
    SliceOp,
    SplitBytesOp,
    SumPoolOp,
    shape_of,
)
from vtac.dialects.target import Memory, Target
from vtac.passes.graph.cost import computing_ops
from vtac.passes.graph.patterns import Predicate
from vtac.passes.graph.reasons import Reason, ReasonKind
from vtac.passes.te.schedule.cost import Rates

PLANES = 4
"""Byte planes of an accumulator: each is shifted down and stored."""


def region_cycles(composites: Sequence[CompositeOp], target: Target) -> float:
    """An estimate of the cycles from launch to FINISH of a program for these composites."""
    rates = Rates.of(target)
    return rates.launch + sum(_composite_cycles(c, target, rates) for c in composites)


def _composite_cycles(composite: CompositeOp, target: Target, rates: Rates) -> float:
    ops = computing_ops(composite)
    products = sum(_gemm_micro_ops(op, target) for op in ops)
    elements = sum(_alu_cycles(op, target, rates) for op in ops)
    if not products and not elements:
        return 0.0
    compute = products * target.timing.gemm_cycles + elements + rates.instruction * len(ops)
    inputs = sum(_elements(value, target) for value in composite.inputs)
    loaded = inputs * target.batch * target.block + sum(_weight_bytes(op, target) for op in ops)
    stored = sum(_elements(value, target) for value in composite.outputs)
    loads, stores = rates.load + ceil(loaded / rates.beat), stored * rates.store + rates.row
    return max(compute, loads, stores) + min(loads, compute) / 2


def _elements(value: SSAValue, target: Target) -> int:
    """How many elements of BATCH x BLOCK lanes hold a tensor [N, C, spatial...]."""
    shape = shape_of(value) or ()
    if len(shape) < 2:
        return 0
    return _blocks(shape[0], target.batch) * _blocks(shape[1], target.block) * prod(shape[2:])


def _input_blocks(op: ConvOp, target: Target) -> int:
    """How many blocks of input channels each block of output channels meets."""
    out, group = (shape_of(op.w) or (0,))[0], op.group.value.data
    channels = (shape_of(op.w) or (0, 0))[1] * group
    if _is_block_diagonal(out, channels, group, target.block):
        return 1
    return _blocks(channels, target.block)


def _gemm_micro_ops(op: Operation, target: Target) -> int:
    match op:
        case ConvOp():
            return (
                _elements(op.result, target) * _input_blocks(op, target) * prod(op.kernel_shape())
            )
        case BatchMatMulOp() | GemmOp():
            inner = (shape_of(op.b) or (0, 0))[1]
            return _elements(op.result, target) * _blocks(inner, target.block)
        case DepthToSpaceOp():
            return _elements(op.result, target) * _blocks((shape_of(op.x) or ())[1], target.block)
        case SumPoolOp():
            return _elements(op.result, target) * prod(op.kernel_shape())
        case ShiftLeftOp():
            return _elements(op.result, target)
        case _:
            return 0


def _alu_cycles(op: Operation, target: Target, rates: Rates) -> int:
    immediate, register = rates.alu
    match op:
        case AddOp() | ConcatOp() | ReshapeOp() | SliceOp():
            return 0  # the operands of products, if any
        case BatchMatMulOp() | ConvOp() | GemmOp() | ShiftLeftOp() | SumPoolOp():
            return 0
        case MaxPoolOp():
            return _elements(op.result, target) * prod(op.kernel_shape()) * register
        case RequantizeOp():  # a bias, a shift, two bounds
            return _elements(op.result, target) * (register + 3 * immediate)
        case SplitBytesOp():
            return _elements(op.x, target) * PLANES * immediate
        case _:
            return sum(_elements(result, target) for result in op.results) * register


def _weight_bytes(op: Operation, target: Target) -> int:
    block = target.block * target.block
    match op:
        case ConvOp():
            outs = _blocks((shape_of(op.w) or (0,))[0], target.block)
            return outs * _input_blocks(op, target) * prod(op.kernel_shape()) * block
        case GemmOp():
            return prod(_blocks(extent, target.block) for extent in shape_of(op.b) or ()) * block
        case _:
            return 0


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


def is_worth_joining(target: Target | None) -> Predicate:
    """Whether a max pooling is joined with the requantised layer that it reads.

    Joined, the pooling reads accumulators, so nothing is widened again, and shifts and clips are
    done for its results alone; but where windows overlap, neighbouring tiles compute what they
    share twice.
    """

    def predicate(operation: Operation) -> str | None:
        assert isinstance(operation, MaxPoolOp)
        layer = operation.x.owner
        if target is None or not isinstance(layer, RequantizeOp):
            return None
        inputs, outputs = (_elements(value, target) for value in (operation.x, operation.result))
        rates = Rates.of(target)
        spared = 2 * inputs * target.timing.gemm_cycles + 3 * rates.alu[0] * (inputs - outputs)
        twice = _repeated_share(operation, target) * (_products(layer.acc, target) + inputs)
        if spared >= twice:
            return None
        return Reason("neighbouring windows share too much of their layer", ReasonKind.SHAPE)

    return predicate


def _products(acc: SSAValue, target: Target) -> int:
    """Cycles of the products that a value of accumulators is made of."""
    total, values, seen = 0, [acc], set[Operation]()
    while values:
        value = values.pop()
        owner, type = value.owner, value.type
        is_sum = isinstance(type, TensorType) and type.element_type == i32
        if is_sum and isinstance(owner, Operation) and owner not in seen:
            seen.add(owner)
            total += _gemm_micro_ops(owner, target) * target.timing.gemm_cycles
            values += owner.operands
    return total


def _repeated_share(pool: MaxPoolOp, target: Target) -> float:
    """The share of a pooling's input that tiles compute twice.

    A tile is taken to be a cube of half the accumulators: the rest holds maxima.
    """
    shape = shape_of(pool.x) or ()
    side = (target.depth(Memory.ACC) / 2) ** (1 / max(len(shape) - 2, 1))
    whole = 1.0
    for extent, kernel, stride in zip(
        shape[2:], pool.kernel_shape(), pool.strides.get_values(), strict=True
    ):
        if extent > side:
            whole *= 1 + max(kernel - stride, 0) / side
    return whole - 1
