"""The codegen ``c``: a function as one C file that calls kernels, for the system's compiler.

The second of BYOC's formats (section 3.3): a library of kernels (``kernels.c``) and one call of a
kernel per node, with every shape written out. The file needs nothing else, so it can also be taken
out of a package and built into something of the user's own. `c_engine` compiles it when the package
is opened.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import ClassVar

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from float_codegens.c_engine import ENGINE
from float_codegens.nodes import FloatCodegen, Node, NodeList, node_list, shapes_of
from vtac.dialects.context import VtacContext
from vtac.dialects.payload import Payload

FILE = "function.c"

_HEAD = """\
{kernels}
/* Inputs, constants and outputs in their order; work: room for {work} floats. */
void {name}(const float *const *in, const float *const *constant, float *const *out, float *work)
{{
{calls}
}}
"""


class CCodegen(FloatCodegen):
    """Takes the ops that ``kernels.c`` has kernels for."""

    name: ClassVar[str] = "c"
    priority: ClassVar[int] = 20
    engine: ClassVar[object] = ENGINE

    def build(self, function: Operation, ctx: VtacContext) -> Payload:
        """The C file; metadata has the function's name and the size of its working memory."""
        assert isinstance(function, FuncOp)
        listed = node_list(function, ctx)
        name = re.sub(r"\W", "_", function.sym_name.data)
        places, work = _places(listed)
        calls = "\n".join(_lines(listed, places))
        text = _HEAD.format(kernels=_kernels(), name=name, work=work, calls=calls)
        metadata = {"symbol": name, "work": work}
        return Payload(metadata, {FILE: text.encode()}, listed.constants)


@cache
def _kernels() -> str:
    return (Path(__file__).parent / "kernels.c").read_text()


def _places(listed: NodeList) -> tuple[list[str], int]:
    """The C expression of each value's address, and the number of floats of ``work`` in use.

    A returned value is computed directly into the output. A reshaped value shares the memory of its
    operand.
    """
    places = [f"in[{i}]" for i in range(len(listed.inputs))]
    places += [f"constant[{i}]" for i in range(len(listed.constants))]
    first, work = len(places), 0
    returned = {number: i for i, number in reversed(list(enumerate(listed.outputs)))}
    for number, node in enumerate(listed.nodes, first):
        if number in returned:
            places.append(f"out[{returned[number]}]")
        elif node.op == "reshape":
            places.append(places[node.inputs[0]])
        else:
            places.append(f"work + {work}")
            work += prod(node.shape)
    return places, work


def _lines(listed: NodeList, places: Sequence[str]) -> Iterator[str]:
    shapes = shapes_of(listed)
    first = len(places) - len(listed.nodes)
    for number, node in enumerate(listed.nodes, first):
        result, inputs = places[number], [places[i] for i in node.inputs]
        if result == inputs[0]:
            continue
        layer = re.sub(r"[^\w./:-]", "_", node.layer)
        yield f"    /* {node.op} {layer}: {list(node.shape)} */"
        yield f"    {_call(node, result, inputs, [shapes[i] for i in node.inputs])};"
    made: dict[int, int] = {}
    for position, number in enumerate(listed.outputs):
        home = made.setdefault(number, position)
        if home != position or number < first:
            count = prod(shapes[number])
            yield f"    vtac_copy(out[{position}], {places[number]}, {count});"


def _call(node: Node, result: str, inputs: Sequence[str], shapes: Sequence[Sequence[int]]) -> str:
    """The call of a node's kernel."""
    relu = int(bool(node.attributes.get("relu")))
    match node.op:
        case "conv":
            x, w, bias = (*inputs, "0")[:3]
            window = _window(node, shapes[1][2:])
            return (
                f"vtac_conv({result}, {x}, {w}, {bias}, {_ints(shapes[0])}, {_ints(node.shape)},"
                f" {window}, {node.attributes['group']}, {relu})"
            )
        case "max_pool":
            window = _window(node, node.attributes["kernel"])
            ends = f"{_ints(shapes[0])}, {_ints(node.shape)}"
            return f"vtac_max_pool({result}, {inputs[0]}, {ends}, {window})"
        case "gemm":
            return _gemm(node, result, inputs, shapes, relu)
        case "add":
            return f"vtac_add({result}, {inputs[0]}, {inputs[1]}, {prod(node.shape)})"
        case "relu":
            return f"vtac_relu({result}, {inputs[0]}, {prod(node.shape)})"
        case _:
            return f"vtac_copy({result}, {inputs[0]}, {prod(node.shape)})"


def _gemm(
    node: Node, result: str, inputs: Sequence[str], shapes: Sequence[Sequence[int]], relu: int
) -> str:
    rows, columns = node.shape
    trans_a, trans_b = node.attributes["trans_a"], node.attributes["trans_b"]
    inner = shapes[0][0 if trans_a else 1]
    a = (1, rows) if trans_a else (inner, 1)
    b = (1, inner) if trans_b else (columns, 1)
    c, steps = "0", (0, 0)
    if len(inputs) == 3:
        shape = (*(1,) * (2 - len(shapes[2])), *shapes[2])
        c, steps = inputs[2], (shape[1] if shape[0] > 1 else 0, 1 if shape[1] > 1 else 0)
    factors = f"{node.attributes['alpha']!r}f, {node.attributes['beta']!r}f"
    return (
        f"vtac_gemm({result}, {inputs[0]}, {inputs[1]}, {c}, {rows}, {columns}, {inner},"
        f" {_ints(a)}, {_ints(b)}, {_ints(steps)}, {factors}, {relu})"
    )


def _window(node: Node, kernel: Sequence[int]) -> str:
    attributes = node.attributes
    begins = attributes["pads"][: len(kernel)]
    return _ints([*kernel, *attributes["strides"], *begins, *attributes["dilations"]])


def _ints(numbers: Sequence[int]) -> str:
    return f"(const int[]){{{', '.join(map(str, numbers))}}}"
