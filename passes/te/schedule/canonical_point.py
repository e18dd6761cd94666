"""The canonical point of a tiling: values that make no difference are replaced by one of them.

A tile loop that turns once has no place in the order, an operand that is loaded once has no slots,
and so on. Searches judge points with the same canonical point once.
"""

from collections.abc import Sequence

from vtac.dialects.te import Point, Value
from vtac.passes.te.schedule.fits import MEMORIES, BufferNeeds
from vtac.passes.te.schedule.space import (
    PIECES,
    Space,
    knobs_of_cuts,
    knobs_of_tiles,
    piece_of,
)
from vtac.passes.te.schedule.structure import ScheduledStage
from vtac.passes.te.schedule.tiling import Reduction, Tiling


def canonical_point(space: Space, needs: BufferNeeds, point: Point) -> Point:
    """The one point for all those whose schedules lower to the same program as this one's."""
    tiling = space.tiling(point)
    values: dict[str, Value] = {
        "order": _order(space.axes, tiling.cut),
        "piece": _piece(space, point, tiling),
        **_slots(needs, point, space, tiling),
        **_keeps(needs, space, tiling),
    }
    for axis, sizes in zip(space.axes, tiling.tiles, strict=True):
        end = point.get(f"end.{axis}")
        values[f"tile.{axis}"], values[f"end.{axis}"] = knobs_of_tiles(sizes, end)
    for stage in space.structure.products:
        values |= _reduction(space, stage, tiling.products[stage.number], point)
    return space.with_values(point, values)


def _order(names: Sequence[str], cut: Sequence[int]) -> tuple[str, ...]:
    """The axes with loops in their order, then the others; as declared if that is the same."""
    if list(cut) == sorted(cut):
        return tuple(names)
    rest = [axis for axis in range(len(names)) if axis not in cut]
    return tuple(names[axis] for axis in (*cut, *rest))


def _piece(space: Space, point: Point, tiling: Tiling) -> Value:
    """The smallest number of pieces that gives pieces of this size."""
    if tiling.piece is None:
        return None
    place, size = tiling.piece
    largest = max(tiling.tiles[place])
    count = next(count for count in PIECES if -(-largest // count) == size)
    return piece_of(space.axes[place], count)


def _slots(needs: BufferNeeds, point: Point, space: Space, tiling: Tiling) -> dict[str, Value]:
    """No more slots than buffers are filled; any number where none is filled twice."""
    found: dict[str, Value] = {}
    turns = needs.turns(tiling)
    for memory in MEMORIES:
        name = f"slots.{memory.name.lower()}"
        most = turns[memory]
        value = space.value(point, name)
        assert isinstance(value, int)
        found[name] = min(value, most) if most > 1 else space.knobs[name].default
    return found


def _keeps(needs: BufferNeeds, space: Space, tiling: Tiling) -> dict[str, Value]:
    """Operands that no loop moves are loaded before all tiles anyway."""
    moving = set(tiling.cut)
    stages = space.structure.stages
    return {
        name: (number, operand) in tiling.kept
        and not moving.isdisjoint(needs.moving(stages[number], operand))
        for name, (number, operand) in space.keeps.items()
    }


def _reduction(
    space: Space, stage: ScheduledStage, reduction: Reduction, point: Point
) -> dict[str, Value]:
    label = stage.compute.label.data
    values: dict[str, Value] = {}
    for axis, sizes in zip(stage.compute.reduce.names, reduction.cuts, strict=False):
        start = point.get(f"start.{label}.{axis}")
        cut, start = knobs_of_cuts(sizes, start)
        values |= {f"cut.{label}.{axis}": cut, f"start.{label}.{axis}": start}
    names = stage.compute.reduce.names[: len(stage.taps)]
    if len(names) > 1:
        values[f"order.{label}"] = _order(names, reduction.loops)
    cuts, order = reduction.cuts, reduction.order
    plain = Reduction(cuts, reduction.whole, False, order)
    operand = stage.activations
    if plain.around(stage, operand) != reduction.around(stage, operand):
        plain = Reduction(cuts, reduction.whole, True, order)
    values[f"windows.{label}"] = plain.windows
    parts = Reduction(cuts, (False, False), plain.windows, order)
    operands = (stage.activations, "activations"), (stage.weights, "weights")
    for (operand, name), whole in zip(operands, reduction.whole, strict=True):
        values[f"whole.{label}.{name}"] = whole and parts.around(stage, operand) > 0
    return values
