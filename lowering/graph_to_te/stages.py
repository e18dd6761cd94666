"""Each integer op of the graph as computes: a table has one function for each class of op.

The functions work on logical tensors [N, C, spatial...]. A sliding window reads ``x[n, ci, stride *
h + dilation * kh - pad, ...]``. If that may lie outside of x, the read has a value for elements
there: the op's pad value for sums, -128 for maxima.
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType, i8, i32
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import (
    AddBiasOp,
    AddOp,
    BatchMatMulOp,
    ClipOp,
    ConvOp,
    DepthToSpaceOp,
    GemmOp,
    MaxOp,
    MaxPoolOp,
    MinOp,
    MulOp,
    RequantizeOp,
    RescaleOp,
    ReshapeOp,
    ShiftLeftOp,
    SplitBytesOp,
    SumPoolOp,
    TransposeOp,
    UpsampleOp,
    pad_value_of,
)
from vtac.dialects.te import Read, Row
from vtac.lowering.graph_to_te import wide
from vtac.lowering.graph_to_te.kernel import (
    KernelBuilder,
    axis,
    immediate,
    label_of,
    narrow,
    unsupported,
    widen,
)
from vtac.lowering.graph_to_te.matrices import batch_product, contraction, matrix_product
from vtac.lowering.graph_to_te.vectors import IMMEDIATES, applied, channel_constant
from vtac.lowering.graph_to_te.windows import SlidingWindow, logical_shape

LOWEST = -128
"""The identity of maxima over int8, which pads of pooling windows have, too."""

LARGEST_POWER = 6
"""2 to the power of this is the largest power of two in int8."""

LARGEST_INT8_SHIFT = 24
"""The largest left shift of an int8 value that stays in int32."""


def emit(op: Operation, kernel: KernelBuilder) -> None:
    """Append the computes for one op and enter its results into ``kernel.values``."""
    emitter = EMITTERS.get(type(op))
    if emitter is None:
        raise CompileError(
            Problem(
                label_of(op),
                f"{op.name} has no form on the accelerator",
                "Leave it out of the accelerator's patterns.",
            )
        )
    results = emitter(cast(Any, op), kernel)
    kernel.values.update(zip(op.results, results, strict=True))


def _convolution(op: ConvOp, kernel: KernelBuilder) -> list[SSAValue]:
    """A contraction over input channels and taps; weights between different groups are zeros.

    A depthwise convolution sums over taps only.
    """
    if op.bias is not None:
        raise unsupported(op, "a bias inside the convolution", "requantize adds it")
    weights, group = kernel.constant(op.w, "weights"), op.group.value.data
    out, channels = weights.shape[0], weights.shape[1] * group
    is_depthwise = out == channels == group
    window = SlidingWindow(op, kernel, () if is_depthwise else ("ci",))
    if is_depthwise:
        weights, outer, channel = weights[:, 0], [window.channel], window.channel
    else:
        weights, channel = _expand_groups(weights, group), window.rank
        outer = [window.channel, channel]
        window.reduce["ci"] = channels
    w = kernel.parameter(weights, f"{label_of(op)}.weight")
    reads = [
        window.read(axis(channel), pad_value_of(op)),
        Read(w, tuple(map(axis, (*outer, *window.taps)))),
    ]
    return [contraction("conv", kernel, window.spatial, window.reduce, reads)]


def _expand_groups(weights: Array, group: int) -> Array:
    """Weights [O, C/group, k...] as [O, C, k...], with zeros between different groups."""
    out, inner, *kernel = weights.shape
    expanded = np.zeros((out, inner * group, *kernel), weights.dtype)
    for g in range(group):
        rows = slice(g * out // group, (g + 1) * out // group)
        expanded[rows, g * inner : (g + 1) * inner] = weights[rows]
    return expanded


def _sum_pool(op: SumPoolOp, kernel: KernelBuilder) -> list[SSAValue]:
    window = SlidingWindow(op, kernel)
    reads = [window.read(axis(window.channel), pad_value_of(op))]
    return [
        kernel.compute(
            "sum_pool",
            window.spatial,
            reads,
            lambda acc, x: arith.AddiOp(acc, widen(x)).result,
            i32,
            reduce=window.reduce,
            identity=0,
        )
    ]


def _max_pool(op: MaxPoolOp, kernel: KernelBuilder) -> list[SSAValue]:
    window = SlidingWindow(op, kernel)
    reads = [window.read(axis(window.channel), LOWEST)]
    most = kernel.compute(
        "max_pool",
        window.spatial,
        reads,
        lambda acc, x: arith.MaxSIOp(acc, widen(x)).result,
        i32,
        reduce=window.reduce,
        identity=LOWEST,
    )
    return [kernel.elementwise("narrow", most, narrow, i8)]


def _upsample(op: UpsampleOp, kernel: KernelBuilder) -> list[SSAValue]:
    """Each repeated axis becomes two, of elements and of their copies; a view joins them."""
    batch, channels, *spatial = op.factors.get_values()
    if batch != 1 or channels != 1:
        raise unsupported(op, "a repeated batch or repeated channels", "keep it on the host")
    domain: dict[str, int] = {}
    rows: list[Row] = []
    factors = dict(zip(kernel.layout.spatial_names, spatial, strict=False))
    for name, extent in kernel.layout.domain(logical_shape(op.x)).items():
        rows.append(axis(len(domain)))
        domain[name] = extent
        if factors.get(name, 1) > 1:
            domain[f"{name}_copy"] = factors[name]
    wide = kernel.compute("upsample", domain, [Read(kernel.values[op.x], tuple(rows))], widen, i32)
    same = tuple(axis(number) for number in range(len(domain)))
    return [kernel.compute("narrow", domain, [Read(wide, same)], narrow, i8)]


def _depth_to_space(op: DepthToSpaceOp, kernel: KernelBuilder) -> list[SSAValue]:
    """Each spatial axis becomes two, of elements and of places in a block; a view joins them.

    Channels change lanes: a product with zeros and ones takes those of one place from all.
    """
    blocks = op.blocks.get_values()
    names, channel = kernel.layout.spatial_names, kernel.layout.channel
    channels = logical_shape(op.result)[1]
    domain: dict[str, int] = {}
    rows: list[Row] = []
    places: list[int] = []
    extents = dict(zip(names, blocks, strict=False))
    for name, extent in kernel.layout.domain(logical_shape(op.x)).items():
        rows.append(axis(len(domain)))
        domain[name] = extent
        if name in extents:
            places.append(len(domain))
            domain[f"{name}_place"] = extents[name]
    domain[kernel.layout.names[channel]] = channels
    taken, inner = np.arange(prod(blocks) * channels), len(domain)
    matrix = np.moveaxis(taken.reshape(*blocks, channels), -1, 0)[..., None] == taken
    w = kernel.parameter(matrix.astype(np.int8), f"{label_of(op)}.places")
    rows[channel] = axis(inner)
    reads = [
        Read(kernel.values[op.x], tuple(rows)),
        Read(w, tuple(map(axis, (channel, *places, inner)))),
    ]
    wide = contraction("depth_to_space", kernel, domain, {"ci": len(taken)}, reads)
    same = tuple(axis(number) for number in range(len(domain)))
    return [kernel.compute("narrow", domain, [Read(wide, same)], narrow, i8)]


def _transpose(op: TransposeOp, kernel: KernelBuilder) -> list[SSAValue]:
    """Spatial axes in another order; each element is copied through the accumulators."""
    order = op.permutation.get_values()
    if tuple(order[:2]) != (0, 1):
        raise unsupported(op, "channels or a batch that move", "keep it on the host")
    domain = kernel.layout.domain(logical_shape(op.result))
    rows = [axis(number) for number in range(len(domain))]
    first = kernel.layout.channel + 1
    for place, source in enumerate(order[2:]):
        rows[first + source - 2] = axis(first + place)
    read = Read(kernel.values[op.x], tuple(rows))
    wide = kernel.compute("transpose", domain, [read], widen, i32)
    return [kernel.elementwise("narrow", wide, narrow, i8)]


def _shift_left(op: ShiftLeftOp, kernel: KernelBuilder) -> list[SSAValue]:
    """Left shifts of channels: products with powers of two, and a shift common to all channels.

    If powers relative to the common shift do not fit int8, the common shift is that of each block
    of channels. If they do not fit within a block either, everything is shifted by the largest
    amount and then back to the right, which is exact as long as no bits leave int32.
    """
    x = kernel.values[op.x]
    amounts = kernel.constant(op.amount, "shift amounts").astype(np.int64)
    least, most = int(amounts.min()), int(amounts.max())
    if least < 0:
        raise unsupported(op, f"a left shift by {least}", "amounts start at 0")
    assert isinstance(x.type, TensorType)
    if x.type.element_type != i8:
        if least != most:
            raise unsupported(op, "accumulators shifted by unequal amounts", "shift before adding")
        return [_shift_by(kernel, x, most)]
    if most - least <= LARGEST_POWER:
        common = 0 if most <= LARGEST_POWER else least
        scaled = _scaled(op, kernel, x, amounts - common)
        return [_shift_by(kernel, scaled, common)]
    layout, hint = kernel.layout.target, f"{label_of(op)}.shift"
    least_of = _least_of_blocks(amounts, layout.block)
    if np.max(amounts - least_of) <= LARGEST_POWER:
        scaled = _scaled(op, kernel, x, amounts - least_of)
        by = kernel.parameter(least_of.astype(np.int32), hint)
        return [
            kernel.elementwise(
                "shift_left", scaled, lambda s, by: arith.ShLIOp(s, by).result, vectors=[by]
            )
        ]
    if most > LARGEST_INT8_SHIFT:
        raise unsupported(op, f"left shifts from {least} to {most}", "their range is too wide")
    back = (most - amounts).astype(np.int32)
    return [
        kernel.elementwise(
            "shift_left",
            x,
            lambda s, amount: (
                arith.ShRSIOp(arith.ShLIOp(widen(s), immediate(most)).result, amount).result
            ),
            vectors=[kernel.parameter(back, hint)],
        )
    ]


def _least_of_blocks(vector: Array, block: int) -> Array:
    """For each channel of a vector [C], the smallest entry of its block of channels."""
    starts = np.arange(0, len(vector), block)
    return np.repeat(np.minimum.reduceat(vector, starts), block)[: len(vector)]


def _shift_by(kernel: KernelBuilder, x: SSAValue, amount: int) -> SSAValue:
    if amount == 0:
        return x
    return kernel.elementwise("shift_left", x, lambda s: arith.ShLIOp(s, immediate(amount)).result)


def _scaled(op: Operation, kernel: KernelBuilder, x: SSAValue, exponents: Array) -> SSAValue:
    w = kernel.parameter((1 << exponents).astype(np.int8), f"{label_of(op)}.scale")
    spatial = kernel.layout.domain(logical_shape(op.results[0]))
    reads = [
        Read(x, tuple(axis(i) for i in range(len(spatial)))),
        Read(w, (axis(kernel.layout.channel),)),
    ]
    return contraction("scale", kernel, spatial, {}, reads)


def _add(op: AddOp, kernel: KernelBuilder) -> list[SSAValue]:
    if logical_shape(op.a) != logical_shape(op.b):
        raise unsupported(op, "an addition that broadcasts", "keep it on the host")
    a, b = kernel.values[op.a], kernel.values[op.b]
    assert isinstance(a.type, TensorType) and isinstance(b.type, TensorType)
    if a.type.element_type != i32 or b.type.element_type != i32:
        raise unsupported(op, "an addition of other than accumulators", "shift_left makes them")
    return [kernel.elementwise("add", a, lambda p, q: arith.AddiOp(p, q).result, others=[b])]


def _extreme(op: MaxOp | MinOp, kernel: KernelBuilder) -> list[SSAValue]:
    """The maximum or minimum of two accumulators."""
    a, b = kernel.values[op.a], kernel.values[op.b]
    assert isinstance(a.type, TensorType) and isinstance(b.type, TensorType)
    if a.type != b.type or a.type.element_type != i32:
        raise unsupported(op, "an extreme of other than two accumulators", "keep it on the host")
    label, pick = ("max", arith.MaxSIOp) if isinstance(op, MaxOp) else ("min", arith.MinSIOp)
    return [kernel.elementwise(label, a, lambda p, q: pick(p, q).result, others=[b])]


def _product(op: MulOp, kernel: KernelBuilder) -> list[SSAValue]:
    """The product of two accumulators, if the ALU multiplies."""
    a, b = kernel.values[op.a], kernel.values[op.b]
    assert isinstance(a.type, TensorType) and isinstance(b.type, TensorType)
    if a.type != b.type or a.type.element_type != i32 or not kernel.layout.target.alu_mul:
        raise unsupported(op, "a product of these tensors", "keep it on the host")
    return [kernel.elementwise("mul", a, lambda p, q: arith.MuliOp(p, q).result, others=[b])]


def _clip(op: ClipOp, kernel: KernelBuilder) -> list[SSAValue]:
    """Accumulators clamped between two integers."""
    bounds = [bound for bound in (op.min, op.max) if bound is not None]
    if any(int(bound.value.data) not in IMMEDIATES for bound in bounds):
        raise unsupported(op, "bounds that are no immediates", "keep it on the host")

    def body(value: SSAValue) -> SSAValue:
        if op.min is not None:
            value = arith.MaxSIOp(value, immediate(int(op.min.value.data))).result
        if op.max is not None:
            value = arith.MinSIOp(value, immediate(int(op.max.value.data))).result
        return value

    return [kernel.elementwise("clip", kernel.values[op.x], body)]


def _requantize(op: RequantizeOp, kernel: KernelBuilder) -> list[SSAValue]:
    """``clamp((acc + bias) >> shift, lo, hi)`` in one body, with immediates where possible."""
    layer = label_of(op)
    shift_vector = kernel.constant(op.shift, "shift")
    if not 0 <= int(shift_vector.min()) <= int(shift_vector.max()) <= 31:
        raise unsupported(op, "a right shift outside 0 to 31", "requantise with another scale")
    bias = channel_constant(kernel, op.bias, "bias", layer, IMMEDIATES)
    shift: int | SSAValue = int(shift_vector[0])
    if np.any(shift_vector != shift):
        shift = kernel.parameter(shift_vector.astype(np.int32), f"{layer}.shift")
    lo, hi = op.lo.value.data, op.hi.value.data

    def body(acc: SSAValue, *vectors: SSAValue) -> SSAValue:
        rest = iter(vectors)
        value = applied(arith.AddiOp, acc, bias, rest)
        value = applied(arith.ShRSIOp, value, shift, rest)
        value = arith.MaxSIOp(value, immediate(lo)).result
        return narrow(arith.MinSIOp(value, immediate(hi)).result)

    vectors = [value for value in (bias, shift) if isinstance(value, SSAValue)]
    acc = kernel.values[op.acc]
    return [kernel.elementwise("requantize", acc, body, i8, vectors=vectors)]


def _rescale(op: RescaleOp, kernel: KernelBuilder) -> list[SSAValue]:
    """``clamp((clamp(acc + bias, least, most) * multiplier + offset) >> shift, lo, hi)``.

    The outer clamp is left out if the inner one implies it.
    """
    layer, shift = label_of(op), op.shift.value.data
    vectors = op.vectors().items()
    steps = [channel_constant(kernel, v, name, layer, IMMEDIATES) for name, v in vectors]
    _, least, most, multiplier, offset = (
        kernel.constant(v, name).astype(np.int64) for name, v in vectors
    )
    lowest = (least * multiplier + offset) >> shift
    highest = (most * multiplier + offset) >> shift
    lo, hi = op.lo.value.data, op.hi.value.data

    def body(acc: SSAValue, *vectors: SSAValue) -> SSAValue:
        rest = iter(vectors)
        value = applied(arith.AddiOp, acc, steps[0], rest)
        for operation, step in zip(_RESCALING, steps[1:], strict=True):
            scalar = next(rest) if isinstance(step, SSAValue) else immediate(step)
            value = operation(value, scalar).result
        value = applied(arith.ShRSIOp, value, shift, rest)
        if lowest.min() < lo:
            value = arith.MaxSIOp(value, immediate(lo)).result
        if highest.max() > hi:
            value = arith.MinSIOp(value, immediate(hi)).result
        return narrow(value)

    parameters = [step for step in steps if isinstance(step, SSAValue)]
    acc = kernel.values[op.acc]
    return [kernel.elementwise("rescale", acc, body, i8, vectors=parameters)]


_RESCALING: tuple[Callable[..., Any], ...] = (
    arith.MaxSIOp,
    arith.MinSIOp,
    arith.MuliOp,
    arith.AddiOp,
)
"""The steps of a rescaling after the addition of the bias, each with a vector."""


def _add_bias(op: AddBiasOp, kernel: KernelBuilder) -> list[SSAValue]:
    acc = kernel.values[op.acc]
    bias = channel_constant(kernel, op.bias, "bias", label_of(op), IMMEDIATES)
    if bias == 0:
        return [acc]
    return [
        kernel.elementwise(
            "bias",
            acc,
            lambda value, *vectors: applied(arith.AddiOp, value, bias, iter(vectors)),
            vectors=[bias] if isinstance(bias, SSAValue) else [],
        )
    ]


def _split_bytes(op: SplitBytesOp, kernel: KernelBuilder) -> list[SSAValue]:
    """Store the low byte, shift right by 8, store again, ...; shifts may work in place."""
    value, planes = kernel.values[op.x], []
    for number in range(len(op.planes)):
        if number:
            value = kernel.elementwise(
                f"shift{number}", value, lambda x: arith.ShRSIOp(x, immediate(8)).result
            )
        planes.append(kernel.elementwise(f"byte{number}", value, narrow, i8))
    return planes


def _reshape(op: ReshapeOp, kernel: KernelBuilder) -> list[SSAValue]:
    check_reshape(op, kernel)
    return [kernel.values[op.x]]


def check_reshape(op: ReshapeOp, kernel: KernelBuilder) -> None:
    """Refuse a reshape that moves elements in the packed layout."""
    if logical_shape(op.x)[:2] != logical_shape(op.result)[:2]:
        raise unsupported(
            op,
            f"reshaping {list(logical_shape(op.x))} to {list(logical_shape(op.result))}",
            "batch and channels must stay as they are",
        )


EMITTERS: Mapping[type[Operation], Callable[[Any, KernelBuilder], list[SSAValue]]] = {
    AddBiasOp: _add_bias,
    AddOp: _add,
    BatchMatMulOp: batch_product,
    ClipOp: _clip,
    ConvOp: _convolution,
    DepthToSpaceOp: _depth_to_space,
    GemmOp: matrix_product,
    MaxOp: _extreme,
    MaxPoolOp: _max_pool,
    MinOp: _extreme,
    MulOp: _product,
    RequantizeOp: _requantize,
    RescaleOp: _rescale,
    ReshapeOp: _reshape,
    ShiftLeftOp: _shift_left,
    SplitBytesOp: _split_bytes,
    SumPoolOp: _sum_pool,
    TransposeOp: _transpose,
    UpsampleOp: _upsample,
    **wide.EMITTERS,
}
