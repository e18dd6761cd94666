"""Which points of an invocation's iteration space really happen.

A kernel tap that falls outside its tensor is left out. For fixed values of the reduction axes, the
points that remain form a box over the other axes; taps with the same box are kept together, so that
each group becomes one instruction. Padding is then neither loaded nor multiplied.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TapLoop:
    """One loop of an invocation: how many iterations, and whether it is a reduction."""

    count: int
    is_reduce: bool


@dataclass(frozen=True, slots=True)
class ElementDimension:
    """One dimension of an operand's element, in coordinates of its buffer's window.

    At iteration (t_0, t_1, ...) it is ``base + sum steps[a] * t_a``. The buffer holds [0, length),
    the tensor [low, high).
    """

    base: int
    steps: tuple[int, ...]
    length: int
    low: int
    high: int

    def reach(self, box: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Smallest and largest value over a box of (first, last) an axis."""
        low = high = self.base
        for step, (first, last) in zip(self.steps, box, strict=True):
            if step > 0:
                low, high = low + step * first, high + step * last
            elif step < 0:
                low, high = low + step * last, high + step * first
        return low, high


@dataclass(frozen=True, slots=True)
class BoxedTaps:
    """Taps that share a box.

    box: (first, last) of each axis; for the axes of `enumerated` it is their whole range.
    taps: values of the axes in `enumerated`, one tuple a tap.
    """

    box: tuple[tuple[int, int], ...]
    enumerated: tuple[int, ...]
    taps: tuple[tuple[int, ...], ...]


def group_taps(axes: Sequence[TapLoop], places: Sequence[ElementDimension]) -> list[BoxedTaps]:
    """The points at which every place lies inside its tensor, as few groups of boxes."""
    whole = tuple((0, axis.count - 1) for axis in axes)
    leaving = [place for place in places if _leaves(place, whole)]
    if not leaving:
        return [BoxedTaps(whole, (), ((),))]
    enumerated = _to_enumerate(axes, leaving)
    taps: dict[tuple[tuple[int, int], ...], list[tuple[int, ...]]] = {}
    for tap in itertools.product(*(range(axes[axis].count) for axis in enumerated)):
        box = list(whole)
        for axis, value in zip(enumerated, tap, strict=True):
            box[axis] = (value, value)
        if all(_clip(box, place) for place in leaving):
            for axis in enumerated:
                box[axis] = whole[axis]
            taps.setdefault(tuple(box), []).append(tap)
    return [BoxedTaps(box, enumerated, tuple(found)) for box, found in taps.items()]


def _leaves(place: ElementDimension, box: Sequence[tuple[int, int]]) -> bool:
    low, high = place.reach(box)
    return low < place.low or high >= place.high


def _to_enumerate(axes: Sequence[TapLoop], leaving: Sequence[ElementDimension]) -> tuple[int, ...]:
    """Axes to fix, so that every place that can leave depends on one other axis at most."""
    chosen: set[int] = set()
    for place in leaving:
        moving = [a for a, step in enumerate(place.steps) if step and axes[a].count > 1]
        chosen |= {axis for axis in moving if axes[axis].is_reduce}
    for place in leaving:
        free = [
            axis
            for axis, step in enumerate(place.steps)
            if step and axes[axis].count > 1 and axis not in chosen
        ]
        chosen |= set(sorted(free, key=lambda axis: axes[axis].count)[:-1])
    return tuple(sorted(chosen))


def _clip(box: list[tuple[int, int]], place: ElementDimension) -> bool:
    """Shrink the one axis that is not fixed until the place stays inside its tensor.

    Returns whether anything is left of the box.
    """
    free, at = None, place.base
    for axis, step in enumerate(place.steps):
        first, last = box[axis]
        if step and first < last:
            free = axis
        else:
            at += step * first
    if free is None:
        return place.low <= at < place.high
    first, last = box[free]
    step = place.steps[free]
    low, high = place.low - at, place.high - 1 - at
    if step < 0:
        step, low, high = -step, -high, -low
    box[free] = first, last = max(first, -(-low // step)), min(last, high // step)
    return first <= last
