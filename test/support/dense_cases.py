"""Random cases of the dense kinds: tensors of ``vtac.te``, arrays, and what NumPy makes of them.

The NumPy side shares nothing with the compiler: matrix products are einsums, windows are loops over
taps, a transposed convolution scatters. Sizes are small and rarely multiples of anything.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from random import Random

import numpy as np

from vtac import te

Array = np.ndarray


@dataclass
class Case:
    """An output, its inputs by placeholder, and the expected array."""

    output: te.Computed
    inputs: dict[te.Placeholder, Array]
    expected: Array


class Draw:
    """Random sizes and arrays; names are made different, so that cases can share a program."""

    def __init__(self, seed: int, number: int):
        self.random = Random(f"{seed} {number}")
        self.numpy = np.random.default_rng([seed, number])
        self.number = number
        self.inputs: dict[te.Placeholder, Array] = {}

    def size(self, high: int, low: int = 1) -> int:
        """Mostly small."""
        return min(self.random.randint(low, high), self.random.randint(low, high))

    def channels(self, high: int = 20) -> int:
        """Now and then more than a block."""
        return self.random.choice([self.size(high), self.random.randint(1, 5)])

    def tensor(
        self, name: str, shape: Sequence[int], dtype=np.int8
    ) -> tuple[te.Placeholder, Array]:
        """An input with its array."""
        tensor = te.placeholder(shape, f"{name}{self.number}", dtype)
        high = 128 if dtype == np.int8 else 1 << 14
        array = self.numpy.integers(-high, high, shape)
        self.inputs[tensor] = array.astype(dtype)
        return tensor, array

    def finish(self, acc: te.Computed, expected: Array, channel: int | None = 1) -> Case:
        """The sums as int32; or as int8: their low byte, or with a bias, a shift, and a relu."""
        name, way = f"y{self.number}", self.random.random()
        if way < 0.06:
            return Case(acc, self.inputs, expected)
        if way < 0.85:
            output = te.compute(acc.shape, lambda *i: te.narrow(acc[i]), name)
            return Case(output, self.inputs, expected.astype(np.int8))
        shift, low, bias = self.random.randint(0, 12), self.random.choice([-128, 0]), None
        if channel is not None and self.random.random() < 0.5:
            bias, vector = self.tensor("bias", (acc.shape[channel],), np.int32)
            rest = [1] * len(acc.shape)
            rest[channel] = -1
            expected = expected + vector.reshape(rest)
        output = te.requantise(acc, shift, bias, low, 127, channel or 0, name=name)
        half = 1 << shift >> 1
        return Case(output, self.inputs, np.clip(expected + half >> shift, low, 127))


def matrix_vector(draw: Draw) -> Case:
    (a, x), (b, y) = (
        draw.tensor("a", (i := draw.size(40), k := draw.size(40))),
        draw.tensor("x", (k,)),
    )
    return draw.finish(te.matrix_vector(a, b), np.einsum("ik,k->i", x, y), 0 if i > 1 else None)


def matrix_product(draw: Draw) -> Case:
    i, j, k = draw.size(20), draw.size(40), draw.size(40)
    (a, x), (b, y) = draw.tensor("a", (i, k)), draw.tensor("b", (k, j))
    return draw.finish(te.matrix_product(a, b), np.einsum("ik,kj->ij", x, y))


def bilinear(draw: Draw, exact: bool) -> Case:
    """Exact in int32, or with int8 in between."""
    i, j, k, m = draw.size(6), draw.size(6), draw.size(20), draw.size(20)
    (a, x), (b, y), (c, z) = (
        draw.tensor("a", (i, k)),
        draw.tensor("b", (j, k, m)),
        draw.tensor("c", (i, m)),
    )
    inner = np.einsum("ik,jkl->ijl", x, y)
    shift = None if exact else draw.random.randint(6, 11)
    if shift is not None:
        inner = np.clip(inner + (1 << shift >> 1) >> shift, -128, 127)
    result = te.bilinear(a, b, c, shift)
    return draw.finish(result, np.einsum("ijl,il->ij", inner, z), None)


@dataclass
class Window:
    """Sizes, strides, pads and dilations of a random window."""

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    dilations: tuple[int, ...]


def draw_window(draw: Draw, rank: int, dilated: bool = False) -> Window:
    largest = {1: 14, 2: 7, 3: 4}[rank]
    kernel = tuple(draw.size(4 if rank < 3 else 3) for _ in range(rank))
    dilations = tuple(draw.random.randint(2, 3) if dilated else 1 for _ in range(rank))
    pads = tuple((draw.random.randint(0, 2), draw.random.randint(0, 2)) for _ in range(rank))
    size = tuple(
        draw.random.randint(max(1, d * (k - 1) + 1 - sum(p)), largest + d)
        if d * (k - 1) + 1 - sum(p) <= largest + d
        else d * (k - 1) + 1
        for k, d, p in zip(kernel, dilations, pads, strict=True)
    )
    strides = tuple(draw.random.choice([1, 1, 2, 3]) for _ in range(rank))
    return Window(size, kernel, strides, pads, dilations)


def windows(x: Array, window: Window, value: int = 0) -> Iterator[tuple[tuple[int, ...], Array]]:
    """For each tap what it meets: the spatial dimensions are the last of ``x``."""
    rank = len(window.kernel)
    lead = [(0, 0)] * (x.ndim - rank)
    padded = np.pad(x, [*lead, *window.pads], constant_values=value)
    counts = [
        (size - d * (k - 1) - 1) // s + 1
        for size, k, s, d in zip(
            padded.shape[-rank:], window.kernel, window.strides, window.dilations, strict=True
        )
    ]
    for tap in itertools.product(*map(range, window.kernel)):
        cut = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, window.dilations, counts, window.strides, strict=True)
        )
        yield tap, padded[(..., *cut)]


def convolution(draw: Draw, rank: int, dilated: bool = False) -> Case:
    window = draw_window(draw, rank, dilated)
    n, c, o = draw.size(3), draw.channels(), draw.channels()
    x, a = draw.tensor("x", (n, c, *window.size))
    w, b = draw.tensor("w", (o, c, *window.kernel))
    acc = te.convolution(x, w, window.strides, window.pads, window.dilations)
    expected = sum(
        np.einsum("nc...,oc->no...", part, b[(..., *tap)]) for tap, part in windows(a, window)
    )
    return draw.finish(acc, expected)


def transposed_convolution(draw: Draw, rank: int) -> Case:
    n, c, o = draw.size(3), draw.channels(), draw.channels()
    size = tuple(draw.size({1: 9, 2: 5, 3: 3}[rank]) for _ in range(rank))
    kernel = tuple(draw.size(5 if rank < 3 else 3) for _ in range(rank))
    strides = tuple(draw.random.choice([1, 2, 2, 3]) for _ in range(rank))
    dilations = tuple(draw.random.choice([1, 1, 1, 2]) for _ in range(rank))
    dilations = tuple(d if gcd(d, s) == 1 else 1 for d, s in zip(dilations, strides, strict=True))
    whole = [
        (m - 1) * s + d * (k - 1) + 1
        for m, s, d, k in zip(size, strides, dilations, kernel, strict=True)
    ]
    pads = []
    for extent in whole:
        before = draw.random.randint(0, min(2, extent - 1))
        pads.append((before, draw.random.randint(0, min(2, extent - 1 - before))))
    extra = tuple(draw.random.randint(0, s - 1) for s in strides)
    x, a = draw.tensor("x", (n, c, *size))
    w, b = draw.tensor("w", (c, o, *kernel))
    acc = te.transposed_convolution(x, w, strides, pads, dilations, extra)
    full = np.zeros((n, o, *(e + m for e, m in zip(whole, extra, strict=True))), np.int64)
    for tap in itertools.product(*map(range, kernel)):
        cut = tuple(
            slice(t * d, t * d + (m - 1) * s + 1, s)
            for t, d, m, s in zip(tap, dilations, size, strides, strict=True)
        )
        full[(..., *cut)] += np.einsum("nc...,co->no...", a, b[(..., *tap)])
    crop = tuple(slice(p[0], e + m - p[1]) for p, e, m in zip(pads, whole, extra, strict=True))
    return draw.finish(acc, full[(..., *crop)])


def grouped_convolution(draw: Draw) -> Case:
    window = draw_window(draw, 2)
    n, g, c, o = draw.size(2), draw.size(9), draw.channels(12), draw.channels(12)
    x, a = draw.tensor("x", (n, g, c, *window.size))
    w, b = draw.tensor("w", (g, o, c, *window.kernel))
    acc = te.grouped_convolution(x, w, window.strides, window.pads)
    expected = sum(
        np.einsum("ngc...,goc->ngo...", part, b[(..., *tap)]) for tap, part in windows(a, window)
    )
    return draw.finish(acc, expected, 2)


def depthwise_convolution(draw: Draw) -> Case:
    window = draw_window(draw, draw.random.choice([1, 2, 2]))
    n, c = draw.size(3), draw.channels(40)
    x, a = draw.tensor("x", (n, c, *window.size))
    w, b = draw.tensor("w", (c, *window.kernel))
    acc = te.depthwise_convolution(x, w, window.strides, window.pads)
    expected = sum(
        np.einsum("nc...,c->nc...", part, b[(..., *tap)]) for tap, part in windows(a, window)
    )
    return draw.finish(acc, expected)


def max_pool(draw: Draw) -> Case:
    window = draw_window(draw, draw.random.choice([1, 2, 2]))
    x, a = draw.tensor("x", (draw.size(3), draw.channels(), *window.size))
    output = te.max_pool(x, window.kernel, window.strides, window.pads)
    expected = np.max([part for _, part in windows(a, window, -128)], axis=0)
    return Case(output, draw.inputs, expected)


def average_pool(draw: Draw) -> Case:
    window = draw_window(draw, draw.random.choice([1, 2, 2]))
    x, a = draw.tensor("x", (draw.size(3), draw.channels(), *window.size))
    output = te.average_pool(x, window.kernel, window.strides, window.pads)
    factor, shift = te.average_factor(int(np.prod(window.kernel)))
    total = sum(part for _, part in windows(a, window))
    expected = np.clip(total * factor + (1 << shift >> 1) >> shift, -128, 127)
    return Case(output, draw.inputs, expected)


def elementwise(draw: Draw) -> Case:
    """Sums, differences and products of tensors of one shape, clipped."""
    shape = tuple(draw.size(7) for _ in range(draw.random.randint(1, 3)))
    (x, a), (y, b) = draw.tensor("x", shape), draw.tensor("y", shape)
    formula, array = draw.random.choice(
        [
            (lambda *i: x[i] + y[i], a + b),
            (lambda *i: x[i] - y[i] + 3, a - b + 3),
            (lambda *i: x[i] * y[i], a * b),
            (
                lambda *i: te.maximum(x[i], y[i]) + te.minimum(x[i], 7),
                np.maximum(a, b) + np.minimum(a, 7),
            ),
            (lambda *i: (x[i] << 3) + y[i] * -5, (a << 3) + b * -5),
        ]
    )
    return draw.finish(te.compute(shape, formula, f"e{draw.number}"), array, None)


def broadcast(draw: Draw) -> Case:
    """A vector along one dimension or the other, an outer product, int32 vectors."""
    i, j = draw.size(20), draw.size(20)
    (x, a), (r, b), (c, d) = (
        draw.tensor("x", (i, j)),
        draw.tensor("r", (j,)),
        draw.tensor("c", (i,)),
    )
    kind = draw.random.randrange(4)
    if kind == 3:
        del draw.inputs[r]
        r, b = draw.tensor("v", (j,), np.int32)
    formula, array, used = [
        (lambda p, q: x[p, q] + r[q] + c[p], a + b + d[:, None], (x, r, c)),
        (lambda p, q: r[q] * c[p], b * d[:, None], (r, c)),
        (lambda p, q: te.maximum(x[p, q], c[p]), np.maximum(a, d[:, None]), (x, c)),
        (lambda p, q: x[p, q] + r[q], a + b, (x, r)),
    ][kind]
    draw.inputs = {t: draw.inputs[t] for t in used}
    return draw.finish(te.compute((i, j), formula, f"e{draw.number}"), array, None)


def reduction(draw: Draw) -> Case:
    """Sums, maxima and minima over some dimensions, perhaps all."""
    shape = tuple(draw.size(9) for _ in range(draw.random.randint(1, 3)))
    x, a = draw.tensor("x", shape)
    over = sorted(draw.random.sample(range(len(shape)), draw.random.randint(1, len(shape))))
    kept = [d for d in range(len(shape)) if d not in over]
    axes = {d: te.Axis(f"r{d}", shape[d]) for d in over}
    reduce, array = draw.random.choice(
        [(te.total, np.sum), (te.largest, np.max), (te.smallest, np.min)]
    )

    def element(*spatial: te.Axis) -> te.Scalar:
        index = {**axes, **dict(zip(kept, spatial, strict=True))}
        return reduce(x[tuple(index[d] for d in range(len(shape)))], *axes.values())

    output = te.compute([shape[d] for d in kept], element, f"e{draw.number}")
    return draw.finish(output, array(a, axis=tuple(over)), None)


KINDS: dict[str, Callable[[Draw], Case]] = {
    "matrix-vector": matrix_vector,
    "matrix product": matrix_product,
    "bilinear": lambda draw: bilinear(draw, exact=False),
    "1D convolution": lambda draw: convolution(draw, 1),
    "transposed 1D convolution": lambda draw: transposed_convolution(draw, 1),
    "2D convolution": lambda draw: convolution(draw, 2),
    "transposed 2D convolution": lambda draw: transposed_convolution(draw, 2),
    "3D convolution": lambda draw: convolution(draw, 3),
    "transposed 3D convolution": lambda draw: transposed_convolution(draw, 3),
    "grouped convolution": grouped_convolution,
    "depthwise convolution": depthwise_convolution,
    "dilated convolution": lambda draw: convolution(draw, 2, dilated=True),
    "max pool": max_pool,
    "average pool": average_pool,
    "elementwise": elementwise,
    "broadcast": broadcast,
    "reduction": reduction,
}
"""FlexTensor's twelve and what else a network is made of."""
