"""Sparse constants as the dense tensors that they stand for (ONNX IR, SparseTensorProto)."""

import numpy as np
from onnx import ModelProto, NodeProto, SparseTensorProto, TensorProto, helper, numpy_helper

from vtac.lowering.onnx_to_graph.rewriting import replace_nodes
from vtac.lowering.onnx_to_graph.types import dense_dtype


def make_dense(model: ModelProto) -> dict[str, TensorProto]:
    """Take the sparse initialisers and Constant nodes out of the main graph, in place.

    Returns the dense tensors by name; they become mere inputs of the model, as its other large
    constants are. Constants of element types of which the IR has no tensors are not touched.
    """
    graph, made = model.graph, {}
    kept = []
    for sparse in graph.sparse_initializer:
        dense = _dense(sparse, sparse.values.name)
        if dense is None:
            kept.append(SparseTensorProto.FromString(sparse.SerializeToString()))
        else:
            made[dense.name] = dense
    del graph.sparse_initializer[:]
    graph.sparse_initializer.extend(kept)

    def parts(node: NodeProto) -> list[NodeProto] | None:
        attributes = {a.name: a for a in node.attribute}
        if node.op_type != "Constant" or "sparse_value" not in attributes:
            return None
        dense = _dense(attributes["sparse_value"].sparse_tensor, node.output[0])
        if dense is None:
            return None
        made[dense.name] = dense
        return []

    replace_nodes(graph, parts)
    declared = {value.name for value in graph.input}
    graph.input.extend(
        helper.make_tensor_value_info(name, tensor.data_type, tensor.dims)
        for name, tensor in made.items()
        if name not in declared
    )
    return made


def _dense(sparse: SparseTensorProto, name: str) -> TensorProto | None:
    """A sparse tensor as an array.

    Its indices are [NNZ], into the flattened tensor, or [NNZ, rank].
    """
    if dense_dtype(sparse.values.data_type) is None:
        return None
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        dense.reshape(-1)[indices] = values
    else:
        dense[tuple(indices.T)] = values
    return numpy_helper.from_array(dense, name)
