"""What float graph ops compute, in NumPy: the meaning that ``fold-constants`` uses.

Elementwise ops are exact in the element type. Sums of products are accumulated in float64 and
rounded once.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Operation

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    AbsOp,
    ActivationOp,
    AddOp,
    AveragePoolOp,
    BatchNormOp,
    ClipOp,
    ConcatOp,
    ConvOp,
    DepthToSpaceOp,
    DivOp,
    GemmOp,
    GlobalAveragePoolOp,
    HardSigmoidOp,
    HardSwishOp,
    LeakyReluOp,
    MatMulOp,
    MaxOp,
    MaxPoolOp,
    MinOp,
    MulOp,
    NegOp,
    PadOp,
    PReluOp,
    ReluOp,
    ReshapeOp,
    SliceOp,
    SubOp,
    SumPoolOp,
    TakeChannelsOp,
    TransposeOp,
    UpsampleOp,
    WindowOp,
    shape_of,
)


def evaluate(op: Operation, operands: Sequence[Array]) -> Array | None:
    """The result of an op of static shapes, or None where it has no meaning here."""
    function = _MEANINGS.get(type(op))
    if function is None or (operands[0].dtype.kind != "f" and not isinstance(op, ReshapeOp)):
        return None
    with np.errstate(all="ignore"):
        result = np.asarray(function(op, *operands))
    return np.ascontiguousarray(result.astype(operands[0].dtype, copy=False))


def has_meaning(op: Operation) -> bool:
    """Whether `evaluate` knows what an op computes of floats."""
    return type(op) in _MEANINGS


def _add(op: AddOp, a: Array, b: Array) -> Array:
    return np.asarray(a + b)


def _relu(op: ReluOp, x: Array) -> Array:
    return np.asarray(np.maximum(x, x.dtype.type(0)))


def _clip(op: ClipOp, x: Array) -> Array:
    if op.min is not None:
        x = np.maximum(x, x.dtype.type(op.min.value.data))
    if op.max is not None:
        x = np.minimum(x, x.dtype.type(op.max.value.data))
    return x


def _reshape(op: ReshapeOp, x: Array) -> Array:
    return np.asarray(x.reshape(shape_of(op.result) or ()))


def _matmul(op: MatMulOp, a: Array, b: Array) -> Array:
    return np.asarray(np.matmul(a.astype(np.float64), b.astype(np.float64)))


def _gemm(op: GemmOp, a: Array, b: Array, c: Array | None = None) -> Array:
    left = a.T if op.trans_a.value.data else a
    right = b.T if op.trans_b.value.data else b
    result = op.alpha.value.data * (left.astype(np.float64) @ right.astype(np.float64))
    return result if c is None else result + op.beta.value.data * c.astype(np.float64)


def _batch_norm(
    op: BatchNormOp, x: Array, scale: Array, bias: Array, mean: Array, variance: Array
) -> Array:
    factor, offset = batch_norm_affine(op, scale, bias, mean, variance)
    along = (1, -1) + (1,) * (x.ndim - 2)
    return x * factor.reshape(along) + offset.reshape(along)


def batch_norm_affine(
    op: BatchNormOp, scale: Array, bias: Array, mean: Array, variance: Array
) -> tuple[Array, Array]:
    """Factor and offset per channel in float64, so that the op is ``factor * x + offset``."""
    epsilon: FloatAttr[Any] = op.epsilon
    factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon.value.data)
    return factor, bias.astype(np.float64) - mean.astype(np.float64) * factor


def _windows(op: WindowOp, x: Array, outside: float) -> Array:
    """[N, C, windows..., taps...] of a padded tensor, or of one cut where pads are negative."""
    kernel, rank = op.kernel_shape(), len(op.kernel_shape())
    pads, strides = op.pads.get_values(), op.strides.get_values()
    dilations = op.dilations.get_values()
    widths = np.array([(0, 0), (0, 0), *((pads[i], pads[rank + i]) for i in range(rank))])
    padded = np.pad(x, np.maximum(widths, 0), constant_values=outside)
    cut = np.maximum(-widths, 0)
    padded = padded[tuple(slice(a, n - b) for (a, b), n in zip(cut, padded.shape, strict=True))]
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True))
    views = sliding_window_view(padded, reach, axis=tuple(range(2, 2 + rank)))
    steps = [slice(None, None, stride) for stride in strides]
    taps = [slice(None, None, dilation) for dilation in dilations]
    return views[(slice(None), slice(None), *steps, *taps)]


def _conv(op: ConvOp, x: Array, w: Array, bias: Array | None = None) -> Array:
    group, rank = op.group.value.data, w.ndim - 2
    windows = _windows(op, x.astype(np.float64), 0.0)
    taps = tuple(range(2 + rank, 2 + 2 * rank))
    results = []
    for part, weights in zip(np.split(windows, group, 1), np.split(w, group, 0), strict=True):
        # [N, windows..., O] of this group
        sums = np.tensordot(part, weights.astype(np.float64), ((1, *taps), (1, *range(2, w.ndim))))
        results.append(np.moveaxis(sums, -1, 1))
    result = np.concatenate(results, 1)
    return result if bias is None else result + bias.reshape(-1, *(1,) * rank)


def _max_pool(op: MaxPoolOp, x: Array) -> Array:
    rank = x.ndim - 2
    return np.asarray(_windows(op, x, -np.inf).max(axis=tuple(range(2 + rank, 2 + 2 * rank))))


def _average_pool(op: AveragePoolOp, x: Array) -> Array:
    rank = x.ndim - 2
    taps = tuple(range(2 + rank, 2 + 2 * rank))
    counted = np.ones_like(x, np.float64)
    counts = _windows(op, counted, 1.0 if op.count_include_pad.value.data else 0.0).sum(taps)
    return np.asarray(_windows(op, x.astype(np.float64), 0.0).sum(taps) / counts)


def _global_average_pool(op: GlobalAveragePoolOp, x: Array) -> Array:
    return np.asarray(x.astype(np.float64).mean(axis=tuple(range(2, x.ndim)), keepdims=True))


def _concat(op: ConcatOp, *inputs: Array) -> Array:
    return np.concatenate(inputs, axis=op.axis.value.data)


def _slice(op: SliceOp, x: Array) -> Array:
    starts, steps = op.starts.get_values(), op.steps.get_values()
    reach = [
        slice(start, start + (count - 1) * step + 1, step)
        for start, step, count in zip(starts, steps, shape_of(op.result) or (), strict=True)
    ]
    return x[tuple(reach)]


def _pad(op: PadOp, x: Array) -> Array:
    pads, rank = op.pads.get_values(), x.ndim
    around = [(pads[axis], pads[rank + axis]) for axis in range(rank)]
    return np.pad(x, around, constant_values=x.dtype.type(op.value.value.data))


def _upsample(op: UpsampleOp, x: Array) -> Array:
    for axis, factor in enumerate(op.factors.get_values()):
        x = np.repeat(x, factor, axis)
    return x


def _depth_to_space(op: DepthToSpaceOp, x: Array) -> Array:
    blocks = op.blocks.get_values()
    rank = len(blocks)
    apart = x.reshape(x.shape[0], *blocks, -1, *x.shape[2:])
    order = [0, 1 + rank]
    for axis in range(rank):
        order += [2 + rank + axis, 1 + axis]
    return apart.transpose(order).reshape(shape_of(op.result) or ())


def _slope(x: Array, slope: Array) -> Array:
    return np.asarray(np.where(x < 0, slope * x, x))


def _hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    return np.asarray(np.clip(x.dtype.type(alpha) * x + x.dtype.type(beta), 0, 1))


def _sum_pool(op: SumPoolOp, x: Array) -> Array:
    rank = x.ndim - 2
    taps = tuple(range(2 + rank, 2 + 2 * rank))
    return np.asarray(_windows(op, x.astype(np.float64), 0.0).sum(taps))


_MEANINGS: Mapping[type[Operation], Any] = {
    AbsOp: lambda op, x: np.abs(x),
    ActivationOp: lambda op, x: op(x),
    AddOp: _add,
    AveragePoolOp: _average_pool,
    BatchNormOp: _batch_norm,
    ClipOp: _clip,
    ConcatOp: _concat,
    ConvOp: _conv,
    DepthToSpaceOp: _depth_to_space,
    DivOp: lambda op, a, b: a / b,
    GemmOp: _gemm,
    GlobalAveragePoolOp: _global_average_pool,
    HardSigmoidOp: lambda op, x: _hard_sigmoid(x, op.alpha.value.data, op.beta.value.data),
    HardSwishOp: lambda op, x: x * _hard_sigmoid(x, 1 / 6, 0.5),
    LeakyReluOp: lambda op, x: _slope(x, x.dtype.type(op.alpha.value.data)),
    MatMulOp: _matmul,
    MaxOp: lambda op, a, b: np.maximum(a, b),
    MaxPoolOp: _max_pool,
    MinOp: lambda op, a, b: np.minimum(a, b),
    MulOp: lambda op, a, b: a * b,
    NegOp: lambda op, x: -x,
    PReluOp: lambda op, x, slope: _slope(x, slope),
    PadOp: _pad,
    ReluOp: _relu,
    ReshapeOp: _reshape,
    SliceOp: _slice,
    SubOp: lambda op, a, b: a - b,
    SumPoolOp: _sum_pool,
    TakeChannelsOp: lambda op, x: x.take(op.indices.get_values(), axis=1),
    TransposeOp: lambda op, x: x.transpose(op.permutation.get_values()),
    UpsampleOp: _upsample,
}
