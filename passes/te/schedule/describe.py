"""What the default rule has chosen, in words: the attributes ``estimate`` and ``choice``.

They stand on the `te.schedule`; ``vta-compile --explain`` prints them.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from vtac.passes.te.schedule.structure import ScheduledStage, Structure
from vtac.passes.te.schedule.tiling import Tiling

ESTIMATE, CHOICE = "estimate", "choice"
"""Attributes of a schedule: the cycles expected, and lines about how it computes."""


def described(structure: Structure, tiling: Tiling) -> list[str]:
    """A line on tiles, one on each product's reduction, one on slots, and one on pieces."""
    names = structure.root.compute.spatial.names
    cut = [axis for axis in tiling.order if len(tiling.tiles[axis]) > 1]
    tiles = [f"{names[axis]} {_sizes(tiling.tiles[axis])}" for axis in cut]
    lines = ["tiles " + (", in them ".join(tiles) or "none: all outputs stay in the accumulators")]
    for stage in structure.products:
        lines += _reduction(structure, stage, tiling)
    inp, wgt, acc = tiling.slots
    lines.append(f"slots {inp} activations, {wgt} weights, {acc if cut else 1} accumulators")
    for stage in structure.stages:
        for number in structure.vectors(stage):
            if (stage.number, number) in tiling.kept:
                label = stage.compute.label.data
                lines.append(f"{label}: operand {number} loaded before all tiles")
    if tiling.piece is not None:
        axis, size = tiling.piece
        lines.append(f"end of a tile in pieces of {size} {names[axis]}")
    return lines


def _reduction(structure: Structure, stage: ScheduledStage, tiling: Tiling) -> Iterator[str]:
    """How a product goes through its reduction, and what is loaded where."""
    part = tiling.products[stage.number]
    names = stage.compute.reduce.names
    cut = [f"{names[axis]} {_sizes(part.cuts[axis])}" for axis in part.loops]
    loads = []
    for operand, what in ((stage.activations, "activations"), (stage.weights, "weights")):
        around = part.around(stage, operand)
        if around:
            loads.append(f"{what} loaded in {names[part.loops[around - 1]]}")
        else:
            loads.append(f"{what} a tile at once")
    yield f"{stage.compute.label.data}: {', in them '.join(cut) or 'not cut'}; {', '.join(loads)}"


def _sizes(sizes: Sequence[int]) -> str:
    """Sizes of tiles, runs of equal ones shortened: 3 x 8 + 2."""
    runs = [(size, len(list(run))) for size, run in groupby(sizes)]
    return " + ".join(f"{count} x {size}" if count > 1 else f"{size}" for size, count in runs)
