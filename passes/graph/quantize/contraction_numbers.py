"""The integers of products of two activations, and how far they may be off.

There are no weights to take up a change of scale. The accumulators' step is ``s_a * s_b`` (times
the factor), so a result whose scale is ours to choose has that times the power of two that its
range needs, and nothing but its last bits is rounded. A scale that the network brings along needs
a multiplier; where the target has none, the accumulators leave as they are and the host rounds.

Zero points of operands, where they are given, are taken out of the sums exactly::

    sum (a - za)(b - zb) = sum a b - zb sum a - za sum b + K za zb

Both sums are products with constant matrices in the same accumulators.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.ir import SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import shape_of
from vtac.passes.graph.quantize.contractions import Contraction
from vtac.passes.graph.quantize.error_models import FLOAT32_STEP, ErrorModel, Range
from vtac.passes.graph.quantize.multiplier import rescaling_of
from vtac.passes.graph.quantize.numbers import (
    LARGEST_INT8,
    LARGEST_INT32,
    OVERFLOW,
    Rescaling,
)
from vtac.passes.graph.quantize.scales import Obstacle, Scale
from vtac.passes.graph.quantize.shifts import LARGEST_SHIFT


@dataclass(frozen=True, eq=False)
class ContractionNumbers:
    """A product with its numbers.

    step: the real value of an accumulator's step. scales: of both operands. bias: whole numbers,
    one a column, rounding term and zero points included. shift: of the requantisation, unless it is
    a rescaling. scale: of the result; None where int32 leaves. bias_error: of rounding the bias, in
    real units.
    """

    group: Contraction
    step: float
    scales: tuple[Scale, Scale]
    bias: Array
    shift: int
    scale: Scale | None
    rescaling: Rescaling | None = None
    bias_error: float = 0.0

    @property
    def zeros(self) -> tuple[int, int]:
        """The zero points of both operands."""
        a, b = self.scales
        return a.zero_point, b.zero_point


def number_contraction(group: Contraction, scales: Mapping[SSAValue, Scale]) -> ContractionNumbers:
    """Choose the integers of a product. Raises Obstacle where there are none."""
    a, b = (scales[value] for value in group.inputs)
    step = a.value * b.value * group.factor
    zeros = a.zero_point, b.zero_point
    columns = group.b.shape[-2]
    whole = _whole_bias(group, step)
    bias = whole + group.inner * zeros[0] * zeros[1]
    off = 0.0 if group.bias is None else float(np.abs(whole * step - group.bias).max())
    scale = None if group.leaves_int32 else scales[group.root.results[0]]
    shift, rescaling = 0, None
    if scale is not None and group.is_rounded:
        rescaling = rescaling_of(np.full(columns, step / scale.value), scale.zero_point, -128, 127)
    elif scale is not None:
        shift = round(float(np.log2(scale.value / step)))
        if shift > LARGEST_SHIFT:
            raise Obstacle(group, f"its result needs a shift above {LARGEST_SHIFT}")
        bias = bias + np.ldexp(float(scale.zero_point), shift) + (1 << shift >> 1)
    addends = LARGEST_INT8**2 * (1 + sum(zero != 0 for zero in zeros)) * group.inner
    if addends + np.abs(bias).max() > LARGEST_INT32:
        raise Obstacle(group, OVERFLOW)
    return ContractionNumbers(group, step, (a, b), bias, shift, scale, rescaling, off)


def contraction_errors(
    numbers: ContractionNumbers,
    errors: tuple[Array, Array],
    ranges: tuple[Range, Range],
    model: ErrorModel,
    powers: tuple[float | None, float | None] = (None, None),
) -> list[Array]:
    """The errors that a product brings with it; where the network rounds too, before both round.

    errors, ranges, powers: of its operands, the last their mean squares, if they are known.
    """
    group = numbers.group
    ones = np.full((1, group.inner), group.factor)
    of_a, of_b = (float(error.max()) for error in errors)
    a, b = (max(abs(lo), abs(hi)) for lo, hi in ranges)
    found = [
        model.wrong(ones * of_a, ranges[1], powers[1]),
        model.wrong(ones * of_b, ranges[0], powers[0]),
        model.wrong(ones * of_a, (-of_b, of_b), of_b**2),
        np.full(1, FLOAT32_STEP * (group.inner + 4) * group.inner * a * b * group.factor),
        np.full(1, numbers.bias_error),
    ]
    if numbers.scale is not None and numbers.shift:
        found.append(np.full(1, numbers.scale.value * model.rounding))
    return found


def product_of(numbers: ContractionNumbers, a: Array, b: Array) -> Array:
    """What a product makes of stored integers: stored integers, or real numbers; as float32."""
    group = numbers.group
    left, right = (
        (x.astype(np.float64) - zero).transpose(operand.order).reshape(operand.shape)
        for x, zero, operand in zip((a, b), numbers.zeros, (group.a, group.b), strict=True)
    )
    acc = left @ right.swapaxes(-1, -2) + _whole_bias(group, numbers.step)
    acc = acc.reshape(shape_of(group.source.result) or ()).transpose(group.order)
    if numbers.scale is None:
        return cast(Array, (acc * numbers.step).astype(np.float32))
    rescaled = numbers.rescaling is not None
    ratio = numbers.step / numbers.scale.value if rescaled else 2.0**-numbers.shift
    steps = np.floor(acc * ratio + 0.5) + numbers.scale.zero_point
    return cast(Array, np.clip(steps, -128, 127).astype(np.float32))


def _whole_bias(group: Contraction, step: float) -> Array:
    """The constant addend of each column, in steps of the accumulators."""
    if group.bias is None:
        return np.zeros(group.b.shape[-2])
    return cast(Array, np.rint(group.bias / step))
