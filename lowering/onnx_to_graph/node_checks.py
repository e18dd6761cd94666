"""Nodes whose operands do not fit together: found at import and named, all of them at once.

onnx infers the shapes of a node's results and says what contradicts; but it lets some operands pass
that no engine can compute with, so the layers have checks of their own. Both look at shapes alone,
as far as they are known.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import onnx
from onnx import ModelProto, NodeProto, TypeProto, helper

from vtac.dialects.errors import Problem
from vtac.lowering.onnx_to_graph.check import describe, opsets_of, plain_domain
from vtac.lowering.onnx_to_graph.shapes import static_shape

Shape = tuple[int, ...]
Shapes = Sequence[Shape | None]
"""The shapes of a node's operands, None where one is absent or not known."""

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


def _window(x: Shape, kernel: Shape, values: Mapping[str, Any]) -> Iterator[str]:
    """The problem of a window that is larger than its operand, or None."""
    stated = tuple(values.get("kernel_shape", kernel))
    if stated != kernel:
        yield f"its kernel_shape is {list(stated)} and its weights have {list(kernel)}"
        return
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


_CHECKS: Mapping[str, Callable[[Shapes, Mapping[str, Any]], Iterator[str]]] = {
    "BatchNormalization": _batch_norm,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "PRelu": _prelu,
}
"""For each layer, a check of the operands' shapes and the node's attributes."""
