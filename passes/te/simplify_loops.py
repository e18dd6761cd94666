"""``te-simplify-loops``: a loop that runs once is no loop, a range that is known is no value.

Schedules leave loops over single tiles (an axis of extent 1, a loop over a tile of one). This pass
puts their bodies in their places, and numbers where spans turn out to be constant. It takes and
leaves kernels in loop form; it has no options. (Cf. ``SimplifyTrivialLoops`` of xDSL's scf.)
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint

from vtac.dialects import te


@dataclass(frozen=True)
class TeSimplifyLoops(ModulePass):
    """Remove loops that run once, and spans that are constant."""

    name = "te-simplify-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Apply the patterns until none fits."""
        patterns = [LoopOverOneTile(), LoopOverKnownTile(), KnownSpan()]
        PatternRewriteWalker(GreedyRewritePatternApplier(patterns)).rewrite_module(op)


class LoopOverOneTile(RewritePattern):
    """A loop over the tile of another loop, in steps that are no smaller, runs once."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, loop: te.ForOp, rewriter: PatternRewriter) -> None:
        """Use the outer tile in the body, and put the body in the loop's place."""
        values, step = loop.over.values, loop.tile_step
        if values is None or step is None or not isinstance(values[0].owner, Block):
            return
        outer = values[0].owner.parent_op()
        if not isinstance(outer, te.ForOp) or outer.tile.values != values:
            return
        if step >= _largest_tile(outer):
            rewriter.inline_block(loop.body.block, InsertPoint.before(loop), values)
            rewriter.erase(loop)


def _largest_tile(loop: te.ForOp) -> int:
    return max(te.integers(loop.sizes)) if loop.sizes is not None else loop.tile_step or 1


class LoopOverKnownTile(RewritePattern):
    """A loop over a known range that is one tile runs once."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, loop: te.ForOp, rewriter: PatternRewriter) -> None:
        """Put a constant span and the body in the loop's place."""
        bounds = loop.over.bounds
        if bounds is None or len(tiles := loop.tiles(*bounds)) != 1:
            return
        span = te.SpanOp([], *tiles[0])
        rewriter.insert(span, InsertPoint.before(loop))
        rewriter.inline_block(loop.body.block, InsertPoint.before(loop), span.results)
        rewriter.erase(loop)


class KnownSpan(RewritePattern):
    """A span without terms is two numbers."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, span: te.SpanOp, rewriter: PatternRewriter) -> None:
        """Put the numbers into every user."""
        if span.terms:
            return
        known = te.Range(*span.evaluate([]))
        for user in dict.fromkeys(use.operation for value in span.results for use in value.uses):
            new = _with_known(user, span.range, known)
            if new is not None:
                rewriter.replace(user, new)
        if not any(value.uses for value in span.results):
            rewriter.erase(span)


def _with_known(user: Operation, span: te.Range, known: te.Range) -> Operation | None:
    """The user with the range ``known`` in the place of ``span``; none if it was changed itself."""
    new: Operation
    match user:
        case te.ForOp():
            user.set_over(known)
            return None
        case te.SpanOp():
            new = _folded(user, span, known)
        case te.HullOp():
            new = te.HullOp(_replaced(user.ranges, span, known))
        case te.AllocOp():
            window = _replaced(user.window, span, known)
            new = te.AllocOp(user.buffer.type, window, user.slots.value.data)
        case te.CopyOp():
            new = te.CopyOp(user.source, user.target, _replaced(user.window, span, known))
            new.pads = user.pads
        case te.InvokeOp():
            constant = user.constant
            new = te.InvokeOp(
                user.callee.root_reference.data,
                user.label.data,
                _at(user.write, span, known),
                [_at(read, span, known) for read in user.reads],
                _at(constant, span, known) if isinstance(constant, te.Access) else constant,
            )
        case te.UpdateOp():
            new = te.UpdateOp(
                user.label.data,
                _at(user.write, span, known),
                [_at(read, span, known) for read in user.reads],
                user.detach_region(user.body),
                accumulate=user.accumulate is not None,
                is_init=user.is_init is not None,
            )
        case _:
            return None
    new.location = user.location
    for old, result in zip(user.results, new.results, strict=True):
        result.name_hint = old.name_hint
    return new


def _replaced(ranges: Sequence[te.Range], span: te.Range, known: te.Range) -> list[te.Range]:
    return [known if item == span else item for item in ranges]


def _at(access: te.Access, span: te.Range, known: te.Range) -> te.Access:
    """The access with the start of a span as a number."""
    start = known.start
    assert isinstance(start, int)
    subscripts = []
    for terms, constant in access.subscripts:
        fixed = sum(c * start for index, c in terms if index is span.start)
        rest: tuple[tuple[SSAValue, int], ...] = tuple(
            (index, c) for index, c in terms if index is not span.start
        )
        subscripts.append((rest, constant + fixed))
    return te.Access(access.buffer, tuple(subscripts), access.outside)


def _folded(user: te.SpanOp, span: te.Range, known: te.Range) -> te.SpanOp:
    """The span with a known term in its constant part."""
    start, length = known.bounds or (0, 1)
    offset, extra = user.offset.value.data, user.extra.value.data
    terms = []
    for coefficient, *values in user.terms:
        if values[0] is span.start:
            offset += min(coefficient * start, coefficient * (start + length - 1))
            extra += abs(coefficient) * (length - 1)
        else:
            terms.append((coefficient, values[0], values[1]))
    within = None if user.within is None else user.within.value.data
    return te.SpanOp(terms, offset, extra, within)
