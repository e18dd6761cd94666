"""``fold-constants``: an op whose operands are all constant becomes a constant.

Takes and leaves graph ops. Float ops and reshapes are evaluated with the NumPy meaning of
``evaluate``; operators carried whole were folded at import, where ONNX's own evaluator is at hand.
No options.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
)

from vtac.dialects.graph import ConstantOp
from vtac.passes.graph.constants import constant_of, new_constant
from vtac.passes.graph.evaluate import evaluate


@dataclass
class FoldConstant(RewritePattern):
    """Evaluate one op."""

    ctx: Context

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Replace the op if every operand is constant and its meaning is known."""
        if not op.operands or isinstance(op, ConstantOp) or len(op.results) != 1:
            return
        arrays = [constant_of(self.ctx, operand) for operand in op.operands]
        if any(array is None for array in arrays):
            return
        result = evaluate(op, [array for array in arrays if array is not None])
        if result is None:
            return
        constant = new_constant(self.ctx, result, op.results[0].name_hint, op)
        if constant.result.type == op.results[0].type:
            rewriter.replace(op, constant)


@dataclass(frozen=True)
class FoldConstantsPass(ModulePass):
    """Evaluate ops whose operands are all constant."""

    name = "fold-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Fold in every function, to the end; constants that nothing uses are dropped."""
        pattern = GreedyRewritePatternApplier([FoldConstant(ctx)])
        PatternRewriteWalker(pattern).rewrite_module(op)
