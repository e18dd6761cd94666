"""The table of operators that are replaced by others, and the rewrite of a graph."""

from collections.abc import Callable, Mapping, Sequence

from onnx import ModelProto, NodeProto, TensorProto, TypeProto

from vtac.lowering.onnx_to_graph.check import plain_domain
from vtac.lowering.onnx_to_graph.expansions.activations import activation
from vtac.lowering.onnx_to_graph.expansions.arrangements import pad, prelu, resize
from vtac.lowering.onnx_to_graph.expansions.recurrent import recurrent
from vtac.lowering.onnx_to_graph.expansions.site import Site
from vtac.lowering.onnx_to_graph.rewriting import replace_nodes

Expansion = Callable[[Site], bool]
"""Writes the nodes that a node becomes; answers whether it did."""

EXPANSIONS: Mapping[str, Expansion] = {
    "Celu": activation,
    "GRU": recurrent,
    "Gelu": activation,
    "LSTM": recurrent,
    "Mish": activation,
    "PRelu": prelu,
    "Pad": pad,
    "RNN": recurrent,
    "Resize": resize,
    "Swish": activation,
    "Upsample": resize,
}
"""By operator of the default domain."""


def expand(
    model: ModelProto,
    opset: int,
    types: Mapping[str, TypeProto],
    constants: Mapping[str, TensorProto],
) -> dict[str, TensorProto] | None:
    """Write operators of the main graph as others, in place; the new constants by name.

    None: there are no such operators.

    types, constants: of all values, by name. The new constants become mere inputs of the model, as
    its other large constants are.
    """
    made: dict[str, TensorProto] = {}
    expanded: list[NodeProto] = []

    def parts(node: NodeProto) -> Sequence[NodeProto] | None:
        expansion = EXPANSIONS.get(node.op_type) if plain_domain(node.domain) == "" else None
        if expansion is None or not any(node.output):
            return None
        site = Site(node, opset, types, constants, made)
        if not expansion(site):
            return None
        expanded.append(node)
        return site.nodes

    replace_nodes(model.graph, parts)
    model.graph.initializer.extend(made.values())
    return made if expanded else None
