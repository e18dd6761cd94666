"""Folds small constant subexpressions of an ONNX graph with onnx's reference evaluator.

This settles the shape arithmetic of exported models (Shape, Gather, Concat feeding Reshape) before
ops are chosen. Weights that a QDQ model dequantises keep their quantised form.
"""

from math import prod

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper

from vtac.lowering.onnx_to_graph.check import sorted_nodes
from vtac.lowering.onnx_to_graph.shapes import static_shape
from vtac.lowering.onnx_to_graph.types import dense_dtype

LARGEST_RESULT = 4096
"""Results of more elements are left to the host or to the pass fold-constants."""

_FOLDED = frozenset(
    {
        "Abs", "Add", "And", "Cast", "Ceil", "Clip", "Concat", "Constant", "ConstantOfShape", "Div",
        "Equal", "Exp", "Expand", "Flatten", "Floor", "Gather", "Greater", "GreaterOrEqual",
        "Identity", "Less", "LessOrEqual", "Log", "Max", "Min", "Mod", "Mul", "Neg", "NonZero",
        "Not", "Or", "Pow", "Range", "Reciprocal", "ReduceMax", "ReduceMin", "ReduceProd",
        "ReduceSum", "Relu", "Reshape", "Shape", "Size", "Slice", "Split", "Sqrt", "Squeeze", "Sub",
        "Tile", "Transpose", "Unsqueeze", "Where", "Xor",
    }
)  # fmt: skip
"""Operators that onnx's evaluator computes correctly: arithmetic and moving of elements.

It is wrong about others (MaxPool with uneven pads); layers are folded by the pass fold-constants.
"""

EVALUATOR_FAILURES = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError,
    ValueError,
)  # fmt: skip
"""Exceptions of onnx's reference evaluator, whose operators are functions of Python and NumPy."""


def fold_constants(model: ModelProto, types: dict[str, TypeProto]) -> bool:
    """Replace constant nodes by initialisers, in place; whether any was found."""
    graph = model.graph
    constants = {t.name: t for t in graph.initializer}
    static = {name: static_shape(type) for name, type in types.items()}
    shapes = {name: shape for name, shape in static.items() if shape is not None}
    kept: list[NodeProto] = []
    before = len(graph.node)
    for node in sorted_nodes(graph):
        results = _evaluate(model, node, constants, shapes)
        if results is None:
            kept.append(node)
        else:
            for tensor in results:
                constants[tensor.name] = tensor
                graph.initializer.append(tensor)
    if len(kept) == before:
        return False
    copies = [NodeProto.FromString(node.SerializeToString()) for node in kept]
    del graph.node[:]
    graph.node.extend(copies)
    return True


def _evaluate(
    model: ModelProto,
    node: NodeProto,
    constants: dict[str, TensorProto],
    shapes: dict[str, tuple[int, ...]],
) -> list[TensorProto] | None:
    """The node's outputs if they are constant, small and of NumPy's element types."""
    outputs = [name for name in node.output if name]
    if node.domain not in ("", "ai.onnx") or node.op_type not in _FOLDED:
        return None
    if node.op_type in ("Shape", "Size") and node.input[0] in shapes:
        return [_of_shape(node, shapes[node.input[0]])]
    inputs = [constants.get(name) for name in node.input if name]
    if None in inputs or any(prod(shapes.get(o, (1 << 62,))) > LARGEST_RESULT for o in outputs):
        return None
    if any(t is not None and dense_dtype(t.data_type) is None for t in inputs):
        return None
    results = _run(model, node, [t for t in inputs if t is not None], outputs)
    if results is None or any(tuple(t.dims) != shapes[t.name] for t in results):
        return None
    return results


def _of_shape(node: NodeProto, shape: tuple[int, ...]) -> TensorProto:
    bounds = {attr.name: attr.i for attr in node.attribute}
    value = (
        np.array(prod(shape), np.int64)
        if node.op_type == "Size"
        else np.array(shape[bounds.get("start", 0) : bounds.get("end", len(shape))], np.int64)
    )
    return numpy_helper.from_array(value, node.output[0])


def _run(
    model: ModelProto, node: NodeProto, inputs: list[TensorProto], outputs: list[str]
) -> list[TensorProto] | None:
    from onnx.reference import ReferenceEvaluator

    graph = helper.make_graph(
        [node], "constant", [], [helper.make_empty_tensor_value_info(o) for o in outputs], inputs
    )
    single = helper.make_model(graph, opset_imports=model.opset_import)
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(single).run(None, {})
    except EVALUATOR_FAILURES:  # the node stays; the host does better, or says what is wrong
        return None
    tensors = []
    for name, result in zip(outputs, results, strict=True):
        if not isinstance(result, np.ndarray | np.generic):
            return None
        tensor = numpy_helper.from_array(np.asarray(result), name)
        if dense_dtype(tensor.data_type) is None:
            return None
        tensors.append(tensor)
    return tensors
