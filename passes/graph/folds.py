"""Ways to fold kernel axes of a convolution into its channels, and what each costs.

The analysis of ``fold-first-layer``. A fold says for each kernel axis how many neighbouring taps
become channels: none, all, or as many as the stride (*phases*, also known as space to depth: fewer
bytes than with all taps, and more products, since the last group of taps may be filled up with
zeros). It also says how many constant lanes take over the bias. The cost is

    max(micro-ops of the GEMM core and the ALU / cores + loads of biases, beats of the input)
    + border * elements of the input

with the rates of the target. A bias in constant lanes needs no load, and one that is copied in
place of the reset no further operation (``te-place-biases``). The cores of a cluster share the
products, and one DDR. Taps that fall into the padding do not count; elements are INP's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from vtac.dialects.context import Array
from vtac.dialects.graph import ConvOp, shape_of
from vtac.dialects.target import Target

LARGEST = 127
"""The largest int8: the value of all constant lanes but the first, which is 1."""

CLIPS_AND_SHIFT = 3
"""Immediate ALU operations that each output element takes besides its reset and its bias."""


@dataclass(frozen=True)
class Fold:
    """A way to compute a convolution: which taps the host unfolds, and what is added.

    groups: for each kernel axis how many neighbouring taps become channels of one element, 0 if the
    axis stays as it is. bias_tap: where in the remaining kernel the bias's lanes have their
    weights, or None for no such lanes. lanes: how many there are.
    """

    groups: tuple[int, ...]
    bias_tap: tuple[int, ...] | None = None
    lanes: int = 0

    @property
    def constants(self) -> list[int]:
        """The values of the constant lanes."""
        return [1, *[LARGEST] * (self.lanes - 1)][: self.lanes]


@dataclass(frozen=True)
class WindowedAxis:
    """One spatial axis of a convolution: extents, and which taps of which windows lie inside.

    pad, pad_behind: the padding in front of the input and behind it.
    """

    size: int
    count: int
    kernel: int
    stride: int
    pad: int
    dilation: int
    pad_behind: int

    def inside(self) -> Array:
        """[windows, taps] of booleans."""
        starts = np.arange(self.count) * self.stride - self.pad
        places = starts[:, None] + np.arange(self.kernel) * self.dilation
        return np.asarray((places >= 0) & (places < self.size))

    def groups(self) -> list[int]:
        """How many taps an element may take of this axis: none, as many as the stride, or all."""
        if self.kernel == 1:
            return [0]
        is_phased = 1 < self.stride < self.kernel and self.dilation == 1
        phases = [self.stride] if is_phased and self.filled_up(self.stride) >= 0 else []
        return [0, *phases, self.kernel]

    def taps(self, group: int) -> int:
        """Taps that remain along the axis."""
        return -(-self.kernel // group) if group else self.kernel

    def extent(self, group: int) -> int:
        """Elements along the axis of what the host lays out."""
        return self.count + self.taps(group) - 1 if group else self.size

    def filled_up(self, group: int) -> int:
        """Padding behind the input that the last element of groups of so many taps needs."""
        if group == self.kernel:
            return self.pad_behind
        return (self.extent(group) - 1) * self.stride + group - self.size - self.pad


def windows_of(op: ConvOp) -> list[WindowedAxis]:
    """The spatial axes of a convolution."""
    strides, pads, dilations = (
        attribute.get_values() for attribute in (op.strides, op.pads, op.dilations)
    )
    sizes, counts, kernel = shape_of(op.x) or (), shape_of(op.result) or (), op.kernel_shape()
    rank = len(kernel)
    return [
        WindowedAxis(
            sizes[2 + i],
            counts[2 + i],
            kernel[i],
            strides[i],
            pads[i],
            dilations[i],
            pads[rank + i],
        )
        for i in range(rank)
    ]


class FoldChooser:
    """Finds the cheapest fold of a convolution.

    bias: what constant lanes would have to hold, one number per channel; None if there is none.
    is_shared: whether the host packs the input for other readers, too. border: cycles for each
    element of INP that the host lays out. cores: how many share the products.
    """

    def __init__(
        self,
        op: ConvOp,
        bias: Array | None,
        is_shared: bool,
        target: Target,
        border: float,
        cores: int = 1,
    ):
        self.batches = -(-(shape_of(op.x) or ())[0] // target.batch)
        self.channels = (shape_of(op.x) or ())[1]
        self.outputs = -(-(shape_of(op.result) or ())[1] // target.block)
        self.windows, self.target, self.cores = windows_of(op), target, cores
        self.bias, self.is_shared, self.border = bias, is_shared, border

    @property
    def unfolded(self) -> Fold:
        """The convolution as it is."""
        return Fold((0,) * len(self.windows))

    def best(self) -> Fold:
        """The fold with the lowest cost; of equal ones that with fewer axes."""
        found = product(*(window.groups() for window in self.windows))
        ordered = sorted(found, key=lambda groups: (sum(map(bool, groups)), groups[::-1]))
        folds = [fold for groups in ordered for fold in self._folds(groups)]
        return min(folds, key=self.cost)

    def _folds(self, groups: tuple[int, ...]) -> list[Fold]:
        tap, lanes = self._bias_tap(groups), self._bias_lanes(self._channels_of(groups))
        with_bias = [Fold(groups, tap, lanes)] if tap is not None and lanes else []
        return [Fold(groups), *(with_bias if any(groups) else [])]

    def _channels_of(self, groups: Sequence[int]) -> int:
        return self.channels * prod(group or 1 for group in groups)

    def _bias_tap(self, groups: Sequence[int]) -> tuple[int, ...] | None:
        """A tap of the remaining kernel that lies inside for every window."""
        tap = []
        for group, window in zip(groups, self.windows, strict=True):
            always = np.flatnonzero(window.inside().all(axis=0))
            if not group and not always.size:
                return None
            tap.append(0 if group else int(always[0]))
        return tuple(tap)

    def _bias_lanes(self, channels: int) -> int:
        """The number of lanes that the bias needs, if so many are spare; else 0."""
        if self.bias is None:
            return 0
        spare = -channels % self.target.block
        return next((n for n in range(1, spare + 1) if digits(self.bias, n) is not None), 0)

    def _start_cycles(self, fold: Fold) -> int:
        """Cycles in which one output element is started: a reset, and the bias, if it is added.

        Where immediate operations read another element, a copy of the bias replaces the reset
        (``te-place-biases``).
        """
        timing = self.target.timing
        if self.bias is None or fold.lanes:
            return timing.gemm_cycles
        if self.target.alu_imm_src:
            return min(timing.alu_immediate_cycles, timing.gemm_cycles + self._bias_cycles())
        return timing.gemm_cycles + self._bias_cycles()

    def _bias_cycles(self) -> int:
        """Cycles in which the ALU adds the bias to one output element."""
        assert self.bias is not None
        timing, is_uniform = self.target.timing, bool((self.bias == self.bias[0]).all())
        return timing.alu_immediate_cycles if is_uniform else timing.alu_register_cycles

    def _bias_load(self, fold: Fold) -> int:
        """Cycles in which the compute module loads the bias, in place of running micro-ops."""
        if self.bias is None or fold.lanes:
            return 0
        timing = self.target.timing
        size = self.target.element_bytes(self.target.system.accumulators)
        return timing.latency + self.outputs * timing.beats(size)

    def cost(self, fold: Fold) -> float:
        """The cost of a fold in cycles, by the formula in the module's docstring."""
        blocks = -(-(self._channels_of(fold.groups) + fold.lanes) // self.target.block)
        outputs = self.batches * self.outputs
        products, reads = outputs * blocks, self.batches * blocks
        for group, window in zip(fold.groups, self.windows, strict=True):
            inside = int(window.inside().sum())
            products *= window.count * window.taps(group) if group else inside
            reads *= window.extent(group)
        elements = outputs * prod(window.count for window in self.windows)
        timing = self.target.timing
        epilogue = self._start_cycles(fold) + CLIPS_AND_SHIFT * timing.alu_immediate_cycles
        compute = (products * timing.gemm_cycles + elements * epilogue) / self.cores
        compute += self._bias_load(fold)
        beats = (
            reads * self.target.element_bytes(self.target.system.activations) // timing.port_bytes
        )
        is_free = self.is_shared and fold == self.unfolded
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


def fold_weights(weights: Array, groups: Sequence[int]) -> Array:
    """[O, C, kernel...] with groups of taps as channels, in the order of ``unfold``.

    An axis whose taps fill no whole number of groups gets taps of zeros.
    """
    rank = weights.ndim - 2
    extents = list[int]()
    for axis, group in enumerate(groups):
        missing = -weights.shape[2 + axis] % (group or 1)
        fill = [(0, missing if number == 2 + axis else 0) for number in range(2 + rank)]
        weights = np.pad(weights, fill)
        extents += [weights.shape[2 + axis] // (group or 1), group or 1]
    split = weights.reshape(*weights.shape[:2], *extents)
    rest, folded = ([2 + 2 * axis + part for axis in range(rank)] for part in (0, 1))
    moved = split.transpose(0, *folded, 1, *rest)
    channels = weights.shape[1] * prod(extents[1::2])
    return moved.reshape(weights.shape[0], channels, *extents[0::2])


def with_bias_lanes(weights: Array, bias: Array, fold: Fold) -> Array:
    """Weights with further channels that hold the digits of the bias at one tap."""
    found = digits(bias, fold.lanes)
    assert found is not None and fold.bias_tap is not None, "the bias was seen to fit"
    lanes = np.zeros((weights.shape[0], fold.lanes, *weights.shape[2:]), np.int8)
    index: tuple[int | slice, ...] = (slice(None), slice(None), *fold.bias_tap)
    lanes[index] = found
    return np.concatenate([weights, lanes], axis=1)
