"""Reads ONNX models from a path, from bytes or from a message, with their external data.

All problems of a model are reported together.
"""

import os
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, Message
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from vtac.dialects.arguments import MODEL, takes
from vtac.dialects.errors import CompileError, Problem
from vtac.lowering.onnx_to_graph.attributes import subgraphs
from vtac.lowering.onnx_to_graph.check import (
    graph_problems,
    host_loads,
    opset_problems,
    schema_problems,
)

ModelSource = str | os.PathLike[str] | bytes | ModelProto

DAMAGED = "An ONNX model is a serialised ModelProto, as onnx.save writes it."

_BITS = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}
"""Element types that ONNX packs several to a byte."""


@takes(source=MODEL)
def load_model(source: ModelSource) -> ModelProto:
    """The checked model: operators are known, values are defined, and all weights are present.

    What onnxruntime loads although the checks of its operators fail is accepted: it runs on the
    host (operators that are deprecated, domains that onnxruntime's own optimiser writes). A path
    may have external data beside it, which is read. Raises CompileError with every problem.
    """
    if isinstance(source, ModelProto):
        model, folder, where = source, None, "model"
    elif isinstance(source, bytes):
        model, folder, where = _parse(source, "model"), None, "model"
    else:
        path = Path(source)
        model, folder, where = parse_model(path), path.parent, str(path)
    if not model.HasField("graph"):
        raise CompileError(Problem(where, "this is not an ONNX model: it has no graph"))
    if not _is_text(model):
        raise CompileError(
            Problem(where, "a name in it is not UTF-8: this is no ONNX model", DAMAGED)
        )
    problems = _read_external(model, folder)
    for owner, tensor in all_tensors(model):
        if tensor.data_location != TensorProto.EXTERNAL:
            problems += _size_problem(owner, tensor)
    problems += [
        Problem(
            f"value '{value.name}'",
            f"its element type {value.type.tensor_type.elem_type} is unknown",
        )
        for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]
        if value.type.tensor_type.elem_type not in TensorProto.DataType.values()
    ]
    problems += opset_problems(model)
    if not problems:
        problems = graph_problems(model) or schema_problems(model)
        if problems and host_loads(model):
            problems = []
    if problems:
        raise CompileError(problems)
    return model


def _is_text(message: Message) -> bool:
    """Whether all strings in a message are such: protobuf hands out others as bytes, or fails."""
    try:
        fields = message.ListFields()
    except UnicodeDecodeError:
        return False
    for field, value in fields:
        if field.type == field.TYPE_MESSAGE:
            inner = [value] if isinstance(value, Message) else value
            if not all(map(_is_text, inner)):
                return False
        elif field.type == field.TYPE_STRING:
            texts = [value] if isinstance(value, str | bytes) else value
            if not all(isinstance(text, str) for text in texts):
                return False
    return True


def parse_model(path: Path) -> ModelProto:
    """The model in a file, unchecked and without its external data. Raises CompileError."""
    try:
        return _parse(path.read_bytes(), str(path))
    except OSError as error:
        raise CompileError(Problem(str(path), f"cannot be read: {error.strerror}")) from error


def _parse(data: bytes, where: str) -> ModelProto:
    try:
        return onnx.load_model_from_string(data)
    except DecodeError as error:
        raise CompileError(
            Problem(
                where,
                "this is not an ONNX model, or it is truncated",
                DAMAGED,
            )
        ) from error


def all_tensors(model: ModelProto) -> Iterator[tuple[str, TensorProto]]:
    """Every tensor of the model, with words that say where it is."""
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        yield from _node_tensors(function.node)


def _graph_tensors(graph: GraphProto) -> Iterator[tuple[str, TensorProto]]:
    for tensor in graph.initializer:
        yield f"initialiser '{tensor.name}'", tensor
    for sparse in graph.sparse_initializer:
        yield f"initialiser '{sparse.values.name}'", sparse.values
    yield from _node_tensors(graph.node)


def _node_tensors(
    nodes: Iterable[NodeProto],
) -> Iterator[tuple[str, TensorProto]]:
    for node in nodes:
        for attr in node.attribute:
            for tensor in [attr.t] if attr.HasField("t") else attr.tensors:
                yield f"attribute '{attr.name}' of node '{node.name}' ({node.op_type})", tensor
        for graph in subgraphs(node.attribute):
            yield from _graph_tensors(graph)


def _tensor_bytes(tensor: TensorProto) -> int | None:
    """Bytes of the tensor's elements in ``raw_data``; None where the type has no fixed size."""
    name = TensorProto.DataType.Name(tensor.data_type)
    if name in ("UNDEFINED", "STRING"):
        return None
    bits = _BITS.get(name) or 8 * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    return -(-int(prod(tensor.dims)) * bits // 8)


def _size_problem(owner: str, tensor: TensorProto) -> list[Problem]:
    if tensor.data_type not in TensorProto.DataType.values():
        return [Problem(owner, f"its element type {tensor.data_type} is unknown")]
    if min(tensor.dims, default=0) < 0:
        return [Problem(owner, f"its shape {list(tensor.dims)} has a negative extent")]
    needed = _tensor_bytes(tensor)
    if needed is None:
        return []
    if tensor.HasField("raw_data"):
        found, unit = len(tensor.raw_data), "bytes"
    else:
        name = TensorProto.DataType.Name(tensor.data_type)
        if name in _BITS or name.startswith("COMPLEX"):
            return []
        needed, unit = prod(tensor.dims), "elements"
        found = len(getattr(tensor, helper.tensor_dtype_to_field(tensor.data_type)))
    if found == needed:
        return []
    what = f"shape {list(tensor.dims)} needs {needed} {unit}, found {found}"
    return [Problem(owner, what, "The model is damaged: copy or export it anew.")]


def _read_external(model: ModelProto, folder: Path | None) -> list[Problem]:
    problems = []
    for owner, tensor in all_tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            problem = _read_tensor(owner, tensor, folder)
            if problem is not None:
                problems.append(problem)
    return problems


def _read_tensor(owner: str, tensor: TensorProto, folder: Path | None) -> Problem | None:
    """Put the external bytes into the tensor, or say what is wrong with them."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    if folder is None:
        return Problem(
            owner,
            f"its data lies in the external file '{location}', but the model has no folder",
            "Give the path of the model instead of its bytes.",
        )
    normal = os.path.normpath(location)
    if not location or os.path.isabs(normal) or normal.split(os.sep)[0] == os.pardir:
        return Problem(owner, f"external data must lie beside the model, not in '{location}'")
    needed = _tensor_bytes(tensor)
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", needed or 0))
    except ValueError:
        return Problem(owner, "offset or length of its external data is no number")
    if needed is None or length != needed or offset < 0:
        return Problem(
            owner, f"its external data has {length} bytes, shape {list(tensor.dims)} needs {needed}"
        )
    try:
        with open(folder / normal, "rb") as file:
            file.seek(offset)
            data = file.read(length)
    except OSError as error:
        return Problem(
            owner,
            f"external data '{location}' cannot be read: {error.strerror} ({needed} bytes needed at"
            f" offset {offset})",
            f"Put the file into {folder}, beside the model.",
        )
    if len(data) != needed:
        return Problem(
            owner,
            f"external data '{location}' is truncated: {needed} bytes needed at offset {offset},"
            f" {len(data)} found",
            "Copy the file anew, or export the model anew.",
        )
    tensor.raw_data = data
    del tensor.external_data[:]
    tensor.data_location = TensorProto.DEFAULT
    return None
