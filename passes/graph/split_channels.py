"""``split-channels``: the few large channels between two dense layers become a tensor of their own.

Trained transformers have channels behind their Gelu that are many times as large as all others
(Dettmers et al., "LLM.int8()", section 4). With one scale per tensor these get few steps. A Gelu is
not linear, so no factor passes through it, and channels cannot be enlarged (`equalisation`). But a
dense layer mixes its channels, so their order is free, and ``W f(V x)`` is ``W1 f(V1 x) + W2 f(V2
x)`` with the rows of V and the columns of W in two parts. Each part has a scale of its own, and the
accumulators of W take both (`forms.taken_apart`); the weights of the part with the coarser scale
take two planes (`numbers`), so that those of the other lose no steps.

Takes calibrated float functions with observations, for targets with blocks of channels; parts are
whole blocks. Splits dense layers around a function of one variable (`one_variable`), where the
rounding of what the second one reads causes at most `WORTH` as much noise as before. What the user
keeps on the host stays as it is, and so does what has given scales.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from vtac.dialects.context import Array, Observations
from vtac.dialects.graph import ConcatOp, GemmOp, shape_of
from vtac.dialects.graph.ranges import set_range
from vtac.dialects.graph.value_names import VALUE_NAMES_ATTRIBUTE
from vtac.passes.graph.codegen import functions_of_host
from vtac.passes.graph.constants import new_constant
from vtac.passes.graph.float_groups.groups import is_compared
from vtac.passes.graph.float_groups.network import Network, is_channel_vector, producer
from vtac.passes.graph.float_groups.one_variable import OneVariable, function_at
from vtac.passes.graph.quantize.equalisation import FEWEST
from vtac.passes.graph.reasons import is_settled

WORTH = 0.25
"""The share of the noise that must remain at most."""

MOST_LARGE = 1 / 32
"""The largest share of channels that are large: their weights take two planes, so each costs two
products."""

HEADROOM = 1.25
"""How far the range of the other channels exceeds what was seen of them."""


@dataclass(frozen=True)
class SplitChannelsPass(ModulePass):
    """Split off large channels between dense layers."""

    name = "split-channels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Split in every function that has no codegen, where the context has observations."""
        for function in functions_of_host(op):
            if len(function.body.blocks) == 1:
                network = Network(ctx, function)
                observed, target = network.observations, network.target
                if observed is None or target is None or len(observed.batches) < FEWEST:
                    continue
                for pair in _pairs(network):
                    if (large := _large(pair, observed, network, target.block)) is not None:
                        _Split(pair, observed, network, large).run()


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two dense layers, and the function of one variable between them."""

    before: GemmOp
    function: OneVariable
    after: GemmOp

    @property
    def ops(self) -> list[Operation]:
        """What computes the operand of the second layer, in order of execution."""
        return [self.before, *reversed(self.function.covered)]


def _pairs(network: Network) -> list[_Pair]:
    order = {op: place for place, op in enumerate(network.block.ops)}
    settled = [op for op in order if is_settled(op)]
    found = []
    for after in order:
        if not isinstance(after, GemmOp) or not _is_free(after, network) or after in settled:
            continue
        if is_compared(after.result):  # its accumulators are the result: those of one operand
            continue
        root = producer(after.a)
        function = None if root is None else function_at(root, network, settled, order)
        before = None if function is None else producer(function.variable)
        if function is None or not isinstance(before, GemmOp) or before in settled:
            continue
        inside = {*function.covered, after}
        values = [before.result, *(op.results[0] for op in function.covered)]
        alone = all(use.operation in inside for value in values for use in value.uses)
        if alone and after.a.has_one_use() and _is_free(before, network):
            found.append(_Pair(before, function, after))
    return found


def _is_free(op: GemmOp, network: Network) -> bool:
    """Whether a product is a dense layer with weights and bias that may be reordered."""
    if op.trans_a.value.data or network.constant(op.b) is None:
        return False
    if any(network.given(value) is not None for value in (op.a, op.b, op.result)):
        return False
    shape = shape_of(op.result) or ()
    if op.c is None:
        return True
    return network.constant(op.c) is not None and is_channel_vector(shape_of(op.c) or (), shape)


def _large(pair: _Pair, observed: Observations, network: Network, block: int) -> Array | None:
    """Whether each channel between the layers is one of the large ones; None if there are none."""
    hidden, pre = pair.after.a, pair.before.result
    largest, found = observed.largest(hidden), network.range_of(hidden)
    if largest is None or found is None or observed.largest(pre) is None:
        return None
    if network.range_of(pre) is None or len(largest) % block:
        return None
    powers = np.square(network.given_weights(pair.after)).sum(axis=0)
    order = np.argsort(-largest, kind="stable")
    bound, before = max(map(abs, found)), np.cumsum(powers[order])
    counts = np.arange(block, int(MOST_LARGE * len(largest)) + 1, block)
    if not len(counts) or not bound * before[-1]:
        return None
    rest = np.minimum(HEADROOM * largest[order[counts]], bound)
    large = before[counts - 1]
    noise = (bound**2 * large + np.square(rest) * (before[-1] - large)) / (bound**2 * before[-1])
    best = int(noise.argmin())
    if noise[best] > WORTH:
        return None
    flags = np.zeros(len(largest), bool)
    flags[order[: counts[best]]] = True
    return flags


@dataclass(frozen=True, eq=False)
class _Split:
    """The rewriting of a pair of layers. large: [C]."""

    pair: _Pair
    observed: Observations
    network: Network
    large: Array

    def run(self) -> None:
        """Two copies of the first layer and of the function, side by side for the second layer."""
        after = self.pair.after
        parts = [np.flatnonzero(~self.large), np.flatnonzero(self.large)]
        joined = ConcatOp([self._part(part, n) for n, part in enumerate(parts)], 1, after.a.type)
        joined.location = after.location
        self._insert(joined)
        weights = self.network.constant(after.b)
        assert weights is not None, "dense layers have constant weights"
        columns = weights.take(np.concatenate(parts), axis=1 if after.trans_b.value.data else 0)
        after.operands[1] = self._constant(columns, after.b)
        after.operands[0] = joined.result
        for op in reversed(self.pair.ops):
            Rewriter.erase_op(op)

    def _part(self, channels: Array, number: int) -> SSAValue:
        """The function of some channels of the first layer."""
        before, hidden = self.pair.before, self.pair.after.a
        made: dict[SSAValue, SSAValue] = {
            before.b: self._some(before.b, channels, 0 if before.trans_b.value.data else 1)
        }
        if before.c is not None:
            made[before.c] = self._some(before.c, channels, -1)
        for op in self.pair.ops:
            copy = op.clone(made)
            copy.attributes.pop(VALUE_NAMES_ATTRIBUTE, None)
            self.network.block.insert_op_before(copy, self.pair.after)
            old = copy.results[0].type
            assert isinstance(old, TensorType)
            type = TensorType(old.element_type, (*old.get_shape()[:1], len(channels)))
            value = Rewriter.replace_value_with_new_type(copy.results[0], type)
            value.name_hint = op.results[0].name_hint
            made[op.results[0]] = value
            self.observed.describe_copy(op, copy)
            if op.results[0] in (before.result, hidden):
                self._describe(op.results[0], value, channels, number)
        return made[hidden]

    def _some(self, value: SSAValue, channels: Array, axis: int) -> SSAValue:
        """Some channels of a constant; a single number serves all of them."""
        array = self.network.constant(value)
        assert array is not None, "dense layers have constant weights"
        if array.shape[axis] == 1:
            return value
        return self._constant(array.take(channels, axis=axis), value)

    def _describe(self, whole: SSAValue, part: SSAValue, channels: Array, number: int) -> None:
        """Give a part its range, and what was observed of it."""
        largest, limits = self.observed.largest(whole), self.network.range_of(whole)
        assert largest is not None and limits is not None, "pairs have both"
        bound = float(largest[channels].max()) * HEADROOM
        set_range(part, max(limits[0], -bound), min(limits[1], bound))
        self.observed.describe_part(whole, part, channels, number)

    def _constant(self, array: Array, old: SSAValue) -> SSAValue:
        constant = new_constant(self.network.ctx, array, old.name_hint, self.pair.after)
        return self._insert(constant)

    def _insert(self, op: Operation) -> SSAValue:
        self.network.block.insert_op_before(op, self.pair.after)
        return op.results[0]
