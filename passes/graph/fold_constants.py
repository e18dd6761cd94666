"""``fold-constants``: an op whose operands are all constant becomes a constant.

Takes and leaves graph ops. Float ops and reshapes are evaluated with the NumPy meaning of
``evaluate``; operators carried whole were folded at import, where ONNX's own evaluator is at hand.
Weights on a grid that are merely moved (transposed, reshaped) stay on it. No options.
"""

from dataclasses import dataclass

import numpy as np
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

from vtac.dialects.graph import (
    ConstantOp,
    GridAttr,
    MovesElements,
    SelectsElements,
    grid_of,
    set_grid,
    shape_of,
)
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
            rewriter.replace(op, set_grid(constant, _moved_grid(op)))


def _moved_grid(op: Operation) -> GridAttr | None:
    """The grid of the result of an op that merely moves elements of constants on grids.

    The step of each element moves with it. None where the steps do not lie along one axis then.
    """
    if not (op.has_trait(MovesElements) and op.has_trait(SelectsElements)):
        return None
    steps = []
    for operand in op.operands:
        grid, shape = grid_of(operand), shape_of(operand) or ()
        if grid is None:
            return None
        along = np.array(grid.steps.get_values())
        if (along == along.astype(np.float32)).all():  # as those of ONNX are
            along = along.astype(np.float32)
        if len(along) > 1:
            along = along.reshape([-1 if i == grid.axis.data else 1 for i in range(len(shape))])
        steps.append(np.broadcast_to(along, shape))
    moved = evaluate(op, steps)
    if moved is None or not moved.size:
        return None
    if (moved == moved.flat[0]).all():
        return GridAttr(0, [float(moved.flat[0])])
    for axis in range(moved.ndim):
        first = moved[tuple(slice(None) if i == axis else slice(1) for i in range(moved.ndim))]
        if (moved == first).all():
            return GridAttr(axis, first.reshape(-1).tolist())
    return None


@dataclass(frozen=True)
class FoldConstantsPass(ModulePass):
    """Evaluate ops whose operands are all constant."""

    name = "fold-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Fold in every function, to the end; constants that nothing uses are dropped."""
        pattern = GreedyRewritePatternApplier([FoldConstant(ctx)])
        PatternRewriteWalker(pattern).rewrite_module(op)
