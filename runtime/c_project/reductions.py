"""Operators that make one number of many along axes: reductions, softmax, normalisation.

Extremes are exact. Sums of floats, exponentials and square roots are taken in double precision and
rounded once at the end; onnxruntime takes them in single precision, in an order of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from vtac.runtime.c_project.body import Body
from vtac.runtime.c_project.loops import Visit, nest, row_major
from vtac.runtime.c_project.node import ProgramNode
from vtac.runtime.c_project.tensors import NotExportedError, ProgramTensor, literal
from vtac.runtime.c_project.windows import lowest

_SUMS = {
    "ReduceSum": ("total += {};", "total"),
    "ReduceMean": ("total += {};", "total / {count}"),
    "ReduceSumSquare": ("total += (double){0} * {0};", "total"),
    "ReduceL1": ("total += fabs((double){});", "total"),
    "ReduceL2": ("total += (double){0} * {0};", "sqrt(total)"),
    "GlobalAveragePool": ("total += {};", "total / {count}"),
}
"""For each element, and at the end."""

_EXTREMES = {"ReduceMax": ">", "ReduceMin": "<", "GlobalMaxPool": ">"}


def _axes(node: ProgramNode) -> list[int]:
    rank = len(node.input(0).shape)
    if node.op.startswith("Global"):
        return list(range(2, rank))
    axes = node.known(1, "axes")
    if axes is None or axes.size == 0:
        return [] if node.attributes.get("noop_with_empty_axes") else list(range(rank))
    return sorted(int(axis) % rank for axis in axes.reshape(-1))


def _reduced(
    node: ProgramNode, body: Body, start: str, update: str, end: str
) -> list[ProgramTensor]:
    """One number for all elements along axes. update: for each element, which is ``{}``."""
    x, y, axes = node.input(0), node.result(body), _axes(node)
    kept = [axis for axis in range(len(x.shape)) if axis not in axes]
    strides = row_major(x.shape)
    extents = [x.shape[axis] for axis in kept]
    outer = [Visit("y", row_major(extents)), Visit("x", tuple(strides[axis] for axis in kept))]
    inner = Visit("p", tuple(strides[axis] for axis in axes))

    def lines(at: Sequence[str]) -> list[str]:
        inside = nest([x.shape[a] for a in axes], [inner], lambda e: [update.format(*e)], "k")
        pointer = f"const {x.c_type} *p = &{at[1]};"
        return [pointer, start, *inside, f"{at[0]} = ({y.c_type})({end});"]

    body.step(node.title(), [x], [y], [*body.operands(x=x, y=y), *nest(extents, outer, lines)])
    return [y]


def _sum(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    x, (update, end) = node.input(0), _SUMS[node.op]
    if x.dtype.kind != "f" and node.op != "ReduceSum":
        raise NotExportedError(f"{node.op} of {x.dtype}")
    count = literal(prod(x.shape[axis] for axis in _axes(node)), np.dtype(np.float64))
    start = "double total = 0;"
    if x.dtype.kind != "f":
        start, update = "uint64_t total = 0;", "total += (uint64_t){};"
    return _reduced(node, body, start, update, end.format(count=count))


def _extreme(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    x, sign = node.input(0), _EXTREMES[node.op]
    start = lowest(x.dtype)
    if sign == "<":
        start = "INFINITY" if x.dtype.kind == "f" else literal(np.iinfo(x.dtype).max, x.dtype)
    update = f"if ({{0}} {sign} best) best = {{0}};"
    return _reduced(node, body, f"{x.c_type} best = {start};", update, "best")


def _along(
    node: ProgramNode, body: Body, axis: int, row: Sequence[str], **more: ProgramTensor
) -> list[ProgramTensor]:
    """A result made row by row along an axis.

    row: the lines for a row, whose operand is ``p`` and whose result is ``q``; neighbours in a row
    lie ``STEP`` apart, and there are ``COUNT``.
    """
    x, y = node.input(0), node.result(body)
    inner, count = prod(x.shape[axis + 1 :]), x.shape[axis]
    outer = prod(x.shape[:axis])
    across = 0 if count == 0 else y.size // (outer * inner)
    accesses = [Visit("x", (count * inner, 1)), Visit("y", (across * inner, 1))]
    pointers = [f"const {x.c_type} *p = &@;", f"{y.c_type} *q = &@;"]

    def lines(at: Sequence[str]) -> list[str]:
        declared = [line.replace("@", place) for line, place in zip(pointers, at, strict=True)]
        return [
            *declared,
            *(line.replace("STEP", str(inner)).replace("COUNT", str(count)) for line in row),
        ]

    operands = {"x": x, **more}
    made = [*body.operands(**operands, y=y), *nest([outer, inner], accesses, lines)]
    body.step(node.title(), list(operands.values()), [y], made)
    return [y]


def _softmax(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    """Before opset 13 over all axes from the given one on, which are one axis then."""
    x = node.input(0)
    old = node.opset < 13
    axis = node.attributes.get("axis", 1 if old else -1) % max(len(x.shape), 1)
    if x.dtype.kind != "f" or not x.shape:
        raise NotExportedError(f"is of {x.describe()}")
    log = node.op == "LogSoftmax"
    each = "p[k * STEP] - most"
    result = f"({x.c_type})({each} - log(total))" if log else f"({x.c_type})(exp({each}) / total)"
    row = [
        "double most = -INFINITY, total = 0;",
        "for (int k = 0; k < COUNT; k++)",
        "    if (p[k * STEP] > most) most = p[k * STEP];",
        "for (int k = 0; k < COUNT; k++)",
        f"    total += exp({each});",
        "for (int k = 0; k < COUNT; k++)",
        f"    q[k * STEP] = {result};",
    ]
    if not old:
        return _along(node, body, axis, row)
    flat = prod(x.shape[:axis]), prod(x.shape[axis:])
    name, dtype, shape = node.results[0]
    inputs = [body.view(x, flat)]
    (y,) = _along(ProgramNode(node.proto, node.opset, inputs, [(name, dtype, flat)]), body, 1, row)
    return [body.view(y, shape)]


def _arg_max(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    x = node.input(0)
    sign = ">" if node.op == "ArgMax" else "<"
    sign += "=" if node.attributes.get("select_last_index") else ""
    row = [
        "int best = 0;",
        "for (int k = 1; k < COUNT; k++)",
        f"    if (p[k * STEP] {sign} p[best * STEP]) best = k;",
        "q[0] = best;",
    ]
    return _along(node, body, node.attributes.get("axis", 0) % len(x.shape), row)


def _layer_norm(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    x, scale, bias = node.input(0), node.input(1), node.optional(2)
    axis = node.attributes.get("axis", -1) % len(x.shape)
    if x.dtype.kind != "f" or sum(bool(name) for name, _, _ in node.results) > 1:
        raise NotExportedError("also has mean and deviation as results")
    flat = prod(x.shape[:axis]), prod(x.shape[axis:])
    vectors = {"s": scale} | ({} if bias is None else {"b": bias})
    if any(vector.size != flat[1] for vector in vectors.values()):
        raise NotExportedError("broadcasts its scale or its bias")
    epsilon = literal(node.attributes.get("epsilon", 1e-5), np.dtype(np.float64))
    value = "(p[k] - mean) / deviation * s[k]" + ("" if bias is None else " + b[k]")
    row = [
        "double mean = 0, deviation = 0;",
        "for (int k = 0; k < COUNT; k++)",
        "    mean += p[k];",
        "mean /= COUNT;",
        "for (int k = 0; k < COUNT; k++)",
        "    deviation += (p[k] - mean) * (p[k] - mean);",
        f"deviation = sqrt(deviation / COUNT + {epsilon});",
        "for (int k = 0; k < COUNT; k++)",
        f"    q[k] = ({x.c_type})({value});",
    ]
    name, dtype, shape = node.results[0]
    inner = ProgramNode(node.proto, node.opset, [body.view(x, flat)], [(name, dtype, flat)])
    (y,) = _along(inner, body, 1, row, **vectors)
    return [body.view(y, shape)]


CONVERTERS: Mapping[str, Callable[[ProgramNode, Body], Sequence[ProgramTensor]]] = {
    **dict.fromkeys(_SUMS, _sum),
    **dict.fromkeys(_EXTREMES, _extreme),
    "ArgMax": _arg_max,
    "ArgMin": _arg_max,
    "LayerNormalization": _layer_norm,
    "LogSoftmax": _softmax,
    "Softmax": _softmax,
}
