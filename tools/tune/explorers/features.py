"""Points as vectors of numbers, for networks and regressions."""

import math

import numpy as np
from numpy.typing import NDArray

from vtac.dialects.te import Knob, KnobKind, Knobs, Point, Value

Vector = NDArray[np.float64]


class Features:
    """The vector of a point.

    An ordered knob has one entry, between 0 and 1, that grows with the logarithm of its value (or
    with its place, if the values are no positive numbers); a permutation the place of each of its
    entries; a choice one entry for each value, 1 for the value that it has. parts: the entries of
    each knob.
    """

    def __init__(self, knobs: Knobs) -> None:
        self.knobs = knobs
        self.parts: dict[str, slice] = {}
        self._scales: dict[str, dict[Value, tuple[float, ...]]] = {}
        start = 0
        for name, knob in knobs.knobs.items():
            length = self._length(knob)
            self.parts[name] = slice(start, start + length)
            start += length
        self.length = start

    def __call__(self, point: Point) -> Vector:
        """The vector of a point, [length]."""
        return np.array(
            [
                entry
                for name, knob in self.knobs.knobs.items()
                for entry in self._entries(knob, self.knobs.value(point, name))
            ]
        )

    @staticmethod
    def _length(knob: Knob) -> int:
        if knob.kind is KnobKind.ORDERED:
            return 1
        if knob.kind is KnobKind.PERMUTATION:
            assert isinstance(knob.default, tuple)
            return len(knob.default)
        return len(knob.values)

    def _entries(self, knob: Knob, value: Value) -> tuple[float, ...]:
        if knob.kind is KnobKind.PERMUTATION:
            assert isinstance(value, tuple) and isinstance(knob.default, tuple)
            places = [str(entry) for entry in value]
            last = max(len(places) - 1, 1)
            return tuple(places.index(str(entry)) / last for entry in knob.default)
        known = self._scales.get(knob.name)
        if known is None:
            known = self._scales[knob.name] = dict(_scale(knob))
        return known[value]


def _scale(knob: Knob) -> list[tuple[Value, tuple[float, ...]]]:
    """The entries of each value of a knob."""
    count = len(knob.values)
    if knob.kind is KnobKind.CHOICE:
        return [(v, tuple(float(i == j) for j in range(count))) for i, v in enumerate(knob.values)]
    numbers = [v for v in knob.values if isinstance(v, int) and not isinstance(v, bool) and v > 0]
    heights = [math.log(v) for v in numbers] if len(numbers) == count else list(range(count))
    low, high = min(heights), max(heights)
    return [
        (value, ((height - low) / ((high - low) or 1),))
        for value, height in zip(knob.values, heights, strict=True)
    ]
