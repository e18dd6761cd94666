"""Ways to fold kernel axes of a convolution into its channels, and what each costs.

The analysis of ``fold-first-layer``. A way is a set of axes whose taps become channels, and a
number of constant lanes that take over the bias; the cost is

    max(micro-ops of the GEMM core and the ALU, beats of the input) + border * elements of the input

with the rates of the target. Taps that fall into the padding do not count; elements are INP's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np

from vtac.dialects.context import Array
from vtac.dialects.graph import ConvOp, shape_of
from vtac.dialects.target import Memory, Target

LARGEST = 127
"""The largest int8: the value of all constant lanes but the first, which is 1."""

CLIPS_AND_SHIFT = 3
"""Immediate ALU operations that each output element takes besides its reset and its bias."""


@dataclass(frozen=True)
class Fold:
    """A way to compute a convolution: which kernel axes the host unfolds, and what is added.

    bias_tap: where in the remaining kernel the bias's lanes have their weights, or None for no such
    lanes. lanes: how many there are.
    """

    axes: tuple[int, ...]
    bias_tap: tuple[int, ...] | None = None
    lanes: int = 0

    @property
    def constants(self) -> list[int]:
        """The values of the constant lanes."""
        return [1, *[LARGEST] * (self.lanes - 1)][: self.lanes]


@dataclass(frozen=True)
class WindowedAxis:
    """One spatial axis of a convolution: extents, and which taps of which windows lie inside."""

    size: int
    count: int
    kernel: int
    stride: int
    pad: int
    dilation: int

    def inside(self) -> Array:
        """[windows, taps] of booleans."""
        starts = np.arange(self.count) * self.stride - self.pad
        places = starts[:, None] + np.arange(self.kernel) * self.dilation
        return np.asarray((places >= 0) & (places < self.size))


def windows_of(op: ConvOp) -> list[WindowedAxis]:
    """The spatial axes of a convolution."""
    strides, pads, dilations = (
        attribute.get_values() for attribute in (op.strides, op.pads, op.dilations)
    )
    sizes, counts, kernel = shape_of(op.x) or (), shape_of(op.result) or (), op.kernel_shape()
    return [
        WindowedAxis(sizes[2 + i], counts[2 + i], kernel[i], strides[i], pads[i], dilations[i])
        for i in range(len(kernel))
    ]


class Choice:
    """Finds the cheapest fold of a convolution.

    bias: what constant lanes would have to hold, one number per channel; None if there is none.
    is_shared: whether the host packs the input for other readers, too. border: cycles for each
    element of INP that the host lays out.
    """

    def __init__(
        self, op: ConvOp, bias: Array | None, is_shared: bool, target: Target, border: float
    ):
        self.batches = -(-(shape_of(op.x) or ())[0] // target.batch)
        self.channels = (shape_of(op.x) or ())[1]
        self.outputs = -(-(shape_of(op.result) or ())[1] // target.block)
        self.windows, self.target = windows_of(op), target
        self.bias, self.is_shared, self.border = bias, is_shared, border

    def best(self) -> Fold:
        """The fold with the lowest cost; of equal ones that with fewer axes."""
        axes = [axis for axis, window in enumerate(self.windows) if window.kernel > 1]
        subsets = (s for count in range(len(axes) + 1) for s in combinations(axes, count))
        folds = [Fold(()), *(fold for subset in subsets for fold in self._folds(subset))]
        return min(folds, key=self.cost)

    def _folds(self, axes: tuple[int, ...]) -> list[Fold]:
        tap, lanes = self._bias_tap(axes), self._bias_lanes(self._channels_of(axes))
        with_bias = [Fold(axes, tap, lanes)] if tap is not None and lanes else []
        return [Fold(axes), *with_bias]

    def _channels_of(self, axes: Sequence[int]) -> int:
        return self.channels * prod(self.windows[axis].kernel for axis in axes)

    def _bias_tap(self, axes: Sequence[int]) -> tuple[int, ...] | None:
        """A tap of the remaining kernel that lies inside for every window."""
        tap = []
        for axis, window in enumerate(self.windows):
            always = np.flatnonzero(window.inside().all(axis=0))
            if axis not in axes and not always.size:
                return None
            tap.append(0 if axis in axes else int(always[0]))
        return tuple(tap)

    def _bias_lanes(self, channels: int) -> int:
        """The number of lanes that the bias needs, if so many are spare; else 0."""
        if self.bias is None:
            return 0
        spare = -channels % self.target.block
        return next((n for n in range(1, spare + 1) if digits(self.bias, n) is not None), 0)

    def _bias_cycles(self) -> int:
        """Cycles in which the ALU adds the bias to one output element."""
        if self.bias is None:
            return 0
        timing, is_uniform = self.target.timing, bool((self.bias == self.bias[0]).all())
        return timing.alu_immediate_cycles if is_uniform else timing.alu_register_cycles

    def cost(self, fold: Fold) -> float:
        """The cost of a fold in cycles, by the formula in the module's docstring."""
        blocks = -(-(self._channels_of(fold.axes) + fold.lanes) // self.target.block)
        outputs = self.batches * self.outputs
        products, reads = outputs * blocks, self.batches * blocks
        for axis, window in enumerate(self.windows):
            is_folded = axis in fold.axes
            products *= window.count if is_folded else int(window.inside().sum())
            reads *= window.count if is_folded else window.size
        elements = outputs * prod(window.count for window in self.windows)
        timing = self.target.timing
        epilogue = timing.gemm_cycles + CLIPS_AND_SHIFT * timing.alu_immediate_cycles
        epilogue += 0 if fold.lanes else self._bias_cycles()
        compute = products * timing.gemm_cycles + elements * epilogue
        beats = reads * self.target.element_bytes(Memory.INP) // timing.port_bytes
        is_free = self.is_shared and fold == Fold(())
        return max(compute, beats) + (0 if is_free else self.border * reads)


def digits(bias: Array, lanes: int) -> Array | None:
    """int8 weights [O, lanes] of constant lanes (1, 127, 127, ...) that sum to the bias.

    None where it is out of reach. All digits of a channel have its sign, so that no partial sum is
    larger than the bias.
    """
    quotient = np.abs(bias.astype(np.int64)) // LARGEST
    sign = np.sign(bias.astype(np.int64))
    found = [sign * (np.abs(bias.astype(np.int64)) % LARGEST)]
    for _ in range(lanes - 1):
        digit = np.minimum(quotient, LARGEST)
        found.append(sign * digit)
        quotient = quotient - digit
    if quotient.any():
        return None
    return np.stack(found, axis=1).astype(np.int8)


def fold_weights(weights: Array, axes: Sequence[int]) -> Array:
    """[O, C, kernel...] with the taps of some axes as channels, in the order of ``unfold``."""
    rank = weights.ndim - 2
    rest = [axis for axis in range(rank) if axis not in axes]
    moved = weights.transpose(0, *(2 + a for a in axes), 1, *(2 + a for a in rest))
    kernel = (1 if axis in axes else weights.shape[2 + axis] for axis in range(rank))
    channels = weights.shape[1] * prod(weights.shape[2 + axis] for axis in axes)
    return moved.reshape(weights.shape[0], channels, *kernel)


def with_bias_lanes(weights: Array, bias: Array, fold: Fold) -> Array:
    """Weights with further channels that hold the digits of the bias at one tap."""
    found = digits(bias, fold.lanes)
    assert found is not None and fold.bias_tap is not None, "the bias was seen to fit"
    lanes = np.zeros((weights.shape[0], fold.lanes, *weights.shape[2:]), np.int8)
    index: tuple[int | slice, ...] = (slice(None), slice(None), *fold.bias_tap)
    lanes[index] = found
    return np.concatenate([weights, lanes], axis=1)
