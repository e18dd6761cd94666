"""What the border of a tensor does to a product: taps that fall outside are left out.

The outputs for which a tap lies inside form a rectangle, and each rectangle is an instruction of
its own: less work, more instructions.
"""

from collections.abc import Iterator
from math import prod

import numpy as np

from vtac.dialects.te import Row, shaped
from vtac.passes.te.schedule.footprint import Flags
from vtac.passes.te.schedule.structure import LANES, Stage


def inside_share(stage: Stage) -> float:
    """The share of a product's points that lie inside."""
    return prod(float(np.mean(inside)) for _, inside in _bordered(stage))


def border_ranges(stage: Stage) -> Iterator[tuple[Row, int]]:
    """For each subscript that may leave its tensor: how many different ranges of outputs taps have.

    If the dimension is one tile, so many instructions share its taps.
    """
    for row, inside in _bordered(stage):
        ranges = np.unique(inside[:, inside.any(axis=0)], axis=1)
        yield row, max(ranges.shape[1], 1)


def _bordered(stage: Stage) -> Iterator[tuple[Row, Flags]]:
    """Subscripts that leave their tensor: for outputs (rows) and taps (columns), what is inside."""
    spatial = len(stage.compute.spatial)
    for read in stage.reads:
        if read.outside is None:
            continue
        shape = shaped(read.value).get_shape()
        for row, size in zip(read.rows[:-LANES], shape[:-LANES], strict=True):
            low, high = row.interval(stage.compute.extents)
            if low >= 0 and high < size:
                continue
            at = [np.zeros(1, np.int64), np.zeros(1, np.int64)]
            for variable, coefficient in row.terms:
                steps = coefficient * np.arange(stage.compute.extents[variable])
                side = variable >= spatial
                at[side] = np.add.outer(at[side], steps).ravel()
            index = np.add.outer(at[0], at[1]) + row.constant
            yield row, (index >= 0) & (index < size)
