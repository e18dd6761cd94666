"""``canonicalize-graph``: one form for what networks say in several ways.

Takes the graph of an import. Leaves batch norms and scalings in the layer before them, additions
per channel as biases, zero Pads as pads of the window that reads them, dense layers as
``graph.gemm`` with weights [O, K] and bias [O], and no op that changes nothing. A layer whose
result has another reader keeps its form. Patterns lie in ``rewrites``. No options.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriteWalker

from vtac.passes.graph.rewrites.gemm import MatMulToGemm, NormaliseGemm
from vtac.passes.graph.rewrites.identities import (
    DropTrivial,
    DropUnused,
    HostToReshape,
    SimplifyReshape,
)
from vtac.passes.graph.rewrites.pads import PadIntoWindow
from vtac.passes.graph.rewrites.rows import ReshapeAfterElements, ReshapeAfterVector
from vtac.passes.graph.rewrites.scaling import AddIntoBias, BatchNormIntoLayer, MulIntoWeights
from vtac.passes.graph.rewrites.shuffles import ShuffleToChannels, TransposeToReshape
from vtac.passes.graph.rewrites.transposes import TransposeIntoDense


@dataclass(frozen=True)
class CanonicalizeGraphPass(ModulePass):
    """Batch norms, pads, biases and dense layers in their one form; identities gone."""

    name = "canonicalize-graph"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every function until nothing changes."""
        pattern = GreedyRewritePatternApplier(
            [
                DropUnused(),
                DropTrivial(),
                HostToReshape(),
                SimplifyReshape(),
                ReshapeAfterElements(),
                ReshapeAfterVector(ctx),
                TransposeToReshape(),
                ShuffleToChannels(),
                PadIntoWindow(),
                MatMulToGemm(ctx),
                NormaliseGemm(ctx),
                TransposeIntoDense(ctx),
                BatchNormIntoLayer(ctx),
                MulIntoWeights(ctx),
                AddIntoBias(ctx),
            ]
        )
        PatternRewriteWalker(pattern).rewrite_module(op)
