"""Primitives that copy a loop's body: unroll and vthread.

vthread is unroll and jam: each iteration becomes a thread with buffers of its own, threads take
turns statement by statement, and loops that all have run once, for all of them. What does not
depend on the thread (a load of what all of them read) is done once, and its buffer is theirs
together. (Virtual threads as in TVM, Chen et al. 2018, section 3.5 and figure 17.)
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.rewriter import Rewriter

from vtac.dialects import te

from .nest import Nest, Refused, take_out_all

Row = list[Operation]
"""What one operation became, thread by thread."""


def unroll(nest: Nest, step: te.UnrollOp) -> None:
    """Replace a loop by a copy of its body for each tile."""
    _, loop = nest.loop(step.axis)
    copies = _copies(loop)
    _replace(loop, [op for copy in copies for op in copy])


def vthread(nest: Nest, step: te.VthreadOp) -> None:
    """Replace a loop by copies of its body, interleaved operation by operation."""
    _, loop = nest.loop(step.axis)
    if loop.is_reduce is not None:
        raise Refused("virtual threads share nothing; a reduction's iterations share a sum")
    rows: list[Row] = []
    _replace(loop, _jam(_copies(loop), rows))
    _share(rows)


def _copies(loop: te.ForOp) -> list[list[Operation]]:
    bounds = loop.over.bounds
    if bounds is None:
        raise Refused(f'the range of loop "{loop.label.data}" is not known here')
    if loop.hardware is not None:
        raise Refused("a loop of an instruction is not unrolled")
    copies: list[list[Operation]] = []
    for tile in loop.tiles(*bounds):
        span = te.SpanOp([], *tile)
        span.start.name_hint = loop.index.name_hint
        span.length.name_hint = loop.body.block.args[1].name_hint
        mapping: dict[SSAValue, SSAValue] = dict(
            zip(loop.body.block.args, span.results, strict=True)
        )
        copies.append([span, *(op.clone(mapping) for op in loop.body.block.ops)])
    return copies


def _replace(loop: te.ForOp, ops: Sequence[Operation]) -> None:
    block = loop.parent
    assert block is not None
    block.insert_ops_before(ops, loop)
    Rewriter.erase_op(loop)


def _jam(copies: Sequence[Sequence[Operation]], rows: list[Row]) -> list[Operation]:
    """Interleave equal sequences; merge the loops that run over the same tiles, or shifted ones.

    Adds to ``rows`` what has been interleaved, loops that were merged aside.
    """
    jammed: list[Operation] = []
    for row in zip(*copies, strict=True):
        loops = [op for op in row if isinstance(op, te.ForOp)]
        shifts = _shifts(loops) if loops else None
        if shifts is not None:
            _merge(loops, shifts, rows)
            jammed.append(loops[0])
        else:
            rows.append(list(row))
            jammed.extend(row)
    return jammed


def _shifts(loops: Sequence[te.ForOp]) -> list[int] | None:
    """How far the tiles of each loop lie behind those of the first; None if they differ more."""
    first = loops[0]
    if first.hardware is not None:
        return None
    shifts: list[int] = []
    terms, start, extent = _range(first.over)
    for loop in loops:
        alike = loop.step == first.step and loop.sizes == first.sizes
        other, at, length = _range(loop.over)
        if not alike or (other, length) != (terms, extent):
            return None
        shifts.append(at - start)
    return shifts


def _range(over: te.Range) -> tuple[object, int, int]:
    """A range as variable part, constant start and extra length (cf. `te.SpanOp`)."""
    if (bounds := over.bounds) is not None:
        return (), *bounds
    values = over.values
    assert values is not None
    span = values[0].owner
    if isinstance(span, te.SpanOp) and span.within is None and values == (span.start, span.length):
        return tuple(span.terms), span.offset.value.data, span.extra.value.data
    return ((1, *values),), 0, 1


def _merge(loops: Sequence[te.ForOp], shifts: Sequence[int], rows: list[Row]) -> None:
    """Let the first loop do the work of all."""
    first, *others = loops
    spans: list[Operation] = []
    for loop, shift in zip(others, shifts[1:], strict=True):
        tile: Sequence[SSAValue] = first.body.block.args
        if shift:
            start, length = first.body.block.args
            span = te.SpanOp([(1, start, length)], shift, 1)
            spans.append(span)
            tile = span.results
        for mine, its in zip(tile, loop.body.block.args, strict=True):
            mine.name_hint = its.name_hint
            its.replace_all_uses_with(mine)
    bodies = [take_out_all(loop.body.block) for loop in loops]
    for loop in others:
        loop.erase()
    first.body.block.add_ops(spans)
    first.body.block.add_ops(_jam(bodies, rows))


def _share(rows: Sequence[Row]) -> None:
    """Keep one of each row of operations that are the same for all threads.

    A buffer is the same if all that is written to it is. Starts from the guess that everything is
    shared, and takes back what cannot be until nothing changes.
    """
    inside = {op for row in rows for top in row for op in top.walk()}
    shared = [row for row in rows if not isinstance(row[0], te.ForOp)]
    while True:
        row_of = {op: row for row in shared for op in row}
        kept = [row for row in shared if _is_same(row, row_of) and _may_share(row, row_of, inside)]
        if len(kept) == len(shared):
            break
        shared = kept
    for row in reversed(shared):
        for op in row[1:]:
            for its, value in zip(op.results, row[0].results, strict=True):
                its.replace_all_uses_with(value)
            Rewriter.erase_op(op)


def _is_same(row: Row, row_of: Mapping[Operation, Row]) -> bool:
    """Whether the operations of a row differ in nothing but shared operands."""
    for first, second in pairwise(row):
        if type(first) is not type(second) or first.properties != second.properties:
            return False
        for one, other in zip(first.operands, second.operands, strict=True):
            if one is not other and not _is_shared(one, other, row_of):
                return False
    return True


def _is_shared(one: SSAValue, other: SSAValue, row_of: Mapping[Operation, Row]) -> bool:
    if not isinstance(one, OpResult) or not isinstance(other, OpResult):
        return False
    row = row_of.get(one.op)
    return row is not None and row is row_of.get(other.op) and one.index == other.index


def _may_share(row: Row, row_of: Mapping[Operation, Row], inside: Collection[Operation]) -> bool:
    """Whether all threads write the same to a buffer, and none what a load reads."""
    for op in row:
        if isinstance(op, te.AllocOp) and any(w not in row_of for w in _writers(op.buffer)):
            return False
        if isinstance(op, te.CopyOp) and any(w in inside for w in _writers(op.source)):
            return False
    return True


def _writers(buffer: SSAValue) -> list[Operation]:
    found: list[Operation] = []
    for use in buffer.uses:
        op = use.operation
        if (isinstance(op, te.UpdateOp | te.InvokeOp) and op.destination is buffer) or (
            isinstance(op, te.CopyOp) and op.target is buffer
        ):
            found.append(op)
    return found
