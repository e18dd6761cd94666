"""Functions of one int8 value as sums of clamped lines.

::

    sum_k clip(w_k x - a_k, 0, h_k)

w_k is int8, a_k and h_k are whole numbers (the bounds change places where w_k < 0). A line begins
between the last integer of the line before it and the next integer. All 256 values of x are known,
so the largest distance from the function is found by evaluating them.

The integers are divided from left to right into segments, each as long as some line with a whole
slope stays within a tolerance of all its values (as in O'Rourke, "An on-line algorithm for fitting
straight lines between data ranges"). Only integers count, so that neighbouring lines need not meet:
between two integers each of the two may still grow by its slope.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from vtac.passes.approximation.integers import STORED, Array

MOST_PIECES = 10
"""The most lines of one function."""

FEW_PIECES = 8
"""The most lines of one function for less than half a step."""

TOLERANCES = (0.25, 0.375, 0.5, 0.75, 1.0, 1.5)
"""How far lines may lie from the function, in steps of the result: the first that suffices."""

STEEPEST = 127
"""The largest weight of a line."""

SLOPES = np.arange(-STEEPEST, STEEPEST + 1)
"""All weights of lines."""


@dataclass(frozen=True)
class Piece:
    """A clamped line: ``slope * x - start`` between 0 and ``height``, which may be negative."""

    slope: int
    start: int
    height: int

    @property
    def bounds(self) -> tuple[int, int]:
        """The bounds between which the line is clamped, the lower one first."""
        return min(0, self.height), max(0, self.height)

    def at(self, stored: Array) -> Array:
        """What the line adds to the sum."""
        return cast(Array, np.clip(self.slope * stored - self.start, *self.bounds))


@dataclass(frozen=True)
class Lines:
    """A sum of lines and a constant, ``base``."""

    base: int
    pieces: Sequence[Piece]

    def at(self, stored: Array) -> Array:
        """The sum."""
        return cast(Array, sum((piece.at(stored) for piece in self.pieces), start=self.base + 0.0))


@dataclass(frozen=True)
class _Segment:
    """Integers ``first`` to ``last`` whose values lie near ``slope * x + offset``.

    least, most: between which offsets they do, and the line can follow the segment before.
    """

    slope: int
    least: int
    most: int
    first: int
    last: int

    def growth(self, behind: "_Segment") -> tuple[int, int]:
        """Between what both lines can grow together from its last integer to the next one."""
        slopes = self.slope, behind.slope
        return sum(min(0, w) for w in slopes), sum(max(0, w) for w in slopes)


def fewest_lines(wanted: Array, step: float) -> Lines | None:
    """The lines of the finest tolerance that needs few enough of them."""
    for tolerance in TOLERANCES:
        both = (fitted(wanted, tolerance * step), _turned(fitted(wanted[::-1], tolerance * step)))
        lines = min(filter(None, both), key=lambda each: len(each.pieces), default=None)
        most = FEW_PIECES if tolerance < 0.5 else MOST_PIECES
        if lines is not None and len(lines.pieces) <= most:
            return lines
    return None


def _turned(lines: Lines | None) -> Lines | None:
    """The lines for ``f(x)`` from those for ``f(-1 - x)``, which were fitted from the right."""
    if lines is None:
        return None
    turned = [
        Piece(-piece.slope, piece.start + piece.slope, piece.height) for piece in lines.pieces
    ]
    return Lines(lines.base, turned)


def fitted(wanted: Array, tolerance: float) -> Lines | None:
    """Lines with whole slopes, each for as many integers as the tolerance allows.

    wanted: float64 [256], of each stored integer. None where no slope leads on. Lines of height
    0 add nothing and are left out, but for the only one.
    """
    rest = wanted - SLOPES[:, None] * STORED
    segments: list[_Segment] = []
    first = 0
    while first < len(wanted):
        # Between which offsets a line of each slope is near all integers up to each one.
        least = np.maximum.accumulate(rest[:, first:], axis=1) - tolerance
        most = np.minimum.accumulate(rest[:, first:], axis=1) + tolerance
        if segments:
            low, high = _joining(segments[-1])
            least, most = np.maximum(least, low[:, None]), np.minimum(most, high[:, None])
        least, most = np.ceil(least), np.floor(most)
        lengths = (least <= most).sum(axis=1)  # the ranges only shrink
        length = int(lengths.max())
        if length == 0:
            return None
        longest = np.flatnonzero(lengths == length)
        widest = longest[(most - least)[longest, length - 1].argmax()]
        ends = int(least[widest, length - 1]), int(most[widest, length - 1])
        segments.append(_Segment(int(SLOPES[widest]), *ends, first - 128, first + length - 129))
        first += length
    return _lines_of(segments, _offsets(segments))


def _joining(before: _Segment) -> tuple[Array, Array]:
    """The least and the largest offset with which a line of each slope can follow a segment."""
    level, place = before.slope * before.last, before.last + 1
    low = before.least + level + min(0, before.slope) + np.minimum(SLOPES, 0)
    high = before.most + level + max(0, before.slope) + np.maximum(SLOPES, 0)
    return low - SLOPES * place, high - SLOPES * place


def _offsets(segments: Sequence[_Segment]) -> list[int]:
    """An offset for each segment, near the middle of its range, so that each can follow."""
    offsets: list[int] = []
    for number in reversed(range(len(segments))):
        segment = segments[number]
        least, most = segment.least, segment.most
        if offsets:
            behind = segments[number + 1]
            low, high = segment.growth(behind)
            rest = behind.slope * behind.first + offsets[-1] - segment.slope * segment.last
            least, most = max(least, rest - high), min(most, rest - low)
        middle = (segment.least + segment.most) // 2
        offsets.append(min(max(middle, least), most))
    return offsets[::-1]


def _lines_of(segments: Sequence[_Segment], offsets: Sequence[int]) -> Lines:
    """One clamped line for each segment; the sum takes the values of all segments."""
    base = level = segments[0].slope * segments[0].first + offsets[0]
    pieces: list[Piece] = []
    for number, (segment, offset) in enumerate(zip(segments, offsets, strict=True)):
        start = level - offset
        height = segment.slope * segment.last - start
        if number + 1 < len(segments):
            # As much as possible of the growth up to the next segment is this line's.
            behind = segments[number + 1]
            grown = behind.slope * behind.first + offsets[number + 1] - (level + height)
            height += min(max(grown, min(0, segment.slope)), max(0, segment.slope))
        level += height
        pieces.append(Piece(segment.slope, start, height))
    return Lines(base, [piece for piece in pieces if piece.height] or pieces[:1])
