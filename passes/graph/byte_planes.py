"""``byte-planes``: int32 results leave the accelerator as four int8 tensors.

VTA has no 32-bit store. Accumulators that leave as they are (``graph.add_bias``) are split into
byte planes, which the accelerator stores one after another and the host joins again. A bias inside
a larger sum or product stays whole if every op behind it computes with accumulators, up to the one
that narrows them to int8.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i8
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint

from vtac.dialects.graph import (
    AddBiasOp,
    ElementWise,
    JoinBytesOp,
    RequantizeOp,
    RequantizePlanesOp,
    RescaleOp,
    SplitBytesOp,
)

NARROWING = (RequantizeOp, RequantizePlanesOp, RescaleOp, SplitBytesOp)
"""Ops that read accumulators and yield int8."""


class _SplitAccumulators(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddBiasOp, rewriter: PatternRewriter) -> None:
        if _stays_in_accumulators(op.result):
            return
        type = op.result.type
        assert isinstance(type, TensorType)
        split = SplitBytesOp(op.result, TensorType(i8, type.get_shape()))
        join = JoinBytesOp(split.planes, type)
        split.location = join.location = op.location
        rewriter.insert([split, join], InsertPoint.after(op))
        op.result.replace_uses_with_if(join.result, lambda use: use.operation is not split)


def _stays_in_accumulators(value: SSAValue) -> bool:
    """Whether every reader of int32 values narrows them to int8, perhaps after more arithmetic in
    int32."""
    reached, stack = {value}, [value]
    while stack:
        current = stack.pop()
        users = [use.operation for use in current.uses]
        if not users:
            return False
        for user in users:
            if isinstance(user, NARROWING):
                continue
            if not user.has_trait(ElementWise) or user.results[0].type != value.type:
                return False
            if user.results[0] not in reached:
                reached.add(user.results[0])
                stack.append(user.results[0])
    return True


@dataclass(frozen=True)
class BytePlanesPass(ModulePass):
    """Split int32 results into byte planes and join them again (``graph.split_bytes``)."""

    name = "byte-planes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every add_bias of the module."""
        PatternRewriteWalker(_SplitAccumulators(), apply_recursively=False).rewrite_module(op)
