"""Host parts as steps in C: one function for each ONNX node that has to compute or to move.

Everything that has no C is found at once: unknown operators, shapes that are known at run time
only, types that C lacks.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from vtac.dialects.errors import CompileError, Problem
from vtac.runtime.c_project import elementwise, moves, products, reductions, windows
from vtac.runtime.c_project.body import Body
from vtac.runtime.c_project.node import ProgramNode
from vtac.runtime.c_project.tensors import (
    C_TYPES,
    IN_PYTHON,
    DType,
    NotExportedError,
    ProgramTensor,
)
from vtac.runtime.host import EVALUATOR_FAILURES, attach_blobs

CONVERTERS: Mapping[str, moves.Converter] = {
    **elementwise.CONVERTERS,
    **moves.CONVERTERS,
    **products.CONVERTERS,
    **reductions.CONVERTERS,
    **windows.CONVERTERS,
}
"""The operators that are exported. Constants and what depends on constants alone are besides."""

_DEFAULT_DOMAINS = ("", "ai.onnx")
_ALWAYS_FOLDED = 64
"""Results of so many elements are constants, whatever they are made from."""

_TABLE = "docs/export.md lists the operators that are exported."

_Type = tuple[DType, tuple[int, ...]]


def add_host_part(
    name: str, data: bytes, blobs: Mapping[str, bytes], inputs: Sequence[ProgramTensor], body: Body
) -> list[ProgramTensor]:
    """Append the steps of a host part, and return its results. Raises `CompileError` with all
    problems."""
    model = onnx.load_from_string(data)
    arrays = attach_blobs(model, blobs, f"host part {name}")
    part = _Part(model, body)
    for tensor in model.graph.initializer:
        array = arrays.get(tensor.name)
        part.define_constant(
            tensor.name, onnx.numpy_helper.to_array(tensor) if array is None else array
        )
    for entry, tensor in zip(model.graph.input, inputs, strict=True):
        part.tensors[entry.name] = tensor
    for proto in model.graph.node:
        part.add(proto)
    if part.problems:
        raise CompileError(part.problems)
    return [part.tensors[entry.name] for entry in model.graph.output]


class _Part:
    """The tensors of a host part by name, while its nodes become steps.

    A tensor of a node with a problem is there only as long as its type is known; nodes that read
    what is not there are passed over, since they have no problem of their own.
    """

    def __init__(self, model: onnx.ModelProto, body: Body) -> None:
        self.tensors: dict[str, ProgramTensor] = {}
        self.problems: list[Problem] = []
        self._body = body
        self._model = model
        self._opset = next(
            (o.version for o in model.opset_import if o.domain in _DEFAULT_DOMAINS), 0
        )
        self._types = _types(model)

    def define_constant(self, name: str, array: np.ndarray) -> None:
        """A tensor of known elements."""
        if array.dtype in C_TYPES:
            self.tensors[name] = self._body.constant(array)

    def add(self, proto: onnx.NodeProto) -> None:
        """Append what a node needs, or note why it cannot be."""
        names = [name for name in proto.input if name]
        if any(name not in self.tensors for name in names) and self.problems:
            return
        try:
            if not self._fold(proto):
                self._convert(proto)
        except NotExportedError as error:
            shown = f"node '{proto.name}' ({proto.op_type})" if proto.name else proto.op_type
            self.problems.append(Problem(shown, error.reason, error.hint))
            for name in proto.output:
                if name in self._types:
                    self.tensors[name] = self._body.value(name, *self._types[name])

    def _fold(self, proto: onnx.NodeProto) -> bool:
        """Whether a node depends on constants, or on shapes, alone; its results are constants."""
        operands = [self.tensors.get(name) for name in proto.input if name]
        if proto.op_type in ("Shape", "Size") and operands[0] is not None:
            feeds = {proto.input[0]: np.asarray(np.zeros(operands[0].shape, np.int8))}
        elif any(tensor is None or tensor.array is None for tensor in operands):
            return False
        else:
            names = [name for name in proto.input if name]
            feeds = {name: np.asarray(self.tensors[name].array) for name in names}
        try:
            outputs = ReferenceEvaluator(proto).run(None, feeds)
        except EVALUATOR_FAILURES:
            return False
        arrays = [np.asarray(array) for array in outputs]
        known = sum(tensor.size for tensor in operands if tensor is not None)
        if sum(array.size for array in arrays) > max(known, _ALWAYS_FOLDED):
            return False  # such as an Expand: what is small in the program is made in each run
        for name, array in zip(proto.output, arrays, strict=False):
            self.define_constant(name, array)
        return all(name in self.tensors for name in proto.output if name)

    def _convert(self, proto: onnx.NodeProto) -> None:
        if proto.domain not in _DEFAULT_DOMAINS or proto.op_type not in CONVERTERS:
            raise NotExportedError("this operator is not exported to C", f"{_TABLE} {IN_PYTHON}")
        inputs = [self._operand(name) if name else None for name in proto.input]
        results = [(name, *self._result(name)) for name in proto.output if name]
        node = ProgramNode(proto, self._opset, inputs, results)
        made = CONVERTERS[proto.op_type](node, self._body)
        self.tensors.update((r[0], tensor) for r, tensor in zip(results, made, strict=True))

    def _operand(self, name: str) -> ProgramTensor:
        if name not in self.tensors:
            raise NotExportedError(f"its input {name!r} is of a type that C has not")
        return self.tensors[name]

    def _result(self, name: str) -> _Type:
        if name not in self._types:
            raise NotExportedError(
                f"type or shape of its result {name!r} are not known before it runs",
                "Fix the shapes of the inputs (vta-compile --shape NAME=1,3,32,32).",
            )
        dtype, shape = self._types[name]
        if dtype not in C_TYPES:
            raise NotExportedError(
                f"works on {dtype}, which C has not", "Use float32 in the model."
            )
        if 0 in shape:
            raise NotExportedError(f"its result {name!r} has no elements")
        return dtype, shape


def _types(model: onnx.ModelProto) -> dict[str, _Type]:
    """Element type and shape of each value of a model whose shape is known."""
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    types: dict[str, _Type] = {}
    for info in (*inferred.graph.value_info, *inferred.graph.output):
        tensor = info.type.tensor_type
        extents = tensor.shape.dim
        if (
            tensor.elem_type
            and tensor.HasField("shape")
            and all(extent.HasField("dim_value") for extent in extents)
        ):
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            types[info.name] = np.dtype(dtype), tuple(extent.dim_value for extent in extents)
    return types
