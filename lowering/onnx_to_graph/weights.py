"""Models whose large weights lie beside them, as arrays.

Protobuf serialises at most 2 GiB, and each copy of a model copies its weights. So no model with
large weights is serialised: its initialisers refer to external data that is no file, and whoever
opens a session of onnxruntime hands the arrays to it by name
(`vtac.runtime.sessions.open_session`).
"""

from math import prod
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper

from vtac.dialects.context import Array
from vtac.lowering.onnx_to_graph.attributes import subgraphs

LARGE_BYTES = 1024
"""Weights of at least this many bytes lie beside the model."""

_KINDS = "biuf"
"""The kinds of NumPy's own numbers, which onnxruntime takes as they are."""


def reference_to(name: str, array: Array) -> TensorProto:
    """An initialiser that stands for an array beside the model."""
    code = helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor = TensorProto(name=name, data_type=code, dims=array.shape)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=f"weights/{name}")
    return tensor


def without_weights(model: ModelProto) -> tuple[ModelProto, dict[str, Array]]:
    """A copy of a model without its large weights, and these by the names of their initialisers.

    Only top-level initialisers and Constant nodes are large in practice; all others stay. Weights
    that nothing reads are left out, since onnxruntime refuses arrays for them.
    """
    read = _names_read(model.graph)
    small, weights = ModelProto(), dict[str, Array]()
    for field, value in model.ListFields():
        if field.name != "graph":
            _copy(field, value, small)
    for field, value in model.graph.ListFields():
        if field.name not in ("initializer", "node"):
            _copy(field, value, small.graph)
    for tensor in model.graph.initializer:
        if tensor.name in read or not _is_large(tensor):
            small.graph.initializer.append(_light(tensor, tensor.name, weights))
    for node in model.graph.node:
        values = [a.t for a in node.attribute if a.name == "value" and node.op_type == "Constant"]
        if values and _is_large(values[0]):
            (name,) = node.output
            if name not in read:
                continue
            small.graph.initializer.append(_light(values[0], name, weights))
        else:
            small.graph.node.append(node)
    return small, weights


def _names_read(graph: GraphProto) -> set[str]:
    """Names that nodes read, in subgraphs too, those of results, and those of inputs."""
    found = {value.name for value in (*graph.input, *graph.output)}
    for node in graph.node:
        found.update(node.input)
        for inner in subgraphs(node.attribute):
            found |= _names_read(inner)
    return found


def _copy(field: Any, value: Any, to: Any) -> None:
    """Copy a field of a message to another message of its type."""
    if field.is_repeated:
        getattr(to, field.name).extend(value)
    elif field.message_type is not None:
        getattr(to, field.name).CopyFrom(value)
    else:
        setattr(to, field.name, value)


def _light(tensor: TensorProto, name: str, weights: dict[str, Array]) -> TensorProto:
    if not _is_large(tensor):
        return tensor
    weights[name] = numpy_helper.to_array(tensor)
    return reference_to(name, weights[name])


def _is_large(tensor: TensorProto) -> bool:
    if tensor.data_location == TensorProto.EXTERNAL or tensor.data_type in (0, TensorProto.STRING):
        return False
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
    return dtype.kind in _KINDS and dtype.itemsize * prod(tensor.dims) >= LARGE_BYTES
