"""Copies of boxes between DRAM and a scratchpad, as few LOADs or STOREs.

A transfer moves rows that lie anywhere in DRAM at a fixed distance, and one after the other in the
scratchpad. A box of elements therefore becomes one transfer where its dimensions merge into two,
and a loop of transfers otherwise.
"""

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from vtac.dialects import te

from .lattice import ElementLine, Lattice

Box: TypeAlias = tuple[tuple[int, int], ...]
"""(start, length) of each dimension, lanes left out."""

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


class Transfers:
    """The transfers of boxes of one tensor in DRAM. All are counted in elements, lanes left out.

    strides: how far apart neighbours of the tensor are in DRAM along each dimension; its element 0
    is at element 0. largest: elements that one transfer may move. lattice: in whose coordinates
    boxes are, if not in the tensor's. packed: where the tensor is stored box by box instead, the
    boxes and the elements at which they begin.
    """

    def __init__(
        self,
        strides: Sequence[int],
        largest: int,
        lattice: Lattice | None = None,
        packed: Mapping[Box, int] | None = None,
    ):
        self._strides, self._largest, self._packed = tuple(strides), largest, packed
        self._lines = (ElementLine(),) * len(strides) if lattice is None else lattice
        self._first = sum(line.first * by for line, by in zip(self._lines, strides, strict=True))
        self._by = [line.step * by for line, by in zip(self._lines, strides, strict=True)]
        self._found: dict[object, list[Rectangle]] = {}

    def of(self, box: Box, window: Box) -> tuple[int, list[Rectangle]]:
        """The element at which a box begins in DRAM, and transfers that count from there.

        window: what the scratchpad's buffer holds; it contains the box. Raises `KeyError` for a box
        that is none of those that the tensor is stored as.
        """
        extents = tuple([length for _, length in box])
        if 0 in extents:
            return 0, []
        if self._packed is not None:
            place = self._packed[box]
        else:
            place = self._first
            for (start, _), by in zip(box, self._by, strict=True):
                place += start * by
        key = extents if box is window else (extents, box, window)
        if key not in self._found:
            self._found[key] = self._parts(extents, box, window)
        return place, self._found[key]

    def _parts(self, extents: tuple[int, ...], box: Box, window: Box) -> list[Rectangle]:
        held = tuple([length for _, length in window])
        strides = self._strides if self._packed is None else row_major(extents)
        parts = _from_origin(extents, strides, held, self._largest, self._lines)
        sram = sum(
            (start - first) * by
            for (start, _), (first, _), by in zip(box, window, row_major(held), strict=True)
        )
        return [part._replace(sram=part.sram + sram) for part in parts]


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
