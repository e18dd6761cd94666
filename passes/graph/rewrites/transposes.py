"""Transposes that a constant factor of a product takes up."""

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from vtac.dialects.graph import (
    AxisAttributes,
    ElementWise,
    GemmOp,
    MatMulOp,
    ReshapeOp,
    TransposeOp,
    grid_of,
    is_static,
    set_grid,
    shape_of,
)
from vtac.passes.graph.constants import constant_of, new_constant
from vtac.passes.graph.rewrites.gemm import is_normal


@dataclass
class TransposeIntoDense(RewritePattern):
    """``gemm(reshape(transpose(x)), w)`` is ``gemm(reshape(x), w)`` with the columns of w permuted.

    Ops that compute each element by itself may stand before the gemm.
    """

    ctx: Context

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GemmOp, rewriter: PatternRewriter) -> None:
        """Match a normalised gemm with constant weights behind a transposed, flattened tensor."""
        weights, between = constant_of(self.ctx, op.b), list[Operation]()
        value = op.a
        while _computes_each(value) and isinstance(value.owner, Operation):
            between.append(value.owner)
            value = value.owner.operands[0]
        flat = value.owner
        if weights is None or not is_normal(op) or not isinstance(flat, ReshapeOp):
            return
        order = _columns(flat)
        if order is None or (between and not value.has_one_use()):
            return
        grid = grid_of(op.b)
        if grid is not None and grid.axis.data == 1 and len(grid.steps) > 1:
            return
        columns = np.empty_like(weights)
        columns[:, order] = weights
        made: list[Operation] = [new_constant(self.ctx, columns, op.b.name_hint, op)]
        b = set_grid(made[0], grid).result  # type: ignore[arg-type]
        made.append(_at(flat, ReshapeOp(flat.x.owner.x, flat.result.type)))  # type: ignore[union-attr]
        for old in reversed(between):
            made.append(_at(old, old.clone({old.operands[0]: made[-1].results[0]})))
        operands = [made[-1].results[0], b, *([] if op.c is None else [op.c])]
        made.append(
            _at(
                op,
                GemmOp.create(
                    operands=operands,
                    result_types=[op.result.type],
                    properties=op.properties.copy(),
                ),
            )
        )
        rewriter.replace(op, made)
        transpose = flat.x.owner
        for used in (*between, flat, transpose):
            if isinstance(used, Operation) and not used.results[0].uses:
                rewriter.erase(used)


def _at(place: Operation, op: Operation) -> Operation:
    op.location = place.location
    return op


def _computes_each(value: SSAValue) -> bool:
    """Whether an op computes each element of a value from the same element of its only operand."""
    op = value.owner
    if not isinstance(op, Operation) or len(op.operands) != 1 or not value.has_one_use():
        return False
    return op.has_trait(ElementWise) and not op.has_trait(AxisAttributes)


def _columns(flat: ReshapeOp) -> list[int] | None:
    """Where each column of a flattened transpose is in the flattened operand; None if nowhere."""
    transpose = flat.x.owner
    if not isinstance(transpose, TransposeOp) or not is_static(transpose.x):
        return None
    shape, layout = shape_of(transpose.x) or (), transpose.permutation.get_values()
    flattened = shape_of(flat.result) or ()
    if 0 in shape or layout[0] != 0 or len(flattened) != 2 or flattened[0] != shape[0]:
        return None
    places = np.arange(flattened[1]).reshape(shape[1:])
    found: list[int] = places.transpose([axis - 1 for axis in layout[1:]]).reshape(-1).tolist()
    return found


@dataclass
class ConstantToTheRight(RewritePattern):
    """``matmul(A, transpose(x))`` with a constant A is ``transpose(matmul(x, transpose(A)))``.

    A product by a constant on the right is a dense layer. One transpose remains, behind it, where
    the next layer may take it up.
    """

    ctx: Context

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MatMulOp, rewriter: PatternRewriter) -> None:
        """Match matrices, of which the second is a transpose that nothing else reads."""
        array, transpose = constant_of(self.ctx, op.a), op.b.owner
        if array is None or array.ndim != 2 or not isinstance(transpose, TransposeOp):
            return
        if len(shape_of(op.b) or ()) != 2 or not op.b.has_one_use():
            return
        if tuple(transpose.permutation.get_values()) != (1, 0):
            return
        right = new_constant(self.ctx, np.ascontiguousarray(array.T), op.a.name_hint, op)
        set_grid(right, grid_of(op.a), transposed=True)
        shape = shape_of(op.result) or ()
        type = TensorType(op.result.type.element_type, shape[::-1])
        product = MatMulOp(transpose.x, right.result, type)
        turned = TransposeOp(product.result, [1, 0], op.result.type)
        for made in (product, turned):
            made.location = op.location
        rewriter.replace(op, [right, product, turned])
        rewriter.erase(transpose)
