"""Finds the dimensions of packed tensors that are left out because they have a single block.

Most axes of a small tensor have a single block, and loops that run once only cost. A dimension can
be left out if its size is 1 and every reader's subscript is always 0.
"""

from collections.abc import Mapping, Sequence

from vtac.dialects.te import ComputeOp, Row
from vtac.passes.te.lanes.choices import LaneChoice
from vtac.passes.te.lanes.search import KernelStage


def unit_axes(compute: ComputeOp, choice: LaneChoice) -> set[int]:
    """The variables of which there is one block."""
    return {v for v, n in enumerate(compute.extents) if n <= choice.counts.get(v, 1)}


def is_zero(row: Row, units: set[int]) -> bool:
    """Whether a subscript is always 0, these variables being 0."""
    return row.constant == 0 and all(v in units for v, _ in row.terms)


def dropped_axes(
    stages: Sequence[KernelStage], choices: Mapping[ComputeOp, LaneChoice]
) -> dict[ComputeOp, frozenset[int]]:
    """For each compute the axes that are left out: the spatial ones, dimensions of its result, too.

    One spatial axis is always kept, and one of a reduction of the ALU. Stages of the ALU keep the
    shape of what they read, element by element.
    """
    units = {stage: unit_axes(stage.compute, choices[stage.compute]) for stage in stages}
    dropped: dict[KernelStage, set[int]] = {}
    for stage in stages:
        rank = len(stage.compute.spatial)
        dropped[stage] = {v for v in units[stage] if v < rank}
        if len(dropped[stage]) == rank:
            dropped[stage].discard(0)
    for stage in stages:
        for read, maker in zip(stage.compute.reads, stage.operands, strict=True):
            if maker is not None:
                dropped[maker] -= {
                    dim for dim, row in enumerate(read.rows) if not is_zero(row, units[stage])
                }
    links = [link for stage in stages for link in _links(stage, choices[stage.compute])]
    changed = True
    while changed:
        changed = False
        for (a, x), (b, y) in links:
            if (x in dropped[a]) != (y in dropped[b]):
                dropped[a].discard(x)
                dropped[b].discard(y)
                changed = True
    return {
        stage.compute: frozenset(axes) | _reduced(stage, choices[stage.compute], units[stage])
        for stage, axes in dropped.items()
    }


def _reduced(stage: KernelStage, choice: LaneChoice, units: set[int]) -> frozenset[int]:
    """The axes of a reduction that are left out."""
    rank, count = len(stage.compute.spatial), len(stage.compute.extents)
    gone = units.intersection(range(rank, count))
    if choice.depth is None and len(gone) == count - rank:
        gone.discard(rank)
    return frozenset(gone)


Axis = tuple[KernelStage, int]


def _links(stage: KernelStage, choice: LaneChoice) -> list[tuple[Axis, Axis]]:
    """Axes of a stage and of what it reads that must both stay or both go."""
    links: list[tuple[Axis, Axis]] = []
    rank = len(stage.compute.spatial)
    if choice.depth is None:
        for read, maker in zip(stage.compute.reads, stage.operands, strict=True):
            if maker is not None:
                axes = [(dim, row.variable) for dim, row in enumerate(read.rows)]
                links += [
                    ((maker, dim), (stage, v)) for dim, v in axes if v is not None and v < rank
                ]
    if stage.init is not None:
        links += [((stage.init, axis), (stage, axis)) for axis in range(rank)]
    return links
