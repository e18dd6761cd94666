"""If with a condition that is known: the branch that is taken, in its place.

Exporters write such nodes where a program asked for a shape (a squeeze of a dimension that may be
1, for example). Once shapes are fixed and constants folded, the condition is a constant.
"""

from collections.abc import Mapping

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from vtac.lowering.onnx_to_graph.attributes import subgraphs
from vtac.lowering.onnx_to_graph.rewriting import replace_nodes


def take_branches(model: ModelProto) -> bool:
    """Replace each If of the main graph whose condition is constant, in place; whether any was."""
    graph = model.graph
    constants = {t.name: t for t in graph.initializer}
    weights: list[TensorProto] = []

    def parts(node: NodeProto) -> list[NodeProto] | None:
        condition = constants.get(node.input[0]) if node.op_type == "If" else None
        if condition is None or node.domain not in ("", "ai.onnx"):
            return None
        name = "then_branch" if numpy_helper.to_array(condition).reshape(-1)[0] else "else_branch"
        (branch,) = (a.g for a in node.attribute if a.name == name)
        if branch.sparse_initializer:
            return None
        return _inlined(branch, node, weights)

    before = list(map(id, graph.node))
    replace_nodes(graph, parts)
    graph.initializer.extend(weights)
    return before != list(map(id, graph.node))


def _inlined(branch: GraphProto, node: NodeProto, weights: list[TensorProto]) -> list[NodeProto]:
    """The nodes of a branch under names of their own, and its results under those of the If."""
    prefix = next(filter(None, node.output), node.name)
    made = [name for inner in branch.node for name in inner.output if name]
    names = {name: f"{prefix}.{name}" for name in [*made, *(t.name for t in branch.initializer)]}
    for tensor in branch.initializer:
        copy = TensorProto()
        copy.CopyFrom(tensor)
        copy.name = names[tensor.name]
        weights.append(copy)
    nodes = []
    for inner in branch.node:
        copy_of = NodeProto()
        copy_of.CopyFrom(inner)
        _rename(copy_of, names)
        copy_of.output[:] = [names.get(name, name) for name in inner.output]
        nodes.append(copy_of)
    for value, output in zip(branch.output, node.output, strict=True):
        if output:
            source = names.get(value.name, value.name)
            nodes.append(helper.make_node("Identity", [source], [output]))
    return nodes


def _rename(node: NodeProto, names: Mapping[str, str]) -> None:
    """Rename what a node and its subgraphs read, in place."""
    node.input[:] = [names.get(name, name) for name in node.input]
    for inner in subgraphs(node.attribute):
        for other in inner.node:
            _rename(other, names)
        for output in inner.output:
            output.name = names.get(output.name, output.name)
