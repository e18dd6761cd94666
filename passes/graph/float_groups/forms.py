"""Linear forms: addends of a sum that read one int8 operand with weights.

Convolutions and dense layers are such forms, and so are ops that only select, repeat or scale: a
concatenation on channels is a sum of two convolutions with weights 0 and 1, a slice or a pad is a
convolution whose window starts inside or outside its operand (negative or positive pads), a product
with one constant per channel has its factors on the diagonal. The weights carry the change of
scale, as those of any convolution do; where the scales of operand and result differ by a power of
two only, a selection loses nothing. A convolution that alone reads a concatenation has its weights
split. Forms describe ops in the quantised network only. The float network keeps the ops, and the
host computes them as ONNX says.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    ConcatOp,
    Contracts,
    ConvOp,
    GemmOp,
    SumPoolOp,
    WeightedOp,
    pad_property,
    shape_of,
)


@dataclass(frozen=True, eq=False)
class Form:
    """An addend ``factor * (W * operand)`` of a sum, where W moves over space as a convolution.

    source: the float op it comes from. operand: read as int8. result: what the sum computes.
    matrix: real W [O, C/group, kernel...]; None where it is that of ``source``. factor: float64,
    one number per output channel, or one for all. strides, pads, dilations: of each spatial
    dimension as in `ConvOp`; pads may be negative. group: number of channel groups. divisor: if W
    computes means, all its entries are whole multiples of 1 / divisor. outside: the number that
    windows read outside the operand. plain: whether it only adds up the elements of each window (a
    pooling, or an addend of one element) and divides the sum by ``divisor``. Then a shift replaces
    the weights, if the ratio of the scales is a power of two.
    """

    source: Operation
    operand: SSAValue
    result: SSAValue
    matrix: Array | None
    factor: Array
    strides: Sequence[int]
    pads: Sequence[int]
    dilations: Sequence[int]
    group: int
    divisor: int = 1
    outside: float = 0.0
    plain: bool = False

    @property
    def is_pooling(self) -> bool:
        """Whether it is plain, and its windows are not merely the elements one by one."""
        if not self.plain or self.matrix is None:
            return False
        return (
            self.matrix[0].size > 1 or any(stride > 1 for stride in self.strides) or any(self.pads)
        )

    @property
    def multiplies(self) -> bool:
        """Whether it does work worth rounding operands for, more than selecting or scaling."""
        return self.source.has_trait(Contracts)

    @property
    def is_padded(self) -> bool:
        """Whether a window may reach outside its operand."""
        return any(pad > 0 for pad in self.pads)

    @property
    def only_selects(self) -> bool:
        """Whether each element of the result is one of the operand, or lies outside of it."""
        if self.matrix is None or self.multiplies or self.divisor > 1 or (self.factor != 1).any():
            return False
        ones = self.matrix.reshape(len(self.matrix), -1)
        return bool(np.isin(ones, (0, 1)).all() and (ones.sum(axis=1) == 1).all())

    @property
    def is_exact_when_tied(self) -> bool:
        """Whether its weights are exact where the scales differ by a power of two."""
        if self.matrix is None or self.multiplies:
            return False
        if self.divisor > 1:
            return bool((self.factor == 1).all())
        magnitudes = np.abs(np.unique(self.matrix)[:, None] * self.factor)
        fractions = np.frexp(magnitudes[magnitudes > 0])[0]
        return bool((fractions == 0.5).all())


def form_of(core: WeightedOp, result: SSAValue, factor: Array) -> Form:
    """A convolution or a dense layer as a form, without its bias."""
    strides: Sequence[int] = ()
    pads: Sequence[int] = ()
    dilations: Sequence[int] = ()
    if isinstance(core, ConvOp):
        strides, pads = core.strides.get_values(), core.pads.get_values()
        dilations = core.dilations.get_values()
    return Form(core, core.data, result, None, factor, strides, pads, dilations, core.groups)


def per_channel(vector: Array, further: int) -> Array:
    """A vector [C] as [C, 1, ...], with so many further dimensions, to broadcast."""
    return vector.reshape(-1, *(1,) * further)


def taken_apart(form: Form, concat: ConcatOp, weights: Array) -> Iterator[Form]:
    """A convolution of a concatenation along channels, as one form for each concatenated tensor.

    weights: of the convolution, float64 [O, C, kernel...].
    """
    first = 0
    for operand in concat.inputs:
        last = first + _shape(operand)[1]
        yield replace(form, operand=operand, matrix=weights[:, first:last])
        first = last


def diagonal(source: Operation, operand: SSAValue, result: SSAValue, factor: Array) -> Form:
    """``factor * operand``, channel by channel."""
    channels = (shape_of(operand) or ())[1]
    return selection(source, operand, result, factor, matrix=np.ones((channels, 1)), group=channels)


def spread(source: Operation, operand: SSAValue, result: SSAValue, factor: Array) -> Form:
    """``factor * operand``, where the operand's single channel serves all channels of the
    result."""
    channels = _shape(result)[1]
    if _shape(operand)[1] == channels:
        return diagonal(source, operand, result, factor)
    return selection(source, operand, result, factor, matrix=np.ones((channels, 1)))


def selection(
    source: Operation,
    operand: SSAValue,
    result: SSAValue,
    factor: Array,
    *,
    matrix: Array,
    group: int = 1,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    outside: float = 0.0,
) -> Form:
    """The elements of an operand that a matrix [O, C/group] of channels takes, at steps of strides.

    pads: how far windows reach outside the operand (all begins, all ends), or start inside it.
    outside: the number that they read there.
    """
    rank = len(shape_of(operand) or ()) - 2
    ones = [1] * rank
    w = cast(Array, matrix.reshape(*matrix.shape, *ones))
    return Form(
        source,
        operand,
        result,
        w,
        factor,
        ones if strides is None else strides,
        [0] * 2 * rank if pads is None else pads,
        ones,
        group,
        outside=outside,
    )


def _shape(value: SSAValue) -> Sequence[int]:
    return shape_of(value) or ()


def product_op(
    form: Form, x: SSAValue, w: SSAValue, type: Attribute, pad_value: int = 0
) -> Operation:
    """The sums of products of a form as an op, over the numbers in ``x`` and ``w``.

    A pooling has no use for ``w``.
    """
    strides, pads, dilations = form.strides, form.pads, form.dilations
    if form.is_pooling and form.matrix is not None:
        kernel, outside = form.matrix.shape[2:], pad_property(pad_value)
        return SumPoolOp(
            x, type, kernel=kernel, strides=strides, pads=pads, dilations=dilations, **outside
        )
    if not strides and form.group == 1:
        return GemmOp(x, w, None, type, trans_b=True)
    return ConvOp(
        x,
        w,
        None,
        type,
        strides=strides,
        pads=pads,
        dilations=dilations,
        group=form.group,
        pad_value=pad_value,
    )
