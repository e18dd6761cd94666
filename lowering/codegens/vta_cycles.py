"""Estimates the cycles of a region on a VTA from the graph alone: shapes and the rates of the
machine. GEMM micro-ops take a cycle, ALU elements one or two, and a beat of the memory port is a
cycle; of work in parallel only the longest counts. Every composite loads its operands and stores
its results, as if none stayed on the chip. The estimate only has to decide whether a launch pays;
`te-schedule` and the timing simulator know more.
"""

from collections.abc import Sequence
from math import ceil

from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Operation, SSAValue

from vtac.dialects.graph import (
    CompositeOp,
    MaxPoolOp,
    RequantizeOp,
    shape_of,
)
from vtac.dialects.target import Memory, Target
from vtac.passes.graph.cost import computing_ops
from vtac.passes.graph.machine_work import alu_cycles, elements, gemm_micro_ops, weight_bytes
from vtac.passes.graph.patterns import Predicate
from vtac.passes.graph.reasons import Reason, ReasonKind
from vtac.passes.te.schedule.cost import Rates


def region_cycles(composites: Sequence[CompositeOp], target: Target) -> float:
    """An estimate of the cycles from launch to FINISH of a program for these composites."""
    rates = Rates.of(target)
    return rates.launch + sum(_composite_cycles(c, target, rates) for c in composites)


def _composite_cycles(composite: CompositeOp, target: Target, rates: Rates) -> float:
    ops = computing_ops(composite)
    products = sum(gemm_micro_ops(op, target) for op in ops)
    arithmetic = sum(alu_cycles(op, target, rates) for op in ops)
    if not products and not arithmetic:
        return 0.0
    compute = products * target.timing.gemm_cycles + arithmetic + rates.instruction * len(ops)
    inputs = sum(elements(value, target) for value in composite.inputs)
    loaded = inputs * target.batch * target.block + sum(weight_bytes(op, target) for op in ops)
    stored = sum(elements(value, target) for value in composite.outputs)
    loads, stores = rates.load + ceil(loaded / rates.beat), stored * rates.store + rates.row
    return max(compute, loads, stores) + min(loads, compute) / 2


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
        inputs, outputs = (elements(value, target) for value in (operation.x, operation.result))
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
            total += gemm_micro_ops(owner, target) * target.timing.gemm_cycles
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
