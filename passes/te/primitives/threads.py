"""Primitives that copy a loop's body: unroll and vthread.

vthread is unroll and jam: each iteration becomes a thread with buffers of its own, threads take
turns, and a loop that all threads have runs once, for all of them. While one thread computes,
another one's operands are loaded. (Virtual threads as in TVM, Chen et al. 2018, section 3.5 and
figure 17.)
"""

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from vtac.dialects import te

from .nest import Nest, RefusedPrimitive, take_out_all

Row = tuple[Operation, ...]
"""The copies of one operation, one per thread."""


def unroll(nest: Nest, step: te.UnrollOp) -> None:
    """Replace a loop by a copy of its body for each tile."""
    _, loop = nest.loop(step.axis)
    copies = _copies(loop)
    _replace(loop, [op for copy in copies for op in copy])


def vthread(nest: Nest, step: te.VthreadOp) -> None:
    """Replace a loop by copies of its body, interleaved turn by turn."""
    _, loop = nest.loop(step.axis)
    if loop.is_reduce is not None:
        raise RefusedPrimitive(
            "virtual threads share nothing; a reduction's iterations share a sum"
        )
    _replace(loop, _jam(_copies(loop)))


def _copies(loop: te.ForOp) -> list[list[Operation]]:
    bounds = loop.over.bounds
    if bounds is None:
        raise RefusedPrimitive(f'the range of loop "{loop.label.data}" is not known here')
    if loop.hardware is not None:
        raise RefusedPrimitive("a loop of an instruction is not unrolled")
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


def _jam(copies: Sequence[Sequence[Operation]]) -> list[Operation]:
    """Interleave equal sequences; merge the loops that run over the same tiles, or shifted ones.

    A turn of a thread is a run of operations of one module of the machine. If threads took turns at
    every load, a load that waits for the buffer of one thread would delay the loads behind it,
    whose buffers, of the other thread, are free.
    """
    jammed: list[Operation] = []
    turn: list[Row] = []
    for row in zip(*copies, strict=True):
        loops = [op for op in row if isinstance(op, te.ForOp)]
        shifts = _shifts(loops) if loops else None
        modules = {_module(other[0]) for other in turn} | {_module(row[0])}
        if shifts is not None or len(modules - {None}) > 1:
            jammed += _by_thread(turn)
            turn = []
        if shifts is not None:
            _merge(loops, shifts)
            jammed.append(loops[0])
        else:
            turn.append(row)
    return jammed + _by_thread(turn)


def _by_thread(turn: Sequence[Row]) -> list[Operation]:
    return [op for ops in zip(*turn, strict=True) for op in ops]


def _module(op: Operation) -> str | None:
    """The module of the machine that runs an operation; None for arithmetic on ranges and
    allocations."""
    if isinstance(op, te.CopyOp):
        if not op.is_load:
            return "store"
        return "compute" if te.scope_of(op.target) is te.Scope.ACC else "load"
    if isinstance(op, te.AllocOp | te.SpanOp | te.HullOp):
        return None
    return "compute"


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


def _merge(loops: Sequence[te.ForOp], shifts: Sequence[int]) -> None:
    """Replace loops by the first of them, with the bodies of all."""
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
    first.body.block.add_ops([*spans, *_jam(bodies)])
