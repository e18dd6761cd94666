"""How many products ops sum: the multiply-accumulates (MACs) of convolutions and matrix products.

They follow from shapes alone. Ops of this dialect say so themselves (`Contracts`); an ONNX operator
that is carried whole (`HostOp`) is counted here by its meaning in ONNX or, in the domain
``com.microsoft``, in onnxruntime (ContribOperators.md). Element-wise products, poolings and
normalisations do not count. Products with padding do, as in the literature.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue

from vtac.dialects.graph.attributes import ProtobufAttr
from vtac.dialects.graph.network import known_extents, shape_of
from vtac.dialects.graph.structure import HostOp
from vtac.dialects.graph.traits import Contracts


@dataclass(frozen=True)
class MacCount:
    """A number of multiply-accumulates: at least ``least``, and no more if ``is_exact``.

    A dimension that is not known counts as 1 in ``least``.
    """

    least: int = 0
    is_exact: bool = True

    def __add__(self, other: "MacCount") -> "MacCount":
        """The products of both."""
        return MacCount(self.least + other.least, self.is_exact and other.is_exact)

    def __mul__(self, other: "MacCount") -> "MacCount":
        """As many as this, each that often."""
        return MacCount(self.least * other.least, self.is_exact and other.is_exact)

    def __str__(self) -> str:
        """For users: the number, or what is known of it."""
        if self.is_exact:
            return f"{self.least:,}"
        return f"at least {self.least:,}" if self.least else "unknown"


NONE, UNKNOWN = MacCount(), MacCount(0, False)


def macs_of(op: Operation) -> MacCount:
    """The multiply-accumulates of one op, without those of ops in its regions."""
    if isinstance(op, HostOp):
        return _host_macs(op)
    if not op.has_trait(Contracts):
        return NONE
    products: int = op.products()  # type: ignore[attr-defined]
    is_exact = all(map(_is_counted, (*op.operands, *op.results)))
    return MacCount(_size(op.results[0]).least * products, is_exact)


def total_macs(ops: Iterable[Operation]) -> MacCount:
    """The multiply-accumulates of several ops together."""
    return sum(map(macs_of, ops), start=NONE)


def _size(value: SSAValue | None, first: int = 0, end: int | None = None) -> MacCount:
    """The product of the extents of a tensor, of some of its dimensions only if they are named."""
    count = MacCount(1, value is not None and shape_of(value) is not None)
    if value is not None and count.is_exact:
        shape = (shape_of(value) or ())[first:end]
        for extent, known in zip(shape, known_extents(value)[first:end], strict=True):
            count *= MacCount(known, extent != DYNAMIC_INDEX)
    return count


def _is_counted(value: SSAValue) -> bool:
    return _size(value).is_exact


@dataclass(frozen=True)
class _Node:
    """An ONNX operator that is carried whole."""

    op: HostOp

    def input(self, index: int) -> SSAValue | None:
        """The operand at a position of ONNX; None if it is absent."""
        absent = self.op.absent
        left_out = absent.get_values() if isinstance(absent, DenseArrayBase) else ()
        if index in left_out:
            return None
        found = index - sum(other < index for other in left_out)
        return self.op.inputs[found] if found < len(self.op.inputs) else None

    def size(self, index: int, first: int = 0, end: int | None = None) -> MacCount:
        """The product of the extents of an operand, or of some of them."""
        return _size(self.input(index), first, end)

    def rank(self, index: int) -> int | None:
        """The rank of an operand, if it is known."""
        value = self.input(index)
        shape = None if value is None else shape_of(value)
        return None if shape is None else len(shape)

    @property
    def result(self) -> MacCount:
        """How many elements the first result has."""
        return _size(self.op.outputs[0]) if self.op.outputs else MacCount(1, False)

    def attribute(self, name: str, default: Any = None) -> Any:
        """A number, a text or a list of numbers."""
        match self.op.onnx_attributes.data.get(name):
            case IntegerAttr() as found:
                return found.value.data
            case StringAttr() as found:
                return found.data
            case DenseArrayBase() as found:
                return list(found.get_values())
            case _:
                return default


Counter = Callable[[_Node], MacCount]
"""Counts the products of a node."""


def _contraction(node: _Node, inner: MacCount, *factors: int) -> MacCount:
    """Each element of the result sums ``inner`` products. factors: the operands multiplied.

    Every element of a factor takes part in a product, which is a lower bound where shapes are not
    known.
    """
    count = node.result * inner
    if count.is_exact:
        return count
    return MacCount(max(count.least, *(node.size(index).least for index in factors)), False)


def _convolution(weights: int = 1) -> Counter:
    """Weights are [O, C / group, kernel...]."""
    return lambda node: _contraction(node, node.size(weights, 1), weights)


def _transposed_convolution(node: _Node) -> MacCount:
    """Weights are [C, O / group, kernel...]: each element of the input meets those of a channel."""
    return node.size(0) * node.size(1, 1)


def _product(a: int = 0, b: int = 1) -> Counter:
    """A product of matrices, or of stacks of them."""

    def count(node: _Node) -> MacCount:
        if node.attribute("transBatchA", 0) or node.attribute("transBatchB", 0):
            return UNKNOWN
        axes = [-1 - node.attribute("transA", 0), -2 + node.attribute("transB", 0)]
        inner = MacCount(1, False)
        for index, axis in zip((a, b), axes, strict=True):
            rank = node.rank(index)
            if rank is not None and not inner.is_exact:
                place = max(axis + rank, 0)  # a vector has one dimension
                inner = node.size(index, place, place + 1)
        return _contraction(node, inner, a, b)

    return count


def _product_with_stored(node: _Node) -> MacCount:
    """A product with weights in a format of its own; the attribute K is the inner extent."""
    inner = node.attribute("K")
    return UNKNOWN if inner is None else node.result * MacCount(inner)


def _recurrent(node: _Node) -> MacCount:
    """RNN, GRU, LSTM: in each step all weights of inputs and states meet each entry of the batch.

    Sequences count at their full length, also where a node is told shorter ones.
    """
    return node.size(0, 0, 2) * (node.size(1) + node.size(2))


def _einsum(node: _Node) -> MacCount:
    """Two operands: one product for each choice of all indices. More: the order is the host's."""
    terms = node.attribute("equation", "").replace(" ", "").partition("->")[0].split(",")
    if len(terms) == 1:
        return NONE
    extents: dict[Any, MacCount] = {}
    for index, term in enumerate(terms):
        value, rank = node.input(index), node.rank(index)
        if value is None or rank is None:
            return UNKNOWN
        before, dots, behind = term.partition("...")
        spread = [("...", k) for k in range(rank - len(before + behind), 0, -1)] if dots else []
        for axis, label in enumerate([*before, *spread, *behind]):
            found = _size(value, axis, axis + 1)
            extents[label] = _broadcast(extents.get(label, MacCount(1)), found)
    count = MacCount(1)
    for extent in extents.values():
        count *= extent
    return count if len(terms) == 2 else UNKNOWN


def _broadcast(a: MacCount, b: MacCount) -> MacCount:
    """The extent of a dimension that two operands have; one of them may be 1."""
    decides = any(extent.is_exact and extent.least > 1 for extent in (a, b))
    return MacCount(max(a.least, b.least), decides or (a.is_exact and b.is_exact))


def _scores(queries: MacCount, result: MacCount, length: MacCount) -> MacCount:
    """Attention: queries with all keys, and the weights so found with all values."""
    return (queries + result) * length


def _attention(past: int) -> Counter:
    """Queries, keys and values as operands, the keys' length before their last dimension."""

    def count(node: _Node) -> MacCount:
        rank = node.rank(1)
        if rank not in (3, 4) or node.rank(0) not in (3, 4):
            return UNKNOWN
        length = node.size(1, rank - 2, rank - 1)
        if node.input(past) is not None:
            length += node.size(past, 2, 3)
        return _scores(node.size(0), node.result, length)

    return count


def _projecting_attention(past: int) -> Counter:
    """Attention of ``com.microsoft``: inputs [B, S, I], weights [I, Q + K + V], past [2, B, ..]."""

    def count(node: _Node) -> MacCount:
        tokens, length = node.size(0, 0, 2), node.size(0, 1, 2)
        if node.input(past) is not None:
            length += node.size(past, 3, 4)
        sizes = node.attribute("qkv_hidden_sizes")
        whole = node.size(1, 1)
        queries = MacCount(sizes[0] if sizes else whole.least // 3, whole.is_exact)
        return tokens * node.size(1) + _scores(tokens * queries, node.result, length)

    return count


def _linear_model(node: _Node) -> MacCount:
    """LinearClassifier, LinearRegressor: a row of coefficients for each score."""
    coefficients = node.attribute("coefficients")
    if coefficients is None or node.rank(0) != 2:
        return UNKNOWN
    return node.size(0, 0, 1) * MacCount(len(coefficients))


def _grid(node: _Node) -> MacCount:
    """AffineGrid: each point is the product of a matrix [.., n, n + 1] and a position."""
    return _contraction(node, node.size(0, 2, 3), 0)


def _unknown(node: _Node) -> MacCount:
    """It multiplies, but shapes do not say how often."""
    return UNKNOWN


_ONNX: Mapping[str, Counter] = {
    "AffineGrid": _grid,
    "Attention": _attention(past=4),
    "CausalConvWithState": _convolution(),
    "Conv": _convolution(),
    "ConvInteger": _convolution(),
    "ConvTranspose": _transposed_convolution,
    "DFT": _unknown,
    "DeformConv": _convolution(),
    "Einsum": _einsum,
    "GRU": _recurrent,
    "Gemm": _product(),
    "LSTM": _recurrent,
    "LinearAttention": _unknown,
    "MatMul": _product(),
    "MatMulInteger": _product(),
    "QLinearConv": _convolution(3),
    "QLinearMatMul": _product(0, 3),
    "RNN": _recurrent,
    "STFT": _unknown,
}
"""The operators of ONNX's default domain that multiply; all others do not."""

_LEARNING: Mapping[str, Counter] = {
    "LinearClassifier": _linear_model,
    "LinearRegressor": _linear_model,
    "SVMClassifier": _unknown,
    "SVMRegressor": _unknown,
}
"""Those of ``ai.onnx.ml``."""

_MICROSOFT: Mapping[str, Counter] = {
    "Attention": _projecting_attention(past=4),
    "ConvTransposeWithDynamicPads": _transposed_convolution,
    "DynamicQuantizeLSTM": _recurrent,
    "DynamicQuantizeMatMul": _product(),
    "FusedConv": _convolution(),
    "FusedGemm": _product(),
    "FusedMatMul": _product(),
    "FusedMatMulActivation": _product(),
    "GemmFastGelu": _product(),
    "MatMulBnb4": _product_with_stored,
    "MatMulInteger16": _product(),
    "MatMulIntegerToFloat": _product(),
    "MatMulNBits": _product_with_stored,
    "MultiHeadAttention": _attention(past=6),
    "NhwcConv": _convolution(),
    "NhwcFusedConv": _convolution(),
    "QAttention": _projecting_attention(past=8),
    "QGemm": _product(0, 3),
    "QLinearConv": _convolution(3),
    "TransposeMatMul": _product(),
}
"""Those of ``com.microsoft`` whose products follow from shapes."""

_MICROSOFT_WITHOUT = frozenset(
    {
        "BiasAdd",
        "BiasDropout",
        "BiasGelu",
        "BiasSoftmax",
        "BiasSplitGelu",
        "BitmaskBiasDropout",
        "BitmaskDropout",
        "ComplexMul",
        "ComplexMulConj",
        "CropAndResize",
        "DequantizeLinear",
        "EmbedLayerNormalization",
        "ExpandDims",
        "FastGelu",
        "GatherBlockQuantized",
        "GatherND",
        "Gelu",
        "GridSample",
        "GroupNorm",
        "IsAllFinite",
        "MaxpoolWithMask",
        "MulInteger",
        "MurmurHash3",
        "NGramRepeatBlock",
        "NhwcMaxPool",
        "Pad",
        "QEmbedLayerNormalization",
        "QLinearAdd",
        "QLinearAveragePool",
        "QLinearConcat",
        "QLinearGlobalAveragePool",
        "QLinearLeakyRelu",
        "QLinearMul",
        "QLinearReduceMean",
        "QLinearSigmoid",
        "QLinearSoftmax",
        "QLinearWhere",
        "QuantizeLinear",
        "QuickGelu",
        "Range",
        "ReduceSumInteger",
        "RemovePadding",
        "RestorePadding",
        "RotaryEmbedding",
        "SampleOp",
        "ScaledSiLU",
        "SimplifiedLayerNormalization",
        "SkipGroupNorm",
        "SkipLayerNormalization",
        "SkipSimplifiedLayerNormalization",
        "Tokenizer",
        "Trilu",
        "UnfoldTensor",
        "Unique",
    }
)
"""Operators of ``com.microsoft`` that are known not to multiply matrices."""


def _host_macs(op: HostOp) -> MacCount:
    if any(_holds_graph(value) for value in op.onnx_attributes.data.values()):
        return UNKNOWN
    name, domain = op.op_type.data, op.domain.data
    match domain:
        case "":
            counter = _ONNX.get(name)
        case "ai.onnx.ml":
            counter = _LEARNING.get(name)
        case "com.microsoft.nchwc":  # onnxruntime's layout of blocks of channels
            counter = _ONNX.get(name) if name == "Conv" else None
        case "com.microsoft" if name not in _MICROSOFT_WITHOUT:
            counter = _MICROSOFT.get(name, _unknown)
        case "com.microsoft":
            counter = None
        case _:
            return UNKNOWN
    return NONE if counter is None else counter(_Node(op))


def _holds_graph(value: Attribute) -> bool:
    """Whether an attribute is a subgraph, which runs as often as values decide."""
    if isinstance(value, ArrayAttr):
        return any(map(_holds_graph, value.data))
    return isinstance(value, ProtobufAttr) and value.kind.data == "GraphProto"
