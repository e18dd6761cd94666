"""Batch norms, and scalings and additions per channel, folded into the layer before them."""

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    AddOp,
    BatchNormOp,
    DivOp,
    GemmOp,
    MulOp,
    SubOp,
    WeightedOp,
    shape_of,
)
from vtac.passes.graph.constants import channel_vector, constant_of, new_constant
from vtac.passes.graph.evaluate import batch_norm_affine
from vtac.passes.graph.rewrites.gemm import is_normal


@dataclass(frozen=True)
class ConstantLayer:
    """A convolution or dense layer with constant weights [O, ...], and bias [O] or none."""

    op: WeightedOp
    weights: Array
    bias: Array | None


def layer_before(ctx: Context, value: SSAValue) -> ConstantLayer | None:
    """The layer that computes ``value``, if it has one user only."""
    op = value.owner
    if not value.has_one_use() or not isinstance(op, WeightedOp):
        return None
    if isinstance(op, GemmOp) and not is_normal(op):
        return None
    weights, bias = constant_of(ctx, op.weights), constant_of(ctx, op.addend)
    if weights is None or weights.dtype.kind != "f" or (op.addend is not None and bias is None):
        return None
    return ConstantLayer(op, weights, bias)


def fold_affine(
    ctx: Context,
    rewriter: PatternRewriter,
    layer: ConstantLayer,
    after: Operation,
    factor: Array | None,
    offset: Array | None,
) -> None:
    """Replace the layer and what follows it by the layer with ``factor * result + offset``.

    factor, offset: one number per output channel, or None for 1 and 0. New weights are computed in
    float64.
    """
    old, dtype = layer.op, layer.weights.dtype
    weight_operand, bias_operand = old.weights, old.addend
    made: list[Operation] = []
    if factor is not None:
        along = (-1,) + (1,) * (layer.weights.ndim - 1)
        weights = np.empty_like(layer.weights)  # no copies of all weights in float64 between
        np.multiply(layer.weights, factor.reshape(along), weights, dtype=np.float64)
        made.append(new_constant(ctx, weights, weight_operand.name_hint, old))
        weight_operand = made[-1].results[0]
    total = np.zeros(len(layer.weights)) if layer.bias is None else layer.bias.astype(np.float64)
    total = total * (1.0 if factor is None else factor) + (0.0 if offset is None else offset)
    if layer.bias is not None or offset is not None:
        hint = bias_operand.name_hint if bias_operand is not None else None
        made.append(new_constant(ctx, total.astype(dtype), hint or "bias", old))
        bias_operand = made[-1].results[0]
    made.append(_with_operands(old, weight_operand, bias_operand))
    rewriter.replace(after, made)
    rewriter.erase(old)


def _with_operands(old: WeightedOp, weights: SSAValue, bias: SSAValue | None) -> Operation:
    new = type(old).create(
        operands=[old.data, weights, *([] if bias is None else [bias])],
        result_types=[old.result.type],
        properties=old.properties.copy(),
    )
    new.location = old.location
    return new


def _channels(ctx: Context, value: SSAValue, layer: ConstantLayer) -> Array | None:
    array = constant_of(ctx, value)
    if array is None:
        return None
    return channel_vector(array, shape_of(layer.op.result) or (), len(layer.weights))


@dataclass
class BatchNormIntoLayer(RewritePattern):
    """``batch_norm(conv(x))`` is a convolution with other weights."""

    ctx: Context

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: BatchNormOp, rewriter: PatternRewriter) -> None:
        """Match constant statistics after a layer that nothing else reads."""
        layer = layer_before(self.ctx, op.x)
        statistics = [constant_of(self.ctx, v) for v in (op.scale, op.bias, op.mean, op.variance)]
        known = [array for array in statistics if array is not None]
        if layer is None or len(known) != len(statistics):
            return
        factor, offset = batch_norm_affine(op, *known)
        fold_affine(self.ctx, rewriter, layer, op, factor, offset)


@dataclass
class AddIntoBias(RewritePattern):
    """``conv(x) + c`` and ``conv(x) - c`` with one number per channel in c are biases."""

    ctx: Context

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp | SubOp, rewriter: PatternRewriter) -> None:
        """Match a constant on either side, of a difference on the right."""
        sides = [(op.a, op.b), (op.b, op.a)][: 2 if isinstance(op, AddOp) else 1]
        for value, addend in sides:
            layer = layer_before(self.ctx, value)
            offset = None if layer is None else _channels(self.ctx, addend, layer)
            if layer is not None and offset is not None:
                sign = 1 if isinstance(op, AddOp) else -1
                fold_affine(self.ctx, rewriter, layer, op, None, sign * offset)
                return


@dataclass
class MulIntoWeights(RewritePattern):
    """``conv(x) * c`` and ``conv(x) / c`` with one number per channel in c scale the weights."""

    ctx: Context

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MulOp | DivOp, rewriter: PatternRewriter) -> None:
        """Match a constant on either side, of a quotient on the right and none of it 0."""
        sides = [(op.a, op.b), (op.b, op.a)][: 2 if isinstance(op, MulOp) else 1]
        for value, numbers in sides:
            layer = layer_before(self.ctx, value)
            factor = None if layer is None else _channels(self.ctx, numbers, layer)
            if layer is None or factor is None or (isinstance(op, DivOp) and not factor.all()):
                continue
            wide = factor.astype(np.float64)
            wide = 1 / wide if isinstance(op, DivOp) else wide
            fold_affine(self.ctx, rewriter, layer, op, wide, None)
            return
