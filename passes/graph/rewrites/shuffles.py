"""Transposes that move less than they seem to: nothing at all, or only whole channels."""

from math import prod

import numpy as np
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from vtac.dialects.graph import ReshapeOp, TakeChannelsOp, TransposeOp, is_static, shape_of


class TransposeToReshape(RewritePattern):
    """A transpose that only moves extents of 1 keeps all elements in order."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter) -> None:
        """Match a transpose whose other axes stay in order."""
        shape = shape_of(op.x) or ()
        moved = [axis for axis in op.permutation.get_values() if shape[axis] != 1]
        if is_static(op.x) and 0 not in shape and moved == sorted(moved):
            new = ReshapeOp(op.x, op.result.type)
            new.location = op.location
            rewriter.replace(op, new)


class ShuffleToChannels(RewritePattern):
    """Channels in groups, transposed and flattened again, are the same channels in another order.

    The channel shuffle of Zhang et al., "ShuffleNet", section 3.1.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter) -> None:
        """Match reshape, transpose and reshape between tensors of one shape."""
        transpose = op.x.owner
        if not isinstance(transpose, TransposeOp) or not op.x.has_one_use():
            return
        split = transpose.x.owner
        if not isinstance(split, ReshapeOp) or not is_static(split.x):
            return
        shape, parts = shape_of(split.x) or (), shape_of(split.result) or ()
        if shape != shape_of(op.result) or len(shape) < 2 or 0 in shape:
            return
        places = np.arange(prod(shape)).reshape(parts)
        places = places.transpose(transpose.permutation.get_values()).reshape(shape)
        area = prod(shape[2:])
        order = places[0].reshape(shape[1], area)[:, 0] // area
        if not np.array_equal(places, np.arange(prod(shape)).reshape(shape)[:, order]):
            return
        new = TakeChannelsOp(split.x, order.tolist(), op.result.type)
        new.location = transpose.location
        rewriter.replace(op, new)
