"""``te-simplify-loops``: loops that run once and ranges that are known are replaced.

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
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from vtac.dialects import te


@dataclass(frozen=True)
class TeSimplifyLoops(ModulePass):
    """Remove loops that run once, and spans that are constant."""

    name = "te-simplify-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Simplify every kernel in loop form."""
        for kernel in op.body.block.ops:
            if isinstance(kernel, te.KernelOp) and kernel.is_lowered:
                _Kernel().simplify(kernel.body.block)


class _Kernel:
    """One walk in program order, so that definitions of ranges come before their uses."""

    def __init__(self) -> None:
        self._known: dict[te.Range, te.Range] = {}
        self._starts: dict[SSAValue, te.Range] = {}

    def simplify(self, block: Block) -> None:
        """Simplify a block; ranges without uses are erased."""
        self._block(block)
        for op in reversed(list(block.walk())):
            if isinstance(op, te.SpanOp | te.HullOp | te.UnfuseOp) and is_trivially_dead(op):
                Rewriter.erase_op(op)

    def _block(self, block: Block) -> None:
        op = block.first_op
        while op is not None:
            op = self._visit(op)

    def _visit(self, op: Operation) -> Operation | None:
        """Simplify one operation and what is in it; return the one to go on with."""
        if any(operand in self._starts for operand in op.operands):
            op = self._with_numbers(op)
        if isinstance(op, te.SpanOp) and not op.operands:
            self._note(op)
        if isinstance(op, te.ForOp):
            tile = _tile_of_outer(op) or self._only_tile(op)
            if tile is not None:
                after, first = op.next_op, op.body.block.first_op
                Rewriter.inline_block(op.body.block, InsertPoint.before(op), tile)
                Rewriter.erase_op(op)
                return first or after
            self._block(op.body.block)
        return op.next_op

    def _note(self, span: te.SpanOp) -> None:
        """Record the two numbers of a span without terms."""
        known = te.Range(*span.evaluate([]))
        self._known[span.range] = self._starts[span.start] = known

    def _only_tile(self, loop: te.ForOp) -> tuple[SSAValue, SSAValue] | None:
        """The tile of a loop over a known range that is one tile, as a constant span."""
        bounds = loop.over.bounds
        if bounds is None or len(tiles := loop.tiles(*bounds)) != 1:
            return None
        span = te.SpanOp([], *tiles[0])
        Rewriter.insert_op(span, InsertPoint.before(loop))
        self._note(span)
        return span.start, span.length

    def _with_numbers(self, user: Operation) -> Operation:
        """Put numbers into the places of ranges that are known."""
        new: Operation
        match user:
            case te.ForOp():
                user.set_over(self._ranges([user.over])[0])
                return user
            case te.SpanOp():
                new = self._folded(user)
            case te.HullOp():
                new = te.HullOp(self._ranges(user.ranges))
            case te.AllocOp():
                window = self._ranges(user.window)
                new = te.AllocOp(user.buffer.type, window, user.slots.value.data)
            case te.CopyOp():
                new = te.CopyOp(user.source, user.target, self._ranges(user.window))
                new.pads = user.pads
            case te.InvokeOp():
                constant = user.constant
                new = te.InvokeOp(
                    user.callee.root_reference.data,
                    user.label.data,
                    self._at(user.write),
                    [self._at(read) for read in user.reads],
                    self._at(constant) if isinstance(constant, te.Access) else constant,
                )
            case te.UpdateOp():
                new = te.UpdateOp(
                    user.label.data,
                    self._at(user.write),
                    [self._at(read) for read in user.reads],
                    user.detach_region(user.body),
                    accumulate=user.accumulate is not None,
                    is_init=user.is_init is not None,
                )
            case _:
                return user
        new.location = user.location
        for old, result in zip(user.results, new.results, strict=True):
            result.name_hint = old.name_hint
        Rewriter.replace_op(user, new)
        return new

    def _ranges(self, ranges: Sequence[te.Range]) -> list[te.Range]:
        return [self._known.get(item, item) for item in ranges]

    def _at(self, access: te.Access) -> te.Access:
        """The access with the starts of known ranges as numbers."""
        subscripts = []
        for terms, constant in access.subscripts:
            rest: list[tuple[SSAValue, int]] = []
            for index, coefficient in terms:
                known = self._starts.get(index)
                if known is None:
                    rest.append((index, coefficient))
                elif isinstance(known.start, int):
                    constant += coefficient * known.start
            subscripts.append((tuple(rest), constant))
        return te.Access(access.buffer, tuple(subscripts), access.outside)

    def _folded(self, user: te.SpanOp) -> te.SpanOp:
        """The span with known terms folded into its constant part."""
        offset, extra = user.offset.value.data, user.extra.value.data
        terms = []
        for coefficient, *values in user.terms:
            known = self._starts.get(values[0])
            if known is None:
                terms.append((coefficient, values[0], values[1]))
                continue
            start, length = known.bounds or (0, 1)
            offset += min(coefficient * start, coefficient * (start + length - 1))
            extra += abs(coefficient) * (length - 1)
        within = None if user.within is None else user.within.value.data
        return te.SpanOp(terms, offset, extra, within)


def _tile_of_outer(loop: te.ForOp) -> tuple[SSAValue, SSAValue] | None:
    """The tile of another loop, if a loop over it takes steps that are no smaller: it runs once."""
    values, step = loop.over.values, loop.tile_step
    if values is None or step is None or not isinstance(values[0].owner, Block):
        return None
    outer = values[0].owner.parent_op()
    if not isinstance(outer, te.ForOp) or outer.tile.values != values:
        return None
    return values if step >= _largest_tile(outer) else None


def _largest_tile(loop: te.ForOp) -> int:
    return max(te.integers(loop.sizes)) if loop.sizes is not None else loop.tile_step or 1
