"""The table of operators that are replaced by others, and the rewrite of a graph."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

from vtac.lowering.onnx_to_graph.check import captured_names, plain_domain, sorted_nodes
from vtac.lowering.onnx_to_graph.expansions.activations import activation
from vtac.lowering.onnx_to_graph.expansions.arrangements import pad, prelu, resize
from vtac.lowering.onnx_to_graph.expansions.einsum import einsum
from vtac.lowering.onnx_to_graph.expansions.extremes import extreme
from vtac.lowering.onnx_to_graph.expansions.optimised import (
    MICROSOFT,
    biased_gelu,
    fused_product,
    skip_normalization,
)
from vtac.lowering.onnx_to_graph.expansions.recurrent import recurrent
from vtac.lowering.onnx_to_graph.expansions.site import Site
from vtac.lowering.onnx_to_graph.rewriting import replace_nodes

Expansion = Callable[[Site], bool]
"""Writes the nodes that a node becomes; answers whether it did."""


@dataclass(frozen=True)
class Expanded:
    """What `expand` made: new constants by name, and the operators of the nodes that it rewrote.

    The nodes that take the place of a node have its name. names: what reports call the nodes that
    have none, by each output.
    """

    constants: Mapping[str, TensorProto]
    operators: Mapping[str, str]
    names: Mapping[str, str]


EXPANSIONS: Mapping[str, Expansion] = {
    "Celu": activation,
    "Einsum": einsum,
    "GRU": recurrent,
    "Gelu": activation,
    "LSTM": recurrent,
    "Max": extreme,
    "Min": extreme,
    "Mish": activation,
    "PRelu": prelu,
    "Pad": pad,
    "RNN": recurrent,
    "Resize": resize,
    "Swish": activation,
    "Upsample": resize,
}
"""By operator of the default domain."""

OPTIMISED: Mapping[str, Expansion] = {
    "BiasGelu": biased_gelu,
    "FastGelu": biased_gelu,
    "FusedMatMul": fused_product,
    "Gelu": biased_gelu,
    "SkipLayerNormalization": skip_normalization,
}
"""By operator of the domain ``com.microsoft``."""

_OF_DOMAIN: Mapping[str, Mapping[str, Expansion]] = {"": EXPANSIONS, MICROSOFT: OPTIMISED}

WITHOUT_SAMPLES = frozenset({"Celu", "Gelu", "Mish", "Pad", "Resize", "Swish", "Upsample"})
"""Operators whose parts have ranges that follow from that of the input: they move or average its
elements, or are functions of it alone."""


def expand(
    model: ModelProto,
    opset: int,
    types: Mapping[str, TypeProto],
    constants: Mapping[str, TensorProto],
    calibrated: bool,
) -> Expanded | None:
    """Write operators of the main graph as others, in place; None if there are no such operators.

    types, constants: of all values, by name. The new constants become mere inputs of the model, as
    its other large constants are. calibrated: whether samples will calibrate the network; otherwise
    only nodes are rewritten whose input and results the network itself rounds.
    """
    made: dict[str, TensorProto] = {}
    operators: dict[str, str] = {}
    names = numbered(model.graph)
    is_quantised = (lambda node: True) if calibrated else _rounded_nodes(model.graph)

    def parts(node: NodeProto) -> Sequence[NodeProto] | None:
        expansion = _OF_DOMAIN.get(plain_domain(node.domain), {}).get(node.op_type)
        if expansion is None or not any(node.output) or not is_quantised(node):
            return None
        own_name = node.name
        node.name = own_name or names[next(filter(None, node.output))]
        site = Site(node, opset, types, constants, made)
        if not expansion(site):
            node.name = own_name
            return None
        operators[node.name] = node.op_type
        return site.nodes

    replace_nodes(model.graph, parts)
    model.graph.initializer.extend(made.values())
    return Expanded(made, operators, names) if operators else None


def numbered(graph: GraphProto) -> dict[str, str]:
    """Names for nodes, by each output: the operator, and the node's number among its like."""
    counts, names = dict[str, int](), dict[str, str]()
    for node in sorted_nodes(graph):
        number = counts.setdefault(node.op_type, 0)
        counts[node.op_type] += 1
        names.update(dict.fromkeys(filter(None, node.output), f"{node.op_type}_{number}"))
    return names


def _rounded_nodes(graph: GraphProto) -> Callable[[NodeProto], bool]:
    """Whether a node needs no samples: it reads what DequantizeLinear makes, only QuantizeLinear
    reads its result, and its operator is one of `WITHOUT_SAMPLES`."""
    dequantised = {
        name for node in graph.node if node.op_type == "DequantizeLinear" for name in node.output
    }
    others = {output.name for output in graph.output}
    for node in graph.node:
        others.update(node.input[node.op_type == "QuantizeLinear" :])
        others.update(captured_names(node))

    def rounded(node: NodeProto) -> bool:
        if node.op_type not in WITHOUT_SAMPLES:
            return False
        return node.input[0] in dequantised and others.isdisjoint(node.output)

    return rounded
