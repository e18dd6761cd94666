"""Channels of unequal ranges, equalised where readers can take back one factor per channel.

With one scale per tensor, a channel of small values gets few steps. So channels are enlarged by
powers of two that keep them inside the range of the tensor:

- before a depthwise convolution, which takes the factors back in its weights: these have one scale
  per channel anyway (after Nagel et al., "Data-Free Quantization Through Weight Equalization and
  Bias Correction", section 4.1, which weighs the scales of both layers; here the second layer loses
  nothing);
- behind a dense layer that the host alone reads: it dequantises each channel by itself;
- before dense layers that read what the host makes, as behind a layer normalisation, whose few
  large channels leave few steps for the others. The host multiplies before it quantises, and the
  columns of the weights are divided. Then the weights of small channels get fewer steps, so factors
  are the square roots of what the range allows, and are taken only where the estimated noise of the
  layers falls (after Xiao et al., "SmoothQuant", section 4).

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
from vtac.dialects.graph import GemmOp
from vtac.passes.graph.float_groups.forms import Form
from vtac.passes.graph.float_groups.groups import Group, Sum
from vtac.passes.graph.float_groups.network import Network, channels_of

LARGEST_FACTOR = 16.0
"""The largest factor of a channel."""

LARGEST_ON_HOST = 1024.0
"""The largest factor of a channel that only the host reads."""

WORTH = 0.8
"""The share of the estimated noise that must remain at most where a reader's weights lose steps."""

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
    read = {value for group in groups for value in group.inputs}
    factors: dict[SSAValue, Array] = {}
    for group in groups:
        value = group.root.results[0]
        if not isinstance(group, Sum) or not _can_enlarge(group):
            continue
        on_host = isinstance(group.core, GemmOp) and value not in read
        if not on_host and (not value.has_one_use() or value not in apart):
            continue
        found, largest = network.range_of(value), observed.largest(value)
        if found is not None and largest is not None:
            # 127 steps of the scale that the range needs: 128 of them would be clipped.
            most = LARGEST_ON_HOST if on_host else LARGEST_FACTOR
            factors[value] = _factors(max(abs(found[0]) / 128 * 127, found[1]), largest, most)
    return factors | _before_dense(network, groups, observed)


def _before_dense(
    network: Network, groups: Sequence[Group], observed: Observations
) -> dict[SSAValue, Array]:
    """The factors of values that the host makes for dense layers."""
    made = {group.root.results[0] for group in groups}
    readers: dict[SSAValue, list[Group]] = {}
    for group in groups:
        for value in group.inputs:
            readers.setdefault(value, []).append(group)
    factors: dict[SSAValue, Array] = {}
    for value, layers in readers.items():
        dense = all(isinstance(x, Sum) and x.is_homogeneous and x.core is not None for x in layers)
        if value in made or network.given(value) is not None or not dense:
            continue
        # Only now, since it takes time by the number of addends, of which a sum has many.
        forms = [form for layer in layers for form in _forms_of(layer, value)]
        if any(form.plain or not isinstance(form.source, GemmOp) for form in forms):
            continue
        found, largest, power = (
            network.range_of(value), observed.largest(value), observed.power(value)
        )  # fmt: skip
        if found is None or largest is None or power is None:
            continue
        bound = max(map(abs, found))
        room = np.sqrt(np.divide(bound, largest, out=np.ones(len(largest)), where=largest > 0))
        chosen = np.exp2(np.floor(np.log2(np.clip(room, 1.0, LARGEST_FACTOR))))
        weights = np.concatenate([network.weights(form) for form in forms])
        if _noise(weights / chosen, power * chosen**2, bound) < WORTH * _noise(
            weights, power, bound
        ):
            factors[value] = chosen
    return factors


def _forms_of(group: Group, value: SSAValue) -> list[Form]:
    return [form for form in group.forms if form.operand is value] if isinstance(group, Sum) else []


def _noise(weights: Array, power: Array, bound: float) -> float:
    """The noise of dense layers whose weights and operand are rounded, up to a factor.

    weights: [O, C]. power: mean squares of the operand's channels, [C].
    """
    steps = np.abs(weights).max(axis=1) / 127
    of_weights = np.square(steps).sum() * power.sum()
    return float(of_weights + (bound / 127) ** 2 * np.square(weights).sum())


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


def _factors(bound: float, largest: Array, most: float) -> Array:
    """Powers of two, at least 1, that keep each channel, with headroom, inside the bound.

    A channel that is always 0 has factor 1.
    """
    wide = largest.astype(np.float64)  # in float32, the quotient of a tiny magnitude overflows
    room = np.divide(bound / HEADROOM, wide, out=np.ones_like(wide), where=wide > 0)
    return cast(Array, np.exp2(np.floor(np.log2(np.clip(room, 1.0, most)))))
