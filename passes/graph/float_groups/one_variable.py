"""Element-wise ops that together are one function of a single value.

``x * sigmoid(x)``, Gelu as its five operators, a chain of activations: whatever they compute, each
element of the result depends on the element of x at its place alone. On the accelerator such a
function is a sum of clamped lines (`curves`), whose error is known since int8 has 256 values.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import cast

import numpy as np
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    ActivationOp,
    DivOp,
    ElementWise,
    FakeQuantizeOp,
    HardSwishOp,
    MulOp,
    shape_of,
)
from vtac.passes.graph.evaluate import evaluate, has_meaning
from vtac.passes.graph.float_groups.network import Network, is_float32, producer
from vtac.passes.graph.float_groups.rules import rule_of
from vtac.passes.graph.float_groups.rules.rule import ClampRule, LinearRule

MOST_OPS = 32
"""The most ops of one function."""


@dataclass(frozen=True, eq=False)
class OneVariable:
    """A function of one value, between bounds.

    ops: in order of execution, the last is the result before it is bounded. variable: the value
    that they depend on. lo, hi: the bounds. clamps: the ops that these come from, the last first.
    constants: the numbers that the ops read.
    """

    variable: SSAValue
    ops: Sequence[Operation]
    lo: float
    hi: float
    clamps: Sequence[Operation]
    constants: Mapping[SSAValue, Array]

    @property
    def covered(self) -> list[Operation]:
        """All ops, the last first."""
        return [*self.clamps, *reversed(self.ops)]

    def __call__(self, x: Array) -> Array:
        """The function, not bounded, on an array of float64."""
        values: dict[SSAValue, Array] = {**self.constants, self.variable: x}
        for op in self.ops:
            operands = [values[operand] for operand in op.operands]
            values[op.results[0]] = _evaluated(op, operands)
        return values[self.ops[-1].results[0]]


def function_at(
    root: Operation,
    network: Network,
    declined: Container[Operation],
    order: Mapping[Operation, int],
) -> OneVariable | None:
    """The function of one variable that ends in ``root``; None if it is none, or a linear one.

    It reaches back to the first value through which all its paths lead. declined: ops that stay
    float. order: the position of each op.
    """
    clamps: list[Operation] = []
    op, lo, hi = root, -inf, inf
    while isinstance(rule := rule_of(op), ClampRule) and not isinstance(rule, LinearRule):
        if clamps and not rule.interior:
            break
        inner = producer(op.operands[0])
        if op in declined or inner is None or not op.operands[0].has_one_use():
            return None
        low, high = rule.bounds(op)
        lo, hi = min(max(low, lo), hi), min(max(high, lo), hi)
        clamps.append(op)
        op = inner
    ops: list[Operation] = []
    constants: dict[SSAValue, Array] = {}
    variables: set[SSAValue] = set(op.results)
    is_curved = False
    while not (is_curved and len(variables) == 1):
        makers = [maker for v in variables if (maker := producer(v)) is not None]
        if len(makers) < len(variables) or not makers or len(ops) == MOST_OPS:
            return None
        last = max(makers, key=lambda maker: order.get(maker, -1))
        outside = [u for u in last.results[0].uses if u.operation not in ops] if ops else []
        if last in declined or outside or not _is_pointwise(last, network):
            return None
        ops.append(last)
        variables.discard(last.results[0])
        for value in last.operands:
            if len(last.operands) > 1 and (number := _number(value, network)) is not None:
                constants[value] = number
            else:
                variables.add(value)
        is_curved = is_curved or _is_curved(last, network)
    return OneVariable(variables.pop(), ops[::-1], lo, hi, clamps, constants)


def _is_pointwise(op: Operation, network: Network) -> bool:
    """Whether an op computes each element from those at its place, and from single numbers."""
    if not op.has_trait(ElementWise) or len(op.operands) > 2 or not is_float32(op.results[0]):
        return False
    if not (has_meaning(op) or isinstance(op, FakeQuantizeOp)):
        return False
    shape = shape_of(op.results[0])
    return all(
        shape_of(value) == shape or (len(op.operands) > 1 and _number(value, network) is not None)
        for value in op.operands
    )


def _number(value: SSAValue, network: Network) -> Array | None:
    """The number of a constant that has only one."""
    array = network.constant(value)
    return array.astype(np.float64).reshape(()) if array is not None and array.size == 1 else None


def _is_curved(op: Operation, network: Network) -> bool:
    """Whether an op makes a function of one variable one that only lines can stand for.

    Where the target multiplies, products of two tensors need no lines.
    """
    if isinstance(op, ActivationOp):
        return True
    if network.multiplies:
        return False
    if isinstance(op, MulOp | DivOp):
        return all(_number(value, network) is None for value in op.operands)
    return isinstance(op, HardSwishOp)


def _evaluated(op: Operation, operands: Sequence[Array]) -> Array:
    if isinstance(op, FakeQuantizeOp):
        scale, zero = op.scale.value.data, op.zero_point.value.data
        stored = np.rint(operands[0] / scale) + zero
        low, high = op.low.value.data, op.high.value.data
        return cast(Array, (np.clip(stored, low, high) - zero) * scale)
    found = evaluate(op, operands)
    assert found is not None, "pointwise ops have a meaning"
    return found
