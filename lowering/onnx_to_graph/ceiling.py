"""Poolings with ceil_mode whose last window starts in the end pad.

That window is dropped (ONNX says so, onnxruntime does so), but onnx's shape inference counts it,
and everything after it would be inferred wrongly. Such nodes get explicit pads before inference.
"""

from onnx import ModelProto, NodeProto, TypeProto, helper

from vtac.lowering.onnx_to_graph.check import sorted_nodes
from vtac.lowering.onnx_to_graph.node import StaysOnHostError
from vtac.lowering.onnx_to_graph.shapes import static_shape
from vtac.lowering.onnx_to_graph.windows import WindowAttributes, explicit_window, window_counts

_POOLINGS = ("MaxPool", "AveragePool")


def correct_ceiling(model: ModelProto, types: dict[str, TypeProto]) -> bool:
    """Rewrite, in place, the first node whose inferred shape is wrong.

    Returns whether there was such a node.
    """
    for node in sorted_nodes(model.graph):
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type not in _POOLINGS or not attributes.get("ceil_mode", 0):
            continue
        shape, inferred = (static_shape(types.get(n)) for n in (node.input[0], node.output[0]))
        if shape is None or inferred is None:
            continue
        try:
            kernel = list(attributes.get("kernel_shape", ()))
            window = explicit_window(attributes, list(shape[2:]), kernel)
        except StaysOnHostError:
            continue
        if attributes.get("count_include_pad", 0) and any(window.overhang):
            continue  # as pads, the overhang would count
        if window_counts(window, list(shape[2:])) != list(inferred[2:]):
            _replace(model, node, window)
            return True
    return False


def _replace(model: ModelProto, node: NodeProto, window: WindowAttributes) -> None:
    kept = [a for a in node.attribute if a.name not in ("auto_pad", "ceil_mode", "pads")]
    attributes = [*kept, helper.make_attribute("pads", window.pads)]
    for field in (model.graph.output, model.graph.value_info):
        for value in field:
            if value.name in node.output:
                value.type.tensor_type.ClearField("shape")
    del node.attribute[:]
    node.attribute.extend(attributes)
