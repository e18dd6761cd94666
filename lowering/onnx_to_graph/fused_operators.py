"""Operators that onnxruntime's optimiser fuses, taken apart into what they were fused from.

A model that onnxruntime saved after optimising it has FusedConv and FusedGemm in the domain
``com.microsoft``: a convolution or a product, an addend, and an activation with its parameters in
the order of that operator's attributes (onnxruntime, ContribOperators.md and
core/providers/cpu/fused_activation.cc).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import ModelProto, NodeProto, TensorProto, helper

from vtac.lowering.onnx_to_graph.rewriting import replace_nodes

MICROSOFT = "com.microsoft"

_FUSED = {"FusedConv": "Conv", "FusedGemm": "Gemm"}
_ADDEND = 3
"""The position of the tensor that FusedConv adds before its activation."""

_ACTIVATIONS: Mapping[str, Sequence[str]] = {
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
}
"""The attributes of each activation, in the order of the fused operator's parameters. Clip has its
bounds as inputs and is treated apart."""


def split_fused(model: ModelProto) -> None:
    """Replace FusedConv and FusedGemm by the operators that they stand for, in place.

    A node whose activation is unknown stays whole, for the host.
    """

    def parts(node: NodeProto) -> list[NodeProto] | None:
        if node.domain != MICROSOFT or node.op_type not in _FUSED:
            return None
        return _parts(node)

    replace_nodes(model.graph, parts)


def _parts(node: NodeProto) -> list[NodeProto] | None:
    values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    kind = values.pop("activation", b"").decode()
    parameters = values.pop("activation_params", [])
    parameters = [values.pop(name) for name in ("activation_alpha", "activation_beta",
                  "activation_gamma") if name in values] or list(parameters)  # fmt: skip
    if kind and kind != "Clip" and kind not in _ACTIVATIONS:
        return None
    inputs = list(node.input)
    result = node.output[0]
    sums = f"{result}.sums" if kind or len(inputs) > _ADDEND else result
    convolution = node.op_type == "FusedConv"
    own = inputs[:_ADDEND] if convolution else inputs
    made = [helper.make_node(_FUSED[node.op_type], own, [sums], node.name, **values)]
    if convolution and len(inputs) > _ADDEND and inputs[_ADDEND]:
        total = f"{result}.total" if kind else result
        made.append(helper.make_node("Add", [sums, inputs[_ADDEND]], [total]))
        sums = total
    return made + _activation(kind, parameters, sums, result)


def _activation(kind: str, parameters: Sequence[Any], operand: str, result: str) -> list[NodeProto]:
    """The activation as nodes from one value to another."""
    if not kind:
        return []
    if kind != "Clip":
        named: dict[str, Any] = dict(zip(_ACTIVATIONS[kind], map(float, parameters), strict=False))
        return [helper.make_node(kind, [operand], [result], **named)]
    bounds = [f"{result}.bound.{index}" for index in range(len(parameters))]
    made = []
    for name, number in zip(bounds, parameters, strict=True):
        value = helper.make_tensor(name, TensorProto.FLOAT, [], [float(number)])
        made.append(helper.make_node("Constant", [], [name], value=value))
    return [*made, helper.make_node("Clip", [operand, *bounds], [result])]
