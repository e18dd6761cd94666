"""Operators that slide a window over the spatial axes: poolings and convolutions.

Maxima and sums of integers are exact. Sums of floats are taken in double precision and rounded
once; onnxruntime takes them in single precision, in an order of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from vtac.runtime.c_project.body import Body
from vtac.runtime.c_project.node import ProgramNode
from vtac.runtime.c_project.tensors import DType, NotExportedError, ProgramTensor, literal


@dataclass(frozen=True)
class Window:
    """A window: a number for each spatial axis. inputs, outputs: extents of operand and result."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def has_pads(self) -> bool:
        """Whether a tap may lie outside the operand."""
        return any(self.begins) or any(
            (out - 1) * stride + (taps - 1) * dilation >= extent
            for out, stride, taps, dilation, extent in zip(
                self.outputs, self.strides, self.kernel, self.dilations, self.inputs, strict=True
            )
        )

    def outer(self) -> list[str]:
        """Heads of the loops over the result's positions."""
        return [f"for (int o{a} = 0; o{a} < {n}; o{a}++)" for a, n in enumerate(self.outputs)]

    def taps(self, inside: Sequence[str]) -> list[str]:
        """The loops over the taps that lie in the operand, at the positions ``p0``, ``p1``, ..."""
        lines = []
        for axis, taps in enumerate(self.kernel):
            pad = "    " * axis
            place = f"o{axis} * {self.strides[axis]} + k{axis} * {self.dilations[axis]}"
            place += f" - {self.begins[axis]}" if self.begins[axis] else ""
            lines += [
                f"{pad}for (int k{axis} = 0; k{axis} < {taps}; k{axis}++) {{",
                f"{pad}    int p{axis} = {place};",
            ]
            if self.has_pads:
                lines.append(f"{pad}    if (p{axis} < 0 || p{axis} >= {self.inputs[axis]})")
                lines.append(f"{pad}        continue;")
        pad = "    " * len(self.kernel)
        lines += [pad + line for line in inside]
        return [*lines, *("    " * axis + "}" for axis in reversed(range(len(self.kernel))))]


def index(first: str, names: Sequence[str], extents: Sequence[int]) -> str:
    """The place in a dense tensor: ``((first) * 28 + p0) * 28 + p1``."""
    place = first
    for name, extent in zip(names, extents, strict=True):
        place = f"({place}) * {extent} + {name}"
    return f"[{place}]"


def window_of(node: ProgramNode, kernel: Sequence[int]) -> Window:
    """The window of a pooling or a convolution."""
    rank, attributes = len(kernel), node.attributes
    inputs, outputs = node.input(0).shape[2:], node.shape[2:]
    strides = tuple(attributes.get("strides", [1] * rank))
    dilations = tuple(attributes.get("dilations", [1] * rank))
    auto = attributes.get("auto_pad", b"NOTSET")
    begins = tuple(attributes.get("pads", [0] * 2 * rank)[:rank])
    if auto in (b"SAME_UPPER", b"SAME_LOWER"):
        reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
        totals = [
            max((out - 1) * stride + r - extent, 0)
            for out, stride, r, extent in zip(outputs, strides, reach, inputs, strict=True)
        ]
        begins = tuple((t + (auto == b"SAME_LOWER")) // 2 for t in totals)
    elif auto == b"VALID":
        begins = (0,) * rank
    return Window(tuple(kernel), strides, dilations, begins, tuple(inputs), tuple(outputs))


def _nested(heads: Sequence[str], inside: Sequence[str]) -> list[str]:
    lines = ["    " * depth + head for depth, head in enumerate(heads)]
    lines[-1] += " {"
    pad = "    " * (len(heads) - 1)
    return [*lines, *(f"{pad}    {line}" for line in inside), pad + "}"]


def _pool(
    node: ProgramNode, body: Body, start: str, inside: Sequence[str], end: str
) -> list[ProgramTensor]:
    """One number per channel and window. inside: per tap, which is ``@``."""
    x, y = node.input(0), node.result(body)
    window = window_of(node, node.attributes["kernel_shape"])
    taps = index("c", [f"p{axis}" for axis in range(len(window.kernel))], window.inputs)
    place = index("c", [f"o{axis}" for axis in range(len(window.kernel))], window.outputs)
    channels = f"for (int c = 0; c < {prod(x.shape[:2])}; c++)"
    loops = window.taps([line.replace("@", f"x{taps}") for line in inside])
    lines = _nested(
        [channels, *window.outer()], [start, *loops, f"y{place} = ({y.c_type})({end});"]
    )
    body.step(node.title(), [x], [y], [*body.operands(x=x, y=y), *lines])
    return [y]


def lowest(dtype: DType) -> str:
    """What no number of a type lies below."""
    return "-INFINITY" if dtype.kind == "f" else literal(np.iinfo(dtype).min, dtype)


def _max_pool(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    if len(node.results) > 1:
        raise NotExportedError("also has the indices of the maxima as a result")
    x = node.input(0)
    inside = ["if (@ > best)", "    best = @;"]
    return _pool(node, body, f"{x.c_type} best = {lowest(x.dtype)};", inside, "best")


def _average_pool(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    x, attributes = node.input(0), node.attributes
    if x.dtype.kind != "f" or attributes.get("ceil_mode"):
        raise NotExportedError(f"takes means of {x.dtype} or with ceil_mode")
    if attributes.get("count_include_pad"):
        count = str(prod(attributes["kernel_shape"]))
        return _pool(node, body, "double sum = 0;", ["sum += @;"], f"sum / {count}")
    inside = ["sum += @;", "count++;"]
    return _pool(node, body, "double sum = 0; int count = 0;", inside, "sum / count")


def _conv(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    """Conv and ConvInteger, with groups; pads are zeros, or the zero point."""
    x, w, y = node.input(0), node.input(1), node.result(body)
    integer = node.op == "ConvInteger"
    window = window_of(node, w.shape[2:])
    rank, groups = len(window.kernel), node.attributes.get("group", 1)
    (filters, depth), channels = w.shape[:2], x.shape[1]
    first = f"n * {channels} + m / {filters // groups} * {depth} + c"
    value = "x" + index(first, [f"p{a}" for a in range(rank)], window.inputs)
    weight = "w" + index(f"m * {depth} + c", [f"k{a}" for a in range(rank)], window.kernel)
    place = "y" + index(f"n * {filters} + m", [f"o{a}" for a in range(rank)], window.outputs)
    operands = {"x": x, "w": w}
    if integer:
        value, weight = _less(node, operands, 2, value, "0"), _less(node, operands, 3, weight, "m")
        start, update, end = "uint32_t sum = 0;", f"sum += (uint32_t)({value} * {weight});", "sum"
    else:
        start, update, end = "double sum = 0;", f"sum += (double){value} * {weight};", "sum"
        if (bias := node.optional(2)) is not None:
            operands["b"], start = bias, "double sum = b[m];"
    reduced = [f"for (int c = 0; c < {depth}; c++) {{"]
    reduced += ["    " + line for line in window.taps([update])] + ["}"]
    heads = [f"for (int n = 0; n < {x.shape[0]}; n++)", f"for (int m = 0; m < {filters}; m++)"]
    inside = [start, *reduced, f"{place} = ({y.c_type}){end};"]
    lines = [*body.operands(**operands, y=y), *_nested([*heads, *window.outer()], inside)]
    body.step(node.title(), list(operands.values()), [y], lines)
    return [y]


def _less(
    node: ProgramNode, operands: dict[str, ProgramTensor], number: int, value: str, place: str
) -> str:
    """An integer less its zero point, one or one for each place."""
    zero = node.optional(number)
    if zero is None or (zero.array is not None and not zero.array.any()):
        return value
    operands[f"z{number}"] = zero
    return f"({value} - z{number}[{'0' if zero.size == 1 else place}])"


CONVERTERS: Mapping[str, Callable[[ProgramNode, Body], Sequence[ProgramTensor]]] = {
    "AveragePool": _average_pool,
    "Conv": _conv,
    "ConvInteger": _conv,
    "MaxPool": _max_pool,
}
