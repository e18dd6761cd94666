"""Which elements a statement touches while the loops around it stand still: interval analysis.

An index runs over the range of its loop; loops inside the place of interest run over all of it, the
tiles of loops around it are symbols. What a subscript then covers is an interval

    sum of coefficient * (start : length)  +  (offset : extra)

with the meaning of `te.SpanOp`. Steps and correlations between loops are ignored, so an interval
may be too large, never too small. (Halide's bounds inference, on affine subscripts only.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects import te

from .nest import Nest, RefusedPrimitive, is_around

Subscript = tuple[tuple[tuple[SSAValue, int], ...], int]


Arithmetic = TypeVar("Arithmetic", te.SpanOp, te.HullOp, te.UnfuseOp, te.SpanOp | te.HullOp)
"""An operation on ranges."""


@dataclass(frozen=True, slots=True)
class SymbolicInterval:
    """``sum c * (start : length) + (offset : extra)``; without terms it is known.

    With ``extra`` 0 it is empty, as where reads lie wholly outside a tensor; intervals computed
    from it are empty, too.
    """

    terms: tuple[tuple[int, SSAValue, SSAValue], ...]
    offset: int
    extra: int

    @property
    def is_empty(self) -> bool:
        """Whether it is known to be empty."""
        return self.extra == 0

    def scaled(self, factor: int) -> "SymbolicInterval":
        """The interval of ``factor * x``."""
        if self.is_empty:
            return EMPTY
        last = self.offset + self.extra - 1
        return SymbolicInterval(
            tuple((factor * c, start, length) for c, start, length in self.terms),
            min(factor * self.offset, factor * last),
            abs(factor) * (self.extra - 1) + 1,
        )

    def __add__(self, other: "SymbolicInterval") -> "SymbolicInterval":
        if self.is_empty or other.is_empty:
            return EMPTY
        return SymbolicInterval(
            self.terms + other.terms, self.offset + other.offset, self.extra + other.extra - 1
        )

    def within(self, size: int) -> "SymbolicInterval":
        """The part in [0, size) of a known interval, which starts in it even if it is empty."""
        low, high = min(max(self.offset, 0), size), min(self.offset + self.extra, size)
        return SymbolicInterval((), low, max(high - low, 0))


EMPTY = SymbolicInterval((), 0, 0)
"""The empty interval, which starts inside every dimension."""


def interval_of(subscript: Subscript, block: Block) -> SymbolicInterval:
    """What a subscript covers while control is in ``block`` (or in what that contains)."""
    terms, constant = subscript
    total = SymbolicInterval((), constant, 1)
    for index, coefficient in terms:
        total = total + _index(index, block).scaled(coefficient)
    return total


def range_interval(item: te.Range, block: Block) -> SymbolicInterval:
    """What a range covers while control is in ``block``."""
    if (bounds := item.bounds) is not None:
        return SymbolicInterval((), *bounds)
    values = item.values
    assert values is not None
    owner = values[0].owner
    if isinstance(owner, te.SpanOp) and not owner.terms:
        return _span(owner, block)
    if _is_visible(values[0], block):
        return SymbolicInterval(((1, *values),), 0, 1)
    if isinstance(owner, Block) and isinstance(loop := owner.parent_op(), te.ForOp):
        return range_interval(loop.over, block)
    if isinstance(owner, te.SpanOp):
        return _span(owner, block)
    if isinstance(owner, te.UnfuseOp):
        return _unfused(owner, values[0], block)
    if isinstance(owner, te.HullOp):
        return union([range_interval(part, block) for part in owner.ranges])
    raise RefusedPrimitive("a range comes from neither a loop nor a span")


def _index(index: SSAValue, block: Block) -> SymbolicInterval:
    owner = index.owner
    if isinstance(owner, Block) and isinstance(loop := owner.parent_op(), te.ForOp):
        return range_interval(loop.tile, block)
    if isinstance(owner, te.SpanOp | te.HullOp):
        return range_interval(owner.range, block)
    if isinstance(owner, te.UnfuseOp):
        return range_interval(_of_unfused(owner, index), block)
    raise RefusedPrimitive("an index comes from neither a loop nor a span")


def _of_unfused(op: te.UnfuseOp, start: SSAValue) -> te.Range:
    """The one of the two ranges that begins at a value."""
    return op.outer_range if start is op.outer else op.inner_range


def _unfused(op: te.UnfuseOp, start: SSAValue, block: Block) -> SymbolicInterval:
    """What a range of a fused loop covers in a block that does not see the iterations at hand.

    The block sees a tile of the fused loop; what that covers is worked out at its beginning.
    """
    pairs = range_interval(op.pairs, block)
    which = 0 if start is op.outer else 1
    if not pairs.terms:
        return SymbolicInterval((), *op.evaluate(pairs.offset, pairs.extra)[which])
    [(coefficient, number, count)] = pairs.terms
    assert (coefficient, pairs.offset, pairs.extra) == (1, 0, 1)
    ranges, steps = te.integers(op.ranges), te.integers(op.steps)
    new = te.UnfuseOp((number, count), [(ranges[0], ranges[1]), (ranges[2], ranges[3])], steps)
    for result, old in zip(new.results, op.results, strict=True):
        result.name_hint = old.name_hint
    found = into_header(new, block)
    values = (found.outer_range, found.inner_range)[which].values
    assert values is not None
    return SymbolicInterval(((1, *values),), 0, 1)


def _span(span: te.SpanOp, block: Block) -> SymbolicInterval:
    total = SymbolicInterval((), span.offset.value.data, span.extra.value.data)
    for coefficient, start, length in span.terms:
        total = total + range_interval(te.Range(start, length), block).scaled(coefficient)
    if span.within is not None and not total.terms:
        return total.within(span.within.value.data)
    return total


def _is_visible(value: SSAValue, block: Block) -> bool:
    """Whether a value of a range may be used where spans of ``block`` stand, at its beginning."""
    owner = value.owner
    if not isinstance(owner, Block) and owner.parent is block:
        return owner in header(block)
    home = owner if isinstance(owner, Block) else owner.parent
    return home is not None and is_around(home, block)


def union(intervals: Sequence[SymbolicInterval]) -> SymbolicInterval:
    """The smallest interval that contains all.

    Raises `RefusedPrimitive` where their terms differ.
    """
    intervals = _without_empty(intervals)
    first = intervals[0]
    if any(interval.terms != first.terms for interval in intervals):
        raise RefusedPrimitive("the regions that are read depend on different loops")
    low = min(interval.offset for interval in intervals)
    high = max(interval.offset + interval.extra for interval in intervals)
    return SymbolicInterval(first.terms, low, high - low)


def _without_empty(intervals: Sequence[SymbolicInterval]) -> Sequence[SymbolicInterval]:
    """The intervals that are not empty; all of them if every one is."""
    return [interval for interval in intervals if not interval.is_empty] or intervals[:1]


def known_bounds(interval: SymbolicInterval, kernel: Block) -> tuple[int, int]:
    """Smallest and largest value that an interval can contain at any time."""
    total = SymbolicInterval((), interval.offset, interval.extra)
    for coefficient, start, length in interval.terms:
        total = total + range_interval(te.Range(start, length), kernel).scaled(coefficient)
    return total.offset, total.offset + total.extra - 1


def never_outside(nest: Nest, update: te.UpdateOp) -> list[bool]:
    """For each operand of a statement, whether it is known to be read inside its shape only.

    An operand without a declared value outside counts as inside, since no proof is needed for it.
    """
    kernel = nest.kernel.body.block

    def is_inside(subscript: Subscript, size: int) -> bool:
        low, high = known_bounds(interval_of(subscript, kernel), kernel)
        return low >= 0 and high < size

    return [
        read.outside is None
        or all(map(is_inside, read.subscripts, te.shaped(read.buffer).get_shape()))
        for read in update.reads
    ]


def header(block: Block) -> list[te.SpanOp | te.HullOp | te.UnfuseOp]:
    """The arithmetic on ranges with which a block begins."""
    ops: list[te.SpanOp | te.HullOp | te.UnfuseOp] = []
    for op in block.ops:
        if not isinstance(op, te.SpanOp | te.HullOp | te.UnfuseOp):
            break
        ops.append(op)
    return ops


def into_header(op: Arithmetic, block: Block) -> Arithmetic:
    """Put an operation at the end of the header; return it, or the equal one that is there."""
    existing = header(block)
    for other in existing:
        same = isinstance(other, type(op)) and other.properties == op.properties
        if same and tuple(other.operands) == tuple(op.operands):
            op.operands = []
            return cast(Arithmetic, other)
    place = InsertPoint.after(existing[-1]) if existing else InsertPoint.at_start(block)
    Rewriter.insert_op(op, place)
    return op


def append_to_header(op: "te.SpanOp | te.HullOp", block: Block) -> te.Range:
    """As `into_header`; names and returns the operation's range."""
    found = into_header(op, block)
    if found is not op:
        return found.range
    name = (op.operands[0].name_hint if op.operands else None) or "d"
    op.start.name_hint, op.length.name_hint = name, f"{name}_n"
    return op.range


def materialise(
    intervals: Sequence[SymbolicInterval], size: int, block: Block, kernel: Block
) -> te.Range:
    """The union of some intervals, cut to [0, size), as a range for use in ``block``.

    Adds `te.SpanOp` and `te.HullOp` to the block's header as needed.
    """
    groups: dict[tuple[tuple[int, SSAValue, SSAValue], ...], list[SymbolicInterval]] = {}
    for interval in _without_empty(intervals):
        groups.setdefault(interval.terms, []).append(interval)
    ranges = [_materialise_one(union(group), size, block, kernel) for group in groups.values()]
    if len(ranges) == 1:
        return ranges[0]
    whole = te.Range(0, size)
    if whole in ranges:
        return whole
    return append_to_header(te.HullOp(ranges), block)


def _materialise_one(
    interval: SymbolicInterval, size: int, block: Block, kernel: Block
) -> te.Range:
    if not interval.terms:
        known = interval.within(size)
        return te.Range(known.offset, known.extra)
    low, high = known_bounds(interval, kernel)
    inside = low >= 0 and high < size
    if inside and interval.offset == 0 and interval.extra == 1 and len(interval.terms) == 1:
        coefficient, start, length = interval.terms[0]
        if coefficient == 1:
            return te.Range(start, length)
    span = te.SpanOp(
        interval.terms, interval.offset, interval.extra, within=None if inside else size
    )
    return append_to_header(span, block)
