"""Ops that change nothing, or only the shape; operators whose results nothing reads."""

from dataclasses import dataclass

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from vtac.dialects.graph import (
    AveragePoolOp,
    ClipOp,
    HostOp,
    MaxPoolOp,
    PoolOp,
    ReluOp,
    ReshapeOp,
    is_static,
    shape_of,
)

RESHAPING = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
"""ONNX operators that keep the elements in order."""


def earlier_reshape(value: SSAValue, type: Attribute, before: Operation) -> ReshapeOp | None:
    """A reshape of a value to a type that comes before an op in its block, if there is one."""
    for use in value.uses:
        op = use.operation
        if not isinstance(op, ReshapeOp) or op.result.type != type:
            continue
        if op.is_before_in_block(before):
            return op
    return None


class SimplifyReshape(RewritePattern):
    """A reshape to the same static shape is its operand; of two in a row the second is enough.

    Of two equal reshapes of one value the first is enough.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter) -> None:
        """Match a reshape."""
        if is_static(op.x) and op.x.type == op.result.type:
            rewriter.replace(op, [], [op.x])
        elif isinstance(op.x.owner, ReshapeOp):
            new = ReshapeOp(op.x.owner.x, op.result.type)
            new.location = op.location
            rewriter.replace(op, new)
        elif (first := earlier_reshape(op.x, op.result.type, op)) is not None:
            rewriter.replace(op, [], [first.result])


class HostToReshape(RewritePattern):
    """Squeeze, Unsqueeze and their kind between known shapes are ``graph.reshape``."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: HostOp, rewriter: PatternRewriter) -> None:
        """Match an operator that keeps the elements in order, with one unknown extent at most."""
        if op.op_type.data not in RESHAPING or op.domain.data or len(op.outputs) != 1:
            return
        x, result = op.inputs[0], op.outputs[0]
        before, after = shape_of(x), shape_of(result)
        if before is None or after is None or 0 in (*before, *after):
            return
        if after.count(DYNAMIC_INDEX) > 1 or not isinstance(x.type, TensorType):
            return
        new = ReshapeOp(x, result.type)
        new.location = op.location
        rewriter.replace(op, new)


class DropTrivial(RewritePattern):
    """Relu after relu, a clip without bounds, a pooling of single elements."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: ReluOp | ClipOp | MaxPoolOp | AveragePoolOp, rewriter: PatternRewriter
    ) -> None:
        """Match an op whose result is its operand."""
        if isinstance(op, ReluOp):
            trivial = isinstance(op.x.owner, ReluOp)
        elif isinstance(op, ClipOp):
            trivial = op.min is None and op.max is None
        else:
            trivial = _takes_single_elements(op)
        if trivial and op.x.type == op.result.type:
            rewriter.replace(op, [], [op.x])


def _takes_single_elements(op: PoolOp) -> bool:
    ones = {*op.kernel.get_values(), *op.strides.get_values()} == {1}
    return ones and not any(op.pads.get_values())


@dataclass
class DropUnused(RewritePattern):
    """Erase an ONNX operator if nothing reads its results: it has no other effect."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: HostOp, rewriter: PatternRewriter) -> None:
        """Match an operator none of whose results is read."""
        if all(not result.uses for result in op.outputs):
            rewriter.erase(op)
