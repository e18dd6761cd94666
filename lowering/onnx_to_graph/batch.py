"""The same model for another number of samples per run.

The leading dimension of every input becomes the given number, and numbers of the model that repeat
it follow: the target shapes of reshapes and resizes of values that depend on an input. What else
fixes the old number (a constant that is joined to a value, say) contradicts the new shapes, and
shape inference reports it at import.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from vtac.dialects.errors import CompileError, Problem
from vtac.lowering.onnx_to_graph.shapes import network_inputs

_TARGET_SHAPES: Mapping[str, int] = {"Reshape": 1, "Resize": 3}
"""For operators with an operand that is the shape of the result, the position of that operand."""


def with_batch(model: ModelProto, batch: int) -> ModelProto:
    """A copy of a model that takes ``batch`` samples per run instead of its own number.

    Raises `CompileError` where inputs have different numbers of samples, or no dimensions.
    """
    changed = ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    before = _fix_inputs(changed, batch)
    del graph.value_info[:]
    for value in graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    if before is not None and before != batch:
        _scale_shapes(graph, {value.name for value in network_inputs(changed)}, before, batch)
    return changed


def _fix_inputs(model: ModelProto, batch: int) -> int | None:
    """Set the leading dimension of all inputs; return the one before, None if it was unknown."""
    problems, found = list[Problem](), dict[int, str]()
    for value in network_inputs(model):
        tensor = value.type.tensor_type
        if not value.type.HasField("tensor_type") or not tensor.shape.dim:
            what = "has no leading dimension that could be the number of samples"
            problems.append(Problem(f"input '{value.name}'", what))
            continue
        leading = tensor.shape.dim[0]
        if leading.HasField("dim_value") and leading.dim_value > 0:
            found.setdefault(leading.dim_value, value.name)
        leading.Clear()
        leading.dim_value = batch
    if len(found) > 1:
        told = ", ".join(f"{count} in '{name}'" for count, name in found.items())
        problems.append(Problem("batch", f"the inputs have different numbers of samples: {told}"))
    if problems:
        raise CompileError(problems)
    return next(iter(found), None)


def _scale_shapes(graph: GraphProto, dependent: set[str], before: int, batch: int) -> None:
    """Replace target shapes of values that depend on the inputs, so that they fit the new number.

    dependent: the names of the inputs. A target without -1 and 0 grows in its first extent; one
    with -1 only if its first extent is the old number itself.
    """
    constants = dict(_integer_constants(graph))
    for number, node in enumerate(graph.node):
        if dependent.isdisjoint(node.input):
            continue
        dependent.update(node.output)
        position = _TARGET_SHAPES.get(node.op_type)
        if position is None or len(node.input) <= position or node.input[0] not in dependent:
            continue
        shape = constants.get(node.input[position])
        if shape is None or not shape.size or shape[0] <= 0:
            continue
        free = bool((shape[1:] == -1).any())
        if (free and shape[0] != before) or shape[0] * batch % before:
            continue
        shape = shape.copy()
        shape[0] = shape[0] * batch // before
        name = f"{node.input[position]}/batch{batch}/{number}"
        graph.initializer.append(numpy_helper.from_array(shape, name))
        node.input[position] = name


def _integer_constants(graph: GraphProto) -> Iterator[tuple[str, np.ndarray]]:
    """The constant vectors of int64 of a graph, by name."""
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.INT64 and len(tensor.dims) == 1:
            yield tensor.name, numpy_helper.to_array(tensor)
    for node in graph.node:
        if node.op_type == "Constant":
            yield from _of_node(node)


def _of_node(node: NodeProto) -> Iterator[tuple[str, np.ndarray]]:
    for attribute in node.attribute:
        if attribute.name == "value_ints":
            yield node.output[0], np.array(attribute.ints, np.int64)
        elif attribute.name == "value" and attribute.t.data_type == TensorProto.INT64:
            array = numpy_helper.to_array(attribute.t)
            if array.ndim == 1:
                yield node.output[0], array
