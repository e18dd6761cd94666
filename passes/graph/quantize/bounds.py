"""How far the quantised network may lie from the float one: a proven bound for each value.

Worst-case intervals, layer by layer, in real units and one number a channel. It holds for every
input for which all float values stay inside their ranges; then saturation moves no value away from
the real one, since clamping to an interval that contains it cannot. What remains is rounding:
of inputs (half a step), weights, biases and clip's bounds (exactly known), and of each
requantisation (half a step, nothing where the shift is 0). float32's own rounding in the network
that we compare with is small, but counted.
"""

from typing import cast

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    AddOp,
    AveragePoolOp,
    ClipOp,
    ConstantOp,
    ConvOp,
    GemmOp,
    GlobalAveragePoolOp,
    MaxPoolOp,
    ReluOp,
    ReshapeOp,
    shape_of,
)
from vtac.passes.graph.quantize.groups import Group, PassThrough
from vtac.passes.graph.quantize.network import CoreOp, data_operand, groups_of
from vtac.passes.graph.quantize.numbers import Layer, real_bias
from vtac.passes.graph.quantize.plan import Plan

FLOAT32_STEP = 2.0**-23
"""Relative rounding of one float32 operation, generously."""

_SLACK_STEPS = 2.0**-12
"""What the float32 division of QuantizeLinear and a scale rounded to float32 add, in steps."""

Bound = Array | None
"""One bound a channel (or one for all); None where nothing is promised."""


def output_bounds(plan: Plan) -> list[Bound]:
    """A bound for each value that the function returns, as float64 [C] or [1], in real units."""
    errors = _Bounds(plan).run()
    last = plan.network.block.last_op
    return [errors[v] for v in last.operands] if isinstance(last, ReturnOp) else []


class _Bounds:
    """Forward over the float function as it was planned."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.network = plan.network
        self.errors: dict[SSAValue, Bound] = {}
        self.int8 = {g.root.results[0] for g in plan.groups if g.root.results[0] in plan.scales}

    def run(self) -> dict[SSAValue, Bound]:
        covered = {op for group in self.plan.groups for op in group.covered}
        roots = {group.root: group for group in self.plan.groups}
        self.errors.update((argument, np.zeros(1)) for argument in self.network.block.args)
        for op in self.network.block.ops:
            if op in roots:
                self.errors[op.results[0]] = self._group(roots[op])
            elif op not in covered:
                bound = self._float_op(op)
                self.errors.update((result, bound) for result in op.results)
        return self.errors

    def _stored(self, value: SSAValue) -> Bound:
        """The error of a value as a group reads it."""
        error = self.errors[value]
        if error is None or value in self.int8:
            return error
        return cast(Array, error + self.plan.scales[value].value * (0.5 + _SLACK_STEPS))

    def _group(self, group: Group) -> Bound:
        if isinstance(group, PassThrough):
            return _moved(self._stored(group.root.x), group.root)
        layer = self.plan.layers[group]
        errors = [self._stored(value) for value in group.skips]
        if group.core is not None:
            errors.append(self._core(layer, group.core, self._stored(data_operand(group.core))))
        known = [error for error in errors if error is not None]
        if len(known) < len(errors):
            return None
        rounding = np.where(layer.shift > 0, np.ldexp(1.0, layer.shift - 1), 0.0)
        stored_bias = (layer.bias - rounding - layer.offset) * layer.steps
        total = sum(known, start=np.abs(real_bias(self.network, group) - stored_bias))
        if layer.scale is None:
            return total
        step = layer.scale.value
        total = total + step * (np.where(layer.shift > 0, 0.5, 0.0) + _SLACK_STEPS)
        return total + self._clip_error(layer)

    def _clip_error(self, layer: Layer) -> float:
        """How far the stored bounds lie from the real ones, where int8 reaches these."""
        assert layer.scale is not None
        step, zero, moved = layer.scale.value, layer.scale.zero_point, 0.0
        for real, stored in ((layer.group.lo, layer.lo), (layer.group.hi, layer.hi)):
            if (-128 - zero) * step <= real <= (127 - zero) * step:
                moved = max(moved, abs(real - (stored - zero) * step))
        return moved

    def _core(self, layer: Layer, core: CoreOp, error: Bound) -> Bound:
        """Errors of inputs through the stored weights, and of weights through the inputs."""
        if error is None or not isinstance(core, ConvOp | GemmOp):
            return error
        assert layer.weights is not None
        operand = data_operand(core)
        real = self.network.weights(core)
        unit = layer.steps / self.plan.scales[operand].value
        stored = layer.weights * unit.reshape(-1, *[1] * (real.ndim - 1))
        magnitude = self._magnitude(operand)
        wrong = np.abs(real - stored).reshape(len(real), -1).sum(axis=1) * magnitude
        through = _through(stored, error, groups_of(core))
        return cast(Array, through + wrong + _float_error(real, magnitude))

    def _magnitude(self, value: SSAValue) -> float:
        found = self.network.range_of(value)
        if found is None:
            return 128 * self.plan.scales[value].value
        return max(abs(found[0]), abs(found[1]))

    def _float_op(self, op: Operation) -> Bound:
        """Ops that stay float: what comes in wrong leaves wrong."""
        errors = [self.errors[operand] for operand in op.operands]
        known = [error for error in errors if error is not None]
        if len(known) < len(errors):
            return None
        if isinstance(op, ConstantOp) or not any(error.any() for error in known):
            return np.zeros(1)
        match op:
            case ReluOp() | ClipOp() | MaxPoolOp() | AveragePoolOp() | GlobalAveragePoolOp():
                return known[0]
            case ReshapeOp():
                return _moved(known[0], op)
            case AddOp() if shape_of(op.a) == shape_of(op.b):
                return known[0] + known[1]
            case ConvOp() if self.network.constant(op.w) is not None:
                return _through(self.network.weights(op), known[0], groups_of(op))
            case _:
                return None


def _through(weights: Array, error: Array, groups: int) -> Array:
    """The largest error of each output channel when inputs are off by ``error``."""
    outputs, inputs = weights.shape[:2]
    sums = np.abs(weights).reshape(groups, outputs // groups, inputs, -1).sum(axis=3)
    errors = np.broadcast_to(error, (groups * inputs,)).reshape(groups, inputs, 1)
    return cast(Array, (sums @ errors).reshape(outputs))


def _float_error(weights: Array, magnitude: float) -> Array:
    """Rounding of a float32 sum of products."""
    terms = np.abs(weights).reshape(len(weights), -1)
    return cast(Array, FLOAT32_STEP * (terms.shape[1] + 2) * terms.sum(axis=1) * magnitude)


def _moved(error: Bound, op: MaxPoolOp | ReshapeOp) -> Bound:
    """Across a pooling or a reshape: channels keep theirs if they are still channels."""
    if error is None or isinstance(op, MaxPoolOp):
        return error
    before, after = shape_of(op.x) or (), shape_of(op.result) or ()
    if before[:2] == after[:2]:
        return error
    return np.full(1, error.max())
