"""Rules of layers: convolutions, dense layers, products of matrices."""

from collections.abc import Sequence
from math import inf
from typing import Generic, TypeVar

from xdsl.ir import SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import ConvOp, GemmOp, MatMulOp
from vtac.passes.graph.float_groups.forms import Form, form_of
from vtac.passes.graph.float_groups.network import Network, is_channel_vector, is_matrix_product
from vtac.passes.graph.float_groups.rules.rule import (
    CoreRule,
    ErrorContext,
    Rule,
    Rules,
    known_shape,
)
from vtac.passes.graph.reasons import Reason, ReasonKind

LayerT = TypeVar("LayerT", ConvOp, GemmOp)


class _Layer(CoreRule[LayerT], Generic[LayerT]):
    """Products with constant weights."""

    def width(self, op: LayerT) -> int:
        """The number of products that are added up for one output."""
        return op.products()

    def form(self, op: LayerT, result: SSAValue, factor: Array) -> Form:
        """The linear form of the op: its operand and its weights."""
        return form_of(op, result, factor)

    def bias(self, op: LayerT, network: Network) -> Array:
        """The constant operand of the op."""
        return network.bias(op)


class Conv(_Layer[ConvOp]):
    """A convolution."""

    def why_not(self, op: ConvOp, network: Network) -> str | None:
        """There is an integer form if weights and bias are constants."""
        if network.constant(op.w) is None:
            return Reason("its weights are not constant", ReasonKind.ATTRIBUTE)
        if op.bias is not None and network.constant(op.bias) is None:
            return Reason("its bias is not constant", ReasonKind.ATTRIBUTE)
        return None

    def error(self, op: ConvOp, errors: Sequence[Array], around: ErrorContext) -> Array | None:
        """The error of the operand, propagated through the weights."""
        if around.network.constant(op.w) is None:
            return None
        folded = around.model.folded(around.network.given_weights(op), op.groups)
        return around.model.through(folded, errors[0])


class DenseLayer(_Layer[GemmOp]):
    """A dense layer, or a product of two activations (`contractions`)."""

    def why_not(self, op: GemmOp, network: Network) -> str | None:
        """An integer form needs a constant bias; for two activations, a factor above 0."""
        alpha = op.alpha.value.data
        if is_matrix_product(op, network) and not 0 < alpha < inf:
            return Reason(f"its factor alpha is {alpha:g}, not above 0", ReasonKind.ATTRIBUTE)
        if op.c is not None:
            if network.constant(op.c) is None:
                return Reason("its bias is not constant", ReasonKind.ATTRIBUTE)
            if not is_channel_vector(known_shape(op.c), known_shape(op.result)):
                return Reason("its bias differs between rows", ReasonKind.SHAPE)
        return None


class MatMul(Rule[MatMulOp]):
    """A product of two activations (`contractions`)."""


RULES: Rules = {
    ConvOp: Conv(),
    GemmOp: DenseLayer(),
    MatMulOp: MatMul(),
}
"""The rules of this module."""
