"""Transposed convolutions whose pads follow from their result get explicit ones.

Where a result is asked for (``output_shape``, or ``auto_pad`` SAME, which is at most stride times
input), onnx's shape inference does not find what onnxruntime computes: it adds the output padding
to SAME, and leaves out extents that are smaller than the input's.
"""

from collections.abc import Mapping
from typing import Any

from onnx import ModelProto, NodeProto, TypeProto, helper

from vtac.lowering.onnx_to_graph.check import plain_domain
from vtac.lowering.onnx_to_graph.shapes import static_shape

_SAME = (b"SAME_UPPER", b"SAME_LOWER")
_REPLACED = ("auto_pad", "output_padding", "output_shape", "pads")


def make_pads_explicit(model: ModelProto, types: Mapping[str, TypeProto]) -> bool:
    """Rewrite all such nodes of known shapes, in place; whether there was one."""
    changed = False
    constants = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type != "ConvTranspose" or plain_domain(node.domain):
            continue
        values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if values.get("auto_pad") not in _SAME and "output_shape" not in values:
            continue
        x, w = (constants.get(name) or static_shape(types.get(name)) for name in node.input[:2])
        if x is None or w is None or len(x) != len(w):
            continue
        _replace(model, node, values, x[2:], w[2:])
        changed = True
    return changed


def _replace(
    model: ModelProto,
    node: NodeProto,
    values: Mapping[str, Any],
    sizes: tuple[int, ...],
    kernel: tuple[int, ...],
) -> None:
    rank = len(sizes)
    strides, dilations, more = (
        list(values.get(name, [default] * rank))
        for name, default in (("strides", 1), ("dilations", 1), ("output_padding", 0))
    )
    same = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    asked = list(values.get("output_shape", same))
    if len(asked) != rank:
        return
    full = [
        stride * (size - 1) + extra + (taps - 1) * dilation + 1
        for size, stride, extra, taps, dilation in zip(
            sizes, strides, more, kernel, dilations, strict=True
        )
    ]
    totals = [whole - extent for whole, extent in zip(full, asked, strict=True)]
    less = [max(0, total) // 2 for total in totals]
    rest = [max(0, total) - half for total, half in zip(totals, less, strict=True)]
    is_upper = values.get("auto_pad") == b"SAME_UPPER"
    pads = [*less, *rest] if is_upper else [*rest, *less]
    # Only extents that are asked for are filled up; SAME makes no result larger.
    filled = "output_shape" in values
    padding = [e + max(0, -total) * filled for e, total in zip(more, totals, strict=True)]
    kept = [a for a in node.attribute if a.name not in _REPLACED]
    attributes = [
        *kept,
        helper.make_attribute("pads", pads),
        helper.make_attribute("output_padding", padding),
    ]
    for value in (*model.graph.output, *model.graph.value_info):
        if value.name in node.output:
            value.type.tensor_type.ClearField("shape")
    del node.attribute[:]
    node.attribute.extend(attributes)
