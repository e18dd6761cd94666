"""Sliding windows over tensors in which neighbouring pixels share the lanes of one element.

Where channels fill 1/f of an element, the pixels f * j - shift .. f * j - shift + f - 1 of a row
can share element j: pixel number p has the lanes p * channels .. (p + 1) * channels - 1. This is
space to depth along one dimension; its inverse is described by Shi et al., "Real-time single image
and video super-resolution using an efficient sub-pixel convolutional neural network" (2016).
A convolution between folded tensors is again a convolution, over elements instead of pixels: it has
another stride and other taps, and each weight tile is a band matrix along the pixels of the two
elements that meet. This module says which elements meet, and makes the weights.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np

from vtac.dialects.context import Array


@dataclass(frozen=True)
class PixelFold:
    """How many neighbouring pixels an element has, and how many places precede the first pixel."""

    pixels: int = 1
    shift: int = 0

    def elements(self, size: int) -> int:
        """How many elements a row of ``size`` pixels takes."""
        return -(-(size + self.shift) // self.pixels)

    def has_spare(self, size: int) -> bool:
        """Whether some lanes hold no pixel; what they hold is undefined."""
        return self.shift > 0 or size % self.pixels > 0


NOT_FOLDED = PixelFold()
"""Each pixel has an element of its own."""


@dataclass(frozen=True)
class Slide:
    """A window that slides over pixels: result q meets pixels stride * q + dilation * tap + offset.

    size: pixels that are read. count: results. taps: the extent of the window.
    """

    size: int
    count: int
    taps: int
    stride: int
    dilation: int
    offset: int

    @property
    def stays_inside(self) -> bool:
        """Whether no tap of any result leaves the pixels."""
        last = self.stride * (self.count - 1) + self.dilation * (self.taps - 1) + self.offset
        return self.offset >= 0 and last < self.size


@dataclass(frozen=True)
class FoldedSlide:
    """A window that slides over elements between two folds. Raises `ValueError` if there is none.

    Element j of the result and its phase r meet the elements stride * j + tap + skew * r + offset.
    There are phases only where the result is not folded but its neighbours meet different lanes:
    then result q is phase q % phases of element q // phases.
    """

    slide: Slide
    source: PixelFold
    result: PixelFold

    def __post_init__(self) -> None:
        """Check that all elements meet the same lanes, and that nothing reads spare ones."""
        s, source = self.slide, self.source
        if s.stride * self.step % source.pixels:
            raise ValueError("neighbouring elements of the result meet different lanes")
        if s.count % self.phases:
            raise ValueError("the phases do not divide the extent of the result")
        if source.has_spare(s.size) and not s.stays_inside:
            raise ValueError("spare lanes would be read in place of pixels outside")

    @property
    def step(self) -> int:
        """Pixels of the result from one element, or from one group of phases, to the next."""
        if self.result.pixels > 1:
            return self.result.pixels
        return self.source.pixels // gcd(self.source.pixels, self.slide.stride)

    @property
    def phases(self) -> int:
        """The extent of the axis of phases."""
        return 1 if self.result.pixels > 1 else self.step

    @property
    def stride(self) -> int:
        """Elements of the source from one element of the result to the next."""
        return self.slide.stride * self.step // self.source.pixels

    @property
    def elements(self) -> int:
        """The extent of the result's elements, each with all phases."""
        if self.result.pixels > 1:
            return self.result.elements(self.slide.count)
        return self.slide.count // self.phases

    @cached_property
    def _places(self) -> Array:
        """The place of the pixel that each result meets at each tap, [step, taps].

        Places are numbered through all elements: element n // pixels has place n.
        """
        s = self.slide
        results = np.arange(self.step)[:, None] - self.result.shift
        pixels = s.stride * results + s.dilation * np.arange(s.taps) + s.offset
        return np.asarray(pixels + self.source.shift)

    @cached_property
    def _reach(self) -> tuple[int, int, int]:
        """Skew, offset and taps. Of all skews, the one is taken that needs the fewest taps."""
        elements = self._places // self.source.pixels
        found = []
        for skew in range(self.slide.stride + 1 if self.phases > 1 else 1):
            relative = elements - skew * np.arange(self.step)[:, None] * (self.phases > 1)
            low, high = int(relative.min()), int(relative.max())
            found.append((high - low + 1, skew, low))
        taps, skew, offset = min(found)
        return skew, offset, taps

    @property
    def skew(self) -> int:
        """Elements of the source from one phase to the next."""
        return self._reach[0]

    @property
    def offset(self) -> int:
        """The element that the first tap of the first element of the result meets."""
        return self._reach[1]

    @property
    def taps(self) -> int:
        """The extent of the window over elements."""
        return self._reach[2]

    def products(self) -> int:
        """Pairs of an element of the result and a tap that lies inside the source."""
        starts = np.arange(self.elements)[:, None] * self.stride + self.offset
        phases = np.arange(self.phases) * self.skew
        places = (starts + phases)[:, :, None] + np.arange(self.taps)
        return int(((places >= 0) & (places < self.source.elements(self.slide.size))).sum())

    def weights(self, array: Array, dimension: int, lanes: tuple[int, int]) -> Array:
        """Weights [.., taps, .., o, k] as those of elements: [.., phases, taps, .., o, k].

        dimension: that of the taps. lanes: how many of o and of k a pixel has. There is no
        dimension of phases where there is one phase.
        """
        old = np.moveaxis(array, dimension, 0)
        new = np.zeros((self.phases, self.taps, *old.shape[1:]), array.dtype)
        skew, offset, _ = self._reach
        for row, column in np.ndindex(*self._places.shape):
            place = int(self._places[row, column])
            phase, pixel = (row, 0) if self.phases > 1 else (0, row)
            tap = place // self.source.pixels - offset - skew * phase
            count_o, count_k = (
                count if fold.pixels > 1 else size
                for fold, count, size in zip(
                    (self.result, self.source), lanes, array.shape[-2:], strict=True
                )
            )
            o, k = pixel * count_o, place % self.source.pixels * count_k
            kept = old[column, ..., :count_o, :count_k]
            new[phase, tap, ..., o : o + count_o, k : k + count_k] = kept
        stored = np.moveaxis(new, (0, 1), (dimension, dimension + 1))
        return np.ascontiguousarray(stored if self.phases > 1 else stored.squeeze(dimension))

    def vector(self, lanes: int) -> Callable[[Array], Array]:
        """A function that turns a vector [.., o] of unfolded results into that of folded ones.

        The vector is repeated for each pixel of an element, and into spare lanes. lanes: how many
        lanes of o a pixel has.
        """

        def change(array: Array) -> Array:
            places = np.arange(array.shape[-1])
            return np.ascontiguousarray(
                array[..., places % lanes if self.result.pixels > 1 else places]
            )

        return change


def folds_for(lanes: int, block: int) -> Sequence[PixelFold]:
    """The folds that are possible for a tensor whose pixels take ``lanes`` lanes of ``block``."""
    found = [NOT_FOLDED]
    pixels = 2
    while pixels * lanes <= block:
        found += [PixelFold(pixels, shift) for shift in range(pixels)]
        pixels *= 2
    return found
