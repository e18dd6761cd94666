"""Operators that move elements: axes, starts and sizes made explicit, however they are given."""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Operation, SSAValue

from vtac.dialects.graph import (
    ConcatOp,
    DepthToSpaceOp,
    PadOp,
    SliceOp,
    TakeChannelsOp,
    TransposeOp,
    UpsampleOp,
)
from vtac.lowering.onnx_to_graph.node import (
    Node,
    StaysOnHostError,
    axis_of,
    known_shape,
    like,
    scalar,
)
from vtac.passes.graph.reasons import ReasonKind

LARGEST_EXTENT = 2**16
"""The longest axis of a resize, which is checked element by element along each axis."""


MOST_COPIES = 64
"""How often an axis is repeated, at most."""


def concat(node: Node) -> Operation | SSAValue:
    """Concat."""
    count = len(node.proto.input)
    node.moved(*range(count))
    rank = len(known_shape(node.operand(0)))
    axis = axis_of(node.attributes.get("axis", 1), rank)
    parts = [node.operand(index) for index in range(count)]
    parts = [part for part in parts if 0 not in known_shape(part)] or parts
    if len(parts) == 1 and parts[0].type == node.result_type():
        return parts[0]
    return ConcatOp(parts, axis, node.result_type())


def slice_(node: Node) -> Operation:
    """Slice: limits are attributes before opset 10, constant inputs since."""
    x, shape = _static(node)
    limits = {}
    for index, name in enumerate(("starts", "ends", "axes", "steps"), start=1):
        if node.opset < 10:
            limits[name] = node.attributes.get(name)
        elif node.has(index):
            limits[name] = node.numbers(index, name)
    starts, ends = limits.get("starts"), limits.get("ends")
    if starts is None or ends is None:
        raise StaysOnHostError("its starts and ends are missing")
    axes = [axis_of(axis, len(shape)) for axis in limits.get("axes") or range(len(starts))]
    steps = limits.get("steps") or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise StaysOnHostError("there are not as many starts as ends, axes or steps")
    if min(steps, default=1) < 1:
        raise StaysOnHostError("it reverses elements: a step is negative")
    taken = [(0, extent, 1) for extent in shape]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        taken[axis] = (_inside(start, shape[axis]), _inside(end, shape[axis]), step)
    counts = [max(0, -((start - end) // step)) for start, end, step in taken]
    return _slice(x, [t[0] for t in taken], [t[2] for t in taken], counts)


def gather(node: Node) -> Operation:
    """Gather of channels by constant indices."""
    x, shape = _static(node)
    indices, axis = node.constant(1), axis_of(node.attributes.get("axis", 0), len(shape))
    if indices is None or indices.ndim != 1 or axis != 1:
        raise StaysOnHostError("it does not take channels by constant indices")
    if indices.size and not -shape[1] <= indices.min() <= indices.max() < shape[1]:
        raise StaysOnHostError(f"it takes channels that are none of {shape[1]}")
    taken = [int(index) % shape[1] for index in indices.tolist()]
    return TakeChannelsOp(x, taken, like(x, [shape[0], len(taken), *shape[2:]]))


def split(node: Node) -> Sequence[Operation]:
    """Split: a slice for each output, of the size that its type has."""
    x, shape = _static(node)
    axis = axis_of(node.attributes.get("axis", 0), len(shape))
    sizes, first, made = list[int](), 0, list[Operation]()
    for name in node.proto.output:
        found = node.type_of(name)
        if not isinstance(found, TensorType) or DYNAMIC_INDEX in found.get_shape():
            raise StaysOnHostError("the shapes of its outputs are unknown", ReasonKind.SHAPE)
        sizes.append(found.get_shape()[axis])
    if sum(sizes) != shape[axis]:
        raise StaysOnHostError(f"its outputs have {sizes} of {shape[axis]} elements")
    if 0 in sizes:
        raise StaysOnHostError("one of its outputs has no elements")
    for size in sizes:
        starts, counts = [0] * len(shape), list(shape)
        starts[axis], counts[axis] = first, size
        made.append(_slice(x, starts, [1] * len(shape), counts))
        first += size
    return made


def space_to_depth(node: Node) -> Sequence[Operation]:
    """SpaceToDepth: a slice for each place within a block, joined on channels."""
    x, shape = _static(node)
    block = node.attributes.get("blocksize", 0)
    if node.attributes.get("mode", b"DCR") != b"DCR":
        raise StaysOnHostError("it keeps the places of a channel together")
    if len(shape) != 4 or block < 1 or shape[2] % block or shape[3] % block:
        raise StaysOnHostError(f"there are no blocks of {block} in {list(shape)}", ReasonKind.SHAPE)
    counts = [*shape[:2], shape[2] // block, shape[3] // block]
    parts = [
        _slice(x, [0, 0, row, column], [1, 1, block, block], counts)
        for row in range(block)
        for column in range(block)
    ]
    result = like(x, [shape[0], shape[1] * block**2, *counts[2:]])
    return [*parts, ConcatOp([part.results[0] for part in parts], 1, result)]


def depth_to_space(node: Node) -> Sequence[Operation] | SSAValue:
    """DepthToSpace; where a channel's places lie together, channels change their order first."""
    x, shape = _static(node)
    block = node.attributes.get("blocksize", 0)
    if len(shape) != 4 or block < 1 or shape[1] % block**2:
        raise StaysOnHostError(f"there are no blocks of {block} in {list(shape)}", ReasonKind.SHAPE)
    if block == 1:
        return x
    channels, made = shape[1] // block**2, list[Operation]()
    if node.attributes.get("mode", b"DCR") == b"CRD":
        order = [c * block**2 + place for place in range(block**2) for c in range(channels)]
        made.append(TakeChannelsOp(x, order, x.type))
        x = made[-1].results[0]
    result = like(x, [shape[0], channels, shape[2] * block, shape[3] * block])
    return [*made, DepthToSpaceOp(x, [block, block], result)]


def pad(node: Node) -> Operation | Sequence[Operation]:
    """Pad with a constant: attributes before opset 11, constant inputs since.

    Negative pads cut, so they are a slice before the pad.
    """
    node.floats(0)
    x, shape = _static(node)
    rank = len(shape)
    if node.attributes.get("mode", b"constant") != b"constant":
        raise StaysOnHostError("it pads with elements of its input, not with a constant")
    value = node.attributes.get("value", 0.0)
    if node.opset < 11:
        given = list(node.attributes.get("pads", node.attributes.get("paddings", ())))
    else:
        given = node.numbers(1, "pads")
        if node.has(2):
            value = scalar(node.constant(2), "the padded value")
    axes: Sequence[int] = range(rank)
    if node.has(3):
        axes = [axis_of(axis, rank) for axis in node.numbers(3, "axes")]
    if len(given) != 2 * len(axes):
        raise StaysOnHostError(f"pads {given} do not fit its input")
    pads = [0] * (2 * rank)
    for i, axis in enumerate(axes):
        pads[axis], pads[rank + axis] = given[i], given[len(axes) + i]
    made: list[Operation] = []
    if min(pads) < 0:
        cut = [max(-pad, 0) for pad in pads]
        counts = [n - cut[axis] - cut[rank + axis] for axis, n in enumerate(shape)]
        if min(counts) < 1:
            raise StaysOnHostError("it cuts more than there is")
        made.append(_slice(x, cut[:rank], [1] * rank, counts))
        x, shape, pads = made[-1].results[0], counts, [max(pad, 0) for pad in pads]
    result = [pads[axis] + extent + pads[rank + axis] for axis, extent in enumerate(shape)]
    return [*made, PadOp(x, pads, value, like(x, result))]


def transpose(node: Node) -> Operation:
    """Transpose."""
    node.moved(0)
    x = node.operand(0)
    shape = known_shape(x)
    order = node.ints("perm", range(len(shape))[::-1])
    if sorted(order) != list(range(len(shape))):
        raise StaysOnHostError(f"{order} is no permutation of {len(shape)} axes")
    return TransposeOp(x, order, like(x, [shape[axis] for axis in order]))


def resize(node: Node) -> Operation:
    """Resize and Upsample that repeat each element a whole number of times."""
    x, shape = _static(node)
    if node.attributes.get("mode", b"nearest") != b"nearest":
        raise StaysOnHostError("it interpolates; only nearest neighbours are supported")
    after = node.result_type().get_shape()
    if DYNAMIC_INDEX in after or len(after) != len(shape):
        raise StaysOnHostError("the shape of its result is unknown", ReasonKind.SHAPE)
    if max(after) > LARGEST_EXTENT:
        raise StaysOnHostError(f"its result {list(after)} is too large", ReasonKind.SHAPE)
    if any(new % old for old, new in zip(shape, after, strict=True)):
        raise StaysOnHostError(f"from {list(shape)} to {list(after)} is not by whole factors")
    factors = [new // old for old, new in zip(shape, after, strict=True)]
    if node.proto.op_type == "Resize" and node.opset >= 11:
        _check_coordinates(node, shape, factors)
    elif not _gives_scales(node, factors):
        raise StaysOnHostError("its scales are not whole factors")
    return UpsampleOp(x, factors, like(x, after))


def tile(node: Node) -> Sequence[Operation] | SSAValue:
    """Tile: its input side by side with itself, axis by axis."""
    x, shape = _static(node)
    repeats = node.numbers(1, "repeats")
    if len(repeats) != len(shape) or min(repeats) < 1 or max(repeats) > MOST_COPIES:
        raise StaysOnHostError(f"it repeats its input {repeats} times")
    made: list[Operation] = []
    for axis, count in enumerate(repeats):
        if count > 1:
            shape = [count * n if i == axis else n for i, n in enumerate(shape)]
            made.append(ConcatOp([x] * count, axis, like(x, shape)))
            x = made[-1].results[0]
    return made or x


def expand(node: Node) -> Operation | SSAValue:
    """Expand along spatial dimensions, which repeats elements; the input if nothing grows."""
    x, shape = _static(node)
    after = node.result_type().get_shape()
    if DYNAMIC_INDEX in after or len(after) != len(shape):
        raise StaysOnHostError("the shape of its result has more dimensions, or is unknown")
    if tuple(after) == tuple(shape):
        return x
    if list(after[:2]) != list(shape[:2]) or max(after) > LARGEST_EXTENT or 0 in after:
        raise StaysOnHostError("it repeats the batch or channels: only space can be repeated")
    factors = [new // old for old, new in zip(shape, after, strict=True)]
    return UpsampleOp(x, factors, like(x, after))


def _gives_scales(node: Node, factors: Sequence[int]) -> bool:
    """Whether the scales of an Upsample or an old Resize are exactly these factors."""
    given = node.attributes.get("scales")
    if given is None:
        array = node.constant(1)
        given = () if array is None else array.tolist()
    return list(given) == list(factors)


def _check_coordinates(node: Node, shape: Sequence[int], factors: Sequence[int]) -> None:
    """Refuse unless output i reads input i // factor, for all i."""
    if node.has(2):
        scales = node.constant(2)
        if scales is not None and scales.size and any(scale % 1 for scale in scales.tolist()):
            raise StaysOnHostError("its scales are not whole factors")
    mode = node.attributes.get("coordinate_transformation_mode", b"half_pixel").decode()
    rounding = node.attributes.get("nearest_mode", b"round_prefer_floor").decode()
    for size, factor in zip(shape, factors, strict=True):
        for index in range(size * factor if factor > 1 else 0):
            place = _nearest(_coordinate(index, size, factor, mode), rounding)
            if min(max(place, 0), size - 1) != index // factor:
                raise StaysOnHostError(f"{mode} with {rounding} does not just repeat elements")


def _coordinate(index: int, size: int, factor: int, mode: str) -> Fraction:
    """Where output ``index`` lies in the input, as ONNX defines the modes."""
    if mode == "asymmetric":
        return Fraction(index, factor)
    if mode == "align_corners":
        last = size * factor - 1
        return Fraction(index * (size - 1), last) if last else Fraction(0)
    if mode in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"):
        return (index + Fraction(1, 2)) / factor - Fraction(1, 2)
    raise StaysOnHostError(f"coordinates {mode} are not supported")


def _nearest(place: Fraction, rounding: str) -> int:
    half = Fraction(1, 2)
    return {
        "floor": floor(place),
        "ceil": ceil(place),
        "round_prefer_floor": ceil(place - half),
        "round_prefer_ceil": floor(place + half),
    }[rounding]


def _static(node: Node) -> tuple[SSAValue, Sequence[int]]:
    """The first operand and its shape, which must be known."""
    node.moved(0)
    x = node.operand(0)
    shape = known_shape(x)
    if not shape:
        raise StaysOnHostError("its input is a scalar", ReasonKind.SHAPE)
    if DYNAMIC_INDEX in shape or 0 in shape:
        raise StaysOnHostError("the shape of its input is unknown or empty", ReasonKind.SHAPE)
    return x, shape


def _inside(index: int, extent: int) -> int:
    """A start or an end as a place from 0 to the extent."""
    return min(max(index + extent if index < 0 else index, 0), extent)


def _slice(
    x: SSAValue, starts: Sequence[int], steps: Sequence[int], counts: Sequence[int]
) -> Operation:
    if 0 in counts:
        raise StaysOnHostError("it takes no elements")
    return SliceOp(x, starts, steps, like(x, counts))
