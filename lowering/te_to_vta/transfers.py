"""Copies of boxes between DRAM and a scratchpad, as few LOADs or STOREs.

A transfer moves rows that lie anywhere in DRAM at a fixed distance, and one after the other in the
scratchpad. A box of elements therefore becomes one transfer where its dimensions merge into two,
and a loop of transfers otherwise. How many depends on the order in which the scratchpad holds the
dimensions. A convolution of stride 2 with one tap reads every second column of every second row:
held by rows, each row of each block of channels is a transfer; held by columns, a column of all
blocks is one, if the number of rows is even.
"""

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from math import prod
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

    def order(self, box: Box) -> tuple[int, ...] | None:
        """The order of dimensions in a scratchpad for which a box takes the fewest transfers.

        None where it is their own order.
        """
        if self._packed is not None:
            return None
        return _order(tuple([length for _, length in box]), tuple(self._by))

    def of(
        self, box: Box, window: Box, order: tuple[int, ...] | None = None
    ) -> tuple[int, list[Rectangle]]:
        """The element at which a box begins in DRAM, and transfers that count from there.

        window: what the scratchpad's buffer holds; it contains the box. order: of its dimensions,
        as of `Sram`. Raises `KeyError` for a box that is none of those that the tensor is stored
        as.
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
        key = (extents, order) if box is window else (extents, order, box, window)
        if key not in self._found:
            self._found[key] = self._parts(extents, box, window, order)
        return place, self._found[key]

    def _parts(
        self, extents: tuple[int, ...], box: Box, window: Box, order: tuple[int, ...] | None
    ) -> list[Rectangle]:
        in_dram = self._by if self._packed is None else row_major(extents)
        dims = list(zip(box, window, in_dram, strict=True))
        if order is not None:
            dims = [dims[dim] for dim in order]
        in_sram = row_major(tuple([length for _, (_, length), _ in dims]))
        counts = tuple([length for (_, length), _, _ in dims])
        parts = _from_origin(counts, tuple([by for *_, by in dims]), in_sram, self._largest)
        sram = sum(
            (start - first) * by
            for ((start, _), (first, _), _), by in zip(dims, in_sram, strict=True)
        )
        return [part._replace(sram=part.sram + sram) for part in parts]


@functools.lru_cache(maxsize=1 << 12)
def _from_origin(
    extents: tuple[int, ...], in_dram: tuple[int, ...], in_sram: tuple[int, ...], largest: int
) -> list[Rectangle]:
    """The transfers of a box that begins at element 0 on both sides: all others are like these."""
    dims = _merge([_Dim(*dim) for dim in zip(extents, in_sram, in_dram, strict=True) if dim[0] > 1])
    return list(_cover(dims, 0, 0, largest))


@functools.lru_cache(maxsize=1 << 12)
def _order(extents: tuple[int, ...], in_dram: tuple[int, ...]) -> tuple[int, ...] | None:
    """See `Transfers.order`.

    A transfer moves a row and repeats it at one distance: along a dimension, and along those
    outside it that go on at the same distance. The longest of these runs becomes the innermost.
    """
    moving = [dim for dim, extent in enumerate(extents) if extent > 1]
    row = 1
    while moving and in_dram[moving[-1]] == row:
        row *= extents[moving.pop()]
    runs = [_run(moving[: place + 1], extents, in_dram) for place in range(len(moving))]
    runs = [run for run in runs if in_dram[run[-1]] <= FIELD]
    # The tensor's own order stays among equals: products have fewer micro-ops in it.
    longest = max(reversed(runs), key=lambda run: prod([extents[dim] for dim in run]), default=[])
    if not longest or longest[-1] == moving[-1]:
        return None
    inner = [*longest, *range(moving[-1] + 1, len(extents))]
    return tuple([dim for dim in range(len(extents)) if dim not in inner] + inner)


def _run(dims: Sequence[int], extents: Sequence[int], in_dram: Sequence[int]) -> list[int]:
    """The last of some dimensions, and those outside it that go on at the same distance."""
    run = [dims[-1]]
    for dim in reversed(dims[:-1]):
        if in_dram[dim] != extents[run[0]] * in_dram[run[0]]:
            break
        run.insert(0, dim)
    return run


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
