"""One tiling of a kernel: its tiles, the order of their loops, and where operands are loaded."""

from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from vtac.passes.te.schedule.structure import ScheduledStage

_Item = TypeVar("_Item")


def even(extent: int, size: int) -> tuple[int, ...]:
    """Tiles of one size; the last is what is left."""
    full, rest = divmod(extent, size)
    return (size,) * full + ((rest,) if rest else ())


def tile_sizes(extent: int, most: int) -> list[int]:
    """Sizes of equal tiles (the last perhaps shorter), largest first, at most ``most`` of them."""
    sizes = sorted({-(-extent // parts) for parts in range(1, extent + 1)}, reverse=True)
    return spaced(sizes, most)


def spaced(items: Sequence[_Item], most: int) -> list[_Item]:
    """At most ``most`` of the items, evenly spaced, with the first and the last (``most`` > 1)."""
    if len(items) <= most:
        return list(items)
    picked = np.linspace(0, len(items) - 1, most).round().astype(int)
    return [items[index] for index in dict.fromkeys(picked.tolist())]


@dataclass(frozen=True)
class Reduction:
    """How a product accumulates in one tile.

    cuts: tiles of each reduction axis that is a loop (the lane is none), in their order.
    whole: for the operands (activations, weights): loaded for the whole reduction at once, rather
        than one part per reduction tile.
    windows: activations are loaded anew also for taps that only move their window.
    order: the axes, those whose loops are outermost first; none: as they are declared.
    """

    cuts: Sequence[tuple[int, ...]]
    whole: tuple[bool, bool]
    windows: bool = False
    order: Sequence[int] = ()

    @property
    def key(self) -> Hashable:
        """Equal for reductions whose loops and loads are equal."""
        return (*self.cuts, self.whole, self.windows, tuple(self.loops))

    @property
    def loops(self) -> list[int]:
        """The axes that are cut, in the order of their loops."""
        axes = self.order or range(len(self.cuts))
        return [axis for axis in axes if len(self.cuts[axis]) > 1]

    def around(self, stage: ScheduledStage, operand: int) -> int:
        """How many of these loops are around the load of an operand."""
        is_weights = operand == stage.weights
        if self.whole[is_weights]:
            return 0
        moving = stage.taps_of(operand, is_weights or self.windows)
        return max((i + 1 for i, axis in enumerate(self.loops) if axis in moving), default=0)


@dataclass(frozen=True)
class Tiling:
    """The loops and buffers of one schedule.

    tiles: of each axis of the root before its lanes, in their order.
    order: those axes, outermost tile loop first.
    products: how each product accumulates, by number of the stage.
    slots: of the buffers for activations, weights and accumulators.
    piece: an axis and a size: in these pieces of a tile the last operations and the store follow
        each other, so that the store of one runs beside the operations on the next.
    kept: operands of operations, by numbers of stage and operand, that are loaded before all loops,
        and wholly, although loops move them.
    """

    tiles: Sequence[tuple[int, ...]]
    order: Sequence[int]
    products: dict[int, Reduction]
    slots: tuple[int, int, int]
    piece: tuple[int, int] | None = None
    kept: Set[tuple[int, int]] = frozenset()

    @property
    def cut(self) -> list[int]:
        """The axes that have a tile loop, outermost first."""
        return [axis for axis in self.order if len(self.tiles[axis]) > 1]

    @property
    def loops(self) -> Hashable:
        """What its loops are: axes in one tile have none, so their place does not matter."""
        products = tuple([part.key for part in self.products.values()])
        return tuple(self.cut), tuple(self.tiles), products, self.kept

    @property
    def key(self) -> Hashable:
        """Equal for tilings whose programs are equal."""
        return self.loops, self.slots, self.piece
