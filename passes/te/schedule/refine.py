"""From the plans that a formula likes to the one that runs best: rehearsed, then varied.

What the formula leaves alone is tried here, one kind of change after the other: the last operations
and the store in pieces, so that little is left to store at the end; the first tiles of a reduction
smaller, so that the first product starts early; more slots; first or last tiles that are smaller.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from vtac.dialects.target import Target
from vtac.passes.te.schedule.evaluate import fits
from vtac.passes.te.schedule.plan import Plan, even
from vtac.passes.te.schedule.rehearsal import Rehearsals
from vtac.passes.te.schedule.structure import Structure

LEAST, WORTH = 3, 1_000
"""So many plans are rehearsed at least, and one more for each so many cycles of the kernel."""

LARGE = 10_000
"""Cycles of a kernel from which on its plans are varied in every way."""

SOME = 6
"""Pieces of a tile to begin with."""

GROWTHS = ((1,), (2,), (1, 1), (1, 2), (1, 1, 2))
"""First tiles of a reduction that are tried."""

Variants = Callable[[Structure, Plan], Iterator[Plan]]


def refine(structure: Structure, target: Target, plans: Sequence[Plan]) -> Plan:
    """The best plan found, with the cycles that its rehearsal says."""
    rehearsals = Rehearsals(structure, target)

    def better(plan: Plan, than: Plan | None) -> Plan | None:
        """The plan with its cycles, if they are fewer."""
        limit = None if than is None else than.cycles
        cycles = rehearsals.cycles(plan, limit)
        return replace(plan, cycles=cycles) if limit is None or cycles < limit else None

    different = list({plan.loops: plan for plan in reversed(plans)}.values())[::-1]
    expected = min(plan.cycles for plan in plans)
    best: Plan | None = None
    for plan in different[: max(LEAST, expected // WORTH)]:
        best = better(_with_pieces(structure, plan), best) or best
    assert best is not None
    kinds: list[Variants] = [_pieces, _growths, _slots, _ends, _pieces]
    for variants in kinds if expected > LARGE else kinds[:1]:
        for variant in variants(structure, best):
            found = better(variant, best)
            if found is not None and fits(structure, target, found):
                best = found
    return best


def _with_pieces(structure: Structure, plan: Plan) -> Plan:
    """The end of each tile in some pieces, if there is something to cut."""
    axis = next((axis for axis, size in enumerate(plan.tile) if size > 1), None)
    if not structure.epilogue or axis is None:
        return plan
    return replace(plan, piece=(axis, -(-plan.tile[axis] // SOME)))


def _pieces(structure: Structure, plan: Plan) -> Iterator[Plan]:
    """The end of each tile in 2 to 16 pieces."""
    if not structure.epilogue:
        return
    yield replace(plan, piece=None)
    for axis in [axis for axis, size in enumerate(plan.tile) if size > 1][:2]:
        size = plan.tile[axis]
        for count in (2, 4, 8, 16):
            if count < 2 * size:
                yield replace(plan, piece=(axis, -(-size // count)))


def _growths(structure: Structure, plan: Plan) -> Iterator[Plan]:
    """The first tiles of a reduction small."""
    for stage in structure.products[:1]:
        cuts = plan.products[stage.number].cuts
        for axis, sizes in enumerate(cuts):
            for first in GROWTHS:
                rest = sum(sizes) - sum(first)
                if len(sizes) > 1 and max(first) < sizes[0] and rest > 0:
                    grown = (*first, *even(rest, sizes[0]))
                    yield plan.with_cuts(stage.number, [*cuts[:axis], grown, *cuts[axis + 1 :]])


def _slots(structure: Structure, plan: Plan) -> Iterator[Plan]:
    """More slots for operands."""
    for inp, wgt in ((2, 3), (2, 4), (3, 2), (3, 3), (3, 4)):
        yield replace(plan, slots=(inp, wgt, plan.slots[2]))


def _ends(structure: Structure, plan: Plan) -> Iterator[Plan]:
    """The first or the last tile of an axis cut in two."""
    for axis, sizes in enumerate(plan.tiles):
        first, last = sizes[0], sizes[-1]
        for part in (2, 4):
            small = last // part
            if len(sizes) > 1 and small:
                cut = (*sizes[:-1], last - small, small)
                yield replace(plan, tiles=[*plan.tiles[:axis], cut, *plan.tiles[axis + 1 :]])
            small = first // part
            if len(sizes) > 1 and small:
                cut = (small, first - small, *sizes[1:])
                yield replace(plan, tiles=[*plan.tiles[:axis], cut, *plan.tiles[axis + 1 :]])
