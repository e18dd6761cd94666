"""Rectangles of tensors: the pieces into which a cluster's plan cuts what it computes.

A rectangle has a half-open range of indices for each dimension of the logical shape [N, C,
spatial...]. Three dimensions are cut, under these names: ``n``, batch entries; ``h``, the rows,
that is, the first spatial dimension; ``c``, channels. Cuts never divide an element of the packed
layout: they lie at multiples of BATCH entries and of BLOCK channels.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue

from vtac.dialects.graph.attributes import packing
from vtac.dialects.graph.network import shape_of

Rectangle: TypeAlias = tuple[tuple[int, int], ...]
"""For each dimension its first index and the index behind its last one."""

DIMENSIONS: Mapping[str, int] = {"n": 0, "h": 2, "c": 1}
"""The dimensions that are cut, by name; those that are cut first come first."""


def whole(value: SSAValue) -> Rectangle:
    """The rectangle of a whole tensor."""
    return tuple((0, extent) for extent in shape_of(value) or ())


def extents(rectangle: Rectangle) -> tuple[int, ...]:
    """The shape of a rectangle."""
    return tuple(end - start for start, end in rectangle)


def volume(rectangle: Rectangle) -> int:
    """The number of elements of a rectangle."""
    return prod(extents(rectangle))


def meet(one: Rectangle, other: Rectangle) -> Rectangle | None:
    """The common part of two rectangles of one tensor; None if they have none."""
    common = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))
    return common if all(start < end for start, end in common) else None


def hull(one: Rectangle | None, other: Rectangle) -> Rectangle:
    """The smallest rectangle that contains both."""
    if one is None:
        return other
    return tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(one, other, strict=True))


def contains(outer: Rectangle, inner: Rectangle) -> bool:
    """Whether ``outer`` contains ``inner``."""
    return all(a <= c and d <= b for (a, b), (c, d) in zip(outer, inner, strict=True))


def relative(inner: Rectangle, outer: Rectangle) -> Rectangle:
    """The indices of a rectangle counted from the first element of another."""
    return tuple(
        (start - origin, end - origin)
        for (start, end), (origin, _) in zip(inner, outer, strict=True)
    )


def unit_of(value: SSAValue, dimension: int) -> int:
    """How many indices of a dimension one element of the packed layout holds."""
    layout = packing(value.type)
    if layout is None or dimension > 1:
        return 1
    return (layout.batch, layout.block)[dimension].data


def units_of(value: SSAValue, name: str, region: Rectangle | None = None) -> int:
    """Into how many pieces a dimension of `DIMENSIONS` can be cut; 1 if there is none.

    region: what is cut, the whole tensor if it is not given.
    """
    region, dimension = whole(value) if region is None else region, DIMENSIONS[name]
    if dimension >= len(region):
        return 1
    start, end = region[dimension]
    return -(-(end - start) // unit_of(value, dimension))


def even_ranges(extent: int, factor: int, unit: int = 1) -> list[tuple[int, int]]:
    """``factor`` ranges that cover 0 to ``extent``, whose numbers of units differ by at most one.

    Range i begins at unit ``i * units // factor``. So the cuts by a divisor of a factor are among
    the cuts by that factor. There are fewer ranges if there are not as many units.
    """
    units = -(-extent // unit)
    factor = min(factor, units)
    cuts = [i * units // factor * unit for i in range(factor)]
    return list(zip(cuts, [*cuts[1:], extent], strict=True))


def pieces_of(
    value: SSAValue, factors: Mapping[str, int], region: Rectangle | None = None
) -> list[Rectangle]:
    """The pieces of a tensor in row-major order, [n, c, h]; they cover it exactly once.

    factors: the number of pieces of dimensions by name, 1 for any other. region: what is cut, the
    whole tensor if it is not given; it begins at whole elements of the layout.
    """
    region = whole(value) if region is None else region
    ranges = [[r] for r in region]
    for name, dimension in DIMENSIONS.items():
        if dimension < len(region):
            (start, end), unit = region[dimension], unit_of(value, dimension)
            cuts = even_ranges(end - start, factors.get(name, 1), unit)
            ranges[dimension] = [(start + low, start + high) for low, high in cuts]
    return list(product(*ranges))


def is_aligned(value: SSAValue, starts: Sequence[int], ends: Sequence[int]) -> bool:
    """Whether a rectangle of a tensor cuts no element of the packed layout."""
    shape = shape_of(value) or ()
    units = [unit_of(value, i) for i in range(len(shape))]
    return all(
        start % unit == 0 and (end % unit == 0 or end == extent)
        for start, end, extent, unit in zip(starts, ends, shape, units, strict=True)
    )


def bytes_in(value: SSAValue, rectangle: Rectangle) -> int:
    """Bytes in memory of a rectangle of an int8 tensor, spare lanes included."""
    layout, shape = packing(value.type), extents(rectangle)
    return prod(shape if layout is None else layout.physical_shape(shape))


def type_of_piece(value: SSAValue, rectangle: Rectangle) -> TensorType[Attribute]:
    """The type of a rectangle of a tensor: element type and layout stay."""
    type = value.type
    assert isinstance(type, TensorType)
    return TensorType(type.element_type, extents(rectangle), type.encoding)
