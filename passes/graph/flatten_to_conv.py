"""``flatten-to-conv``: a dense layer on a flattened image becomes a convolution over all of it.

``gemm(reshape(x: [N, C, H, W] -> [N, C*H*W]), w: [O, C*H*W])`` is a convolution of x by
w: [O, C, H, W] without pads, whose result [N, O, 1, 1] is reshaped to [N, O]. The image then
stays in the accelerator's layout. Any number of spatial dimensions; no options.
"""

from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp, TensorType
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from vtac.dialects.graph import (
    ConvOp,
    GemmOp,
    ReshapeOp,
    grid_of,
    row_steps,
    set_grid,
    shape_of,
)
from vtac.passes.graph.constants import constant_of, new_constant


@dataclass
class FlattenToConv(RewritePattern):
    """Rewrite one normalised gemm with constant weights after a flattening reshape."""

    ctx: Context

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GemmOp, rewriter: PatternRewriter) -> None:
        """Match ``graph.gemm`` in the form that canonicalize-graph leaves."""
        weights, flat = constant_of(self.ctx, op.b), op.a.owner
        if weights is None or not isinstance(flat, ReshapeOp) or not _is_normal(op):
            return
        shape = shape_of(flat.x) or ()
        if len(shape) < 3 or DYNAMIC_INDEX in shape[1:] or prod(shape[1:]) != weights.shape[1]:
            return
        if shape[0] != (shape_of(op.a) or ())[0]:
            return
        rank, outputs = len(shape) - 2, weights.shape[0]
        kernel = new_constant(self.ctx, weights.reshape(outputs, *shape[1:]), op.b.name_hint, op)
        if row_steps(op.b, outputs) is not None:
            set_grid(kernel, grid_of(op.b))
        assert isinstance(op.result.type, TensorType)
        conv = ConvOp(
            flat.x,
            kernel.result,
            op.c,
            TensorType(op.result.type.element_type, [shape[0], outputs, *[1] * rank]),
            strides=[1] * rank,
            pads=[0] * (2 * rank),
            dilations=[1] * rank,
        )
        result = ReshapeOp(conv.result, op.result.type)
        for new in (conv, result):
            new.location = op.location
        rewriter.replace(op, [kernel, conv, result])


def _is_normal(op: GemmOp) -> bool:
    """alpha = beta = 1, a plain, b transposed, the bias (if any) a vector."""
    scaled = op.alpha.value.data != 1 or (op.c is not None and op.beta.value.data != 1)
    vector = op.c is None or len(shape_of(op.c) or ()) == 1
    return not scaled and vector and not op.trans_a.value.data and bool(op.trans_b.value.data)


@dataclass(frozen=True)
class FlattenToConvPass(ModulePass):
    """Dense layers on flattened images become convolutions over the whole image."""

    name = "flatten-to-conv"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every such layer."""
        pattern = GreedyRewritePatternApplier([FlattenToConv(ctx)])
        PatternRewriteWalker(pattern).rewrite_module(op)
