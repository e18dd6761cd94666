"""Immediates that differ from element to element: one instruction for each run of equal ones.

An instruction has one immediate. Where an invocation takes its immediate from a table, its
iterations are cut into boxes in which the table says the same; neighbours that agree stay together.
This is how a shift that 16 channels share costs one cycle per element instead of two (docs/vta.md,
section 6), whatever the other channels shift by.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vtac.dialects import te

Table: TypeAlias = NDArray[Any]
"""One immediate an element."""


@dataclass(frozen=True, slots=True)
class Part:
    """A box of iterations, an entry per axis, with the immediate of its instructions."""

    start: tuple[int, ...]
    counts: tuple[int, ...]
    immediate: int | None


def parts_of(
    table: Table,
    rows: Sequence[tuple[int, Mapping[int, int]]],
    counts: Sequence[int],
    intrinsic: te.IntrinsicOp,
) -> list[Part]:
    """The boxes of equal immediates, in the order of the iterations.

    rows: for each dimension of the table the subscript at iteration 0, and its step per axis.
    counts: iterations of each axis. Raises `ValueError` for a value that is no immediate of the
    intrinsic, `IndexError` for a subscript outside the table.
    """
    moving = sorted({axis for _, steps in rows for axis, by in steps.items() if by})
    moving = [axis for axis in moving if counts[axis] > 1]
    grid = np.indices([counts[axis] for axis in moving], sparse=True)
    subscripts = [
        first + sum((steps.get(axis, 0) * at for axis, at in zip(moving, grid, strict=True)), 0)
        for first, steps in rows
    ]
    for subscript, size in zip(subscripts, table.shape, strict=True):
        if np.min(subscript) < 0 or np.max(subscript) >= size:
            raise IndexError(f"a table of {table.shape} immediates is read outside")
    values = np.broadcast_to(table[tuple(subscripts)], [counts[axis] for axis in moving])
    _check(values, intrinsic)
    if not moving:
        return [Part((0,) * len(counts), tuple(counts), int(values))]
    parts = []
    for place in itertools.product(*(range(counts[axis]) for axis in moving[:-1])):
        line = values[place]
        ends = [*(np.flatnonzero(np.diff(line)) + 1).tolist(), len(line)]
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            box = {axis: (at, 1) for axis, at in zip(moving[:-1], place, strict=True)}
            box[moving[-1]] = start, end - start
            firsts, lengths = zip(
                *(box.get(axis, (0, count)) for axis, count in enumerate(counts)), strict=True
            )
            parts.append(Part(firsts, lengths, int(line[start])))
    return parts


def _check(values: Table, intrinsic: te.IntrinsicOp) -> None:
    bounds = intrinsic.immediate_bounds
    assert bounds is not None
    for value in (int(np.min(values)), int(np.max(values))):
        if not bounds[0] <= value <= bounds[1]:
            raise ValueError(
                f"the immediate {value} of @{intrinsic.sym_name.data} is not within {bounds[0]} to"
                f" {bounds[1]}"
            )
