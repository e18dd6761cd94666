"""Constants that operators of the host compute: weights divided by their norms, for example.

Such weights are no weights to the accelerator as long as an operator that the graph does not know
makes them. onnxruntime computes them once, at import. What ops of the graph compute of constants
alone is folded later (`vtac.passes.graph.fold_constants`).
"""

from collections.abc import Container, Mapping
from math import prod

from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from vtac.lowering.onnx_to_graph.attributes import subgraphs
from vtac.lowering.onnx_to_graph.check import (
    captured_names,
    host_session,
    plain_domain,
    sorted_nodes,
)
from vtac.lowering.onnx_to_graph.fold import LARGEST_RESULT
from vtac.lowering.onnx_to_graph.rewriting import replace_nodes
from vtac.lowering.onnx_to_graph.types import dense_dtype

_KEPT = frozenset(
    {
        "Bernoulli", "DequantizeLinear", "Dropout", "Multinomial", "QuantizeLinear",
        "RandomNormalLike", "RandomUniformLike",
    }
)  # fmt: skip
"""Operators that draw random numbers, and those that say on which steps weights lie."""


def compute_constants(
    model: ModelProto, constants: Mapping[str, TensorProto], known: Container[str]
) -> dict[str, TensorProto] | None:
    """Replace nodes of the main graph that compute constants by these, in place.

    constants: by name. known: the operators that become ops of the graph; nothing is computed if
    only these are found. Returns the new constants by name, mere inputs of the model then, or None.
    """
    nodes = _constant_nodes(model, constants)
    if all(plain_domain(n.domain) == "" and n.op_type in known for n in nodes):
        return None
    own = {name for node in nodes for name in node.output}
    wanted = [name for name in _read_outside(model, nodes) if name in own]
    found = _computed(model, nodes, constants, wanted)
    if found is None:
        return None
    gone = {node.output[0] for node in nodes}
    replace_nodes(model.graph, lambda node: [] if node.output[0] in gone else None)
    model.graph.input.extend(
        helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in found.values()
    )
    return found


def _constant_nodes(model: ModelProto, constants: Mapping[str, TensorProto]) -> list[NodeProto]:
    """The nodes whose results are constant, in an order that runs."""
    results = {output.name for output in model.graph.output}
    known, found = set(constants), []
    for node in sorted_nodes(model.graph):
        inputs = [name for name in node.input if name]
        if not inputs or not known.issuperset(inputs) or node.op_type in _KEPT:
            continue
        if any(subgraphs(node.attribute)) or not all(node.output) or results & {*node.output}:
            continue
        known.update(node.output)
        found.append(node)
    return found


def _read_outside(model: ModelProto, nodes: list[NodeProto]) -> dict[str, None]:
    """The names that other nodes read."""
    own = {node.output[0] for node in nodes}
    others = [n for n in model.graph.node if not n.output or n.output[0] not in own]
    return dict.fromkeys(name for n in others for name in (*n.input, *captured_names(n)) if name)


def _computed(
    model: ModelProto,
    nodes: list[NodeProto],
    constants: Mapping[str, TensorProto],
    wanted: list[str],
) -> dict[str, TensorProto] | None:
    """The values of constants by name; None where onnxruntime cannot, or where they are large."""
    read = dict.fromkeys(name for node in nodes for name in node.input if name in constants)
    graph = helper.make_graph(
        nodes,
        "constants",
        [],
        [helper.make_empty_tensor_value_info(name) for name in wanted],
        [constants[name] for name in read],
    )
    single = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    session = host_session(single)
    if session is None:
        return None
    try:
        arrays = session.run(wanted, {})
    except Exception:  # onnxruntime's classes of errors have no base in common
        return None
    most = max(LARGEST_RESULT, sum(prod(constants[name].dims) for name in read))
    if sum(array.size for array in arrays) > most:
        return None
    found = {
        name: numpy_helper.from_array(array, name)
        for name, array in zip(wanted, arrays, strict=True)
    }
    usable = all(dense_dtype(tensor.data_type) is not None for tensor in found.values())
    return found if usable else None
