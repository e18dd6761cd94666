"""Operators that were carried whole, back as the nodes they were."""

from collections.abc import Iterator, Mapping

from onnx import GraphProto, NodeProto
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute

from vtac.dialects.graph import HostOp
from vtac.lowering.graph_to_onnx.builder import OnnxBuilder
from vtac.lowering.onnx_to_graph.attributes import export_attribute, subgraphs


def host(b: OnnxBuilder, op: HostOp) -> None:
    """The node, with absent inputs and outputs in their places."""
    inputs = _with_gaps([b.name(v) for v in op.inputs], op.absent)
    outputs = _with_gaps([b.name_for(v) for v in op.outputs], op.absent_outputs)
    node = NodeProto(op_type=op.op_type.data, domain=op.domain.data, input=inputs, output=outputs)
    names = op.captured_names.data if op.captured_names is not None else ()
    captured = {n.data: b.name(v) for n, v in zip(names, op.captured, strict=True)}
    node.attribute.extend(
        export_attribute(b.ctx, name, attr) for name, attr in op.onnx_attributes.data.items()
    )
    for graph in subgraphs(node.attribute):
        _rename(b, graph, captured)
    b.append(node)
    for value, name in zip(op.outputs, (o for o in outputs if o), strict=True):
        b.define(value, name)


def _with_gaps(names: list[str], absent: Attribute | None) -> list[str]:
    if isinstance(absent, DenseArrayBase):
        for position in absent.get_values():
            names.insert(position, "")
    return names


def _rename(b: OnnxBuilder, graph: GraphProto, outer: Mapping[str, str]) -> None:
    """Give every value of a subgraph a name of its own; captured ones the names they have now."""
    env = dict(outer)
    for defined in _defined_names(graph):
        env[defined] = b.fresh(defined)
    for value in [*graph.input, *graph.output, *graph.value_info, *graph.initializer]:
        value.name = env.get(value.name, value.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = env[sparse.values.name]
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [env.get(name, name) for name in names]
        for inner in subgraphs(node.attribute):
            _rename(b, inner, env)


def _defined_names(graph: GraphProto) -> Iterator[str]:
    seen = {""}
    for name in [
        *(v.name for v in graph.input),
        *(t.name for t in graph.initializer),
        *(s.values.name for s in graph.sparse_initializer),
        *(name for node in graph.node for name in node.output),
    ]:
        if name not in seen:
            seen.add(name)
            yield name
