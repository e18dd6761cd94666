"""The integers of products of two activations, and how far they may be off.

There are no weights to take up a change of scale. The accumulators' step is ``s_a * s_b`` (times
the factor). A result without a given scale has this step times the power of two that its range
needs, so only its last bits are rounded. A given scale needs a multiplier; where the target has
none, the accumulators leave as they are and the host rounds.

Zero points of operands, where they are given, are taken out of the sums exactly::

    sum (a - za)(b - zb) = sum a b - zb sum a - za sum b + K za zb

Both sums are products with constant matrices in the same accumulators.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from vtac.passes.approximation.integers import LARGEST_SHIFT
from vtac.passes.approximation.multipliers import rescaling_of
from vtac.passes.graph.float_groups.contractions import Contraction
from vtac.passes.graph.quantize.fine_operands import largest_sum
from vtac.passes.graph.quantize.layer import OVERFLOW, Layer, make_layer
from vtac.passes.graph.quantize.scales import Obstacle, Scale


def number_contraction(group: Contraction, scales: Mapping[SSAValue, Scale]) -> Layer:
    """Choose the integers of a product. Raises Obstacle where there are none."""
    a, b = (scales[value] for value in group.inputs)
    step = a.value * b.value * group.factor
    columns = group.b.shape[-2]
    constant = np.zeros(columns) if group.bias is None else group.bias
    scale = None if group.leaves_int32 else scales[group.root.results[0]]
    shift, rescaling = 0, None
    if scale is not None and group.is_rounded:
        rescaling = rescaling_of(np.full(columns, step / scale.value), scale.zero_point, -128, 127)
    elif scale is not None:
        shift = round(float(np.log2(scale.value / step)))
        if shift > LARGEST_SHIFT:
            raise Obstacle(group, f"its result needs a shift above {LARGEST_SHIFT}")
    sums = 1 + (a.zero_point != 0) + (b.zero_point != 0)
    reach: Any = np.full(columns, largest_sum(group, a.low_bits) * sums)
    offset: Any = np.full(columns, group.inner * a.zero_point * b.zero_point)
    steps, shifts = np.array([step]), np.full(columns, shift)
    layer = make_layer(
        group, (), constant, steps, shifts, scale, offset=offset, reach=reach, rescaling=rescaling
    )
    if layer.overflows.any():
        raise Obstacle(group, OVERFLOW)
    return layer
