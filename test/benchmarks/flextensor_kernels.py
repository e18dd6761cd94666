"""The computations of FlexTensor's evaluation (Zheng et al., ASPLOS 2020), for VTA.

Twelve kinds with as many test cases as in its table 3, in int8, batch 1; the paper gives no sizes
but those of YOLO-v1's fifteen layers (table 4), which are the cases of the convolution. The others
are layers of networks that its text names (image and video processing, language, MobileNet). Sums
become int8 by a shift and a clip, as in a quantised network, so that a case of several nodes in the
paper is one kernel here, or two. Two new operators (section 6.6): a product with a block-circulant
matrix and a shift convolution, with what NumPy makes of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vtac import te

Array = np.ndarray[Any, Any]

YOLO = (
    (3, 64, 448, 7, 2),
    (64, 192, 112, 3, 1),
    (192, 128, 56, 1, 1),
    (128, 256, 56, 3, 1),
    (256, 256, 56, 1, 1),
    (256, 512, 56, 3, 1),
    (512, 256, 28, 1, 1),
    (256, 512, 28, 3, 1),
    (512, 512, 28, 1, 1),
    (512, 1024, 28, 3, 1),
    (1024, 512, 14, 1, 1),
    (512, 1024, 14, 3, 1),
    (1024, 1024, 14, 3, 1),
    (1024, 1024, 14, 3, 2),
    (1024, 1024, 7, 3, 1),
)
"""Channels, filters, height, kernel and stride of YOLO-v1's layers."""


@dataclass(frozen=True)
class Case:
    """One test case. make: its tensor, made anew at each call. shape: its sizes, for people."""

    kind: str
    number: int
    shape: tuple[int, ...]
    make: Callable[[], te.Computed]

    @property
    def name(self) -> str:
        return f"{self.kind} {self.number}"


def weights(*shape: int) -> te.Tensor:
    """Constant int8 weights; cycles do not depend on their numbers."""
    return te.constant(np.random.default_rng(sum(shape)).integers(-128, 128, shape, np.int8), "w")


def finished(acc: te.Computed, channel: int | None = 1) -> te.Computed:
    """The sums with a bias, shifted and clipped to int8."""
    bias = None
    if channel is not None:
        bias = te.constant(np.arange(acc.shape[channel], dtype=np.int32) % 97, "bias")
    return te.requantise(acc, 7, bias, channel=channel or 0, name="y")


def gemv(rows: int, columns: int) -> te.Computed:
    return finished(te.matrix_vector(weights(rows, columns), te.placeholder((columns,), "x")), 0)


def gemm(rows: int, inner: int, columns: int) -> te.Computed:
    x = te.placeholder((rows, inner), "x")
    return finished(te.matrix_product(x, weights(inner, columns)))


def bilinear(rows: int, outputs: int, one: int, other: int) -> te.Computed:
    a, c = te.placeholder((rows, one), "a"), te.placeholder((rows, other), "c")
    return finished(te.bilinear(a, weights(outputs, one, other), c, shift=7))


def conv(
    rank: int, inputs: int, outputs: int, size: int, kernel: int, stride: int = 1, dilation: int = 1
) -> te.Computed:
    x = te.placeholder((1, inputs, *[size] * rank), "x")
    pad = dilation * (kernel - 1) // 2
    w = weights(outputs, inputs, *[kernel] * rank)
    return finished(te.convolution(x, w, stride, pad, dilation))


def transposed(
    rank: int, inputs: int, outputs: int, size: int, kernel: int, stride: int
) -> te.Computed:
    x = te.placeholder((1, inputs, *[size] * rank), "x")
    w = weights(inputs, outputs, *[kernel] * rank)
    return finished(te.transposed_convolution(x, w, stride, (kernel - stride) // 2))


def grouped(
    groups: int, inputs: int, outputs: int, size: int, kernel: int, stride: int = 1
) -> te.Computed:
    x = te.placeholder((1, groups, inputs // groups, size, size), "x")
    w = weights(groups, outputs // groups, inputs // groups, kernel, kernel)
    return finished(te.grouped_convolution(x, w, stride, (kernel - 1) // 2), None)


def depthwise(channels: int, size: int, stride: int) -> te.Computed:
    x = te.placeholder((1, channels, size, size), "x")
    return finished(te.depthwise_convolution(x, weights(channels, 3, 3), stride, 1))


KINDS: Mapping[str, tuple[Callable[..., te.Computed], Sequence[tuple[int, ...]]]] = {
    "GEMV": (
        gemv,
        ((256, 256), (512, 512), (1024, 1024), (1000, 2048), (4096, 1024), (2048, 2048)),
    ),
    "GEMM": (
        gemm,
        (
            (32, 256, 256),
            (64, 512, 512),
            (128, 256, 1024),
            (128, 768, 768),
            (256, 512, 256),
            (49, 512, 2048),
            (196, 1024, 256),
        ),
    ),
    "bilinear": (
        bilinear,
        ((8, 32, 64, 64), (16, 16, 64, 64), (4, 64, 64, 64), (16, 32, 32, 64), (32, 16, 64, 32)),
    ),
    "conv 1D": (
        lambda *shape: conv(1, *shape),
        (
            (64, 128, 256, 3, 2),
            (128, 128, 512, 3),
            (128, 256, 256, 3),
            (256, 256, 128, 5),
            (512, 512, 128, 3),
            (32, 64, 2048, 9, 2),
            (256, 512, 64, 1),
        ),
    ),
    "transposed 1D": (
        lambda *shape: transposed(1, *shape),
        (
            (128, 64, 256, 4, 2),
            (256, 128, 128, 4, 2),
            (512, 256, 64, 4, 2),
            (64, 32, 1024, 4, 2),
            (128, 128, 256, 8, 4),
            (256, 64, 64, 8, 4),
            (64, 64, 512, 2, 2),
        ),
    ),
    "conv 2D": (lambda *shape: conv(2, *shape), YOLO),
    "transposed 2D": (
        lambda *shape: transposed(2, *shape),
        (
            (64, 3, 112, 4, 2),
            (192, 64, 56, 4, 2),
            (128, 96, 56, 2, 2),
            (256, 128, 28, 4, 2),
            (256, 256, 28, 2, 2),
            (512, 256, 14, 4, 2),
            (256, 512, 14, 2, 2),
            (512, 256, 7, 4, 2),
            (512, 512, 7, 2, 2),
            (1024, 512, 4, 4, 2),
            (128, 64, 32, 4, 2),
            (64, 32, 64, 4, 2),
            (32, 16, 112, 4, 2),
            (256, 64, 16, 8, 4),
            (64, 64, 28, 4, 2),
        ),
    ),
    "conv 3D": (
        lambda *shape: conv(3, *shape),
        (
            (3, 64, 16, 3),
            (64, 64, 14, 3),
            (64, 128, 14, 3, 2),
            (128, 128, 7, 3),
            (128, 256, 7, 3, 2),
            (256, 256, 4, 3),
            (32, 64, 16, 3),
            (64, 256, 8, 1),
        ),
    ),
    "transposed 3D": (
        lambda *shape: transposed(3, *shape),
        (
            (64, 32, 8, 4, 2),
            (128, 64, 4, 4, 2),
            (256, 128, 2, 4, 2),
            (32, 16, 10, 4, 2),
            (64, 64, 7, 2, 2),
            (128, 128, 4, 2, 2),
            (64, 3, 8, 4, 2),
            (32, 32, 8, 2, 2),
        ),
    ),
    "grouped": (
        grouped,
        (
            (2, 96, 256, 27, 5),
            (2, 384, 384, 13, 3),
            (2, 384, 256, 13, 3),
            (4, 64, 64, 56, 3),
            (4, 128, 128, 28, 3),
            (4, 256, 256, 14, 3),
            (4, 512, 512, 7, 3),
            (8, 128, 128, 56, 3),
            (8, 256, 256, 28, 3),
            (8, 512, 512, 14, 3),
            (16, 256, 256, 14, 3, 2),
            (32, 128, 128, 56, 3),
            (32, 256, 256, 28, 3),
            (32, 512, 512, 14, 3),
        ),
    ),
    "depthwise": (
        depthwise,
        (
            (32, 112, 1),
            (64, 112, 2),
            (128, 56, 1),
            (128, 56, 2),
            (256, 28, 1),
            (512, 14, 1),
            (1024, 7, 1),
        ),
    ),
    "dilated": (
        lambda inputs, outputs, size, kernel, dilation: conv(
            2, inputs, outputs, size, kernel, 1, dilation
        ),
        (
            (64, 64, 56, 3, 2),
            (64, 192, 112, 3, 2),
            (128, 128, 28, 3, 2),
            (128, 256, 56, 3, 2),
            (256, 256, 28, 3, 2),
            (256, 512, 28, 3, 2),
            (512, 512, 14, 3, 2),
            (512, 512, 14, 3, 4),
            (256, 256, 28, 3, 4),
            (64, 64, 28, 3, 2),
            (1024, 1024, 7, 3, 2),
        ),
    ),
}
"""Of each kind: what makes a case, and the sizes of its cases."""

COUNTS = (6, 7, 5, 7, 7, 15, 15, 8, 8, 14, 7, 11)
"""Test cases of the paper's table 3, in the order of `KINDS`."""


def cases(kind: str) -> Iterator[Case]:
    """The test cases of a kind, numbered from 1."""
    make, shapes = KINDS[kind]
    for number, shape in enumerate(shapes, 1):
        yield Case(kind, number, shape, lambda shape=shape: make(*shape))  # type: ignore[misc]


def block_circulant(blocks: int, columns: int, size: int, rows: int) -> te.Computed:
    """y[i, r, t] = sum over j and k of w[i, j, k] * x[j, (r + k) mod size, t].

    The matrix consists of ``blocks`` by ``columns`` circulant blocks of ``size`` rows, of which one
    row each is stored. ``rows``: how many vectors it is multiplied by. The input x has twice its
    rows, [columns, 2 * size, rows]: a circular index is none that is affine.
    """
    x = te.placeholder((columns, 2 * size, rows), "x")
    w = te.constant(circulant_weights(blocks, columns, size), "w")
    j, k = te.reduce_axes(j=columns, k=size)
    return te.compute(
        (blocks, size, rows),
        lambda i, r, t: te.saturate(te.total(w[i, j, k] * x[j, r + k, t], j, k) >> 9),
        "circulant",
    )


def circulant_weights(blocks: int, columns: int, size: int) -> Array:
    """The first row of each block, int8 [blocks, columns, size]."""
    return np.random.default_rng(blocks + size).integers(
        -128, 128, (blocks, columns, size), np.int8
    )


def block_circulant_by_numpy(weights: Array, x: Array) -> Array:
    """The product of the whole matrix with x [columns * size, rows], int8."""
    blocks, columns, size = weights.shape
    matrix = np.zeros((blocks * size, columns * size), np.int64)
    for i, j, r, c in np.ndindex(blocks, columns, size, size):
        matrix[i * size + r, j * size + c] = weights[i, j, (c - r) % size]
    return np.clip(matrix @ x.astype(np.int64) >> 9, -128, 127)


def shift_convolution(channels: int, outputs: int, size: int) -> te.Computed:
    """A shift of each channel by its own step, and a product over channels (Wu et al., 2018).

    Channels come in nine groups, one for each of the steps (-1, 0, 1) x (-1, 0, 1):
    y[n, o, h, w] = sum of x[n, dh, dw, c, h + dh - 1, w + dw - 1] * weights[o, dh, dw, c].
    """
    x = te.placeholder((1, 3, 3, channels, size, size), "x")
    w = te.constant(shift_weights(channels, outputs), "w")
    dh, dw, c = te.reduce_axes(dh=3, dw=3, c=channels)
    return te.compute(
        (1, outputs, size, size),
        lambda n, o, h, v: te.saturate(
            te.total(
                x.outside(0)[n, dh, dw, c, h + dh - 1, v + dw - 1] * w[o, dh, dw, c], dh, dw, c
            )
            >> 8
        ),
        "shifted",
    )


def shift_weights(channels: int, outputs: int) -> Array:
    """Weights of the shift convolution, int8 [outputs, 3, 3, channels]."""
    return np.random.default_rng(channels).integers(-128, 128, (outputs, 3, 3, channels), np.int8)


def shift_convolution_by_numpy(weights: Array, x: Array) -> Array:
    """The shift convolution of x [1, 3, 3, channels, size, size], int8."""
    size = x.shape[-1]
    padded = np.pad(x.astype(np.int64), [(0, 0)] * 4 + [(1, 1)] * 2)
    total = sum(
        np.einsum("nchw,oc->nohw", padded[:, a, b, :, a : a + size, b : b + size], weights[:, a, b])
        for a, b in np.ndindex(3, 3)
    )
    return np.clip(np.asarray(total) >> 8, -128, 127)
