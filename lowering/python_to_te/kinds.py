"""The dense computations of table 1 of FlexTensor, pooling and requantisation.

The functions take int8 tensors and return one tensor. Sums of products are exact int32 tensors,
which `requantise` converts to int8. The rank of the operands chooses between 1D, 2D and 3D
convolutions; ``dilations`` makes a convolution dilated. Each function is little more than the
formula of the computation, and shows how to write others.

Strides, dilations and pads are one number, or one for each spatial dimension; a pad may be a pair
of numbers, before and after (Zheng et al., "FlexTensor", section 2).
"""

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from vtac.dialects.errors import CompileError, Problem
from vtac.lowering.python_to_te.expressions import (
    LOWEST,
    Axis,
    Computed,
    Index,
    Scalar,
    Tensor,
    clip,
    computed,
    largest,
    narrow,
    saturate,
    total,
)

Numbers: TypeAlias = int | Sequence[int]
Pads: TypeAlias = int | Sequence[int | tuple[int, int]]

SPATIAL = {1: ("w",), 2: ("h", "w"), 3: ("d", "h", "w")}
"""Names of spatial axes, by their number."""


def matrix_vector(a: Tensor, x: Tensor, name: str = "gemv") -> Computed:
    """y[i] = sum over k of a[i, k] * x[k]."""
    i, k = Axis("i", a.shape[0]), Axis("k", a.shape[1])
    _agree("columns of the matrix and length of the vector", a.shape[1], x.shape[0])
    return computed((i,), total(a[i, k] * x[k], k), name)


def matrix_product(a: Tensor, b: Tensor, name: str = "gemm") -> Computed:
    """y[i, j] = sum over k of a[i, k] * b[k, j]."""
    i, j, k = Axis("i", a.shape[0]), Axis("j", b.shape[1]), Axis("k", a.shape[1])
    _agree("columns of the first matrix and rows of the second", a.shape[1], b.shape[0])
    return computed((i, j), total(a[i, k] * b[k, j], k), name)


def bilinear(
    a: Tensor, b: Tensor, c: Tensor, shift: int | None = None, name: str = "bilinear"
) -> Computed:
    """y[i, j] = sum over k and l of a[i, k] * b[j, k, l] * c[i, l].

    The product is computed by two contractions. Without ``shift``, the result of the first one is
    int32, which needs a target whose ALU multiplies (``alu_mul``). With ``shift``, `requantise`
    converts it to int8.
    """
    i, j = Axis("i", a.shape[0]), Axis("j", b.shape[0])
    k, m = Axis("k", a.shape[1]), Axis("l", b.shape[2])
    _agree("columns of a and the second dimension of b", a.shape[1], b.shape[1])
    _agree("columns of c and the third dimension of b", c.shape[1], b.shape[2])
    _agree("rows of a and of c", a.shape[0], c.shape[0])
    inner = computed((i, j, m), total(a[i, k] * b[j, k, m], k), f"{name}_inner")
    if shift is not None:
        inner = requantise(inner, shift, name=f"{name}_int8")
    return computed((i, j), total(inner[i, j, m] * c[i, m], m), name)


def convolution(
    x: Tensor,
    w: Tensor,
    strides: Numbers = 1,
    pads: Pads = 0,
    dilations: Numbers = 1,
    name: str = "conv",
) -> Computed:
    """y[n, o, i...] = sum of x[n, c, stride * i + dilation * k - pad...] * w[o, c, k...]."""
    _agree("channels of the input and of the weights", x.shape[1], w.shape[1])
    n, o, c = Axis("n", x.shape[0]), Axis("o", w.shape[0]), Axis("c", x.shape[1])
    window = _WindowAxes(x.shape[2:], w.shape[2:], strides, pads, dilations)
    product = x.outside(0)[n, c, *window.places] * w[o, c, *window.taps]
    return computed((n, o, *window.axes), total(product, c, *window.taps), name)


def transposed_convolution(
    x: Tensor,
    w: Tensor,
    strides: Numbers = 1,
    pads: Pads = 0,
    dilations: Numbers = 1,
    extra: Numbers = 0,
    name: str = "deconv",
) -> Computed:
    """y[n, o, i...] = sum of x[n, c, (i - dilation * k + pad) / stride...] * w[c, o, k...].

    Terms whose quotient is not an integer are left out. extra: additional output elements at the
    end (ONNX's output_padding). A stride and its dilation must be coprime.
    """
    _agree("channels of the input and of the weights", x.shape[1], w.shape[0])
    n, o, c = Axis("n", x.shape[0]), Axis("o", w.shape[1]), Axis("c", x.shape[1])
    rank = len(x.shape) - 2
    axes, taps, places = [], [], []
    for name_, size, kernel, stride, (before, after), dilation, more in zip(
        _names(rank),
        x.shape[2:],
        w.shape[2:],
        _each(strides, rank),
        _pairs(pads, rank),
        _each(dilations, rank),
        _each(extra, rank),
        strict=True,
    ):
        extent = (size - 1) * stride + dilation * (kernel - 1) + 1 - before - after + more
        axes.append(Axis(name_, extent))
        taps.append(Axis(f"k{name_}", kernel))
        places.append((axes[-1] - dilation * taps[-1] + before) / stride)
    product = x.outside(0)[n, c, *places] * w[c, o, *taps]
    return computed((n, o, *axes), total(product, c, *taps), name)


def grouped_convolution(
    x: Tensor,
    w: Tensor,
    strides: Numbers = 1,
    pads: Pads = 0,
    dilations: Numbers = 1,
    name: str = "grouped",
) -> Computed:
    """A convolution in each group g, of x[n, g, c, i...] with w[g, o, c, k...].

    The result is y[n, g, o, i...]; reshape arrays [N, C, ...] to groups and back.
    """
    _agree("groups of the input and of the weights", x.shape[1], w.shape[0])
    _agree("channels of a group in the input and in the weights", x.shape[2], w.shape[2])
    n, g, o, c = (
        Axis("n", x.shape[0]),
        Axis("g", x.shape[1]),
        Axis("o", w.shape[1]),
        Axis("c", x.shape[2]),
    )
    window = _WindowAxes(x.shape[3:], w.shape[3:], strides, pads, dilations)
    product = x.outside(0)[n, g, c, *window.places] * w[g, o, c, *window.taps]
    return computed((n, g, o, *window.axes), total(product, c, *window.taps), name)


def depthwise_convolution(
    x: Tensor,
    w: Tensor,
    strides: Numbers = 1,
    pads: Pads = 0,
    dilations: Numbers = 1,
    name: str = "depthwise",
) -> Computed:
    """y[n, c, i...] = sum of x[n, c, stride * i + dilation * k - pad...] * w[c, k...]."""
    _agree("channels of the input and of the weights", x.shape[1], w.shape[0])
    n, c = Axis("n", x.shape[0]), Axis("c", x.shape[1])
    window = _WindowAxes(x.shape[2:], w.shape[1:], strides, pads, dilations)
    product = x.outside(0)[n, c, *window.places] * w[c, *window.taps]
    return computed((n, c, *window.axes), total(product, *window.taps), name)


def max_pool(
    x: Tensor, kernel: Numbers, strides: Numbers = 1, pads: Pads = 0, name: str = "max_pool"
) -> Computed:
    """The maximum of each window of x[n, c, i...], without elements of the padding."""
    n, c, window = _pooling(x, kernel, strides, pads)
    most = largest(x.outside(LOWEST)[n, c, *window.places], *window.taps)
    return computed((n, c, *window.axes), narrow(most), name)


def average_pool(
    x: Tensor, kernel: Numbers, strides: Numbers = 1, pads: Pads = 0, name: str = "average_pool"
) -> Computed:
    """The mean of each window of x[n, c, i...], where elements of the padding count as zeros.

    The machine has no division: it computes ``(sum * factor + half) >> shift`` (`average_factor`).
    """
    n, c, window = _pooling(x, kernel, strides, pads)
    factor, shift = average_factor(prod(axis.extent for axis in window.taps))
    scaled = total(x.outside(0)[n, c, *window.places] * factor, *window.taps)
    return computed((n, c, *window.axes), saturate(_rounded(scaled, shift)), name)


def average_factor(elements: int) -> tuple[int, int]:
    """An int8 factor and a shift with factor / 2^shift close to 1 / elements.

    The relative error is less than 1 / 128.
    """
    shift = 0
    while round((2 << shift) / elements) <= 127 and shift < 24:
        shift += 1
    return round((1 << shift) / elements), shift


def requantise(
    acc: Tensor,
    shift: int,
    bias: Tensor | None = None,
    low: int = LOWEST,
    high: int = 127,
    channel: int = 1,
    name: str = "requantise",
) -> Computed:
    """``clip((acc + bias + half) >> shift, low, high)`` as int8, with halves rounded upwards.

    bias: an int32 vector along dimension ``channel``. low = 0 makes it a relu.
    """
    axes = tuple(Axis(f"i{d}", size) for d, size in enumerate(acc.shape))
    value: Scalar = acc[axes]
    if bias is not None:
        _agree("channels and length of the bias", acc.shape[channel], bias.shape[0])
        value = value + bias[axes[channel]]
    return computed(axes, narrow(clip(_rounded(value, shift), low, high)), name)


def _rounded(value: Scalar, shift: int) -> Scalar:
    """A scalar divided by a power of two, rounded to nearest, halves upwards."""
    return value if shift == 0 else (value + (1 << (shift - 1))) >> shift


class _WindowAxes:
    """Spatial axes, taps, and the index into the input of each spatial dimension."""

    def __init__(
        self,
        sizes: Sequence[int],
        kernel: Sequence[int],
        strides: Numbers,
        pads: Pads,
        dilations: Numbers,
    ):
        rank = len(sizes)
        if len(kernel) != rank:
            raise _problem(f"a window of {len(kernel)} dimensions over {rank}")
        self.axes: list[Axis] = []
        self.taps: list[Axis] = []
        self.places: list[Index] = []
        for name, size, taps, stride, (before, after), dilation in zip(
            _names(rank),
            sizes,
            kernel,
            _each(strides, rank),
            _pairs(pads, rank),
            _each(dilations, rank),
            strict=True,
        ):
            room = size + before + after - dilation * (taps - 1) - 1
            if room < 0:
                raise _problem(f"a window of {dilation * (taps - 1) + 1} over {size} elements")
            self.axes.append(Axis(name, room // stride + 1))
            self.taps.append(Axis(f"k{name}", taps))
            self.places.append(stride * self.axes[-1] + dilation * self.taps[-1] - before)


def _pooling(
    x: Tensor, kernel: Numbers, strides: Numbers, pads: Pads
) -> tuple[Axis, Axis, _WindowAxes]:
    rank = len(x.shape) - 2
    window = _WindowAxes(x.shape[2:], _each(kernel, rank), strides, pads, 1)
    return Axis("n", x.shape[0]), Axis("c", x.shape[1]), window


def _names(rank: int) -> tuple[str, ...]:
    return SPATIAL.get(rank, tuple(f"s{d}" for d in range(rank)))


def _each(numbers: Numbers, rank: int) -> list[int]:
    found = [numbers] * rank if isinstance(numbers, int) else list(numbers)
    if len(found) != rank:
        raise _problem(f"{list(found)} for {rank} spatial dimensions")
    return found


def _pairs(pads: Pads, rank: int) -> list[tuple[int, int]]:
    found = [pads] * rank if isinstance(pads, int) else list(pads)
    if len(found) != rank:
        raise _problem(f"pads {list(found)} for {rank} spatial dimensions")
    return [(pad, pad) if isinstance(pad, int) else pad for pad in found]


def _agree(what: str, a: int, b: int) -> None:
    if a != b:
        raise _problem(f"{what} differ: {a} and {b}")


def _problem(what: str) -> CompileError:
    return CompileError(Problem("tensor expression", what))
