"""ONNX types and the IR's: dense tensors of NumPy's element types, and opaque values for the rest.

A tensor whose element type NumPy lacks (strings, bfloat16, 4-bit integers, complex numbers), a
sequence, an optional, a map or a sparse tensor is ``!graph.opaque`` with ONNX's own spelling of
the type, for example ``seq(tensor(float))``. A tensor of unknown rank is an unranked tensor.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TensorProto, TypeProto, helper, numpy_helper
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, UnrankedTensorType
from xdsl.ir import Attribute

from vtac.dialects.context import Array, element_dtype, element_type
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import OpaqueType, packing

UNKNOWN_TYPE = OpaqueType("unknown")
"""The type of a value about which shape inference knows nothing."""

_DENSE: Mapping[int, np.dtype[Any]] = {
    code: helper.tensor_dtype_to_np_dtype(code)
    for code in (
        TensorProto.FLOAT16,
        TensorProto.FLOAT,
        TensorProto.DOUBLE,
        TensorProto.BOOL,
        TensorProto.INT8,
        TensorProto.INT16,
        TensorProto.INT32,
        TensorProto.INT64,
        TensorProto.UINT8,
        TensorProto.UINT16,
        TensorProto.UINT32,
        TensorProto.UINT64,
    )
}

_WIDENED: Mapping[str, type[np.generic]] = {
    "INT2": np.int8,
    "INT4": np.int8,
    "UINT2": np.uint8,
    "UINT4": np.uint8,
    "BFLOAT16": np.float32,
    "FLOAT4E2M1": np.float32,
    "FLOAT8E4M3FN": np.float32,
    "FLOAT8E4M3FNUZ": np.float32,
    "FLOAT8E5M2": np.float32,
    "FLOAT8E5M2FNUZ": np.float32,
    "FLOAT8E8M0": np.float32,
}
"""Number types that NumPy lacks, each with a type of NumPy's that holds all its values exactly."""


def dense_dtype(code: int) -> np.dtype[Any] | None:
    """The dtype of a ``TensorProto.DataType`` that the IR holds as a tensor; None for the rest."""
    return _DENSE.get(code)


def widened(tensor: TensorProto) -> Array | None:
    """The numbers of a tensor in an element type of NumPy's that holds them exactly.

    4-bit integers become 8-bit integers; bfloat16, float8 and float4 become float32. None for
    strings and complex numbers.
    """
    if dense_dtype(tensor.data_type) is not None:
        return numpy_helper.to_array(tensor)
    wide = _WIDENED.get(TensorProto.DataType.Name(tensor.data_type))
    return None if wide is None else numpy_helper.to_array(tensor).astype(wide)


def _tensor_name(code: int) -> str:
    return f"tensor({TensorProto.DataType.Name(code).lower()})"


def import_type(proto: TypeProto | None) -> Attribute:
    """The IR's type for an ONNX type; symbolic and unknown dimensions become dynamic."""
    kind = proto.WhichOneof("value") if proto is not None else None
    if proto is None or kind is None:
        return UNKNOWN_TYPE
    if kind == "tensor_type" and proto.tensor_type.elem_type in _DENSE:
        element = element_type(_DENSE[proto.tensor_type.elem_type])
        if not proto.tensor_type.HasField("shape"):
            return UnrankedTensorType(element)
        dims = proto.tensor_type.shape.dim
        return TensorType(
            element, [d.dim_value if d.HasField("dim_value") else DYNAMIC_INDEX for d in dims]
        )
    name = _type_name(proto)
    return UNKNOWN_TYPE if name is None else OpaqueType(name)


def _type_name(proto: TypeProto) -> str | None:
    match proto.WhichOneof("value"):
        case "tensor_type" if proto.tensor_type.elem_type:
            return _tensor_name(proto.tensor_type.elem_type)
        case "sparse_tensor_type" if proto.sparse_tensor_type.elem_type:
            return "sparse_" + _tensor_name(proto.sparse_tensor_type.elem_type)
        case "sequence_type":
            inner = _type_name(proto.sequence_type.elem_type)
            return None if inner is None else f"seq({inner})"
        case "optional_type":
            inner = _type_name(proto.optional_type.elem_type)
            return None if inner is None else f"optional({inner})"
        case "map_type":
            key = TensorProto.DataType.Name(proto.map_type.key_type).lower()
            inner = _type_name(proto.map_type.value_type)
            return None if inner is None else f"map({key},{inner})"
        case _:
            return None


def export_type(type: Attribute) -> TypeProto | None:
    """The ONNX type of a value, packed tensors by their shape in DRAM; None where it is unknown."""
    if isinstance(type, UnrankedTensorType):
        return helper.make_tensor_type_proto(
            helper.np_dtype_to_tensor_dtype(element_dtype(type.element_type)), None
        )
    if isinstance(type, TensorType):
        packed, shape = packing(type), type.get_shape()
        return helper.make_tensor_type_proto(
            helper.np_dtype_to_tensor_dtype(element_dtype(type.element_type)),
            [
                None if extent == DYNAMIC_INDEX else extent
                for extent in (packed.physical_shape(shape) if packed else shape)
            ],
        )
    if type == UNKNOWN_TYPE or not isinstance(type, OpaqueType):
        return None
    return _parse_type(type.onnx_type.data)


def _parse_type(text: str) -> TypeProto:
    match = re.fullmatch(r"(\w+)\((?:(\w+),)?(.*)\)", text.replace(" ", ""))
    if match is None:
        raise CompileError(Problem("", f"'{text}' is not the name of an ONNX type"))
    kind, key, inner = match.groups()
    if kind == "seq":
        return helper.make_sequence_type_proto(_parse_type(inner))
    if kind == "optional":
        return helper.make_optional_type_proto(_parse_type(inner))
    if kind == "map":
        return helper.make_map_type_proto(
            TensorProto.DataType.Value(key.upper()), _parse_type(inner)
        )
    code = TensorProto.DataType.Value(inner.upper())
    if kind == "sparse_tensor":
        return helper.make_sparse_tensor_type_proto(code, None)
    return helper.make_tensor_type_proto(code, None)
