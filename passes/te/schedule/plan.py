"""What the default rule decides for a kernel: tiles, their order, where operands are loaded."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ProductPlan:
    """How a product accumulates in one tile.

    taps: tile of each reduction axis that is a loop (the lane is none).
    whole: for the operands (activations, weights): loaded for all of the reduction at once, rather
        than a part a reduction tile.
    """

    taps: Sequence[int]
    whole: tuple[bool, bool]


@dataclass(frozen=True)
class Plan:
    """One schedule.

    tile: tile of each axis of the root before its lanes.
    order: those axes, outermost tile loop first.
    products: by number of the stage.
    slots: of the buffers for activations, weights and accumulators.
    cycles: what the cost model expects.
    """

    tile: Sequence[int]
    order: Sequence[int]
    products: dict[int, ProductPlan]
    slots: tuple[int, int, int]
    cycles: int
