"""Many points of a schedule space, one column of values per knob, and what follows from them."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vtac.passes.te.schedule.footprint import Extents, Flags
from vtac.passes.te.schedule.space import Space
from vtac.passes.te.schedule.tilings import Tilings

Column = np.ndarray[Any, np.dtype[Any]]
"""Values of one knob. The columns of all knobs broadcast to one array with an entry per point."""


@dataclass(frozen=True)
class Reductions:
    """How the products of each tiling accumulate.

    taps: for each product, by number, the tiles of its reduction axes.
    whole: whether activations and weights are loaded for the whole reduction at once.
    windows: whether taps that only move a window of activations have a load each.
    turns, extents: what evaluations of the same tilings have worked out, whatever their order.
    """

    taps: Mapping[int, Sequence[Extents]]
    whole: tuple[Flags, Flags]
    windows: bool = False
    turns: dict[Hashable, Extents] = field(default_factory=dict)
    extents: dict[tuple[int, int], list[Extents]] = field(default_factory=dict)


class PointColumns:
    """Points whose products all load their operands in the same way.

    values: by the name of a knob; of ``order`` and the slots there are none. shape: of an array
    with an entry per point.
    """

    def __init__(self, space: Space, values: Mapping[str, Column]):
        self.values = values
        self.shape = np.broadcast_shapes(*(column.shape for column in values.values()))
        tiles = [values[f"tile.{axis}"] for axis in space.axes]
        self.tilings = Tilings(space.structure, tiles)
        taps = dict[int, list[Extents]]()
        whole: tuple[Flags, Flags] = self.tilings.one > 0, self.tilings.one > 0
        windows = False
        for stage in space.structure.products:
            label = stage.compute.label.data
            names = stage.compute.reduce.names[: len(stage.taps)]
            taps[stage.number] = [values[f"cut.{label}.{axis}"] for axis in names]
            whole = values[f"whole.{label}.activations"], values[f"whole.{label}.weights"]
            windows = bool(values[f"windows.{label}"].any())
        self.reductions = Reductions(taps, whole, windows)
