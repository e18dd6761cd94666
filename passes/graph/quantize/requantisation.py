"""How each sum of a plan returns to int8: by a shift, by two planes and a shift, by a multiplier.

docs/quantisation.md states what each computes, and how far it may be off.
"""

from collections.abc import Mapping

from xdsl.ir import SSAValue

from vtac.passes.graph.quantize.groups import Sum
from vtac.passes.graph.quantize.multiplier import multiplied
from vtac.passes.graph.quantize.network import Network
from vtac.passes.graph.quantize.numbers import Layer, ShiftPolicy, dense_result, shifted
from vtac.passes.graph.quantize.products import number_product
from vtac.passes.graph.quantize.scales import Obstacle, Scale
from vtac.passes.graph.quantize.untied import shiftable


def number_sum(
    network: Network, group: Sum, scales: Mapping[SSAValue, Scale], policy: ShiftPolicy
) -> Layer:
    """Choose the integers of a sum. Raises Obstacle where there are none."""
    if group.join == "mul":
        return number_product(network, group, scales, policy)
    if group.leaves_int32:
        return dense_result(network, group, scales)
    try:
        if policy.multiplies_in(group):
            return multiplied(network, group, scales)
        return shifted(network, shiftable(group, scales), scales, policy)
    except Obstacle as obstacle:  # of the same group in another form
        raise Obstacle(group, obstacle.reason) from obstacle
