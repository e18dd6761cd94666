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
from functools import lru_cache

import numpy as np

from .elements import Elements, Indices, Loop, distinct, sums, touched
from .errors import TooLarge

HOLE = 1 << 40
"""An index beyond every buffer: it is clipped to the row of zeros behind the last element."""

EXACT_PRODUCTS = 1024
"""Products of two int8 whose sum a float32 holds exactly, in any order: 1024 x 2^14 = 2^24."""

CALL_SIZE = 262_144
"""Multiplications (m x n x k) of one BLAS call: below this number, BLAS stays on one thread and in
its fast kernels for small matrices."""

MOST_INDICES = 1 << 20
"""Most indices in one plan: several times the number that a layer needs, in few megabytes."""

COLUMNS = 64
"""Most output channels (n) of one BLAS call: more bring no speed."""

PANEL = 4608
"""Most weights (k x n) of a call of several elements: packed, they stay in the nearest cache."""

_FULL_ENOUGH = 0.6


@dataclass(frozen=True)
class Table:
    """Micro-ops as matrix products with indices dst [b, m, n], src [b, m, k], wgt [b, k, n]."""

    dst: Indices
    src: Indices
    wgt: Indices


@dataclass(frozen=True, eq=False)
class Chunk:
    """A piece of a reduction short enough for float32: rows of BLOCK values to multiply.

    Sources [b, 1, calls, rows, k] and weights [b, blocks, 1, n, k], n counting single output
    channels; both broadcast to [b, blocks, calls].
    """

    src: Indices
    wgt: Indices


@dataclass(frozen=True)
class Placement:
    """The accumulators of sums: rows for a result of `shape`, counted in rows.

    They lie at `strides` (`order` has the axis of the longest first), or at `scatter` where no
    strides describe them. `distinct`: whether no row occurs twice.
    """

    shape: tuple[int, ...]
    order: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    scatter: Indices | None = None
    distinct: bool = True


@dataclass(frozen=True)
class Product:
    """One batched product ``acc[dst] += inp[src] x wgt[wgt]`` over rows of BLOCK values.

    The sums of a chunk are [b, blocks, calls x rows, n]. The first `rows` of them count, the others
    fill the last call.
    """

    chunks: list[Chunk]
    rows: int
    placement: Placement


@dataclass(frozen=True)
class GemmPlan:
    """The products of a GEMM instruction, done `repeats` times, with elements relative to its
    bases.

    `written` are elements of ACC, all of them below `high`.
    """

    products: list[Product]
    repeats: int
    written: Elements
    high: int


def plan_gemm(micro_ops: Indices, loops: Sequence[Loop], batch: int, block: int) -> GemmPlan:
    """The plan of a kernel: micro-ops [n, 3], relative, inside hardware loops.

    Raises `TooLarge` on a kernel whose plan would not fit into memory.
    """
    written, high = _written(micro_ops, loops)
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
    tables = _factor(np.ascontiguousarray(micro_ops).tobytes())
    products = [_product(table, axes, batch, block) for table in tables]
    return GemmPlan(products, repeats, written, high)


def _written(micro_ops: Indices, loops: Sequence[Loop]) -> tuple[Elements, int]:
    """The elements of ACC that are written, in any order, and the first index above them."""
    labels = sorted(set(micro_ops[:, 0].tolist()))
    step = _step(labels)
    axes = [(loop.count, loop.dst) for loop in loops if loop.dst]
    if step is None or not _apart([*axes, (len(labels), step)]):
        elements = touched(micro_ops, loops, 0)
        return elements, elements.stop if isinstance(elements, slice) else int(elements[-1]) + 1
    axes.append((len(labels), step))
    high = 1 + sum((extent - 1) * step for extent, step in axes)
    # Elements are distinct, so if there are `high` of them, they are all indices below `high`.
    if math.prod(extent for extent, _ in axes) == high:
        return slice(0, high), high
    return sums(*(np.arange(extent) * step for extent, step in axes)).reshape(-1), high


def _verify_size(indices: int) -> None:
    if indices > MOST_INDICES:
        raise TooLarge(f"a plan of {indices} indices")


@lru_cache(maxsize=1024)
def _factor(kernel: bytes) -> list[Table]:
    """Tables that together have exactly these micro-ops, [n, 3] as bytes."""
    micro_ops = np.frombuffer(kernel, np.intp).reshape(-1, 3)
    dst, src, wgt = micro_ops.T.tolist()
    by_src, by_wgt = _table(src, dst, wgt), _table(dst, wgt, src)
    if max(by_src.full, by_wgt.full) < _FULL_ENOUGH:
        return _group(micro_ops)
    if by_src.full >= by_wgt.full:
        rows, columns, values = by_src.arrays()
        return [Table(columns[None, None, :], rows[None, None, :], values[None])]
    rows, columns, values = by_wgt.arrays()
    return [Table(rows[None, :, None], values[None], columns[None, :, None])]


@dataclass(frozen=True)
class _Sparse:
    """Values by row and column label.

    `full` is how much of the table has one; 0 if two values share a place.
    """

    rows: list[int]
    columns: list[int]
    values: dict[tuple[int, int], int]
    full: float

    def arrays(self) -> tuple[Indices, Indices, Indices]:
        """Rows, columns and the table, with holes."""
        value = self.values.get
        table = [[value((row, column), HOLE) for column in self.columns] for row in self.rows]
        rows, columns, values = (np.array(p, np.intp) for p in (self.rows, self.columns, table))
        return rows, columns, values


def _table(rows: list[int], columns: list[int], values: list[int]) -> _Sparse:
    """The table of values at these labels, in plain integers: most kernels have few micro-ops."""
    row_labels, column_labels = sorted(set(rows)), sorted(set(columns))
    places = dict(zip(zip(rows, columns, strict=True), values, strict=True))
    full = len(places) / (len(row_labels) * len(column_labels))
    return _Sparse(row_labels, column_labels, places, full if len(places) == len(values) else 0.0)


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
    src = _rows(table.src, _offsets(pixels, "src"), _offsets(reduction, "src"), batch)
    weights = table.wgt.transpose(0, 2, 1)
    wgt = _rows(weights, _offsets(channels, "wgt"), _offsets(reduction, "wgt"), block)
    step = max(1, EXACT_PRODUCTS // block)
    width, placement = _placement(table, axes, batch, block, min(step, src.shape[2]))
    wgt = wgt.reshape(len(wgt), -1, 1, width * block, src.shape[2])
    chunks = []
    for first in range(0, src.shape[2], step):
        piece = np.ascontiguousarray(wgt[..., first : first + step])
        chunks.append(Chunk(_calls(src[:, :, first : first + step], piece.shape[3], block), piece))
    return Product(chunks, src.shape[1], placement)


def _rows(table: Indices, outer: Indices, k: Indices, lanes: int) -> Indices:
    """A table [b, rows, k] of elements inside loops, by the rows of BLOCK values that each has.

    ``outer`` and ``k`` are the offsets of loops over rows and over the reduction. The result is [b,
    outer x rows x lanes, k loops x k].
    """
    groups, rows, depth = table.shape
    elements = (outer[:, None] + k)[:, None, :, None] + table[:, None, :, None, :]
    elements = elements.reshape(groups, len(outer) * rows, len(k) * depth)
    if lanes == 1:
        return elements
    places = elements[:, :, None] * lanes + np.arange(lanes)[:, None]
    return places.reshape(groups, -1, len(k) * depth)


def _offsets(loops: list[Loop], index: str) -> Indices:
    """The offsets that the loops together add to an index, in the order of their iterations."""
    total = np.zeros(1, np.intp)
    for place, loop in enumerate(loops):
        steps = np.arange(loop.count) * getattr(loop, index)
        total = (total[:, None] + steps).reshape(-1) if place else steps
    return total


def _calls(src: Indices, columns: int, block: int) -> Indices:
    """Source rows [b, rows, k] cut into BLAS calls, the last filled up: [b, 1, calls, rows, k]."""
    groups, rows, k = src.shape
    most = max(1, CALL_SIZE // (k * block * columns))
    calls = -(-rows // most)
    height = -(-rows // calls)
    if calls * height > rows:
        src = np.pad(src, ((0, 0), (0, calls * height - rows), (0, 0)), constant_values=HOLE)
    return np.ascontiguousarray(src).reshape(groups, 1, calls, height, k)


Axis = tuple[int, int]
"""Extent and step of an axis of accumulator rows."""


def _placement(
    table: Table,
    axes: tuple[list[Loop], list[Loop], list[Loop]],
    batch: int,
    block: int,
    depth: int,
) -> tuple[int, Placement]:
    """The number of elements that one BLAS call computes of each row, ``depth`` elements deep, and
    the placement of the sums.
    """
    pixels, _, channels = axes
    groups, table_m, table_n = table.dst.shape
    rows, columns = _step(table.dst[0, :, 0].tolist()), _step(table.dst[0, 0].tolist())
    if groups == 1 and rows is not None and columns is not None:
        m = [(loop.count, loop.dst * batch) for loop in pixels]
        m += [(table_m, rows * batch), (batch, 1)]
        n = [(loop.count, loop.dst * batch) for loop in channels] + [(table_n, columns * batch)]
        if _apart([*m, *n]):
            return _wide(m, n, block, depth)
    before, after = _offsets(pixels, "dst"), _offsets(channels, "dst")
    own = table.dst[:, None, None] + after[:, None, None, None]
    places = (own + before[:, None, None])[..., None] * batch + np.arange(batch)
    # [b, channel loops, pixel loops, m, n, lane] to [b, channel loops, n, pixel loops, m, lane].
    places = np.ascontiguousarray(places.transpose(0, 1, 4, 2, 3, 5))
    shape = (groups, len(after) * table_n, len(before) * table_m * batch)
    once = len(distinct(places.reshape(-1))) == places.size
    return 1, Placement(shape, (0, 1, 2), scatter=places.reshape(-1), distinct=once)


def _step(labels: list[int]) -> int | None:
    """The constant step by which labels go on from 0, if they do; 0 for a single one."""
    step = labels[1] if len(labels) > 1 else 0
    return step if step >= 0 and labels == [i * step for i in range(len(labels))] else None


def _apart(axes: list[Axis]) -> bool:
    """Whether no row occurs twice, since each step exceeds the extent of all shorter ones."""
    reach = 0
    for step, extent in sorted((step, extent) for extent, step in axes if extent > 1):
        if step <= reach:
            return False
        reach += step * (extent - 1)
    return True


def _wide(m: list[Axis], n: list[Axis], block: int, depth: int) -> tuple[int, Placement]:
    """The largest number of elements per call that `COLUMNS` and `PANEL` allow, and the sums'
    placement."""
    n = [axis for axis in n if axis[0] > 1]
    best = 1, [*n, *m]
    inner = 1
    for place in range(len(n) - 1, -1, -1):
        extent, step = n[place]
        for part in range(2, extent + 1):
            columns = inner * part * block
            if extent % part or columns > COLUMNS or columns * depth * block > PANEL:
                continue
            outer = [*n[:place], (extent // part, step * part)]
            best = inner * part, [*outer, *m, (part, step), *n[place + 1 :]]
        inner *= extent
    return best[0], _strided(best[1])


def _strided(axes: list[Axis]) -> Placement:
    axes = [axis for axis in axes if axis[0] > 1]
    order = tuple(sorted(range(len(axes)), key=lambda place: -axes[place][1]))
    shape, strides = (tuple(axis[side] for axis in axes) for side in (0, 1))
    return Placement(shape, order, strides)
