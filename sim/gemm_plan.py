"""A GEMM instruction as a few dense matrix products.

A GEMM instruction adds up products over a multiset of (dst, src, wgt) triples, and integer sums
do not depend on their order. So the two hardware loops and the micro-op list are sorted into the
three axes of a matrix product: what leaves dst alone is the reduction (k), what leaves wgt alone
runs over pixels (m), what leaves src alone over output channels (n). The micro-op list itself is
factored the same way, as a table of weights (src against dst) or of sources (dst against wgt), with
an element of zeros in its holes; lists without such structure become one product for each list of
sources, those of equal shape batched.

Plans hold row indices relative to the smallest dst, src and wgt of the kernel, so that the same
kernel at another place shares its plan. The plain definition is `ReferenceMachine.gemm`.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .elements import Elements, Indices, Loop, distinct, elements_of, span, sums
from .errors import Fault

HOLE = 1 << 40
"""An index beyond every buffer: it is clipped to the row of zeros behind the last element."""

EXACT_PRODUCTS = 1024
"""Products of two int8 whose sum a float32 holds exactly, in any order: 1024 x 2^14 = 2^24."""

CALL_SIZE = 262_144
"""Multiplications (m x n x k) of one BLAS call: below, it stays on one thread and in its fast
small-matrix kernels."""

MOST_INDICES = 1 << 22
"""Indices in one plan: some hundred times what a layer needs, and still no gigabyte."""

_FULL_ENOUGH = 0.6


@dataclass(frozen=True)
class Table:
    """Micro-ops as products over [batch, m, k, n]: dst [b, m, n], src [b, m, k], wgt [b, k, n]."""

    dst: Indices
    src: Indices
    wgt: Indices


@dataclass(frozen=True)
class Chunk:
    """A piece of a reduction short enough for float32: rows of BLOCK values to multiply.

    Sources [b, 1, calls, rows, k] and weights [b, blocks, 1, n, k], n counting single output
    channels; both broadcast to [b, blocks, calls].
    """

    src: Indices
    wgt: Indices


@dataclass(frozen=True)
class Product:
    """One batched product ``acc[dst] += inp[src] x wgt[wgt]`` over rows of BLOCK values.

    The sums of a chunk are [b, blocks, calls x rows, n]. `rows` of them are real, the others fill
    the last call. `shape` is that of the result in rows of accumulators; they lie at `strides` (in
    rows; `order` has the axis of the longest first), or at `scatter` where no strides describe
    them. `distinct`: no row twice.
    """

    chunks: list[Chunk]
    rows: int
    shape: tuple[int, ...]
    order: tuple[int, ...]
    strides: tuple[int, ...] | None
    scatter: Indices | None
    distinct: bool


@dataclass(frozen=True)
class GemmPlan:
    """What a GEMM instruction does, `repeats` times, relative to its bases."""

    products: list[Product]
    repeats: int
    written: Elements


def plan_gemm(micro_ops: Indices, loops: Sequence[Loop], batch: int, block: int) -> GemmPlan:
    """The plan of a kernel: micro-ops [n, 3], relative, inside hardware loops.

    Raises `Fault` on a kernel whose plan would not fit into memory.
    """
    written = elements_of(span(micro_ops, loops, 0))
    reduction, pixels, channels = [], [], []
    repeats = 1
    for loop in loops:
        if not (loop.dst or loop.src or loop.wgt):
            repeats *= loop.count
        elif loop.count == 1:
            continue
        elif loop.dst == 0:
            reduction.append(loop)
        elif loop.wgt == 0:
            pixels.append(loop)
        elif loop.src == 0:
            channels.append(loop)
        else:
            _verify_size(len(micro_ops) * loop.count)
            factors = np.array([loop.dst, loop.src, loop.wgt], np.intp)
            steps = np.arange(loop.count)[:, None, None] * factors
            micro_ops = (steps + micro_ops).reshape(-1, 3)
    axes = (pixels, reduction, channels)
    m, k, n = (math.prod(loop.count for loop in axis) for axis in axes)
    _verify_size(len(micro_ops) * k * max(m * batch, n * block))
    products = [_product(table, axes, batch, block) for table in _factor(micro_ops)]
    return GemmPlan(products, repeats, written)


def _verify_size(indices: int) -> None:
    if indices > MOST_INDICES:
        raise Fault(f"the simulator has no memory for a plan of {indices} indices")


def _factor(micro_ops: Indices) -> list[Table]:
    """Tables that together have exactly these micro-ops."""
    by_src = _table(micro_ops[:, 1], micro_ops[:, 0], micro_ops[:, 2])
    by_wgt = _table(micro_ops[:, 0], micro_ops[:, 2], micro_ops[:, 1])
    best = max((by_src[3], 1, "src"), (by_wgt[3], 0, "wgt"))
    if best[0] < _FULL_ENOUGH:
        return _group(micro_ops)
    if best[2] == "src":
        src, dst, wgt, _ = by_src
        return [Table(dst[None, None, :], src[None, None, :], wgt[None])]
    dst, wgt, src, _ = by_wgt
    return [Table(dst[None, :, None], src[None], wgt[None, :, None])]


def _table(
    rows: Indices, columns: Indices, values: Indices
) -> tuple[Indices, Indices, Indices, float]:
    """Values by row and column label, and how full the table is (0 if two share a place)."""
    row_labels, column_labels = distinct(rows), distinct(columns)
    row, column = np.searchsorted(row_labels, rows), np.searchsorted(column_labels, columns)
    size = len(row_labels) * len(column_labels)
    place = row * len(column_labels) + column
    full = len(values) / size
    if full < _FULL_ENOUGH or len(distinct(place)) < len(place):
        return row_labels, column_labels, values, 0.0
    table = np.full(size, HOLE, np.intp)
    table[place] = values
    return row_labels, column_labels, table.reshape(len(row_labels), -1), full


def _group(micro_ops: Indices) -> list[Table]:
    """Destinations with identical source lists together, groups of equal shape in one batch."""
    pairs: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for dst, src, wgt in micro_ops.tolist():
        pairs[dst].append((src, wgt))
    groups: dict[tuple[int, ...], list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
    for dst, list_ in pairs.items():
        sources, weights = zip(*sorted(list_), strict=True)
        groups[sources].append((dst, weights))
    shapes = defaultdict(list)
    for sources, members in groups.items():
        dsts, weights = zip(*members, strict=True)
        shapes[len(sources), len(dsts)].append((dsts, sources, weights))
    tables = []
    for batch in shapes.values():
        dst, src, wgt = (np.array(part, np.intp) for part in zip(*batch, strict=True))
        tables.append(Table(dst[:, None, :], src[:, None, :], wgt.transpose(0, 2, 1)))
    return tables


def _product(
    table: Table, axes: tuple[list[Loop], list[Loop], list[Loop]], batch: int, block: int
) -> Product:
    pixels, reduction, channels = axes
    groups, _, table_k = table.src.shape
    lanes, channel = np.arange(batch), np.arange(block)
    offsets = {
        (name, index): sums(*(np.arange(loop.count) * getattr(loop, index) for loop in loops))
        for name, loops in (("m", pixels), ("k", reduction), ("n", channels))
        for index in ("src", "wgt")
    }
    src = offsets["m", "src"].reshape(-1, 1, 1, 1) + offsets["k", "src"].reshape(1, 1, -1, 1)
    src = table.src[:, None, :, None, :] + src[None].reshape(1, src.shape[0], 1, -1, 1)
    src = src[:, :, :, None] * batch + lanes[:, None, None]
    src = src.reshape(groups, -1, src.shape[-2] * table_k)
    wgt = offsets["n", "wgt"].reshape(-1, 1) + offsets["k", "wgt"].reshape(1, -1)
    wgt = table.wgt.transpose(0, 2, 1)[:, None, :, None, :] + wgt[None, :, None, :, None]
    wgt = wgt[:, :, :, None] * block + channel[:, None, None]
    wide, placement = _layout(table, pixels, channels, batch)
    blocks = wgt.shape[1] * wgt.shape[2]
    wgt = wgt.reshape(groups, 1 if wide else blocks, 1, -1 if wide else block, src.shape[2])
    chunks = []
    step = max(1, EXACT_PRODUCTS // block)
    for first in range(0, src.shape[2], step):
        piece = np.ascontiguousarray(wgt[..., first : first + step])
        chunks.append(Chunk(_calls(src[:, :, first : first + step], piece.shape[3], block), piece))
    return Product(chunks, src.shape[1], *placement)


def _calls(src: Indices, columns: int, block: int) -> Indices:
    """Source rows [b, rows, k] cut into BLAS calls, the last filled up: [b, 1, calls, rows, k]."""
    groups, rows, k = src.shape
    most = max(1, CALL_SIZE // (k * block * columns))
    calls = -(-rows // most)
    height = -(-rows // calls)
    padded = np.full((groups, calls * height, k), HOLE, np.intp)
    padded[:, :rows] = src
    return padded.reshape(groups, 1, calls, height, k)


Placement = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...] | None, Indices | None, bool]
"""Shape, order, strides, scatter and distinct of a `Product`."""


def _layout(
    table: Table, pixels: list[Loop], channels: list[Loop], batch: int
) -> tuple[bool, Placement]:
    """Whether one BLAS call makes all output channels, and where the sums then go.

    Otherwise a call makes one element of each row: slower by itself, but pixel follows pixel in its
    result, and where they do in ACC too, adding the result up is several times as fast.
    """
    inner = _placement(_destinations(table, pixels, channels, batch, wide=True))
    if not channels and table.dst.shape[2] == 1:
        return True, inner
    outer = _placement(_destinations(table, pixels, channels, batch, wide=False))
    wide = _run(inner) >= _run(outer)
    return wide, inner if wide else outer


def _run(placement: Placement) -> int:
    """How many rows at the end of a result lie one behind the other in ACC."""
    shape, _, strides, _, _ = placement
    run = 1
    if strides is not None:
        for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
            if extent > 1 and stride != run:
                break
            run *= extent
    return run


def _destinations(
    table: Table, pixels: list[Loop], channels: list[Loop], batch: int, wide: bool
) -> Indices:
    """The accumulator rows of the result.

    Wide: [b, pixel loops, m, lane, channel loops, n]; otherwise channels precede pixels.
    """
    groups, table_m, table_n = table.dst.shape
    before = sums(*(np.arange(loop.count) * loop.dst for loop in pixels))
    after = sums(*(np.arange(loop.count) * loop.dst for loop in channels))
    after = after.reshape(1, *after.shape, 1)
    inner = [1] * (after.ndim - 2)
    own = table.dst.reshape(groups, *[1] * before.ndim, table_m, 1, *inner, table_n)
    lanes = np.arange(batch).reshape(-1, *[1] * (after.ndim - 1))
    m_axes = list(range(1, before.ndim + 3))
    before = before.reshape(1, *before.shape, 1, 1, *inner, 1)
    rows: Indices = (own + before + after) * batch + lanes
    if not wide:
        n_axes = range(len(m_axes) + 1, rows.ndim)
        rows = rows.transpose(0, *n_axes, *m_axes)
    return rows.reshape([extent for extent in rows.shape if extent > 1])


def _placement(rows: Indices) -> Placement:
    once = len(distinct(rows)) == rows.size
    strides = _strides(rows) if once else None
    if strides is None:
        return rows.shape, tuple(range(rows.ndim)), None, rows.reshape(-1), once
    steps = strides
    order = tuple(sorted(range(rows.ndim), key=lambda axis: -steps[axis]))
    return rows.shape, order, strides, None, once


def _strides(rows: Indices) -> tuple[int, ...] | None:
    """The constant step along each axis, if all have one and row 0 comes first."""
    steps = []
    for axis in range(rows.ndim):
        differences = np.diff(rows, axis=axis)
        step = int(differences.flat[0]) if differences.size else 0
        if step < 0 or (differences != step).any():
            return None
        steps.append(step)
    return tuple(steps) if rows.flat[0] == 0 else None
