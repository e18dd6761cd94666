"""An ALU instruction as vector operations.

Micro-ops of one ALU instruction run in order, and one may read what another wrote. A plan sorts
them into levels: micro-ops of one level do not depend on each other, so that each level is one
operation on arrays, all of its reads before its writes (list scheduling, as soon as possible). The
plain definition is `ReferenceMachine.alu`.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .elements import Elements, Indices, Loop, distinct, elements_of, grid_of, sums
from .errors import TooLarge

MOST_MICRO_OPS = 1 << 18
"""Most micro-ops of one plan: as many as pass over all accumulators some hundred times."""

MOST_LEVELS = 1 << 14
"""Most levels of one plan, which is the length of the longest chain of dependent micro-ops."""


@dataclass(frozen=True)
class Grid:
    """Elements with constant steps along one axis or two, from the element `first` on."""

    first: int
    shape: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True)
class Level:
    """Independent micro-ops: the elements that they write, and those that they read as `src`, if
    any.

    grids: the same elements, dst first, as grids of one shape; None if they do not have one.
    """

    dst: Elements
    src: Elements | None
    size: int
    grids: tuple[Grid, ...] | None


@dataclass(frozen=True)
class AluPlan:
    """The micro-ops of an ALU instruction by levels, with elements relative to its base.

    `adjacent` says that a micro-op depends on the one just before it; all elements that it touches
    are below `high`.
    """

    levels: list[Level]
    written: Elements
    adjacent: bool
    high: int


def in_order(micro_ops: Indices, loops: Sequence[Loop]) -> list[Indices]:
    """The columns of micro-ops [n, columns] in the order in which they run inside two loops.

    Raises `TooLarge` where there are too many.
    """
    outer, inner = loops
    if (count := outer.count * inner.count * len(micro_ops)) > MOST_MICRO_OPS:
        raise TooLarge(f"a plan of {count} micro-ops")
    return [
        sums(
            np.arange(outer.count) * outer.factors[column],
            np.arange(inner.count) * inner.factors[column],
            micro_ops[:, column],
        ).reshape(-1)
        for column in range(micro_ops.shape[1])
    ]


def plan_alu(dst: Indices, src: Indices | None, *, reads_dst: bool) -> AluPlan:
    """The plan of micro-ops with these elements, in the order in which they run.

    ``src`` is None where no element is read by that index; ``reads_dst`` says whether acc[dst] is
    an operand. Raises `TooLarge` on a chain that is too long.
    """
    adjacent = depends_on_previous(dst, src, immediate=src is None or not reads_dst)
    level = _levels(dst, src, reads_dst)
    levels = []
    if (count := int(level.max()) + 1) > MOST_LEVELS:
        raise TooLarge(f"a chain of {count} micro-ops")
    if count == 1:
        levels.append(_level(dst, src))
    else:
        by_level = np.argsort(level, kind="stable")
        bounds = np.searchsorted(level[by_level], np.arange(count + 1))
        for first, last in itertools.pairwise(bounds):
            chosen = by_level[first:last]
            levels.append(_level(dst[chosen], None if src is None else src[chosen]))
    written = elements_of(distinct(dst))
    high = 1 + max(int(dst.max()), 0 if src is None else int(src.max()))
    return AluPlan(levels, written, adjacent, high)


def depends_on_previous(dst: Indices, src: Indices | None, *, immediate: bool) -> bool:
    """Whether a micro-op depends on the one just before it, as docs/vta.md section 3 has it.

    With an immediate it does if it repeats the previous dst; with src, if src is the previous dst.
    """
    if immediate and (dst[1:] == dst[:-1]).any():
        return True
    return src is not None and bool((src[1:] == dst[:-1]).any())


def _level(dst: Indices, src: Indices | None) -> Level:
    lists = [dst] if src is None else [dst, src]
    if len(dst) > 1:
        order = np.argsort(dst, kind="stable")
        lists = [indices[order] for indices in lists]
    one, *other = (elements_of(indices) for indices in lists)
    return Level(one, other[0] if other else None, len(dst), _grids(lists, [one, *other]))


def _grids(lists: list[Indices], elements: list[Elements]) -> tuple[Grid, ...] | None:
    if all(isinstance(some, slice) for some in elements):
        return tuple(Grid(int(indices[0]), (len(indices),), (1,)) for indices in lists)
    if (shape := grid_of(lists)) is None:
        return None
    found = []
    for indices in lists:
        places, first = indices.reshape(shape), int(indices[0])
        ends = int(places[-1, 0]) - first, int(places[0, -1]) - first
        steps = (end // max(extent - 1, 1) for end, extent in zip(ends, shape, strict=True))
        found.append(Grid(first, shape, tuple(steps)))
    return tuple(found)


def _levels(dst: Indices, src: Indices | None, reads_dst: bool) -> Indices:
    """The level of each micro-op."""
    labels = distinct(dst)
    apart = src is None or not np.isin(src, labels).any()
    if len(labels) == len(dst) and (apart or (src is not None and (src == dst).all())):
        return np.zeros(len(dst), np.intp)
    if apart:
        label = np.searchsorted(labels, dst)
        order = np.argsort(label, kind="stable")
        starts = np.searchsorted(label[order], np.arange(len(labels)))
        occurrence = np.empty(len(dst), np.intp)
        occurrence[order] = np.arange(len(dst)) - starts[label[order]]
        return occurrence
    assert src is not None
    written: dict[int, int] = {}
    read: dict[int, int] = {}
    result = np.empty(len(dst), np.intp)
    for i, (d, s) in enumerate(zip(dst.tolist(), src.tolist(), strict=True)):
        level = max(written.get(d, 0), written.get(s, 0), read.get(d, 0))
        result[i] = level
        written[d] = level + 1
        read[s] = max(read.get(s, 0), level)
        if reads_dst:
            read[d] = max(read.get(d, 0), level)
    return result
