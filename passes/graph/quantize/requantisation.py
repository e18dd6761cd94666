"""How each group of a plan returns to int8: by a shift, by two planes and a shift, by a multiplier.

docs/quantisation.md states what each computes, and how far it may be off.
"""

from collections.abc import Mapping

from xdsl.ir import SSAValue

from vtac.passes.graph.float_groups.contractions import Contraction
from vtac.passes.graph.float_groups.groups import Sum
from vtac.passes.graph.float_groups.network import Network
from vtac.passes.graph.quantize.contraction_numbers import number_contraction
from vtac.passes.graph.quantize.curves import number_curve
from vtac.passes.graph.quantize.layer import Layer
from vtac.passes.graph.quantize.multiplier import multiplied
from vtac.passes.graph.quantize.numbers import Draft, ShiftPolicy, dense_result, shifted
from vtac.passes.graph.quantize.products import number_product
from vtac.passes.graph.quantize.scales import Scale


def number(
    network: Network,
    group: Sum | Contraction,
    scales: Mapping[SSAValue, Scale],
    policy: ShiftPolicy,
) -> Layer:
    """Choose the integers of a group. Raises Obstacle where there are none."""
    if isinstance(group, Contraction):
        return number_contraction(group, scales)
    draft = Draft(network, group, scales, policy)
    if group.join == "mul":
        return number_product(draft)
    if group.join == "curve":
        return number_curve(draft)
    if group.leaves_int32:
        return dense_result(draft)
    return multiplied(draft) if policy.multiplies_in(group) else shifted(draft)
