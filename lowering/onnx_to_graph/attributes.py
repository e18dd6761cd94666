"""Attributes of ONNX nodes as attributes of the IR and back, without loss.

Numbers, strings and lists are readable. Tensors of NumPy's element types are dense attributes or,
when large, resources. What is left (subgraphs, types, other tensors) is a serialised protobuf.
"""

import base64
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import onnx
from google.protobuf.message import Message
from onnx import AttributeProto, helper, numpy_helper
from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    f32,
    i64,
)
from xdsl.ir import Attribute

from vtac.dialects.context import VtacContext, constant_attr, constant_value
from vtac.dialects.graph import ProtobufAttr
from vtac.dialects.vtac import ResourceAttr
from vtac.lowering.onnx_to_graph.types import dense_dtype

INLINE_BYTES = 4096
"""Serialised protobufs up to this size stand in the text; larger ones are resources."""

_MESSAGES: dict[str, type[Message]] = {
    "TensorProto": onnx.TensorProto,
    "SparseTensorProto": onnx.SparseTensorProto,
    "GraphProto": onnx.GraphProto,
    "TypeProto": onnx.TypeProto,
}

_LISTS = {
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSORS: "tensors",
    AttributeProto.SPARSE_TENSORS: "sparse_tensors",
    AttributeProto.GRAPHS: "graphs",
    AttributeProto.TYPE_PROTOS: "type_protos",
}


def import_attribute(ctx: VtacContext, attr: AttributeProto, hint: str) -> Attribute:
    """An ONNX attribute as one of the IR; resources are named after ``hint``."""
    kind, value = attr.type, helper.get_attribute_value(attr)
    if kind == AttributeProto.FLOATS and np.isfinite(value).all():
        return DenseArrayBase.from_list(f32, list(value))
    if kind == AttributeProto.INTS:
        return DenseArrayBase.from_list(i64, list(value))
    if kind in _LISTS:
        # Lists of floats come here if one is not finite: arrays have no text for those.
        return ArrayAttr([_import_value(ctx, item, hint) for item in value])
    return _import_value(ctx, value, hint)


def _import_value(ctx: VtacContext, value: Any, hint: str) -> Attribute:
    if isinstance(value, float):
        return FloatAttr(value, f32)
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    if isinstance(value, bytes):
        return StringAttr(value.decode()) if value.isascii() else BytesAttr(value)
    if isinstance(value, onnx.TensorProto) and dense_dtype(value.data_type) is not None:
        return constant_attr(ctx, numpy_helper.to_array(value), hint)
    return import_protobuf(ctx, value, hint)


def import_protobuf(ctx: VtacContext, message: Message, hint: str) -> ProtobufAttr:
    """A protobuf as ``#graph.protobuf``, its bytes a resource where they are many."""
    data = message.SerializeToString(deterministic=True)
    kind = type(message).__name__
    if len(data) > INLINE_BYTES:
        return ProtobufAttr(kind, ctx.resources.add(np.frombuffer(data, np.uint8), hint))
    return ProtobufAttr(kind, base64.b64encode(data).decode())


def export_attribute(ctx: VtacContext, name: str, attr: Attribute) -> AttributeProto:
    """The ONNX attribute that ``import_attribute`` read."""
    if isinstance(attr, DenseArrayBase):
        kind = AttributeProto.FLOATS if attr.elt_type == f32 else AttributeProto.INTS
        return helper.make_attribute(name, list(attr.get_values()), attr_type=kind)
    if isinstance(attr, ArrayAttr):
        values = [_export_value(ctx, item) for item in attr.data]
        return helper.make_attribute(
            name, values, attr_type=None if values else AttributeProto.STRINGS
        )
    return helper.make_attribute(name, _export_value(ctx, attr))


def _export_value(ctx: VtacContext, attr: Attribute) -> Any:
    if isinstance(attr, FloatAttr):
        return attr.value.data
    if isinstance(attr, IntegerAttr):
        return attr.value.data
    if isinstance(attr, StringAttr):
        return attr.data.encode()
    if isinstance(attr, BytesAttr):
        return attr.data
    if isinstance(attr, ResourceAttr):
        return numpy_helper.from_array(ctx.resources.get_array(attr))
    if isinstance(attr, DenseIntOrFPElementsAttr):
        return numpy_helper.from_array(constant_value(ctx, attr, attr.type))
    if isinstance(attr, ProtobufAttr):
        return export_protobuf(ctx, attr)
    raise AssertionError(f"no ONNX attribute is imported as {attr}")


def export_protobuf(ctx: VtacContext, attr: ProtobufAttr) -> Message:
    """The message that ``import_protobuf`` read."""
    data = (
        ctx.resources.get_array(attr.payload).tobytes()
        if isinstance(attr.payload, ResourceAttr)
        else base64.b64decode(cast(StringAttr, attr.payload).data)
    )
    message = _MESSAGES[attr.kind.data]()
    message.ParseFromString(data)
    return message


def subgraphs(attributes: Iterable[AttributeProto]) -> list[onnx.GraphProto]:
    """The graphs among a node's attributes."""
    return [g for a in attributes for g in ([a.g] if a.HasField("g") else list(a.graphs))]
