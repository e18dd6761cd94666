"""Channels of unequal ranges, equalised where the reader takes each channel by itself.

One scale a tensor leaves a channel of small values few steps. A depthwise convolution can take back
a factor a channel in its weights, whose scales are one a channel anyway; the layer before it puts
the factor into its own weights and bias. So each channel is enlarged by the power of two that still
keeps it inside the range of the tensor (after Nagel et al., "Data-Free Quantization Through Weight
Equalization and Bias Correction", section 4.1, where scales of both layers are weighed; here the
second loses nothing). Needs the largest magnitude of each channel on samples.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np
from xdsl.ir import SSAValue

from vtac.dialects.context import Array, Observations
from vtac.passes.graph.quantize.groups import Group, Sum
from vtac.passes.graph.quantize.network import Network, channels_of

LARGEST_FACTOR = 16.0


def find_factors(
    network: Network, groups: Sequence[Group], observed: Observations
) -> dict[SSAValue, Array]:
    """By what each channel of a value is enlarged, for results of groups; elsewhere by nothing."""
    readers: dict[SSAValue, list[Group]] = {}
    for group in groups:
        for value in group.inputs:
            readers.setdefault(value, []).append(group)
    factors: dict[SSAValue, Array] = {}
    for group in groups:
        value = group.root.results[0]
        if not isinstance(group, Sum) or not _can_enlarge(group):
            continue
        if not value.has_one_use() or not any(
            _takes_channels_apart(reader, value) for reader in readers.get(value, ())
        ):
            continue
        found, largest = network.range_of(value), observed.largest(value)
        if found is not None and largest is not None:
            # 127 steps of the scale that the range needs: 128 of them would be clipped.
            factors[value] = _factors(max(abs(found[0]) / 128 * 127, found[1]), largest)
    return factors


def _can_enlarge(group: Sum) -> bool:
    """Whether weights and bias are all there is to a group's result."""
    return bool(group.forms) and not group.skips and not group.leaves_int32


def _takes_channels_apart(group: Group, value: SSAValue) -> bool:
    forms = group.forms if isinstance(group, Sum) and group.join != "mul" else ()
    return any(
        form.operand is value and form.group == channels_of(value) and not form.outside
        for form in forms
    )


def _factors(bound: float, largest: Array) -> Array:
    """Powers of two, at least 1, that keep each channel inside the bound; 1 where all is 0."""
    wide = largest.astype(np.float64)  # in float32, the quotient of a tiny magnitude overflows
    room = np.divide(bound, wide, out=np.ones_like(wide), where=wide > 0)
    return cast(Array, np.exp2(np.floor(np.log2(np.clip(room, 1.0, LARGEST_FACTOR)))))
