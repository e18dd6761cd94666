"""Chooses the layers whose channels share one shift per block, and the blocks.

On a machine whose ALU takes two cycles for an operation with a vector and one for an immediate, a
shift that is equal in all lanes saves a cycle per element of the result, and the load of the
vector. Neighbouring channels hardly ever agree. But where nothing else needs the order of channels
(``channel_classes``), any channels may become neighbours: ``blocks`` finds those that suit each
other in all layers of a class, and the pass ``sort-channels`` moves them.

The noise that counts is that of the layers which read the class: errors of a channel are weighed by
the squares of the real weights that it meets there. Layers whose noise would grow too much keep one
shift per channel, and do not take part in the choice of blocks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import SSAValue

from vtac.dialects.context import Array
from vtac.passes.approximation.blocks import BlockLayer, Blocks, Enlarged, choose_blocks
from vtac.passes.graph.float_groups.contractions import Contraction
from vtac.passes.graph.float_groups.groups import Group, PassThrough, Sum
from vtac.passes.graph.float_groups.network import Network, channels_of
from vtac.passes.graph.quantize.channel_classes import ChannelClass, by_channel, reorderable
from vtac.passes.graph.quantize.layer import Layer, Term
from vtac.passes.graph.quantize.numbers import (
    ROUNDING_NOISE,
    Draft,
    ShiftPolicy,
    natural_shifts,
    operand_power,
)
from vtac.passes.graph.quantize.scales import Scale

MOST_GROWTH = 4.0
"""The most by which the noise of a layer may grow where its channels share shifts. Rounding the
weights of these layers together (``rounding``) takes out more than that."""


@dataclass
class Sharing:
    """blocks: the block of each channel of a layer, for the layers that share shifts [C]. factors:
    by what channels of values are enlarged, in place of those of ``equalisation``.
    """

    blocks: dict[Sum, Array] = field(default_factory=dict)
    factors: dict[SSAValue, Array] = field(default_factory=dict)


def share_shifts(
    network: Network,
    groups: Sequence[Group],
    scales: Mapping[SSAValue, Scale],
    layers: Mapping[Sum | Contraction, Layer],
    policy: ShiftPolicy,
) -> Sharing:
    """Blocks for the classes in which some layer has different shifts within a block.

    layers: the integers of the groups as they would be otherwise.
    """
    sharing = Sharing()
    if policy.sharing != "auto" or not policy.gains_by_blocks:
        return sharing
    for channels in reorderable(groups):
        shifted = [x for x in channels.sums if _ends_in_shift(x, layers[x], policy)]
        if any(_differs(layers[group].shift, policy.block) for group in shifted):
            _share(network, groups, scales, policy, channels, shifted, sharing)
    return sharing


def _ends_in_shift(group: Sum, layer: Layer, policy: ShiftPolicy) -> bool:
    """Whether a sum ends in a shift, at a scale that the quantiser chose.

    In a network that rounds itself, every rounding that comes out otherwise is an error of a whole
    step: there no layer gives up bits of its weights.
    """
    own = group.join in ("add", "max", "min") and layer.scale is not None and not group.is_rounded
    return own and not policy.multiplies_in(group) and any(not f.plain for f in group.forms)


def _differs(shift: Array, block: int) -> bool:
    """Whether the shifts of some block of neighbours differ."""
    first = shift[np.arange(len(shift)) // block * block]
    return bool((shift != first).any())


def _share(
    network: Network,
    groups: Sequence[Group],
    scales: Mapping[SSAValue, Scale],
    policy: ShiftPolicy,
    channels: ChannelClass,
    sums: Sequence[Sum],
    sharing: Sharing,
) -> None:
    """Choose the blocks of one class."""
    weights = _influence(network, groups, channels)
    known = {
        group: _block_layer(Draft(network, group, scales, policy), weights[group.root.results[0]])
        for group in sums
    }
    left = list(sums)
    while left:
        enlarged = _enlarged(network, scales, left, known, weights)
        layers = [known[group] for group in left]
        found = choose_blocks(layers, enlarged, policy.block, sorts=True)
        growths = [_growth(place, layer, enlarged, found) for place, layer in enumerate(layers)]
        worst = int(np.argmax(growths))
        if growths[worst] <= MOST_GROWTH:
            alone = np.arange(len(found.numbers))
            sharing.blocks |= dict.fromkeys(sums, alone) | dict.fromkeys(left, found.numbers)
            if enlarged is not None and found.reduced.any():
                value = left[enlarged.made].root.results[0]
                sharing.factors[value] = network.factors[value] / np.exp2(found.reduced)
            return
        del left[worst]


def _growth(place: int, layer: BlockLayer, enlarged: Enlarged | None, found: Blocks) -> float:
    """The noise of a layer in these blocks, as a multiple of that at its natural shifts."""
    shift, rounding = found.shifts[place], np.zeros(1)
    if enlarged is not None and place == enlarged.made:
        shift = shift - found.reduced
        rounding = enlarged.rounding * (4.0**found.reduced - 1)
    elif enlarged is not None and place == enlarged.read:
        shift = shift + found.reduced
    natural = (layer.weights + layer.rest).sum()
    return float((layer.at(shift).sum() + rounding.sum()) / natural)


def _block_layer(draft: Draft, influence: Array) -> BlockLayer:
    """The natural shifts of a layer, and its noise in the layers that read it."""
    assert draft.scale is not None
    shift, weighed = natural_shifts(draft)
    of_weights = np.zeros(draft.channels)
    for term in weighed:
        of_weights += _summed_variance(draft.network, term) * np.ldexp(1.0, -2 * shift)
    steps = influence * draft.scale.value**2 * ROUNDING_NOISE
    return BlockLayer(shift, of_weights * steps, steps * np.ones(draft.channels))


def _summed_variance(network: Network, term: Term) -> Array:
    """The variances of all operands of each output channel, in their steps squared, [O].

    Observed on samples, or else as if values were spread evenly over their range: biases correct
    the means where these were observed, and only then.
    """
    value, outputs = term.form.operand, term.shape[0]
    mean, power = network.mean(value), None
    if network.observations is not None:
        power = network.observations.power(value)
    if mean is None or power is None:
        each = np.full(channels_of(value), operand_power(network, term))
    else:
        power = power * np.square(network.factors.get(value, 1.0))
        each = np.maximum(power - np.square(mean), 0.0) / term.scale.value**2
    taps = float(np.prod(term.shape[2:]))
    by_group = each.reshape(term.form.group, -1).sum(axis=1)
    return np.asarray(np.repeat(by_group, outputs // term.form.group) * taps)


def _enlarged(
    network: Network,
    scales: Mapping[SSAValue, Scale],
    sums: Sequence[Sum],
    known: Mapping[Sum, BlockLayer],
    influence: Mapping[SSAValue, Array],
) -> Enlarged | None:
    """The first value that is enlarged between two of these layers."""
    places: dict[SSAValue, int] = {group.root.results[0]: place for place, group in enumerate(sums)}
    for read, group in enumerate(sums):
        for form in group.forms:
            value = form.operand
            if value in network.factors and value in places and len(group.forms) == 1:
                exponents = np.rint(np.log2(network.factors[value])).astype(np.int64)
                rounding = influence[value] * scales[value].value ** 2 * ROUNDING_NOISE
                return Enlarged(places[value], read, exponents, rounding)
    return None


def _influence(
    network: Network, groups: Sequence[Group], channels: ChannelClass
) -> dict[SSAValue, Array]:
    """By what the noise of each channel of the values of a class is multiplied where it is read.

    Sums of squares of real weights; 1 where nothing weighs it.
    """
    found = {value: np.zeros(channels_of(value)) for value in channels.values}
    for group in reversed(groups):
        result = group.root.results[0]
        if result in found and not found[result].any():
            found[result][:] = 1.0
        if isinstance(group, PassThrough):
            if group.inputs[0] in found and result in found:
                found[group.inputs[0]] += found[result]
        elif isinstance(group, Sum):
            for form in group.forms:
                if form.operand not in found:
                    continue
                if form.plain:
                    found[form.operand] += found.get(result, np.ones(1))
                    continue
                squares = np.square(network.weights(form))
                if by_channel(form):
                    own = squares.reshape(len(squares), -1).sum(axis=1)
                    found[form.operand] += own * found.get(result, np.ones(1))
                else:
                    found[form.operand] += squares.sum(axis=(0, *range(2, squares.ndim)))
    return {value: np.maximum(array, array.max() * 1e-12) for value, array in found.items()}
