"""Host parts: ONNX models that onnxruntime runs, or onnx's reference evaluator.

The evaluator is used if onnxruntime lacks an operator. Large constants are kept outside the models,
as ONNX external data at ``blobs/SHA256``, so that parts share them: `detach_blobs` takes them out,
`attach_blobs` finds them again. onnxruntime gets them as arrays; no model is serialised with them.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx.reference import ReferenceEvaluator

from vtac.dialects.context import bytes_of
from vtac.dialects.errors import CompileError, Problem
from vtac.runtime.package.contents import blob_digest
from vtac.runtime.sessions import FAILURES, Weights, open_session

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


def detach_blobs(model: onnx.ModelProto, weights: Weights | None = None) -> dict[str, bytes]:
    """Replace large initialisers by references, in place. Returns their bytes by digest.

    weights: arrays of initialisers that lie beside the model already.
    """
    blobs: dict[str, bytes] = {}
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.STRING:
            continue
        if weights is not None and tensor.name in weights:
            data = bytes_of(weights[tensor.name])
        else:
            data = _raw_data(tensor)
            if len(data) < LARGE_BYTES:
                continue
        digest = blob_digest(data)
        blobs[digest] = data
        tensor.ClearField("raw_data")
        tensor.ClearField("external_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=_PREFIX + digest)
    return blobs


def _raw_data(tensor: onnx.TensorProto) -> bytes:
    """The bytes of a tensor, which it holds as such from now on."""
    if not tensor.HasField("raw_data"):
        name = tensor.name
        tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), name))
    return tensor.raw_data


def attach_blobs(
    model: onnx.ModelProto, blobs: Mapping[str, bytes], where: str
) -> dict[str, Array]:
    """The arrays that initialisers refer to, by name, as views of the blobs.

    Tensors whose elements are no numbers of NumPy get their bytes, in place. Raises `CompileError`
    on an unknown reference and on a blob of the wrong size.
    """
    if _refers_to_files(model.graph):
        raise CompileError(Problem(where, "refers to files outside the package"))
    weights: dict[str, Array] = {}
    for tensor in model.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        digest = entries.get("location", "").removeprefix(_PREFIX)
        if set(entries) != {"location"} or digest not in blobs:
            raise CompileError(
                Problem(where, f"initialiser {tensor.name!r} refers to data that is not there")
            )
        dtype = _numpy_dtype(tensor.data_type)
        if dtype is None:
            tensor.ClearField("external_data")
            tensor.data_location = onnx.TensorProto.DEFAULT
            tensor.raw_data = blobs[digest]
            continue
        array = np.frombuffer(blobs[digest], np.uint8)
        if min(tensor.dims, default=0) < 0 or array.size != prod(tensor.dims) * dtype.itemsize:
            what = f"initialiser {tensor.name!r} refers to data of another size"
            raise CompileError(Problem(where, what))
        weights[tensor.name] = array.view(dtype).reshape(tensor.dims)
    return weights


def _numpy_dtype(data_type: int) -> np.dtype[Any] | None:
    """NumPy's own type of numbers; None for other elements, and for elements of no known type."""
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(data_type))
    except KeyError:
        return None
    return dtype if dtype.kind in "biuf" else None


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
    return open_model(model, where, attach_blobs(model, blobs, where))


def open_model(model: onnx.ModelProto, where: str, weights: Weights | None = None) -> HostPart:
    """A model as a host part. Raises `CompileError` if neither runtime can run it.

    weights: arrays of initialisers that lie beside the model.
    """
    try:
        return _OnnxruntimePart(model, where, weights or {})
    except FAILURES as error:
        reason = _first_line(error)
    try:
        return _ReferencePart(_with_weights(model, weights or {}), where)
    except EVALUATOR_FAILURES as error:
        raise CompileError(
            Problem(
                where,
                f"onnxruntime cannot run it: {reason}; nor can onnx's reference evaluator:"
                f" {_first_line(error)}",
            )
        ) from error


def _with_weights(model: onnx.ModelProto, weights: Weights) -> onnx.ModelProto:
    """The model with its weights inside, for the evaluator, which takes them from nowhere else."""
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            tensor.CopyFrom(onnx.numpy_helper.from_array(weights[tensor.name], tensor.name))
    return model


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class _OnnxruntimePart:
    def __init__(self, model: onnx.ModelProto, where: str, weights: Weights) -> None:
        self._where = where
        self._session = open_session(model, weights)
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
