"""``te-fuse-accumulators``: a sum of accumulators is accumulated, not added up afterwards.

``add(A, B)``, A being a sum over reduction axes that nothing else reads, becomes A with ``init =
B``: it starts from B instead of 0. This is how a residual addition or a second convolution enters
the accumulators of the first for nothing.

Takes and leaves kernels of tensors. An addition stays where neither side is such a sum, or where
the other side is still read elsewhere, since accumulating overwrites it.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from vtac.dialects.te import ComputeOp, combiner, identity_map, rows_of, yielded


@dataclass(frozen=True)
class FuseAccumulatorsPass(ModulePass):
    """Accumulate onto the other side of an addition."""

    name = "te-fuse-accumulators"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite additions of accumulators until none is left."""
        PatternRewriteWalker(_AccumulateOnto()).rewrite_module(op)


class _AccumulateOnto(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ComputeOp, rewriter: PatternRewriter) -> None:
        """``add(A, B)`` to A that starts from B."""
        if not _is_sum_of_two(op):
            return
        for sum_, start in (op.inputs, reversed(op.inputs)):
            accumulating = _accumulation(sum_)
            if accumulating is None or not _read_once(start):
                continue
            fused = ComputeOp(
                accumulating.label.data,
                accumulating.spatial,
                accumulating.reduce,
                accumulating.reads,
                accumulating.body.clone(),
                accumulating.element_type,
                init=start,
            )
            fused.location = accumulating.location
            fused.result.name_hint = accumulating.result.name_hint
            rewriter.replace(op, fused)
            rewriter.erase(accumulating)
            return


def _is_sum_of_two(op: ComputeOp) -> bool:
    """Whether it adds two different tensors of its own shape."""
    if len(op.reduce) or len(op.inputs) != 2 or op.inputs[0] is op.inputs[1]:
        return False
    same = rows_of(identity_map(len(op.spatial)))
    if any(read.rows != same or read.value.type != op.result.type for read in op.reads):
        return False
    last = yielded(op.body).owner
    return isinstance(last, arith.AddiOp) and set(last.operands) == set(op.body.block.args)


def _accumulation(value: SSAValue) -> ComputeOp | None:
    """The stage that sums up ``value`` from 0 for one reader."""
    owner = value.owner
    if not isinstance(owner, ComputeOp) or not len(owner.reduce) or not _read_once(value):
        return None
    if owner.identity is None or owner.identity.value.data != 0:
        return None
    return owner if combiner(owner.body) is arith.AddiOp else None


def _read_once(value: SSAValue) -> bool:
    """Whether a value is made by a stage and read once."""
    return isinstance(value.owner, ComputeOp) and len(list(value.uses)) == 1
