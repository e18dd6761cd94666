"""Products of two tensors, where the ALU multiplies: their integers, and their error.

Both operands come to the accumulators, one with a weight a channel that carries the change of
scale, and are multiplied there::

    q = clamp(((w (a - za)) * clip(v (b - zb) + d, 0, e) + c) >> s, lo, hi)

v = 1 and nothing is clipped, unless the second operand is a hard sigmoid of the first (hard swish):
then v, d and e are as large as an immediate allows, and it is never rounded to int8.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np
from xdsl.ir import SSAValue

from vtac.dialects.context import Array
from vtac.passes.graph.quantize.error_models import ErrorModel, Range
from vtac.passes.graph.quantize.forms import Form
from vtac.passes.graph.quantize.groups import Sum
from vtac.passes.graph.quantize.network import Network, channels_of
from vtac.passes.graph.quantize.numbers import (
    LARGEST_INT8,
    OVERFLOW,
    Inner,
    Layer,
    ShiftPolicy,
    integer_bound,
    proof_holds,
)
from vtac.passes.graph.quantize.scales import Obstacle, Scale
from vtac.passes.graph.quantize.shifts import RealWeights, choose_shifts

LARGEST_IMMEDIATE = 2**15 - 1
"""The largest constant in an ALU instruction."""


def number_product(
    network: Network, group: Sum, scales: Mapping[SSAValue, Scale], policy: ShiftPolicy
) -> Layer:
    """Choose the integers of a product. Raises Obstacle where there are none."""
    first, second = group.forms
    result, channels = scales[group.root.results[0]], channels_of(group.root.results[0])
    factor, unit, inner = _second(network, group, scales[second.operand])
    step = scales[first.operand].value * unit
    real = network.weights(first)
    rows = np.broadcast_to(real.reshape(len(real), -1), (channels, 1)) * (step / result.value)
    if np.rint(np.abs(rows)).max() >= LARGEST_INT8:
        raise Obstacle(group, "its products do not reach the range of its result")
    block = policy.block if policy.sharing == "block" else 1
    products = RealWeights(rows)
    shift = choose_shifts(products, 0, block)
    lo, hi = integer_bound(group.lo, result, -128), integer_bound(group.hi, result, 127)
    while True:
        weights = products.rounded(shift).astype(np.int8)
        zero = scales[first.operand].zero_point
        offset = np.ldexp(float(result.zero_point), shift)
        bias = offset + np.where(shift > 0, np.ldexp(1.0, shift - 1), 0.0)
        share = -zero * weights.reshape(-1).astype(np.int64)
        layer = Layer(
            group,
            [weights.reshape(real.shape), np.full_like(network.weights(second), factor, np.int8)],
            np.ldexp(result.value, -shift),
            [],
            bias,
            offset,
            shift,
            lo,
            hi,
            result,
            (Inner(share, None, None), inner),
        )
        layer = replace(layer, reach=_reach(layer, scales))
        if proof_holds(layer).all():
            return layer
        if not shift.any():
            raise Obstacle(group, OVERFLOW)
        shift = np.maximum(shift - 1, 0)


def _second(network: Network, group: Sum, scale: Scale) -> tuple[int, float, Inner]:
    """The weight of the second operand, the real value of its accumulators' step, and the rest."""
    form = group.forms[1]
    channels = len(network.weights(form))
    if group.gate is None:
        return 1, scale.value, Inner(np.full(channels, -scale.zero_point), None, None)
    slope, offset = group.gate
    factor = int(np.clip(np.floor(LARGEST_IMMEDIATE * slope * scale.value), 1, 127))
    unit = slope * scale.value / factor
    bias = round(offset / unit) - scale.zero_point * factor
    most: int | None = round(1 / unit)
    least: int | None = 0
    if round(1 / unit) > LARGEST_IMMEDIATE:  # steps so fine that no int8 reaches either end
        least = most = None
    return factor, unit, Inner(np.full(channels, bias), least, most)


def _reach(layer: Layer, scales: Mapping[SSAValue, Scale]) -> float:
    """The largest magnitude that a product can have."""
    magnitudes = []
    for form, weights, inner in zip(layer.group.forms, layer.weights, layer.inner, strict=True):
        zero = scales[form.operand].zero_point
        rows = weights.reshape(len(weights), -1).astype(np.int64)
        own = inner.bias + zero * rows.sum(axis=1)
        largest = np.abs(rows).sum(axis=1) * (LARGEST_INT8 + abs(zero)) + np.abs(own)
        magnitudes.append(float(largest.max() if inner.hi is None else inner.hi))
    return magnitudes[0] * magnitudes[1]


def product_errors(
    network: Network,
    layer: Layer,
    errors: tuple[Array, Array],
    ranges: tuple[Range, Range],
    model: ErrorModel,
    scales: Mapping[SSAValue, Scale],
) -> list[Array]:
    """The errors that a product brings with it, given those of its operands and their ranges."""
    first, second = layer.group.forms
    real = np.abs(network.weights(first)).reshape(-1)
    a, b = (max(abs(values[0]), abs(values[1])) for values in ranges)
    of_a, of_b = errors
    _, unit, _ = _second(network, layer.group, scales[second.operand])
    wrong = np.abs(_stored(layer, first, unit, scales) - network.weights(first).reshape(-1))
    if layer.group.gate is not None:
        of_b = model.total([of_b * layer.group.gate[0], np.full(1, unit)])
        b = 1.0
    return [real * of_a * b, real * of_b * a, real * of_a * of_b, wrong * a * b]


def _stored(layer: Layer, form: Form, unit: float, scales: Mapping[SSAValue, Scale]) -> Array:
    """The real factor that stored weights stand for."""
    weights = layer.weights[0].reshape(-1)
    return cast(Array, weights * layer.steps / (scales[form.operand].value * unit))
