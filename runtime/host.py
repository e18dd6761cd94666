"""Host parts: ONNX models that onnxruntime runs, or onnx's reference evaluator.

The evaluator is used if onnxruntime lacks an operator. Large constants are kept outside the models,
as ONNX external data at ``blobs/SHA256``, so that parts share them: `detach_blobs` takes them out,
`attach_blobs` puts them back.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx.reference import ReferenceEvaluator

from vtac.dialects.errors import CompileError, Problem
from vtac.runtime.package.contents import blob_digest
from vtac.runtime.sessions import FAILURES, open_session

Array = np.ndarray[Any, np.dtype[Any]]

LARGE_BYTES = 1024
"""Initialisers of at least this many bytes become blobs."""

EVALUATOR_FAILURES = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError,
    ValueError,
)  # fmt: skip
"""Exceptions of onnx's reference evaluator, whose operators are functions in Python and NumPy."""

_PREFIX = "blobs/"


class HostPart(Protocol):
    """A model of the host, ready to run."""

    @property
    def input_names(self) -> Sequence[str]:
        """The names of the inputs, in order."""
        ...

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs, in order, of inputs in order: arrays, or lists for sequences."""
        ...


def detach_blobs(model: onnx.ModelProto) -> dict[str, bytes]:
    """Replace large initialisers by references, in place. Returns their bytes by digest."""
    blobs: dict[str, bytes] = {}
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.STRING:
            continue
        if not tensor.HasField("raw_data"):
            name = tensor.name
            tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), name))
        data = tensor.raw_data
        if len(data) < LARGE_BYTES:
            continue
        digest = blob_digest(data)
        blobs[digest] = data
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=_PREFIX + digest)
    return blobs


def attach_blobs(model: onnx.ModelProto, blobs: Mapping[str, bytes], where: str) -> None:
    """Put bytes in place of the references. Raises `CompileError` on an unknown reference."""
    if _refers_to_files(model.graph):
        raise CompileError(Problem(where, "refers to files outside the package"))
    for tensor in model.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        digest = entries.get("location", "").removeprefix(_PREFIX)
        if set(entries) != {"location"} or digest not in blobs:
            raise CompileError(
                Problem(where, f"initialiser {tensor.name!r} refers to data that is not there")
            )
        tensor.ClearField("external_data")
        tensor.data_location = onnx.TensorProto.DEFAULT
        tensor.raw_data = blobs[digest]


def _refers_to_files(graph: onnx.GraphProto, top: bool = True) -> bool:
    """Whether the model refers to external data in other places, which vtac never writes."""
    tensors = [] if top else list(graph.initializer)
    for sparse in graph.sparse_initializer:
        tensors += [sparse.values, sparse.indices]
    inner: list[onnx.GraphProto] = []
    for attribute in (a for node in graph.node for a in node.attribute):
        tensors += [attribute.t, *attribute.tensors]
        inner += [attribute.g, *attribute.graphs]
    return any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in tensors) or any(
        _refers_to_files(subgraph, False) for subgraph in inner if subgraph.node
    )


def open_host_part(name: str, data: bytes, blobs: Mapping[str, bytes]) -> HostPart:
    """Prepare a host part. Raises `CompileError` if neither runtime can run it."""
    where = f"host part {name}"
    try:
        model = onnx.load_from_string(data)
    except DecodeError as error:
        raise CompileError(Problem(where, f"is not an ONNX model: {error}")) from error
    attach_blobs(model, blobs, where)
    return open_model(model, where)


def open_model(model: onnx.ModelProto, where: str) -> HostPart:
    """A model as a host part. Raises `CompileError` if neither runtime can run it."""
    try:
        return _OnnxruntimePart(model, where)
    except FAILURES as error:
        reason = _first_line(error)
    try:
        return _ReferencePart(model, where)
    except EVALUATOR_FAILURES as error:
        raise CompileError(
            Problem(
                where,
                f"onnxruntime cannot run it: {reason}; nor can onnx's reference evaluator:"
                f" {_first_line(error)}",
            )
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class _OnnxruntimePart:
    def __init__(self, model: onnx.ModelProto, where: str) -> None:
        self._where = where
        self._session = open_session(model)
        self.input_names = [entry.name for entry in self._session.get_inputs()]

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        feeds = dict(zip(self.input_names, inputs, strict=True))
        try:
            return list(self._session.run(None, feeds))
        except FAILURES as error:
            raise CompileError(Problem(self._where, _first_line(error))) from error


class _ReferencePart:
    def __init__(self, model: onnx.ModelProto, where: str) -> None:
        self._where = where
        self._evaluator = ReferenceEvaluator(model)
        initial = {tensor.name for tensor in model.graph.initializer}
        self.input_names = [v.name for v in model.graph.input if v.name not in initial]

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        feeds = dict(zip(self.input_names, inputs, strict=True))
        try:
            return list(self._evaluator.run(None, feeds))
        except EVALUATOR_FAILURES as error:
            raise CompileError(Problem(self._where, _first_line(error))) from error
