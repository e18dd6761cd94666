"""Dense layers in one form: ``graph.gemm`` with weights [O, K], bias [O], alpha = beta = 1."""

from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from vtac.dialects.graph import (
    GemmOp,
    MatMulOp,
    ReshapeOp,
    grid_of,
    is_static,
    set_grid,
    shape_of,
)
from vtac.passes.graph.constants import channel_vector, constant_of, new_constant


def is_normal(op: GemmOp) -> bool:
    """alpha = beta = 1, a plain, b transposed, the bias (if any) a vector of its full length."""
    scaled = op.alpha.value.data != 1 or op.beta.value.data != 1
    vector = op.c is None or shape_of(op.c) == (shape_of(op.b) or (0,))[:1]
    return not scaled and vector and not op.trans_a.value.data and bool(op.trans_b.value.data)


@dataclass
class NormaliseGemm(RewritePattern):
    """Scales and transpositions go into constant operands."""

    ctx: Context

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: GemmOp, rewriter: PatternRewriter) -> None:
        """Match a gemm with constant weights that is not normal; a is plain or constant."""
        b, c = constant_of(self.ctx, op.b), constant_of(self.ctx, op.c)
        if is_normal(op) or b is None or b.dtype.kind != "f":
            return
        made: list[Operation] = []
        a = op.a
        if op.trans_a.value.data:
            matrix = constant_of(self.ctx, a)
            if matrix is None:
                return
            made.append(new_constant(self.ctx, np.ascontiguousarray(matrix.T), a.name_hint, op))
            a = made[-1].results[0]
        alpha, beta = op.alpha.value.data, op.beta.value.data
        weights = b if op.trans_b.value.data else b.T
        bias: SSAValue | None = None
        if op.c is not None:
            if c is None:
                return
            vector = channel_vector(c, shape_of(op.result) or (), len(weights))
            if vector is None:
                return
            scaled = (vector.astype(np.float64) * beta).astype(b.dtype)
            made.append(new_constant(self.ctx, scaled, op.c.name_hint, op))
            bias = made[-1].results[0]
        product = np.ascontiguousarray((weights.astype(np.float64) * alpha).astype(b.dtype))
        constant = new_constant(self.ctx, product, op.b.name_hint, op)
        if alpha == 1:
            set_grid(constant, grid_of(op.b), transposed=not op.trans_b.value.data)
        made.append(constant)
        gemm = GemmOp(a, made[-1].results[0], bias, op.result.type, trans_b=True)
        gemm.location = op.location
        rewriter.replace(op, [*made, gemm])


@dataclass
class MatMulToGemm(RewritePattern):
    """A matrix by a constant matrix is a dense layer without bias; of more dimensions the last."""

    ctx: Context

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MatMulOp, rewriter: PatternRewriter) -> None:
        """Match a constant float matrix on the right; the left operand is a matrix, or static."""
        weights = constant_of(self.ctx, op.b)
        if weights is None or weights.ndim != 2 or weights.dtype.kind != "f":
            return
        shape = shape_of(op.a) or ()
        if len(shape) < 2 or (len(shape) > 2 and (not is_static(op.a) or 0 in shape)):
            return
        transposed = new_constant(self.ctx, np.ascontiguousarray(weights.T), op.b.name_hint, op)
        set_grid(transposed, grid_of(op.b), transposed=True)
        made: list[Operation] = [transposed]
        a, type = op.a, op.result.type
        if len(shape) > 2:
            rows, element = prod(shape[:-1]), op.result.type.element_type
            made.append(ReshapeOp(a, TensorType(element, [rows, shape[-1]])))
            a, type = made[-1].results[0], TensorType(element, [rows, weights.shape[1]])
        made.append(GemmOp(a, transposed.result, None, type, trans_b=True))
        if len(shape) > 2:
            made.append(ReshapeOp(made[-1].results[0], op.result.type))
        for new in made:
            new.location = op.location
        rewriter.replace(op, made)
