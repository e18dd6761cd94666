"""Loads with pads: the border of a window is written as zeros by the LOAD that brings its inside.

A LOAD pads two dimensions of what it brings, rows and the elements of a row. So at most the row's
dimension and the next one outside it that moves may have a border; every other dimension is a loop
of LOADs. Each LOAD brings at least one element: a window that lies wholly in the border cannot be
filled.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vtac.dialects.te import Padded

from .transfers import FIELD, Rectangle, row_major

LONGEST_PAD = (1 << 4) - 1
"""Largest pad of a LOAD."""


class PaddingError(ValueError):
    """A window whose border the hardware cannot write."""


@dataclass(frozen=True, slots=True)
class _Dim:
    """A dimension of a window: elements of the tensor, its border, distances on both sides."""

    extent: int
    before: int
    after: int
    sram: int
    dram: int

    @property
    def is_padded(self) -> bool:
        return self.before + self.after > 0

    @property
    def held(self) -> int:
        return self.before + self.extent + self.after


_SINGLE = _Dim(1, 0, 0, 1, 1)


def padded_rectangles(
    parts: Sequence[Padded], strides: Sequence[int], largest: int
) -> list[Rectangle]:
    """The transfers that fill a window, border and all.

    parts: for each dimension, what of the tensor the window holds, and its border. strides: how far
    apart neighbours of the tensor are in DRAM along each dimension. Both in elements, lanes left
    out. largest: elements that one transfer may write.
    Raises `PaddingError`.
    """
    if any(part.before + part.length + part.after == 0 for part in parts):
        return []
    if any(part.length == 0 for part in parts):
        raise PaddingError(f"the tile {_text(parts)} lies wholly in the padding; no LOAD fills it")
    if max(max(part.before, part.after) for part in parts) > LONGEST_PAD:
        raise PaddingError(f"the pads of {_text(parts)} are longer than {LONGEST_PAD}")
    in_sram = row_major(tuple(part.before + part.length + part.after for part in parts))
    first = sum(part.start * by for part, by in zip(parts, strides, strict=True))
    dims = [
        _Dim(part.length, part.before, part.after, sram, dram)
        for part, sram, dram in zip(parts, in_sram, strides, strict=True)
        if part.before + part.length + part.after > 1
    ]
    return list(_cover(_merge(dims), first, largest))


def _text(parts: Sequence[Padded]) -> str:
    return ", ".join(f"{part.before} + {part.length} + {part.after}" for part in parts)


def _merge(dims: Sequence[_Dim]) -> list[_Dim]:
    """Join neighbouring dimensions without border that are one run on both sides."""
    merged: list[_Dim] = []
    for dim in dims:
        last = merged[-1] if merged else None
        if (
            last is not None
            and not last.is_padded
            and not dim.is_padded
            and (last.sram, last.dram) == (dim.extent * dim.sram, dim.extent * dim.dram)
        ):
            merged[-1] = _Dim(last.extent * dim.extent, 0, 0, dim.sram, dim.dram)
        else:
            merged.append(dim)
    return merged


def _cover(dims: list[_Dim], first: int, largest: int) -> Iterator[Rectangle]:
    row = dims.pop() if dims and dims[-1].sram == dims[-1].dram == 1 else _SINGLE
    column = _SINGLE
    if dims and dims[-1].sram == row.held and dims[-1].dram <= FIELD:
        column = dims.pop()
    if any(dim.is_padded for dim in dims):
        raise PaddingError("more than two dimensions, or dimensions apart, have pads")
    if row.held > min(largest, FIELD):
        raise PaddingError(f"a row of {row.held} elements is longer than a LOAD with pads takes")
    for place in itertools.product(*(range(dim.extent) for dim in dims)):
        yield from _rows(
            sum(i * dim.sram for i, dim in zip(place, dims, strict=True)),
            first + sum(i * dim.dram for i, dim in zip(place, dims, strict=True)),
            row,
            column,
            max(1, largest // row.held),
        )


def _rows(sram: int, dram: int, row: _Dim, column: _Dim, most: int) -> Iterator[Rectangle]:
    """One transfer, or several of at most that many rows, the pads at their ends counted."""
    done, above = 0, column.before
    while done < column.extent:
        rows = min(column.extent - done, max(1, most - above))
        last = done + rows == column.extent
        below = column.after if last else 0
        if last and above + rows + below > most and rows > 1:
            rows, below = rows - 1, 0
        stride = column.dram if rows > 1 else row.extent
        pads = (above, below, row.before, row.after)
        yield Rectangle(sram, dram + done * column.dram, rows, row.extent, stride, pads)
        sram += (above + rows + below) * row.held
        done, above = done + rows, 0
