"""Inlines functions: those of the model, and some operators that ONNX defines by functions.

ONNX defines many operators by a body of simpler ones. The host engine runs the operator itself; the
accelerator can only take ops of the body.
"""

import onnx.inliner
from onnx import ModelProto, helper

from vtac.dialects.errors import CompileError, Problem
from vtac.lowering.onnx_to_graph.check import describe, plain_domain

STANDARD = frozenset({"Attention", "CausalConvWithState", "CenterCropPad", "SwiGLU"})
"""Operators of the default domain whose bodies hold products, or move elements."""


def inline_functions(model: ModelProto) -> ModelProto:
    """The model without calls of functions, as far as onnx can.

    A standard operator that it cannot inline (some with absent inputs) stays for the host. Raises
    CompileError for a function of the model's own.
    """
    if model.functions:
        own = {(function.domain, function.name) for function in model.functions}
        try:
            model = onnx.inliner.inline_local_functions(model)
        except (RuntimeError, ValueError) as error:
            what = f"onnx cannot inline its functions: {' '.join(str(error).split())}"
            raise CompileError(Problem("model", what)) from error
        what = "its function is written for another opset than the model"
        hint = "Export the model with one opset for all functions."
        left = [node for node in model.graph.node if (node.domain, node.op_type) in own]
        if left:
            raise CompileError([Problem(describe(node), what, hint) for node in left])
    found = {
        node.op_type
        for node in model.graph.node
        if node.op_type in STANDARD and plain_domain(node.domain) == ""
    }
    for name in sorted(found):
        try:
            model = onnx.inliner.inline_selected_functions(
                _typed(model), [("", name)], inline_schema_functions=True
            )
        except (RuntimeError, ValueError, onnx.shape_inference.InferenceError):
            continue
    return model


def _typed(model: ModelProto) -> ModelProto:
    """The model with the type of every value, which onnx asks for where a body depends on types."""
    typed = onnx.shape_inference.infer_shapes(model)
    inputs = {value.name for value in typed.graph.input}
    typed.graph.value_info.extend(
        helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in typed.graph.initializer
        if tensor.name not in inputs
    )
    return typed
