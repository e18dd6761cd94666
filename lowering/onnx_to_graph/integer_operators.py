"""Operators on quantised tensors (QLinearConv, QLinearAdd, ...) taken apart: dequantise, the float
operator, quantise.

The parts mean the same, so the quantiser has one form to deal with, the QDQ form. A node is taken
apart only where its scales, zero points and weights are constants. Parts that stay on the host may
differ from the whole operator by one step. Those of ``com.microsoft`` are what onnxruntime's
quantiser writes (its QOperator format).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from vtac.lowering.onnx_to_graph.check import plain_domain
from vtac.lowering.onnx_to_graph.node import StaysOnHostError
from vtac.lowering.onnx_to_graph.rewriting import replace_nodes
from vtac.passes.graph.reasons import Reason, ReasonKind


@dataclass(frozen=True)
class _Form:
    """Where an operator reads its operands, each a value, a scale and a zero point.

    result: the position of the result's scale and zero point. weights: the operand that must be
    constant, if any, and along which of its axes its scales lie. bias: the position of int32 in
    steps of the product of both operands' scales. dropped: attributes with the only value that
    has a float form.
    """

    operator: str
    operands: Sequence[int]
    result: int
    weights: int | None = None
    axis: int = 0
    bias: int | None = None
    dropped: Mapping[str, float] = field(default_factory=dict)


_MICROSOFT = "com.microsoft"
_FIRST = {"channels_last": 0}

FORMS = {
    ("", "QLinearConv"): _Form("Conv", (0, 3), 6, 3, 0, 8),
    ("", "QLinearMatMul"): _Form("MatMul", (0, 3), 6, 3, -1),
    (_MICROSOFT, "QLinearAdd"): _Form("Add", (0, 3), 6),
    (_MICROSOFT, "QLinearMul"): _Form("Mul", (0, 3), 6),
    (_MICROSOFT, "QLinearLeakyRelu"): _Form("LeakyRelu", (0,), 3),
    (_MICROSOFT, "QLinearSigmoid"): _Form("Sigmoid", (0,), 3),
    (_MICROSOFT, "QLinearSoftmax"): _Form("Softmax", (0,), 3, dropped={"opset": 13}),
    (_MICROSOFT, "QLinearAveragePool"): _Form("AveragePool", (0,), 3, dropped=_FIRST),
    (_MICROSOFT, "QLinearGlobalAveragePool"): _Form("GlobalAveragePool", (0,), 3, dropped=_FIRST),
}
"""By domain and operator. QLinearConcat and QGemm have forms of their own."""

OPERATORS = (*FORMS, (_MICROSOFT, "QLinearConcat"), (_MICROSOFT, "QGemm"))
"""Domain and name of each operator that may be taken apart."""

_SCALES = (TensorProto.FLOAT, TensorProto.FLOAT16)


def take_apart(model: ModelProto, constants: Mapping[str, TensorProto]) -> dict[str, Reason]:
    """Replace such operators of the main graph by float ones between Q and DQ, in place.

    constants: by name, those of nodes and of initialisers, large ones included. Returns why others
    stay whole, by the names of their results.
    """
    whole: dict[str, Reason] = {}

    def parts(node: NodeProto) -> list[NodeProto] | None:
        try:
            return QuantisedNode(model.graph, node, constants).parts()
        except StaysOnHostError as refusal:
            whole[node.output[0]] = Reason(str(refusal), refusal.kind)
            return None

    replace_nodes(model.graph, parts)
    return whole


@dataclass
class QuantisedNode:
    """A node that may be one of these operators, in its graph."""

    graph: GraphProto
    node: NodeProto
    constants: Mapping[str, TensorProto]

    def parts(self) -> list[NodeProto] | None:
        """The nodes that replace the node; None for every other operator."""
        kind = plain_domain(self.node.domain), self.node.op_type
        form = self._concat() if kind == (_MICROSOFT, "QLinearConcat") else FORMS.get(kind)
        if kind == (_MICROSOFT, "QGemm"):
            form = self._gemm()
        if form is None or not any(self.node.output):
            return None
        self.check(form)
        return list(self._apart(form))

    def _concat(self) -> _Form:
        """The result's scale and zero point come first."""
        return _Form("Concat", range(2, len(self.node.input), 3), 0)

    def _gemm(self) -> _Form:
        """alpha would scale the bias as well."""
        transposed = any(a.name == "transB" and a.i for a in self.node.attribute)
        return _Form("Gemm", (0, 3), 7, 3, 0 if transposed else 1, 6, {"alpha": 1})

    def check(self, form: _Form) -> None:
        """Refuse unless all is constant that must be, and of a type that the float form has."""
        if not all(map(self._has, form.operands)):
            raise StaysOnHostError("an operand is absent")
        for at in (*(at + 1 for at in form.operands), form.result):
            scale, zero_point = (self._constant(index) for index in (at, at + 1))
            if scale is None or zero_point is None:
                raise StaysOnHostError("its scales or zero points are absent or not constant")
            if scale.data_type not in _SCALES:
                raise StaysOnHostError(
                    "its scales are neither float32 nor float16", ReasonKind.TYPE
                )
            if at - 1 != form.weights and max(_size(scale), _size(zero_point)) != 1:
                raise StaysOnHostError("an activation has one scale per channel")
        known = {a.name: helper.get_attribute_value(a) for a in self.node.attribute}
        for name, value in form.dropped.items():
            if known.get(name, value) != value:
                raise StaysOnHostError(f"its attribute {name} is not supported: {known[name]}")
        needed = [form.weights, form.bias if self._has(form.bias) else None]
        if any(self._constant(index) is None for index in needed if index is not None):
            raise StaysOnHostError("its weights or its bias are not constant")

    def _has(self, index: int | None) -> bool:
        return index is not None and index < len(self.node.input) and bool(self.node.input[index])

    def _constant(self, index: int) -> TensorProto | None:
        return self.constants.get(self.node.input[index]) if self._has(index) else None

    def _apart(self, form: _Form) -> Iterator[NodeProto]:
        """Dequantised operands, the float operator under the node's name, and its rounding."""
        node, result = self.node, self.node.output[0]
        floats = []
        for at in form.operands:
            floats.append(f"{result}.operand.{at}")
            steps = [node.input[at], self._scale(at + 1), node.input[at + 2]]
            made = helper.make_node("DequantizeLinear", steps, floats[-1:], floats[-1])
            if at == form.weights:
                rank = max(1, len(self.constants[node.input[at]].dims))
                made.attribute.append(helper.make_attribute("axis", form.axis % rank))
            yield made
        if form.bias is not None and self._has(form.bias):
            floats.append(f"{result}.bias")
            scale = self._bias_scale(form, f"{result}.bias.scale")
            yield helper.make_node(
                "DequantizeLinear", [node.input[form.bias], scale], floats[-1:], floats[-1], axis=0
            )
        made = helper.make_node(form.operator, floats, [f"{result}.float"], node.name)
        made.attribute.extend(a for a in node.attribute if a.name not in form.dropped)
        yield made
        yield helper.make_node(
            "QuantizeLinear",
            [made.output[0], self._scale(form.result), node.input[form.result + 1]],
            [result],
            f"{result}.rounded",
        )

    def _scale(self, index: int) -> str:
        """The name of a scale as float32, in which scales of float16 are the same numbers."""
        scale = self._constant(index)
        if scale is None or scale.data_type == TensorProto.FLOAT:
            return str(self.node.input[index])
        name = f"{self.node.output[0]}.scale.{index}"
        array = numpy_helper.to_array(scale).astype(np.float32)
        self.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def _bias_scale(self, form: _Form, name: str) -> str:
        """A new initialiser: the product of the operands' scales."""
        scales = (self._constant(at + 1) for at in form.operands)
        arrays = [numpy_helper.to_array(scale).reshape(-1) for scale in scales if scale is not None]
        product = np.prod(np.broadcast_arrays(*arrays), axis=0, dtype=np.float32)
        self.graph.initializer.append(numpy_helper.from_array(product, name))
        return name


def _size(tensor: TensorProto) -> int:
    return int(np.prod(tensor.dims))
