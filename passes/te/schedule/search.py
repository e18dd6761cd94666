"""Finds tiles: enumerates a pruned space, drops what does not fit, ranks the rest by cost.

The space: tiles of the root's axes, the reduction's tiles, weights' axes inside or outside of the
others, and for each operand of the products whether it is loaded whole or in one part per
reduction tile.
All candidates of one order of loops are evaluated at once, by a formula; the best are simulated and
refined (`refine`).
"""

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import TypeVar

import numpy as np

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Memory, Target
from vtac.passes.te.schedule.border import inside_share
from vtac.passes.te.schedule.columns import Column, PointColumns
from vtac.passes.te.schedule.evaluate import FormulaCosts
from vtac.passes.te.schedule.fits import BufferNeeds, smallest
from vtac.passes.te.schedule.footprint import Extents, axes_of_operand
from vtac.passes.te.schedule.refine import SimulatedPoint, refine
from vtac.passes.te.schedule.simulated_cost import CostSimulator
from vtac.passes.te.schedule.space import Space
from vtac.passes.te.schedule.structure import ScheduledStage, Structure
from vtac.passes.te.schedule.tiling import spaced, tile_sizes
from vtac.passes.te.schedule.tilings import Tilings

_Item = TypeVar("_Item")

CANDIDATES = 12
"""Tile sizes tried along one axis."""

MOST_TILINGS = 6_000
"""Tilings of the root looked at; with more axes, fewer sizes are tried along each."""

FEW_REDUCTIONS = 6
"""Tile sizes tried for each reduction axis of the largest product."""

MOST_POINTS = 400_000
"""Points of one order of loops looked at; with more products or reduction axes, fewer tiles of the
reductions are tried, so that memory and time stay bounded."""

FINALISTS = 8
"""Points of one order of loops that are simulated: so many of those whose inputs lie in their own
order of dimensions, and of those that others take fewer loads for."""

SPARSE = 0.5
"""A product of which so much at most lies inside, besides another, is best loaded at once."""


def search(structure: Structure, target: Target, layer: str) -> SimulatedPoint:
    """The point with the lowest cost that is found. Raises `CompileError` where nothing fits.

    layer: what errors name.
    """
    space, simulator = Space(structure), CostSimulator(structure, target)
    tiles = _tiles(structure, target)
    sparse = [stage for stage in structure.products[1:] if inside_share(stage) <= SPARSE]
    for windows_split, whole in [(False, sparse)] * bool(sparse) + [(False, []), (True, [])]:
        columns = PointColumns(space, _candidates(space, tiles, windows_split, whole))
        found = [
            point
            for order in _orders(structure)
            for point in FormulaCosts(space, columns, target, order).best(FINALISTS)
        ]
        best = refine(space, simulator, found) if found else None
        if best is not None:
            return best
    raise CompileError(_why_not(simulator.needs, structure, layer))


def _tiles(structure: Structure, target: Target) -> list[Extents]:
    """Combinations of tile sizes of the root's axes whose accumulators fit: one array per axis."""
    extents, most = structure.root.extents, CANDIDATES
    sizes = [tile_sizes(extent, most) for extent in extents]
    while most > 2 and prod(map(len, sizes)) > MOST_TILINGS:
        most -= 1
        sizes = [tile_sizes(extent, most) for extent in extents]
    grid = np.meshgrid(*(np.array(axis, np.int64) for axis in sizes), indexing="ij")
    tiles = [axis.ravel() for axis in grid]
    fits = Tilings(structure, tiles).accumulators <= target.depth(Memory.ACC)
    return [axis[fits] for axis in tiles] if fits.any() else [axis[-1:] for axis in tiles]


def _orders(structure: Structure) -> list[list[int]]:
    """The axes that move weights inside of the others, or outside."""
    axes = range(len(structure.root.extents))
    weighted = _axes_of_weights(structure)
    rest = [axis for axis in axes if axis not in weighted]
    moving = [axis for axis in axes if axis in weighted]
    return [[*rest, *moving], [*moving, *rest]] if rest and moving else [list(axes)]


def _candidates(
    space: Space, tiles: Sequence[Extents], windows_split: bool, whole: Sequence[ScheduledStage]
) -> dict[str, Column]:
    """Every tiling of the root with every way to accumulate; the products of ``whole`` at once.

    Knobs of accumulation have columns [ways, 1], those of tiles [1, tilings], so that what depends
    on one of both alone is computed once.
    """
    stages = space.structure.products
    most = max(MOST_POINTS // (4 * len(tiles[0])), 2)  # each operand is loaded whole or in parts
    ways = list[tuple[Sequence[tuple[int, ...]], bool, bool]]()
    for taps in _cuts(stages, windows_split, whole, most):
        is_cut = any(stage.taps != cut for stage, cut in zip(stages, taps, strict=True))
        wholes = product((False, True), repeat=2) if is_cut else [(True, True)]
        ways += [(taps, activations, weights) for activations, weights in wholes]

    def spread(values: Sequence[int]) -> Column:
        return np.array(values, np.int64)[:, None]

    columns: dict[str, Column] = {
        f"tile.{axis}": sizes[None, :] for axis, sizes in zip(space.axes, tiles, strict=True)
    }
    for place, stage in enumerate(stages):
        label = stage.compute.label.data
        for tap, axis in enumerate(stage.compute.reduce.names[: len(stage.taps)]):
            columns[f"cut.{label}.{axis}"] = spread([taps[place][tap] for taps, _, _ in ways])
        columns[f"whole.{label}.activations"] = spread([way[1] for way in ways]) > 0
        columns[f"whole.{label}.weights"] = spread([way[2] for way in ways]) > 0
        columns[f"windows.{label}"] = spread([windows_split for _ in ways]) > 0
    return columns


def _cuts(
    stages: Sequence[ScheduledStage],
    windows_split: bool,
    whole: Sequence[ScheduledStage],
    most: int,
) -> list[tuple[tuple[int, ...], ...]]:
    """Tiles of the reductions of all products, one tuple per product, about ``most`` at most.

    All combinations where they are few enough; else the products behind the first are cut alike,
    and fewer sizes are tried for the first. The largest and the smallest tiles are always there.
    """
    if not stages:
        return [()]
    for few in range(FEW_REDUCTIONS, 1, -1):
        first, *others = [
            [stage.taps]
            if stage in whole
            else _reductions(stage, windows_split, 2 if number else few)
            for number, stage in enumerate(stages)
        ]
        if len(first) * prod(map(len, others)) <= most:
            return list(product(first, *others))
        alike = _alike(others)
        if len(first) * len(alike) <= most:
            break
    return [(cut, *rest) for cut in spaced(first, max(most // len(alike), 2)) for rest in alike]


def _alike(choices: Sequence[Sequence[_Item]]) -> list[tuple[_Item, ...]]:
    """The k-th entry of every list together; entries of shorter lists are repeated evenly."""
    longest = max(map(len, choices), default=1)
    return [
        tuple(each[place * len(each) // longest] for each in choices) for place in range(longest)
    ]


def _axes_of_weights(structure: Structure) -> set[int]:
    """The axes of the root on which the weights of the largest product depend."""
    axes: set[int] = set()
    for main in structure.products[:1]:
        own = structure.root_axes[main.number]
        axes |= axes_of_operand(main, main.weights, own)
    return axes


def _reductions(stage: ScheduledStage, windows_split: bool, most: int) -> list[tuple[int, ...]]:
    """Tiles of a product's reduction axes.

    An axis that is a subscript by itself (blocks of input channels) is cut freely; one that moves a
    window into single taps, the outer ones first: their weights are then loaded apart, and their
    activations together, unless even the window is to be split.
    """
    windows = sorted(stage.windows)
    if not windows_split:
        sizes = [
            [extent] if axis in windows else tile_sizes(extent, most)
            for axis, extent in enumerate(stage.taps)
        ]
        moving = [axis for axis in windows if stage.taps[axis] > 1]
        single = [moving[:count] for count in range(len(moving) + 1)]
        return [
            tuple(1 if axis in cut else size for axis, size in enumerate(tiles))
            for cut in single
            for tiles in product(*sizes)
        ]
    found: list[tuple[int, ...]] = []
    for place, cut in enumerate(windows):
        for size in tile_sizes(stage.taps[cut], FEW_REDUCTIONS)[1:]:
            tiles = [
                extent if axis in windows[place + 1 :] else 1
                for axis, extent in enumerate(stage.taps)
            ]
            tiles[cut] = size
            found.append(tuple(tiles))
    return found or [tuple(1 for _ in stage.taps)]


def _why_not(needs: BufferNeeds, structure: Structure, layer: str) -> Problem:
    """What even the smallest tile needs."""
    problem = needs.problem(smallest(structure)) or "it needs too many micro-ops"
    return Problem(
        layer,
        f"even its smallest tile {problem.removeprefix('it ')}",
        "Choose a target with larger buffers.",
    )
