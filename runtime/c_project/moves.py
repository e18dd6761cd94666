"""Operators that move elements and compute nothing: exact for every type."""

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from vtac.runtime.c_project.body import Body
from vtac.runtime.c_project.loops import PositionTable, Visit, broadcast, copy, nest, row_major
from vtac.runtime.c_project.node import ProgramNode
from vtac.runtime.c_project.tensors import NotExportedError, ProgramTensor, literal

Converter = Callable[[ProgramNode, Body], Sequence[ProgramTensor]]


def _moved(
    node: ProgramNode, body: Body, source: Visit, shape: Sequence[int] = ()
) -> list[ProgramTensor]:
    """The result, filled from elements of the first operand. shape: that of the loops."""
    x, y = node.input(0), node.result(body)
    extents = tuple(shape) or y.shape
    lines = copy(extents, Visit("y", row_major(extents)), source, y.dtype.itemsize)
    body.step(node.title(), [x], [y], [*body.operands(x=x, y=y), *lines])
    return [y]


def _view(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    """The operand's elements in the result's shape, which takes no instruction."""
    return [body.view(node.input(0), node.shape)]


def _transpose(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    x = node.input(0)
    order = node.attributes.get("perm", list(reversed(range(len(x.shape)))))
    strides = row_major(x.shape)
    return _moved(node, body, Visit("x", tuple(strides[axis] for axis in order)))


def _slice(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    x = node.input(0)
    starts, ends, axes, steps = (
        node.known(number, name)
        for number, name in enumerate(("starts", "ends", "axes", "steps"), 1)
    )
    if starts is None or ends is None:
        raise NotExportedError("has no limits")
    where = range(len(starts)) if axes is None else axes
    strides, offset = list(row_major(x.shape)), 0
    for number, axis in enumerate(where):
        step = 1 if steps is None else int(steps[number])
        first, _, _ = slice(int(starts[number]), int(ends[number]), step).indices(x.shape[axis])
        offset += first * strides[axis]
        strides[axis] *= step
    return _moved(node, body, Visit("x", tuple(strides), offset))


def _expand(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    return _moved(node, body, Visit("x", broadcast(node.input(0).shape, node.shape)))


def _tile(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    """The repeats are axes of their own, along which the operand stays where it is."""
    x, repeats = node.input(0), node.known(1)
    if repeats is None:
        raise NotExportedError("has no repeats")
    pairs = zip(repeats, x.shape, row_major(x.shape), strict=True)
    axes = [axis for times, extent, stride in pairs for axis in ((int(times), 0), (extent, stride))]
    source = Visit("x", tuple(stride for _, stride in axes))
    return _moved(node, body, source, [extent for extent, _ in axes])


def _concat(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    parts, y = [tensor for tensor in node.inputs if tensor is not None], node.result(body)
    axis, offset = node.attributes["axis"] % len(y.shape), 0
    strides = row_major(y.shape)
    names = {f"x{number}": part for number, part in enumerate(parts)}
    lines = body.operands(**names, y=y)
    for name, part in names.items():
        source = Visit(name, row_major(part.shape))
        lines += copy(part.shape, Visit("y", strides, offset), source, y.dtype.itemsize)
        offset += part.shape[axis] * strides[axis]
    body.step(node.title(), parts, [y], lines)
    return [y]


def _split(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    x, made, offset = node.input(0), [], 0
    axis, strides = node.attributes.get("axis", 0) % len(x.shape), row_major(x.shape)
    for number, (name, dtype, shape) in enumerate(node.results):
        y = body.value(name, dtype, shape)
        source = Visit("x", strides, offset)
        lines = copy(shape, Visit("y", row_major(shape)), source, dtype.itemsize)
        title = f"{node.title()}, part {number}"
        body.step(title, [x], [y], [*body.operands(x=x, y=y), *lines])
        offset += shape[axis] * strides[axis]
        made.append(y)
    return made


def _pad(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    x, y = node.input(0), node.result(body)
    mode = node.attributes.get("mode", b"constant")
    pads = node.known(1, "pads")
    if mode != b"constant" or pads is None:
        raise NotExportedError(f"pads in mode {mode.decode()!r}")
    rank, axes = len(x.shape), node.known(3)
    where = list(range(rank)) if axes is None else [int(axis) % rank for axis in axes]
    begins, ends = [0] * rank, [0] * rank
    for number, axis in enumerate(where):
        begins[axis], ends[axis] = int(pads[number]), int(pads[len(where) + number])
    value = node.known(2, "value")
    filling = literal(0 if value is None else value.reshape(-1)[0], y.dtype)
    strides, sources = row_major(y.shape), row_major(x.shape)
    kept = [e + min(b, 0) + min(a, 0) for e, b, a in zip(x.shape, begins, ends, strict=True)]
    to = sum(max(b, 0) * stride for b, stride in zip(begins, strides, strict=True))
    since = sum(max(-b, 0) * stride for b, stride in zip(begins, sources, strict=True))
    lines = body.operands(x=x, y=y)
    if prod(kept) < y.size:
        fill = Visit("y", (1,))
        lines += nest([y.size], [fill], lambda at: [f"{at[0]} = {filling};"])
    if min(kept, default=1) > 0:
        target, source = Visit("y", strides, to), Visit("x", sources, since)
        lines += copy(kept, target, source, y.dtype.itemsize)
    body.step(node.title(), [x], [y], lines)
    return [y]


def _gather(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    x, indices = node.input(0), node.known(1)
    assert indices is not None
    axis = node.attributes.get("axis", 0) % len(x.shape)
    extent, inner = x.shape[axis], prod(x.shape[axis + 1 :])
    places = np.where(indices < 0, indices + extent, indices).reshape(-1)
    if places.size and (places.min() < 0 or places.max() >= extent):
        raise NotExportedError("an index lies outside the tensor", "Correct the model.")
    table = PositionTable(body.table(places.astype(np.int32)), 1, inner)
    source = Visit("x", (extent * inner, 0, 1), table=table)
    return _moved(node, body, source, [prod(x.shape[:axis]), places.size, inner])


def _blocks(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    """DepthToSpace and SpaceToDepth: transposes of tensors with more axes."""
    (n, c, h, w), size = node.input(0).shape, node.attributes["blocksize"]
    if node.op == "SpaceToDepth":
        whole, order = (n, c, h // size, size, w // size, size), (0, 3, 5, 1, 2, 4)
    elif node.attributes.get("mode", b"DCR") == b"DCR":
        whole, order = (n, size, size, c // size**2, h, w), (0, 3, 4, 1, 5, 2)
    else:
        whole, order = (n, c // size**2, size, size, h, w), (0, 1, 4, 2, 5, 3)
    strides = row_major(whole)
    source = Visit("x", tuple(strides[axis] for axis in order))
    return _moved(node, body, source, [whole[axis] for axis in order])


def _upsample(node: ProgramNode, body: Body) -> list[ProgramTensor]:
    """Whole factors, each element repeated: Upsample, Resize."""
    x, y = node.input(0).shape, node.shape
    attributes = node.attributes
    plain = attributes.get("mode", b"nearest") == b"nearest" and (
        node.op == "Upsample"
        or node.opset < 11
        or (
            attributes.get("coordinate_transformation_mode") == b"asymmetric"
            and attributes.get("nearest_mode") == b"floor"
        )
    )
    if not plain or any(big % small for big, small in zip(y, x, strict=True)):
        raise NotExportedError("repeats elements other than by whole factors, to the right")
    factors = [big // small for big, small in zip(y, x, strict=True)]
    triples = zip(x, factors, row_major(x), strict=True)
    axes = [pair for extent, times, stride in triples for pair in ((extent, stride), (times, 0))]
    source = Visit("x", tuple(stride for _, stride in axes))
    return _moved(node, body, source, [extent for extent, _ in axes])


CONVERTERS: Mapping[str, Converter] = {
    **dict.fromkeys(("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"), _view),
    "Concat": _concat,
    "DepthToSpace": _blocks,
    "Expand": _expand,
    "Gather": _gather,
    "Pad": _pad,
    "Resize": _upsample,
    "Slice": _slice,
    "SpaceToDepth": _blocks,
    "Split": _split,
    "Tile": _tile,
    "Transpose": _transpose,
    "Upsample": _upsample,
}
