"""Replaces nodes of an ONNX graph by others that mean the same."""

from collections.abc import Callable, Sequence

from onnx import GraphProto, NodeProto

Parts = Callable[[NodeProto], Sequence[NodeProto] | None]
"""The nodes that replace a node; None where the node stays as it is."""


def replace_nodes(graph: GraphProto, parts: Parts) -> None:
    """Replace each node of a graph, in place, by its parts; subgraphs stay as they are."""
    found = [(node, parts(node)) for node in graph.node]
    if all(made is None for _, made in found):
        return
    nodes = [part for node, made in found for part in ([node] if made is None else made)]
    # Protobuf clears the messages that a list held when the list is cleared.
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
