"""Nodes whose operands do not fit together: found at import and named, all of them at once.

onnx infers the shapes of a node's results and says what contradicts; but it lets some operands pass
that no engine can compute with, so the layers have checks of their own. Both look at shapes alone,
as far as they are known.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper

from vtac.dialects.errors import Problem
from vtac.lowering.onnx_to_graph.check import describe, opsets_of, plain_domain
from vtac.lowering.onnx_to_graph.shapes import static_shape

Shape = tuple[int, ...]
Shapes = Sequence[Shape | None]
"""The shapes of a node's operands, None where one is absent or not known."""

Check = Callable[[Shapes, Mapping[str, Any]], Iterator[str]]
"""What is wrong with a node, from the shapes of its operands and its attributes."""

Numbers = Sequence[np.ndarray[Any, np.dtype[Any]] | None]
"""The constants among a node's further operands, None for others."""

NumberCheck = Callable[[Shape, Shape | None, Numbers, Mapping[str, Any]], Iterator[str]]
"""What is wrong with a node, from the shapes of its first operand and its first result, its further
operands and its attributes."""

_NUMBERS = (TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT)
_MOST_NUMBERS = 1 << 12
"""Element types and the largest size of constants that are looked at."""

_REFUSALS = (
    onnx.checker.ValidationError, onnx.shape_inference.InferenceError, RuntimeError, ValueError,
)  # fmt: skip
"""Exceptions of onnx for a node whose operands contradict each other."""

ANEW = "The model is damaged: export it anew."


def layer_problems(model: ModelProto, types: Mapping[str, TypeProto]) -> list[Problem]:
    """The problems of layers of the main graph on which engines would fail when they run."""
    problems = []
    for node in model.graph.node:
        check = _CHECKS.get(node.op_type) if plain_domain(node.domain) == "" else None
        if check is None:
            continue
        shapes = [static_shape(types.get(name)) for name in node.input]
        values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        problems += [Problem(describe(node), what, ANEW) for what in check(shapes, values)]
    return problems


def number_problems(
    model: ModelProto, types: Mapping[str, TypeProto], constants: Mapping[str, TensorProto]
) -> list[Problem]:
    """The problems of nodes of the main graph that take constants for shapes or for places."""

    def array(name: str) -> np.ndarray[Any, np.dtype[Any]] | None:
        tensor = constants.get(name)
        if tensor is None or tensor.data_type not in _NUMBERS or prod(tensor.dims) > _MOST_NUMBERS:
            return None
        return numpy_helper.to_array(tensor)

    problems = []
    for node in model.graph.node:
        check = _NUMBER_CHECKS.get(node.op_type) if plain_domain(node.domain) == "" else None
        x = static_shape(types.get(node.input[0])) if check is not None and node.input else None
        if check is None or x is None:
            continue
        y = static_shape(types.get(node.output[0]))
        numbers = [array(name) for name in node.input[1:]]
        values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        problems += [Problem(describe(node), what, ANEW) for what in check(x, y, numbers, values)]
    return problems


def inferred_problems(model: ModelProto, types: Mapping[str, TypeProto]) -> list[Problem]:
    """Nodes of the main graph whose operands contradict each other, by onnx's inference."""
    opsets, problems = opsets_of(model), []
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        domain = plain_domain(node.domain)
        version = opsets.get(domain, 0)
        if not version or not onnx.defs.has(node.op_type, version, domain):
            continue
        inputs = [name for name in node.input if name]
        if any(name not in types for name in inputs) or _has_subgraphs(node):
            continue
        try:
            onnx.shape_inference.infer_node_outputs(
                onnx.defs.get_schema(node.op_type, version, domain),
                node,
                {name: types[name] for name in inputs},
                {name: constants[name] for name in inputs if name in constants},
                opset_imports=list(model.opset_import),
                ir_version=model.ir_version,
            )
        except _REFUSALS as error:
            text = " ".join(str(error).split()).removeprefix("[ShapeInferenceError] ")
            shapes = ", ".join(_shape_text(types[name]) for name in inputs)
            problems.append(Problem(describe(node), f"{text} (operands {shapes})", ANEW))
    return problems


def _shape_text(type: TypeProto) -> str:
    shape = static_shape(type)
    return "of unknown shape" if shape is None else str(list(shape))


def _has_subgraphs(node: NodeProto) -> bool:
    return any(a.HasField("g") or a.graphs for a in node.attribute)


def _conv(shapes: Shapes, values: Mapping[str, Any]) -> Iterator[str]:
    x, w, bias = (*shapes, None, None, None)[:3]
    group = values.get("group", 1)
    if x is None or w is None:
        return
    if len(x) != len(w) or len(x) < 2:
        yield f"its input {list(x)} and its weights {list(w)} differ in rank"
        return
    if group < 1 or x[1] != w[1] * group or w[0] % group:
        yield (
            f"its input has {x[1]} channels, and its weights {list(w)} take {w[1]} in each of"
            f" {group} groups"
        )
    if bias is not None and bias != (w[0],):
        yield f"its bias is {list(bias)} and its weights make {w[0]} channels"
    yield from _window(x, w[2:], values)


def _conv_transpose(shapes: Shapes, values: Mapping[str, Any]) -> Iterator[str]:
    x, w, bias = (*shapes, None, None, None)[:3]
    group = values.get("group", 1)
    if x is None or w is None:
        return
    if len(x) != len(w) or len(x) < 2:
        yield f"its input {list(x)} and its weights {list(w)} differ in rank"
        return
    if group < 1 or x[1] != w[0] or w[0] % group:
        yield (
            f"its input has {x[1]} channels, and its weights {list(w)} take {w[0]} in"
            f" {group} groups"
        )
    elif bias is not None and bias != (w[1] * group,):
        yield f"its bias is {list(bias)} and its weights make {w[1] * group} channels"
    rank = len(x) - 2
    steps = zip(
        values.get("strides", [1] * rank), values.get("dilations", [1] * rank), strict=False
    )
    for padding, step in zip(values.get("output_padding", ()), steps, strict=False):
        if padding >= max(step):
            yield (
                f"its output has {padding} more rows than its input reaches, stride and dilation"
                f" leave at most {max(step) - 1}"
            )
    yield from _automatic_pads(values)


def _automatic_pads(values: Mapping[str, Any]) -> Iterator[str]:
    known = (b"NOTSET", b"VALID", b"SAME_UPPER", b"SAME_LOWER")
    if (given := values.get("auto_pad", known[0])) not in (*known, b""):
        listed = ", ".join(name.decode() for name in known)
        yield f"its auto_pad is {given.decode(errors='replace')!r}, not one of {listed}"


def _window(x: Shape, kernel: Shape, values: Mapping[str, Any]) -> Iterator[str]:
    """The problem of a window that is larger than its operand, or None."""
    stated = tuple(values.get("kernel_shape", kernel))
    if stated != kernel:
        yield f"its kernel_shape is {list(stated)} and its weights have {list(kernel)}"
        return
    yield from _automatic_pads(values)
    if values.get("auto_pad", b"NOTSET") not in (b"NOTSET", b""):
        return
    rank = len(kernel)
    pads = values.get("pads", [0] * 2 * rank)
    dilations = values.get("dilations", [1] * rank)
    if len(pads) != 2 * rank or len(dilations) != rank:
        yield f"its pads {list(pads)} and dilations {list(dilations)} do not fit {rank} axes"
        return
    for axis, taps in enumerate(kernel):
        padded = x[2 + axis] + pads[axis] + pads[rank + axis]
        span = (taps - 1) * dilations[axis] + 1
        if span > padded:
            yield f"its window spans {span} along axis {2 + axis}, where its input has {padded}"


def _batch_norm(shapes: Shapes, values: Mapping[str, Any]) -> Iterator[str]:
    x, *vectors = shapes
    if x is None or len(x) < 2:
        return
    for name, vector in zip(("scale", "bias", "mean", "variance"), vectors, strict=False):
        if vector is not None and vector != (x[1],):
            yield f"its {name} is {list(vector)} and its input has {x[1]} channels"


def _gemm(shapes: Shapes, values: Mapping[str, Any]) -> Iterator[str]:
    a, b, c = (*shapes, None, None, None)[:3]
    if a is None or b is None or c is None or len(a) != 2 or len(b) != 2:
        return
    result = a[values.get("transA", 0)], b[1 - values.get("transB", 0)]
    if not _broadcasts(c, result):
        yield f"its third operand is {list(c)} and its result {list(result)}"


def _transpose(shapes: Shapes, values: Mapping[str, Any]) -> Iterator[str]:
    x, order = shapes[0], values.get("perm")
    if x is not None and order is not None and sorted(order) != list(range(len(x))):
        yield f"{list(order)} is no permutation of the axes of its input {list(x)}"


def _pooling(shapes: Shapes, values: Mapping[str, Any]) -> Iterator[str]:
    kernel, x = values.get("kernel_shape", ()), shapes[0]
    rank = len(kernel)
    pads = values.get("pads", [0] * 2 * rank)
    yield from _automatic_pads(values)
    for axis, taps in enumerate(kernel):
        if max(pads[axis::rank], default=0) >= taps:
            yield f"its pads {list(pads)} are not smaller than its window {list(kernel)}"
            return
    automatic = values.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"")
    if x is None or len(x) != 2 + rank or len(pads) != 2 * rank or automatic:
        return
    strides, dilations = (values.get(name, [1] * rank) for name in ("strides", "dilations"))
    for axis, (taps, stride, dilation) in enumerate(zip(kernel, strides, dilations, strict=False)):
        padded, span = x[2 + axis] + pads[axis] + pads[rank + axis], (taps - 1) * dilation + 1
        # Division truncates in onnxruntime: a window that reaches out by less than two strides is
        # at one place or at none, and neither is an error.
        if span - padded >= 2 * stride:
            yield f"its window spans {span} along axis {2 + axis}, where its input has {padded}"


def _local_response(shapes: Shapes, values: Mapping[str, Any]) -> Iterator[str]:
    size = values.get("size", 1)
    if size < 1 or size % 2 == 0:
        yield f"its size is {size}, which must be odd and above 0"


def _normalisation(shapes: Shapes, values: Mapping[str, Any]) -> Iterator[str]:
    x, *vectors = shapes
    if x is None or len(x) < 2:
        return
    for name, vector in zip(("scale", "bias"), vectors, strict=False):
        if vector is not None and vector != (x[1],):
            yield f"its {name} is {list(vector)} and its input has {x[1]} channels"


def _layer_normalisation(shapes: Shapes, values: Mapping[str, Any]) -> Iterator[str]:
    x, axis = shapes[0], values.get("axis", -1)
    if x is not None and not -len(x) <= axis < len(x):
        yield f"its axis is {axis} and its input {list(x)}"
        return
    for name, vector in zip(("scale", "bias"), shapes[1:], strict=False):
        if x is not None and vector is not None and not _broadcasts(vector, x):
            yield f"its {name} is {list(vector)}, which does not broadcast to its input {list(x)}"


def _depth_to_space(shapes: Shapes, values: Mapping[str, Any]) -> Iterator[str]:
    x, size = shapes[0], values.get("blocksize", 1)
    if x is not None and len(x) == 4 and (size < 1 or x[1] % (size * size)):
        yield f"its input has {x[1]} channels, which are no multiple of {size} * {size}"


def _dequantize(shapes: Shapes, values: Mapping[str, Any]) -> Iterator[str]:
    x, scale = (*shapes, None, None)[:2]
    axis = values.get("axis", 1)
    if x is not None and scale is not None and len(scale) and scale != (1,):
        if not -len(x) <= axis < len(x):
            yield f"its axis is {axis} and its input {list(x)}"
        elif len(scale) == 1 and scale[0] != x[axis]:
            yield f"its scales are {list(scale)}, axis {axis} of its input {list(x)} has {x[axis]}"


def _recurrent(gates: int) -> Check:
    def check(shapes: Shapes, values: Mapping[str, Any]) -> Iterator[str]:
        x, w, r = (*shapes, None, None)[:3]
        hidden = values.get("hidden_size")
        count = 2 if values.get("direction", b"forward") == b"bidirectional" else 1
        if hidden is None or x is None or len(x) != 3:
            return
        for name, given, last in (("W", w, x[2]), ("R", r, hidden)):
            wanted = (count, gates * hidden, last)
            if given is not None and given != wanted:
                yield f"its {name} is {list(given)}, not {list(wanted)}"

    return check


def _reshape(x: Shape, y: Shape | None, numbers: Numbers, _: Mapping[str, Any]) -> Iterator[str]:
    if y is not None and prod(x) != prod(y):
        yield f"its input {list(x)} has {prod(x)} elements, and its result {list(y)} {prod(y)}"


def _gather(
    x: Shape, _: Shape | None, numbers: Numbers, values: Mapping[str, Any]
) -> Iterator[str]:
    axis = values.get("axis", 0)
    indices = numbers[0] if numbers else None
    if indices is None or not indices.size or not -len(x) <= axis < len(x):
        return
    if indices.min() < -x[axis] or indices.max() >= x[axis]:
        yield (
            f"its indices go from {indices.min()} to {indices.max()}, axis {axis} of its input"
            f" {list(x)} has {x[axis]}"
        )


def _resize(
    x: Shape, y: Shape | None, numbers: Numbers, values: Mapping[str, Any]
) -> Iterator[str]:
    for given in numbers[-1:] if len(numbers) < 3 else numbers[1:3]:
        if given is not None and given.size and not (given > 0).all():
            yield f"it resizes to {given.tolist()}, which must be above 0"


def _pad(x: Shape, y: Shape | None, numbers: Numbers, values: Mapping[str, Any]) -> Iterator[str]:
    pads = numbers[0] if numbers else None
    if pads is None or pads.size != 2 * len(x):
        return
    left = np.array(x) + np.minimum(pads[: len(x)], 0) + np.minimum(pads[len(x) :], 0)
    mode, most = values.get("mode", b"constant"), np.maximum(*np.split(pads, 2))
    # A constant fills also what one side cuts off beyond the other's end.
    rest = left if mode != b"constant" else np.array(x) + pads[: len(x)] + pads[len(x) :]
    if (rest < 0).any():
        yield f"its pads {pads.tolist()} cut off more than its input {list(x)} has"
    elif mode != b"constant" and (left == 0).any():
        yield f"its pads {pads.tolist()} leave nothing of its input {list(x)} to repeat"
    elif mode == b"reflect" and ((most > 0) & (most >= left)).any():
        yield f"its pads {pads.tolist()} reflect more than its input {list(x)} has"


def _prelu(shapes: Shapes, values: Mapping[str, Any]) -> Iterator[str]:
    x, slope = (*shapes, None, None)[:2]
    if x is not None and slope is not None and not _broadcasts(slope, x):
        yield f"its slope is {list(slope)}, which does not broadcast to its input {list(x)}"


def _broadcasts(shape: Shape, to: Shape) -> bool:
    """Whether a shape broadcasts to another in one direction."""
    if len(shape) > len(to):
        return False
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return all(extent in (1, wanted) for extent, wanted in pairs)


_CHECKS: Mapping[str, Check] = {
    "AveragePool": _pooling,
    "BatchNormalization": _batch_norm,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "DepthToSpace": _depth_to_space,
    "DequantizeLinear": _dequantize,
    "GRU": _recurrent(3),
    "Gemm": _gemm,
    "InstanceNormalization": _normalisation,
    "LRN": _local_response,
    "LSTM": _recurrent(4),
    "LayerNormalization": _layer_normalisation,
    "LpPool": _pooling,
    "MaxPool": _pooling,
    "PRelu": _prelu,
    "QuantizeLinear": _dequantize,
    "RNN": _recurrent(1),
    "Transpose": _transpose,
}
"""For each layer, a check of the operands' shapes and the node's attributes."""

_NUMBER_CHECKS: Mapping[str, NumberCheck] = {
    "Gather": _gather,
    "Pad": _pad,
    "Reshape": _reshape,
    "Resize": _resize,
}
"""For each such operator, a check of the constants that it takes."""
