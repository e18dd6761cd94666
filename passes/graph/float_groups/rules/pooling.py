"""Rules of average and sum pooling.

A pooling is a sum of elements over a divisor, whose odd part goes into the scale of the result.
Where pads are left out, a window at the border averages fewer elements than others. The reciprocal
of its count is a product over dimensions. Along each dimension it is the reciprocal of most
windows, plus a correction at every window that differs. A correction is a depthwise convolution
with strides so long that all its windows but that one lie outside. All weights are multiples of one
fraction, so they are exact where scales differ by powers of two and the odd part of that fraction.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import product
from math import lcm, prod
from typing import cast

import numpy as np
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    AveragePoolOp,
    GlobalAveragePoolOp,
    SumPoolOp,
    WindowOp,
    window_extent,
)
from vtac.passes.graph.float_groups.forms import Form
from vtac.passes.graph.float_groups.network import Network, channels_of
from vtac.passes.graph.float_groups.rules.rule import (
    CoreRule,
    ErrorContext,
    OpT,
    Rules,
    Terms,
    known_shape,
)
from vtac.passes.graph.reasons import Reason, ReasonKind

MOST_FORMS = 9
"""Most linear forms of one pooling: as many as a 3 x 3 window with pads on all sides needs."""

OUTSIDE = Reason("a window lies wholly in the padding", ReasonKind.ATTRIBUTE)


class _PoolingRule(CoreRule[OpT]):
    """The common part of the rules of poolings."""

    def shares(self, op: OpT, factor: Array) -> bool:
        """Addends may enter if the factor is 1, since sums of elements have no weights."""
        return bool((factor == 1).all())

    def width(self, op: OpT) -> int:
        """The number of elements of a window."""
        return prod(_geometry(op)[0])

    def form(self, op: OpT, result: SSAValue, factor: Array) -> Form:
        """The sum of each window, divided by the divisor that all windows share."""
        kernel, strides, pads, dilations = _geometry(op)
        divisor, channels = self.divisor(op), channels_of(result)
        return Form(
            op,
            op.operands[0],
            result,
            np.full((channels, 1, *kernel), 1 / divisor),
            factor,
            strides,
            pads,
            dilations,
            channels,
            divisor,
            plain=True,
        )

    def divisor(self, op: OpT) -> int:
        """The divisor of sums: the number of elements of a window."""
        return self.width(op)


def _geometry(op: Operation) -> list[Sequence[int]]:
    """Kernel, strides, pads and dilations of a pooling."""
    if isinstance(op, GlobalAveragePoolOp):
        kernel = known_shape(op.x)[2:]
        ones = [1] * len(kernel)
        return [kernel, ones, [0] * 2 * len(kernel), ones]
    assert isinstance(op, AveragePoolOp | SumPoolOp)
    return [v.get_values() for v in (op.kernel, op.strides, op.pads, op.dilations)]


class GlobalAveragePool(_PoolingRule[GlobalAveragePoolOp]):
    """The mean over all of space."""

    def error(
        self, op: GlobalAveragePoolOp, errors: Sequence[Array], around: ErrorContext
    ) -> Array | None:
        """A mean errs no more than its elements."""
        return errors[0]


class SumPool(_PoolingRule[SumPoolOp]):
    """The sum over windows."""

    def why_not(self, op: SumPoolOp, network: Network) -> str | None:
        """There is an integer form if it has no pads: float sums have none."""
        return Reason("sums with pads", ReasonKind.ATTRIBUTE) if any(op.pads.get_values()) else None

    def divisor(self, op: SumPoolOp) -> int:
        """The divisor 1: sums are not divided."""
        return 1


class AveragePool(_PoolingRule[AveragePoolOp]):
    """The mean over windows: one sum, or linear forms where windows count differently."""

    def why_not(self, op: AveragePoolOp, network: Network) -> str | None:
        """There is an integer form if divisors are few and not 0."""
        if op.count_include_pad.value.data:
            return None
        counts = window_counts(op)
        needed = prod(1 + int((along != _usual(along)).sum()) for along in axis_counts(op))
        if counts.all() and needed > MOST_FORMS:
            return Reason(
                f"its windows average {counts.min()} to {counts.max()} elements: too many divisors",
                ReasonKind.ATTRIBUTE,
            )
        return None if counts.all() else OUTSIDE

    def enter(self, op: AveragePoolOp, factor: Array, terms: Terms) -> None:
        """Make the op the core, or add the forms of an uneven pooling."""
        if _is_uneven(op):
            terms.forms += _averages(op, terms.result, factor)
        else:
            super().enter(op, factor, terms)

    def shares(self, op: AveragePoolOp, factor: Array) -> bool:
        """The forms of an uneven pooling stay apart."""
        return not _is_uneven(op) and super().shares(op, factor)

    def divisor(self, op: AveragePoolOp) -> int:
        """The number of elements that every window counts."""
        return self.width(op) if op.count_include_pad.value.data else int(window_counts(op).flat[0])

    def error(
        self, op: AveragePoolOp, errors: Sequence[Array], around: ErrorContext
    ) -> Array | None:
        """A mean errs no more than its elements."""
        return errors[0]


def axis_counts(op: WindowOp) -> list[Array]:
    """How many taps of each window lie inside the operand, along each spatial dimension."""
    strides, dilations = op.strides.get_values(), op.dilations.get_values()
    kernel, pads, counts = op.kernel_shape(), op.pads.get_values(), []
    for axis, size in enumerate(known_shape(op.x)[2:]):
        pad = pads[axis] + pads[len(kernel) + axis]
        extent = window_extent(size, kernel[axis], strides[axis], pad, dilations[axis])
        starts = np.arange(extent) * strides[axis] - pads[axis]
        taps = starts[:, None] + np.arange(kernel[axis]) * dilations[axis]
        counts.append(cast(Array, ((taps >= 0) & (taps < size)).sum(axis=1)))
    return counts


def window_counts(op: WindowOp) -> Array:
    """How many taps of each window lie inside the operand: an array over the output positions."""
    return reduce(np.multiply.outer, axis_counts(op))


def _is_uneven(op: AveragePoolOp) -> bool:
    """Whether windows are divided by different counts."""
    if op.count_include_pad.value.data:
        return False
    return any(len(np.unique(counts)) > 1 for counts in axis_counts(op))


def _averages(op: AveragePoolOp, result: SSAValue, factor: Array) -> Iterator[Form]:
    """The forms of an uneven pooling: one for most windows, and corrections for the others."""
    channels, kernel = known_shape(op.x)[1], op.kernel.get_values()
    divisor = lcm(*np.unique(window_counts(op)).tolist())
    for parts in product(*(_parts(op, axis) for axis in range(len(kernel)))):
        share = prod((part.share for part in parts), start=Fraction(1))
        matrix = np.full((channels, 1, *kernel), float(share))
        pads = [*(part.before for part in parts), *(part.after for part in parts)]
        strides = [part.stride for part in parts]
        dilations = op.dilations.get_values()
        yield Form(op, op.x, result, matrix, factor, strides, pads, dilations, channels, divisor)


@dataclass(frozen=True)
class _Part:
    """Windows along one axis that get the same share of their sums."""

    share: Fraction
    stride: int
    before: int
    after: int


def _parts(op: AveragePoolOp, axis: int) -> Sequence[_Part]:
    kernel, rank = op.kernel.get_values(), len(op.kernel.get_values())
    stride, pads = op.strides.get_values()[axis], op.pads.get_values()
    size, along = known_shape(op.x)[2 + axis], axis_counts(op)[axis]
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
    """The count of most windows."""
    return int(np.bincount(counts).argmax())


RULES: Rules = {
    AveragePoolOp: AveragePool(),
    GlobalAveragePoolOp: GlobalAveragePool(),
    SumPoolOp: SumPool(),
}
"""The rules of this module."""
