"""Rules of ops that pass int8 through: max pooling, and ops that move or repeat elements."""

from collections.abc import Sequence

from vtac.dialects.context import Array
from vtac.dialects.graph import DepthToSpaceOp, MaxPoolOp, ReshapeOp, TransposeOp, UpsampleOp
from vtac.passes.graph.float_groups.network import Network
from vtac.passes.graph.float_groups.rules.pooling import OUTSIDE, window_counts
from vtac.passes.graph.float_groups.rules.rule import ErrorContext, PassingRule, Rules, known_shape


class MaxPool(PassingRule[MaxPoolOp]):
    """Max pooling takes the largest element of each window."""

    def why_not(self, op: MaxPoolOp, network: Network) -> str | None:
        """There is an integer form if every window holds an element of the operand."""
        return None if window_counts(op).all() else OUTSIDE

    def error(self, op: MaxPoolOp, errors: Sequence[Array], around: ErrorContext) -> Array | None:
        """The operand's error, but that of clamped elements counts little: a maximum rarely picks
        an element that a relu has clamped."""
        found = around.network.range_of(op.x)
        if found is None:
            return errors[0]
        before, after = (around.free(value, found[0]) for value in (op.x, op.result))
        if before is None or after is None:
            return errors[0]
        return around.model.picked(errors[0], before, after)


class Reshape(PassingRule[ReshapeOp]):
    """A reshape gives the same elements another shape. One that stays on the host is reported
    without a reason, since it computes nothing."""

    computes = False

    def keeps_channels(self, op: ReshapeOp) -> bool:
        """Channels are kept where the first two dimensions stay."""
        return known_shape(op.x)[:2] == known_shape(op.result)[:2]


class Transpose(PassingRule[TransposeOp]):
    """A transpose puts dimensions in another order."""

    def keeps_channels(self, op: TransposeOp) -> bool:
        """Channels are kept where the first two dimensions keep their places."""
        return tuple(op.permutation.get_values()[:2]) == (0, 1)


class DepthToSpace(PassingRule[DepthToSpaceOp]):
    """DepthToSpace spreads channels over space."""

    def keeps_channels(self, op: DepthToSpaceOp) -> bool:
        """Channels are kept by blocks of one element only: others mix several channels."""
        return set(op.blocks.get_values()) == {1}


class Upsample(PassingRule[UpsampleOp]):
    """Upsampling repeats elements."""

    def keeps_channels(self, op: UpsampleOp) -> bool:
        """Channels are kept where elements are repeated along spatial dimensions only."""
        return set(op.factors.get_values()[:2]) == {1}


RULES: Rules = {
    DepthToSpaceOp: DepthToSpace(),
    MaxPoolOp: MaxPool(),
    ReshapeOp: Reshape(),
    TransposeOp: Transpose(),
    UpsampleOp: Upsample(),
}
"""The rules of this module."""
