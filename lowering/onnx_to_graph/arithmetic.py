"""Elementwise operators and reductions over space."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, FloatAttr, TensorType, f32, f64
from xdsl.ir import Operation, SSAValue

from vtac.dialects.graph import (
    AddOp,
    ClipOp,
    HardSwishOp,
    MulOp,
    broadcast,
)
from vtac.lowering.onnx_to_graph.node import Node, StaysOnHostError, axis_of, known_shape, like
from vtac.passes.graph.channels_first import max_pooling, mean_pooling, sum_pooling
from vtac.passes.graph.reasons import ReasonKind

MOST_SPACE = 3
"""The most spatial dimensions of a pooling in ONNX."""


def sum_(node: Node) -> Sequence[Operation] | SSAValue:
    """Sum: additions one after the other."""
    count = len(node.proto.input)
    node.floats(*range(count))
    total, *rest = (node.operand(index) for index in range(count))
    _, *shapes = accumulate((known_shape(value) for value in (total, *rest)), broadcast)
    made: list[Operation] = []
    for value, shape in zip(rest, shapes, strict=True):
        made.append(AddOp(total, value, like(total, shape)))
        total = made[-1].results[0]
    return made or total


def mean(node: Node) -> Sequence[Operation] | SSAValue:
    """Mean: a sum, and a product with the reciprocal of the number of its addends."""
    total = sum_(node)
    if isinstance(total, SSAValue):
        return total
    part = node.new_constant(np.array(1 / len(node.proto.input), np.float32), "part")
    result = total[-1].results[0]
    if result.type != node.result_type() or node.element(0) != f32:
        raise StaysOnHostError("its operands are not float32 of known shapes", ReasonKind.TYPE)
    return [*total, part, MulOp(result, part.result, node.result_type())]


def hard_swish(node: Node) -> Operation:
    """HardSwish."""
    node.floats(0)
    return HardSwishOp(node.operand(0), node.result_type())


MOST_POWER = 3
"""The largest exponent of which products are made."""


def power(node: Node) -> Sequence[Operation]:
    """Pow by a small whole number: products."""
    node.floats(0)
    exponent, x = node.constant(1), node.operand(0)
    if exponent is None or exponent.size != 1 or x.type != node.result_type():
        raise StaysOnHostError("its exponent is not one constant number")
    count = float(exponent.reshape(()))
    if count not in range(2, MOST_POWER + 1):
        raise StaysOnHostError(f"only whole exponents from 2 to {MOST_POWER} are products")
    made = [MulOp(x, x, node.result_type())]
    for _ in range(int(count) - 2):
        made.append(MulOp(made[-1].result, x, node.result_type()))
    return made


def extreme(node: Node) -> Operation:
    """Max or Min of one tensor and constant numbers: a Clip."""
    count = len(node.proto.input)
    node.floats(*range(count))
    given = [node.constant(index) for index in range(count)]
    (variable, *others) = [i for i, array in enumerate(given) if array is None] or [0]
    constants = [array for i, array in enumerate(given) if i != variable and array is not None]
    if others or not constants or any(len(np.unique(array)) != 1 for array in constants):
        raise StaysOnHostError("it compares other than one tensor with constant numbers")
    x = node.operand(variable)
    if x.type != node.result_type() or any(np.isnan(array).any() for array in constants):
        raise StaysOnHostError("its constants broadcast its input", ReasonKind.SHAPE)
    pick = max if node.proto.op_type == "Max" else min
    bound = FloatAttr(pick(float(array.flat[0]) for array in constants), f64)
    name = "min" if node.proto.op_type == "Max" else "max"
    return ClipOp(x, node.result_type(), **{name: bound})


def reduce_mean(node: Node) -> Sequence[Operation]:
    """ReduceMean over space: an average pooling, and a reshape unless dimensions stay."""
    axes, keeps = _reduced(node)
    return mean_pooling(node.operand(0), axes, keeps=keeps)


def reduce_max(node: Node) -> Sequence[Operation]:
    """ReduceMax over space: a max pooling, and a reshape unless dimensions stay."""
    axes, keeps = _reduced(node)
    return max_pooling(node.operand(0), axes, keeps=keeps)


def reduce_sum(node: Node) -> Sequence[Operation]:
    """ReduceSum over space: a sum pooling, and a reshape unless dimensions stay."""
    axes, keeps = _reduced(node)
    return sum_pooling(node.operand(0), axes, keeps=keeps)


def _reduced(node: Node) -> tuple[set[int], bool]:
    """The axes that a node reduces, and whether they stay; refuses axes that are not spatial."""
    node.floats(0)
    x = node.operand(0)
    shape = known_shape(x)
    assert isinstance(x.type, TensorType)
    if DYNAMIC_INDEX in shape or 0 in shape or x.type.element_type != f32:
        raise StaysOnHostError("its input is no f32 tensor of known shape", ReasonKind.TYPE)
    given = node.attributes.get("axes")
    if given is None and node.has(1):
        given = node.numbers(1, "axes")
    axes = {axis_of(axis, len(shape)) for axis in given or range(len(shape))}
    if not axes <= set(range(2, len(shape))) or not 3 <= len(shape) <= MOST_SPACE + 2:
        raise StaysOnHostError(f"it reduces axes {sorted(axes)}: only space [2..] is supported")
    return axes, bool(node.attributes.get("keepdims", 1))
