"""Which operands of products of activations take two int8 planes, high and low.

Shares, as a softmax leaves them, are never negative, and most are far below the largest one: of
n shares the mean is 1/n, while a single one may be 1. Symmetric int8 has 127 steps for [0, 1], so
that a row of 64 equal shares would be two steps each, and a zero point costs a product of its own.
For the price of one more product, a second plane makes the steps up to 256 times as fine::

    sum_k a b = 2^p sum_k high b + sum_k low b,  a = 2^p high + low

The host splits the operand as it quantises it. So only values that the host makes are split, and
only where nothing else reads them.
"""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from vtac.passes.graph.float_groups.contractions import Contraction
from vtac.passes.graph.float_groups.groups import Group
from vtac.passes.graph.float_groups.network import Network

MOST_LOW_BITS = 8
"""The most bits of the low plane: it is int8, and it holds a rounded rest of either sign."""


def find_fine(network: Network, groups: Sequence[Group]) -> dict[SSAValue, int]:
    """How many bits lie in the low plane of each operand that has one."""
    made = {group.root.results[0] for group in groups}
    found = {}
    for group in groups:
        if isinstance(group, Contraction) and group.a.value not in made:
            bits = _low_bits(network, group)
            if bits:
                found[group.a.value] = bits
    return found


def _low_bits(network: Network, group: Contraction) -> int:
    value = group.a.value
    lo, hi = network.range_of(value) or (-1.0, 0.0)
    if lo < 0 or hi <= 0 or value is group.b.value or network.constant(value) is not None:
        return 0
    if network.given(value) is not None or network.given(group.b.value) is not None:
        return 0
    if group.is_rounded or any(use.operation not in group.covered for use in value.uses):
        return 0
    return next(
        (bits for bits in range(MOST_LOW_BITS, 0, -1) if largest_sum(group, bits) < 2**30), 0
    )


def largest_sum(group: Contraction, low_bits: int) -> int:
    """The largest magnitude of a sum of products with an operand ``a`` of so many low bits."""
    return 128 * group.inner * ((128 << low_bits) + (128 if low_bits else 0))
