"""The integers of products of two tensors, on targets whose ALU multiplies.

Both operands are brought to the accumulators, one with a weight per channel that carries the change
of scale, and are multiplied there::

    q = clamp(((w (a - za)) * clip(v (b - zb) + d, 0, e) + c) >> s, lo, hi)

v = 1 and nothing is clipped, unless the second factor is a hard sigmoid of the first (hard swish):
then v, d and e are as large as an immediate allows, and the second factor is never rounded to int8.
"""

from dataclasses import replace

import numpy as np

from vtac.passes.approximation.integers import LARGEST_INT8
from vtac.passes.approximation.shifts import RealWeights, choose_shifts
from vtac.passes.graph.float_groups.groups import Sum
from vtac.passes.graph.quantize.layer import OVERFLOW, Layer, Term
from vtac.passes.graph.quantize.numbers import Draft
from vtac.passes.graph.quantize.scales import Obstacle

LARGEST_IMMEDIATE = 2**15 - 1
"""The largest constant in an ALU instruction."""


def number_product(draft: Draft) -> Layer:
    """Choose the integers of a product. Raises Obstacle where there are none."""
    first, second = draft.terms
    result, policy = draft.scale, draft.policy
    assert result is not None, "a product does not leave int32"
    second, unit = second_factor(draft.group, second)
    steps = first.scale.value * unit / result.value
    rows = np.broadcast_to(first.real.reshape(first.shape[0], -1), (draft.channels, 1)) * steps
    if np.rint(np.abs(rows)).max() >= LARGEST_INT8:
        raise Obstacle(draft.group, "its products do not reach the range of its result")
    products = RealWeights(rows)
    shift = choose_shifts(products, 0, policy.block if policy.sharing == "block" else 1)
    while True:
        weighed = first.with_weights(products.rounded(shift))
        weighed = replace(weighed, added=weighed.offset)
        layer = draft.layer([weighed, second], np.ldexp(result.value, -shift), shift)
        if not layer.overflows.any():
            return layer
        if not shift.any():
            raise Obstacle(draft.group, OVERFLOW)
        shift = np.maximum(shift - 1, 0)


def second_factor(group: Sum, term: Term) -> tuple[Term, float]:
    """The second factor with its integers, and the real value of its accumulators' step."""
    if group.gate is None:
        term = term.with_weights(np.ones(term.shape))
        return replace(term, added=term.offset), term.scale.value
    slope, offset = group.gate
    factor = int(np.clip(np.floor(LARGEST_IMMEDIATE * slope * term.scale.value), 1, 127))
    unit = slope * term.scale.value / factor
    term = term.with_weights(np.full(term.shape, float(factor)))
    bounds: tuple[int, int] | None = (0, round(1 / unit))
    if round(1 / unit) > LARGEST_IMMEDIATE:  # such fine steps that no int8 reaches either bound
        bounds = None
    return replace(term, added=round(offset / unit) + term.offset, bounds=bounds), unit
