"""Channels of unequal ranges, equalised where the reader takes each channel by itself.

With one scale per tensor, a channel of small values gets few steps. A depthwise convolution can
take back one factor per channel in its weights, which have one scale per channel anyway; the layer
before it puts the factor into its own weights and bias. So each channel is enlarged by the power of
two that still keeps it inside the range of the tensor (after Nagel et al., "Data-Free Quantization
Through Weight Equalization and Bias Correction", section 4.1, which weighs the scales of both
layers; here the second layer loses nothing).

The largest magnitude of each channel comes from samples, and other inputs exceed it: the next image
exceeds the largest of n with probability 1 / (n + 1), in some channel almost surely. So channels
keep headroom, and are left as they are where too few samples were seen. Where the scales are given,
the network was trained or calibrated with them, and nothing is enlarged.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np
from xdsl.ir import SSAValue

from vtac.dialects.context import Array, Observations
from vtac.passes.graph.quantize.groups import Group, Sum
from vtac.passes.graph.quantize.network import Network, channels_of

LARGEST_FACTOR = 16.0
"""The largest factor of a channel."""

HEADROOM = 2.0
"""How far the largest magnitude on samples stays below the end of the range."""

FEWEST = 3
"""The fewest batches of samples on which channels are enlarged."""


def find_factors(
    network: Network, groups: Sequence[Group], observed: Observations
) -> dict[SSAValue, Array]:
    """The factor of each channel of a group's result; other values have none."""
    if len(observed.batches) < FEWEST:
        return {}
    apart = _taken_apart(groups)
    factors: dict[SSAValue, Array] = {}
    for group in groups:
        value = group.root.results[0]
        if not isinstance(group, Sum) or not _can_enlarge(group):
            continue
        if not value.has_one_use() or value not in apart:
            continue
        found, largest = network.range_of(value), observed.largest(value)
        if found is not None and largest is not None:
            # 127 steps of the scale that the range needs: 128 of them would be clipped.
            factors[value] = _factors(max(abs(found[0]) / 128 * 127, found[1]), largest)
    return factors


def _can_enlarge(group: Sum) -> bool:
    """Whether a group has a scale of its own choice, and makes its result of weights and bias."""
    own = not (group.is_rounded or group.leaves_int32 or group.join == "curve")
    return own and not any(form.plain for form in group.forms)


def _taken_apart(groups: Sequence[Group]) -> set[SSAValue]:
    """The values of which a group takes each channel by itself."""
    sums = [group for group in groups if isinstance(group, Sum) and group.is_homogeneous]
    return {
        form.operand
        for group in sums
        for form in group.forms
        if form.group == channels_of(form.operand) and not (form.outside or form.plain)
    }


def _factors(bound: float, largest: Array) -> Array:
    """Powers of two, at least 1, that keep each channel, with headroom, inside the bound.

    A channel that is always 0 has factor 1.
    """
    wide = largest.astype(np.float64)  # in float32, the quotient of a tiny magnitude overflows
    room = np.divide(bound / HEADROOM, wide, out=np.ones_like(wide), where=wide > 0)
    return cast(Array, np.exp2(np.floor(np.log2(np.clip(room, 1.0, LARGEST_FACTOR)))))
