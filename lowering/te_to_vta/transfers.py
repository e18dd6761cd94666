"""Copies of boxes between DRAM and a scratchpad, as few LOADs or STOREs.

A transfer moves rows that lie anywhere in DRAM at a fixed distance, and one after the other in the
scratchpad. A box of elements therefore becomes one transfer where its dimensions merge into two,
and a loop of transfers otherwise.
"""

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vtac.dialects import te

from .lattice import Lattice, Line

FIELD = (1 << 16) - 1
"""Largest size or stride of a transfer."""


class Rectangle(NamedTuple):
    """One transfer, in elements: y rows of x, `stride` apart in DRAM, dense in the scratchpad.

    pads: rows of zeros above and below, elements left and right; `sram` is where they begin.
    """

    sram: int
    dram: int
    y: int
    x: int
    stride: int
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)


class _Dim(NamedTuple):
    """A dimension of a box: its extent, and how far apart its neighbours are on both sides."""

    extent: int
    sram: int
    dram: int


row_major = functools.lru_cache(maxsize=1 << 12)(te.row_major)
"""The distance of neighbours along each dimension of a dense array; shapes are tuples here."""


def rectangles(
    starts: Sequence[int],
    extents: Sequence[int],
    strides: Sequence[int],
    window: Sequence[tuple[int, int]],
    largest: int,
    lattice: Lattice | None = None,
) -> list[Rectangle]:
    """The transfers of the box `starts`, `extents` of a tensor.

    All are counted in elements, lanes left out. strides: how far apart neighbours of the tensor are
    in DRAM along each dimension; its element 0 is at `Rectangle.dram` 0. window: (start, length)
    for each dimension, the part of the tensor that the scratchpad's buffer holds, and that contains
    the box. largest: elements that one transfer may move. lattice: in whose coordinates box and
    window are, if not the tensor's.
    """
    if 0 in extents:
        return []
    lines = (Line(),) * len(strides) if lattice is None else lattice
    held = tuple([length for _, length in window])
    in_sram = row_major(held)
    dram = sum(
        (line.first + start * line.step) * by
        for start, by, line in zip(starts, strides, lines, strict=True)
    )
    sram = sum(
        (start - first) * by for start, (first, _), by in zip(starts, window, in_sram, strict=True)
    )
    parts = _from_origin(tuple(extents), tuple(strides), held, largest, lines)
    return [
        Rectangle(part.sram + sram, part.dram + dram, part.y, part.x, part.stride) for part in parts
    ]


@functools.lru_cache(maxsize=1 << 12)
def _from_origin(
    extents: tuple[int, ...],
    strides: tuple[int, ...],
    held: tuple[int, ...],
    largest: int,
    lines: Lattice,
) -> list[Rectangle]:
    """The transfers of a box that begins at element 0 on both sides: all others are like these."""
    in_sram = row_major(held)
    in_dram = [by * line.step for by, line in zip(strides, lines, strict=True)]
    dims = _merge([_Dim(*dim) for dim in zip(extents, in_sram, in_dram, strict=True) if dim[0] > 1])
    return list(_cover(dims, 0, 0, largest))


def box_rectangles(
    place: int,
    starts: Sequence[int],
    extents: Sequence[int],
    window: Sequence[tuple[int, int]],
    largest: int,
) -> list[Rectangle]:
    """The transfers of a box that lies in DRAM as one run, from element `place` on.

    The rest is as in `rectangles`.
    """
    held = [(first - start, length) for start, (first, length) in zip(starts, window, strict=True)]
    parts = rectangles([0] * len(starts), extents, row_major(tuple(extents)), held, largest)
    return [part._replace(dram=part.dram + place) for part in parts]


def _merge(dims: Sequence[_Dim]) -> list[_Dim]:
    """Join neighbouring dimensions that are one run on both sides."""
    merged: list[_Dim] = []
    for dim in dims:
        last = merged[-1] if merged else None
        if (
            last is not None
            and last.sram == dim.extent * dim.sram
            and last.dram == dim.extent * dim.dram
        ):
            merged[-1] = _Dim(last.extent * dim.extent, dim.sram, dim.dram)
        else:
            merged.append(dim)
    return merged


def _cover(dims: list[_Dim], sram: int, dram: int, largest: int) -> Iterator[Rectangle]:
    x = 1
    if dims and dims[-1].sram == dims[-1].dram == 1:
        x = dims[-1].extent
        dims = dims[:-1]
    y, stride = 1, x
    if dims and dims[-1].sram == x and dims[-1].dram <= FIELD and x <= min(largest, FIELD):
        y, stride = dims[-1].extent, dims[-1].dram
        dims = dims[:-1]
    for place in itertools.product(*(range(dim.extent) for dim in dims)):
        yield from _cut(
            Rectangle(
                sram + sum(i * dim.sram for i, dim in zip(place, dims, strict=True)),
                dram + sum(i * dim.dram for i, dim in zip(place, dims, strict=True)),
                y,
                x,
                stride,
            ),
            largest,
        )


def _cut(whole: Rectangle, largest: int) -> Iterator[Rectangle]:
    """Cut a rectangle into pieces that fit the fields and are not larger than allowed."""
    width = min(whole.x, largest, FIELD)
    rows = min(whole.y, max(1, largest // width), FIELD)
    for row in range(0, whole.y, rows):
        for column in range(0, whole.x, width):
            y, x = min(rows, whole.y - row), min(width, whole.x - column)
            yield Rectangle(
                whole.sram + row * whole.x + column,
                whole.dram + row * whole.stride + column,
                y,
                x,
                whole.stride if y > 1 else x,
            )
