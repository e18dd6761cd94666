"""Which dimensions of packed tensors are left out because there is one block of them.

Most of the axes of a small tensor have one block once its lanes are full, and a loop that runs once
helps nobody. A dimension can go if its size is 1 and every reader reads it at 0, whatever happens.
"""

from collections.abc import Mapping, Sequence

from vtac.dialects.te import ComputeOp, Row
from vtac.passes.te.lanes.choices import Choice
from vtac.passes.te.lanes.search import Stage


def unit_axes(compute: ComputeOp, choice: Choice) -> set[int]:
    """The variables of which there is one block."""
    return {v for v, n in enumerate(compute.extents) if n <= choice.counts.get(v, 1)}


def is_zero(row: Row, units: set[int]) -> bool:
    """Whether a subscript is always 0, these variables being 0."""
    return row.constant == 0 and all(v in units for v, _ in row.terms)


def dropped_axes(
    stages: Sequence[Stage], choices: Mapping[ComputeOp, Choice]
) -> dict[ComputeOp, frozenset[int]]:
    """For each compute the spatial axes, dimensions of its result, that are left out.

    One is always kept. Stages of the ALU keep the shape of what they read, element by element.
    """
    units = {stage: unit_axes(stage.compute, choices[stage.compute]) for stage in stages}
    dropped: dict[Stage, set[int]] = {}
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
    return {stage.compute: frozenset(axes) for stage, axes in dropped.items()}


Axis = tuple[Stage, int]


def _links(stage: Stage, choice: Choice) -> list[tuple[Axis, Axis]]:
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
