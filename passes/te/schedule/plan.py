"""What the default rule decides for a kernel: tiles, their order, where operands are loaded."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from vtac.passes.te.schedule.structure import ScheduledStage


def even(extent: int, size: int) -> tuple[int, ...]:
    """Tiles of one size; the last is what is left."""
    full, rest = divmod(extent, size)
    return (size,) * full + ((rest,) if rest else ())


@dataclass(frozen=True)
class ProductPlan:
    """How a product accumulates in one tile.

    cuts: tiles of each reduction axis that is a loop (the lane is none), in their order.
    whole: for the operands (activations, weights): loaded for all of the reduction at once, rather
        than a part a reduction tile.
    windows: activations are loaded anew also for taps that only move their window.
    """

    cuts: Sequence[tuple[int, ...]]
    whole: tuple[bool, bool]
    windows: bool = False

    @property
    def taps(self) -> list[int]:
        """The largest tile of each axis."""
        return [max(sizes) for sizes in self.cuts]

    @property
    def loops(self) -> list[int]:
        """The axes that are cut, in the order of their loops."""
        return [axis for axis, sizes in enumerate(self.cuts) if len(sizes) > 1]

    def around(self, stage: ScheduledStage, operand: int) -> int:
        """How many of these loops are around the load of an operand."""
        is_weights = operand == stage.weights
        if self.whole[is_weights]:
            return 0
        moving = stage.taps_of(operand, is_weights or self.windows)
        return max((i + 1 for i, axis in enumerate(self.loops) if axis in moving), default=0)


@dataclass(frozen=True)
class Plan:
    """One schedule.

    tiles: of each axis of the root before its lanes, in their order.
    order: those axes, outermost tile loop first.
    products: by number of the stage.
    slots: of the buffers for activations, weights and accumulators.
    cycles: what the cost model expects.
    piece: an axis and a size: in these pieces of a tile the last operations and the store follow
        each other, so that the store of one runs beside the operations on the next.
    """

    tiles: Sequence[tuple[int, ...]]
    order: Sequence[int]
    products: dict[int, ProductPlan]
    slots: tuple[int, int, int]
    cycles: int
    piece: tuple[int, int] | None = None

    @property
    def tile(self) -> list[int]:
        """The largest tile of each axis."""
        return [max(sizes) for sizes in self.tiles]

    @property
    def loops(self) -> Hashable:
        """What its loops are: axes in one tile have none, so their place does not matter."""
        order = tuple(axis for axis in self.order if len(self.tiles[axis]) > 1)
        products = ((*part.cuts, part.whole, part.windows) for part in self.products.values())
        return order, tuple(self.tiles), tuple(products)

    def with_cuts(self, number: int, cuts: Sequence[tuple[int, ...]]) -> "Plan":
        """The same with other reduction tiles of one product."""
        changed = replace(self.products[number], cuts=cuts)
        return replace(self, products={**self.products, number: changed})
