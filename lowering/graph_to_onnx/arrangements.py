"""Ops that move elements, and elementwise ones, back as ONNX nodes of whatever opset is at hand."""

from collections.abc import Sequence
from math import prod

import numpy as np

from vtac.dialects.context import element_dtype
from vtac.dialects.graph import (
    ConcatOp,
    DepthToSpaceOp,
    HardSwishOp,
    MaxOp,
    MinOp,
    PadOp,
    SliceOp,
    TakeChannelsOp,
    TransposeOp,
    UpsampleOp,
    shape_of,
)
from vtac.lowering.graph_to_onnx.builder import OnnxBuilder
from vtac.lowering.graph_to_onnx.float_ops import is_float, same


def concat(b: OnnxBuilder, op: ConcatOp) -> None:
    """Concat."""
    operands = [b.name(value) for value in op.inputs]
    output = b.name_for(op.result)
    b.define(op.result, b.add("Concat", operands, output, axis=op.axis.value.data))


def slice_(b: OnnxBuilder, op: SliceOp) -> None:
    """Slice; before opset 10, which has no steps, one Gather per axis."""
    x, output = b.name(op.x), b.name_for(op.result)
    counts, before = shape_of(op.result) or (), shape_of(op.x) or ()
    starts, steps = op.starts.get_values(), op.steps.get_values()
    axes = [
        axis
        for axis, count in enumerate(counts)
        if (starts[axis], count) != (0, before[axis]) or steps[axis] != 1
    ]
    ends = {axis: starts[axis] + (counts[axis] - 1) * steps[axis] + 1 for axis in axes}
    if not axes:
        b.add("Identity", [x], output)
    elif b.opset >= 10:
        limits = [[starts[a] for a in axes], list(ends.values()), axes, [steps[a] for a in axes]]
        b.add("Slice", [x, *(_integers(b, limit, "limits") for limit in limits)], output)
    else:
        for number, axis in enumerate(axes, start=1):
            places = range(starts[axis], ends[axis], steps[axis])
            name = output if number == len(axes) else ""
            x = b.add("Gather", [x, _integers(b, places, "places")], name, axis=axis)
    b.define(op.result, output)


def _integers(b: OnnxBuilder, numbers: Sequence[int], hint: str) -> str:
    return b.weight(np.array(numbers, np.int64), hint)


def take_channels(b: OnnxBuilder, op: TakeChannelsOp) -> None:
    """Write a Gather of channels."""
    indices = _integers(b, op.indices.get_values(), "channels")
    b.define(op.result, b.add("Gather", [b.name(op.x), indices], b.name_for(op.result), axis=1))


def pad(b: OnnxBuilder, op: PadOp) -> None:
    """Write a Pad: its pads are attributes before opset 11 and inputs since, and before opset 13
    integers are cast to floats for it."""
    output, pads, value = b.name_for(op.result), list(op.pads.get_values()), op.value.value.data
    dtype = element_dtype(op.x.type.element_type)  # type: ignore[attr-defined]
    x, known, made = b.name(op.x), dtype, output
    if not is_float(op.x) and b.opset < 13:
        x, known, made = b.cast(x, np.float32), np.dtype(np.float32), ""
    if b.opset < 11:
        x = b.add("Pad", [x], made, pads=pads, value=value)
    else:
        inputs = [_integers(b, pads, "pads"), b.weight(np.array(value, known), "value")]
        x = b.add("Pad", [x, *inputs], made)
    if known != dtype:
        b.cast(x, dtype, output)
    b.define(op.result, output)


def transpose(b: OnnxBuilder, op: TransposeOp) -> None:
    """Write a Transpose."""
    order = list(op.permutation.get_values())
    b.define(op.result, b.add("Transpose", [b.name(op.x)], b.name_for(op.result), perm=order))


def depth_to_space(b: OnnxBuilder, op: DepthToSpaceOp) -> None:
    """Write Reshape, Transpose, Reshape, which every opset has for all types and ranks."""
    shape, blocks = shape_of(op.x) or (), list(op.blocks.get_values())
    rank = len(blocks)
    apart = [0, *blocks, shape[1] // prod(blocks), *shape[2:]]
    order = [0, 1 + rank]
    for axis in range(rank):
        order += [2 + rank + axis, 1 + axis]
    x = b.add("Transpose", [b.reshape(b.name(op.x), apart)], perm=order)
    whole = [0, *(shape_of(op.result) or ())[1:]]
    b.define(op.result, b.reshape(x, whole, b.name_for(op.result)))


def upsample(b: OnnxBuilder, op: UpsampleOp) -> None:
    """Write a Resize, or before opset 10 an Upsample."""
    x, output = b.name(op.x), b.name_for(op.result)
    scales = np.array(op.factors.get_values(), np.float32)
    if b.opset < 9:
        b.add("Upsample", [x], output, mode="nearest", scales=scales.tolist())
    elif b.opset < 11:
        kind = "Upsample" if b.opset < 10 else "Resize"
        b.add(kind, [x, b.weight(scales, "scales")], output, mode="nearest")
    else:
        # The region of interest, which this mode does not read, may be absent since opset 13.
        region = b.weight(np.zeros(0, np.float32), "roi") if b.opset < 13 else ""
        inputs = [x, region, b.weight(scales, "scales")]
        b.add(
            "Resize",
            inputs,
            output,
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
    b.define(op.result, output)


def extreme(b: OnnxBuilder, op: MaxOp | MinOp) -> None:
    """Max or Min; of integers since opset 12, of shapes that differ since opset 8."""
    if not is_float(op.a):
        b.require(op, 12)
    elif shape_of(op.a) != shape_of(op.b):
        b.require(op, 8)
    same("Max" if isinstance(op, MaxOp) else "Min")(b, op)


def hard_swish(b: OnnxBuilder, op: HardSwishOp) -> None:
    """HardSwish; before opset 14 as a product."""
    x, output = b.name(op.x), b.name_for(op.result)
    if b.opset >= 14:
        b.add("HardSwish", [x], output)
    else:
        b.add("Mul", [x, b.add("HardSigmoid", [x], alpha=1 / 6, beta=0.5)], output)
    b.define(op.result, output)
