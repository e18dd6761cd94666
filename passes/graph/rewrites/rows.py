"""Reshapes of matrices move behind what works on each element, so that layers stay matrices.

`MatMulToGemm` turns a product of tensors with more than two dimensions into a reshape, a dense
layer over all rows, and a second reshape. Biases, activations and residual additions that follow
are moved in front of the second reshape, next to the layer. Then the reshapes between two
consecutive layers are neighbours and cancel.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    ActivationOp,
    AddOp,
    ClipOp,
    DivOp,
    HardSigmoidOp,
    HardSwishOp,
    LeakyReluOp,
    MulOp,
    NegOp,
    ReluOp,
    ReshapeOp,
    SubOp,
    is_static,
    shape_of,
)
from vtac.passes.graph.constants import constant_of, new_constant
from vtac.passes.graph.rewrites.identities import earlier_reshape

Unary = ActivationOp | ClipOp | HardSigmoidOp | HardSwishOp | LeakyReluOp | NegOp | ReluOp
Arithmetic = AddOp | DivOp | MulOp | SubOp


def matrix_behind(value: SSAValue) -> SSAValue | None:
    """The matrix [R, C] whose rows a reshape to [..., C] spreads over more dimensions."""
    op = value.owner
    if not isinstance(op, ReshapeOp):
        return None
    before, after = shape_of(op.x) or (), shape_of(value) or ()
    spreads = len(before) == 2 and len(after) > 2 and before[-1] == after[-1] > 0
    return op.x if spreads else None


def _like(matrix: SSAValue, result: SSAValue) -> Attribute:
    assert isinstance(result.type, TensorType)
    return TensorType(result.type.element_type, shape_of(matrix) or ())


def _reshape_after(op: Unary | Arithmetic, new: Operation, rewriter: PatternRewriter) -> None:
    new.location = op.location
    reshape = ReshapeOp(new.results[0], op.result.type)
    reshape.location = op.location
    rewriter.replace(op, [new, reshape])


class ReshapeAfterElements(RewritePattern):
    """``relu(reshape(x))`` is ``reshape(relu(x))``, and so for arithmetic with a second operand.

    A second operand that is no spread matrix itself, such as the skip connection of a residual
    addition, is reshaped to one.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: Unary | Arithmetic, rewriter: PatternRewriter) -> None:
        """Match static operands of one shape, one of them at least a spread matrix."""
        found = [matrix_behind(value) for value in op.operands]
        matrix = next((value for value in found if value is not None), None)
        if matrix is None or len({value.type for value in op.operands}) > 1:
            return
        if not is_static(op.result):
            return
        operands = [
            made if made is not None else reshaped(value, _like(matrix, value), op, rewriter)
            for made, value in zip(found, op.operands, strict=True)
        ]
        new = type(op).create(
            operands=operands,
            result_types=[_like(matrix, op.result)],
            properties=op.properties.copy(),
        )
        _reshape_after(op, new, rewriter)


def reshaped(
    value: SSAValue, type: Attribute, before: Operation, rewriter: PatternRewriter
) -> SSAValue:
    """A value under another shape, by a reshape that stands before an op already, or a new one."""
    known = earlier_reshape(value, type, before)
    if known is None:
        known = ReshapeOp(value, type)
        known.location = before.location
        rewriter.insert(known)
    return known.result


@dataclass
class ReshapeAfterVector(RewritePattern):
    """``reshape(x) + c`` is ``reshape(x + c)`` where c varies along the last dimension only."""

    ctx: Context

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: Arithmetic, rewriter: PatternRewriter) -> None:
        """Match a constant on either side."""
        for place, (value, constant) in enumerate(((op.a, op.b), (op.b, op.a))):
            matrix, array = matrix_behind(value), constant_of(self.ctx, constant)
            if matrix is None or array is None:
                continue
            if not _is_last(array, value):
                continue
            vector = new_constant(self.ctx, array.reshape(-1), constant.name_hint, op)
            new = type(op).create(
                operands=[matrix, vector.result][:: -1 if place else 1],
                result_types=[_like(matrix, op.result)],
            )
            rewriter.insert(vector)
            _reshape_after(op, new, rewriter)
            return


def _is_last(array: Array, value: SSAValue) -> bool:
    """Whether an array has one number per position of the last dimension, or a single number."""
    shape = shape_of(value) or ()
    return (
        array.ndim <= len(shape)
        and array.size in (1, shape[-1])
        and (array.size == 1 or array.shape[-1] == shape[-1])
    )
