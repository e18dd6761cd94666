"""Average poolings whose windows count differently, as sums of linear forms.

Where pads are left out, a window at the border averages fewer elements than others. The reciprocal
of its count is a product over dimensions, and along each it is that of most windows, plus a
correction at every window that differs: a depthwise convolution with strides so long that all its
windows but that one lie outside. All weights are multiples of one fraction, so that powers of two
and its odd part between scales make them exact.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import reduce
from itertools import product
from math import lcm, prod
from typing import cast

import numpy as np
from xdsl.ir import SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import AveragePoolOp, WindowOp, shape_of, window_extent
from vtac.passes.graph.quantize.forms import Form

MOST_FORMS = 9
"""Of one pooling: as many as a 3 x 3 window with pads on all sides needs."""


def axis_counts(op: WindowOp) -> list[Array]:
    """How many taps of each window lie inside the operand, along each spatial dimension."""
    strides, dilations = op.strides.get_values(), op.dilations.get_values()
    kernel, pads, counts = op.kernel_shape(), op.pads.get_values(), []
    for axis, size in enumerate((shape_of(op.x) or ())[2:]):
        pad = pads[axis] + pads[len(kernel) + axis]
        extent = window_extent(size, kernel[axis], strides[axis], pad, dilations[axis])
        starts = np.arange(extent) * strides[axis] - pads[axis]
        taps = starts[:, None] + np.arange(kernel[axis]) * dilations[axis]
        counts.append(cast(Array, ((taps >= 0) & (taps < size)).sum(axis=1)))
    return counts


def window_counts(op: WindowOp) -> Array:
    """How many taps of each window lie inside the operand: an array over the output positions."""
    return reduce(np.multiply.outer, axis_counts(op))


def is_uneven(op: AveragePoolOp) -> bool:
    """Whether windows are divided by different counts."""
    if op.count_include_pad.value.data:
        return False
    return any(len(np.unique(counts)) > 1 for counts in axis_counts(op))


def forms_needed(op: AveragePoolOp) -> int:
    """How many linear forms an uneven pooling is."""
    return prod(1 + int((along != _usual(along)).sum()) for along in axis_counts(op))


def averages(op: AveragePoolOp, result: SSAValue, factor: Array) -> Iterator[Form]:
    """The forms of an uneven pooling: most windows, and what corrects the others."""
    channels, kernel = (shape_of(op.x) or ())[1], op.kernel.get_values()
    divisor = lcm(*np.unique(window_counts(op)).tolist())
    for parts in product(*(_parts(op, axis) for axis in range(len(kernel)))):
        share = prod((part.share for part in parts), start=Fraction(1))
        matrix = np.full((channels, 1, *kernel), float(share))
        pads = [*(part.before for part in parts), *(part.after for part in parts)]
        strides = [part.stride for part in parts]
        dilations = op.dilations.get_values()
        yield Form(op, op.x, result, matrix, factor, strides, pads, dilations, channels, divisor)


class _Part:
    """Windows along one axis that get the same share of their sums."""

    def __init__(self, share: Fraction, stride: int, before: int, after: int):
        self.share, self.stride, self.before, self.after = share, stride, before, after


def _parts(op: AveragePoolOp, axis: int) -> Sequence[_Part]:
    kernel, rank = op.kernel.get_values(), len(op.kernel.get_values())
    stride, pads = op.strides.get_values()[axis], op.pads.get_values()
    size, along = (shape_of(op.x) or ())[2 + axis], axis_counts(op)[axis]
    reach = op.dilations.get_values()[axis] * (kernel[axis] - 1) + 1
    usual = _usual(along)
    parts = [_Part(Fraction(1, usual), stride, pads[axis], pads[rank + axis])]
    for index in np.flatnonzero(along != usual).tolist():
        step = size + reach  # the windows beside this one leave the operand
        before = index * step - (index * stride - pads[axis])
        after = (len(along) - 1) * step + reach - size - before
        share = Fraction(1, int(along[index])) - Fraction(1, usual)
        parts.append(_Part(share, step, before, after))
    return parts


def _usual(counts: Array) -> int:
    """What most windows count."""
    return int(np.bincount(counts).argmax())
