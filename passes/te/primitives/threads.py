"""Primitives that copy a loop's body: unroll and vthread.

vthread is unroll and jam: the copies are interleaved, and loops that all copies have run once, for
all of them. (TVM's virtual threads; here the latency they hide is that of the DMA, which slots hide
too, so a vthread mainly lets iterations share what is loaded inside the jammed loops.)
"""

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from vtac.dialects import te

from .nest import Nest, Refused, take_out_all


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
    _replace(loop, _jam(_copies(loop)))


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


def _jam(copies: Sequence[Sequence[Operation]]) -> list[Operation]:
    """Interleave equal sequences; merge the loops that run over the same range."""
    jammed: list[Operation] = []
    for row in zip(*copies, strict=True):
        first = row[0]
        loops = [op for op in row if isinstance(op, te.ForOp)]
        if isinstance(first, te.ForOp) and _same_range(loops):
            _merge(first, loops)
            jammed.append(first)
        else:
            jammed.extend(row)
    return jammed


def _same_range(loops: Sequence[te.ForOp]) -> bool:
    first = loops[0]
    return first.hardware is None and all(
        loop.over == first.over and loop.properties == first.properties for loop in loops
    )


def _merge(first: te.ForOp, loops: Sequence[te.ForOp]) -> None:
    bodies: list[list[Operation]] = []
    for loop in loops:
        if loop is not first:
            for mine, its in zip(first.body.block.args, loop.body.block.args, strict=True):
                its.replace_all_uses_with(mine)
        bodies.append(take_out_all(loop.body.block))
        if loop is not first:
            loop.erase()
    first.body.block.add_ops(_jam(bodies))
