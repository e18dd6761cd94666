"""The primitive join: neighbouring loops of several stages become one (loop fusion).

After it, a piece of one stage is followed by the same piece of the next, so that the last of them,
a store say, can begin while the others still work on later pieces.
"""

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from vtac.dialects import te

from .intervals import SymbolicInterval, interval_of
from .nest import Nest, NestStage, RefusedPrimitive, take_out, take_out_all


def join(nest: Nest, step: te.JoinOp) -> None:
    """Move the bodies of all loops into the first, in order."""
    found = [nest.loop(axis) for axis in step.axes]
    (_, first), *others = found
    for stage, loop in found:
        _check_same(stage, loop, first)
    _check_private(found)
    _move_between(nest, [loop for _, loop in found])
    for stage, loop in found:
        stage.loops.remove(loop)
    for _, loop in others:
        for mine, its in zip(first.body.block.args, loop.body.block.args, strict=True):
            its.replace_all_uses_with(mine)
        first.body.block.add_ops(take_out_all(loop.body.block))
        Rewriter.erase_op(loop)


def _check_same(stage: NestStage, loop: te.ForOp, first: te.ForOp) -> None:
    if stage.init is not None or stage.update.accumulate is not None:
        raise RefusedPrimitive(f'stage "{stage.label}" is a reduction, which is not joined')
    same = loop.over == first.over and (loop.step, loop.sizes) == (first.step, first.sizes)
    if loop.parent is not first.parent or not same:
        raise RefusedPrimitive(
            f'the loops "{first.label.data}" and "{loop.label.data}" do not run over the same'
            " range in the same place",
            "compute the stages at one loop, and split their axes alike",
        )


def _check_private(found: Sequence[tuple[NestStage, te.ForOp]]) -> None:
    """Check that elements that one stage writes are touched by others in the same iteration
    only."""
    touched: dict[SSAValue, list[tuple[NestStage, te.ForOp, te.Access]]] = {}
    for stage, loop in found:
        for access in (stage.update.write, *stage.update.reads):
            touched.setdefault(access.buffer, []).append((stage, loop, access))
    written = {stage.update.destination for stage, _ in found}
    for buffer, accesses in touched.items():
        if buffer not in written or len({id(stage) for stage, _, _ in accesses}) == 1:
            continue
        rank = range(len(accesses[0][2].subscripts))
        if not any(
            all(_is_tile(loop, a.subscripts[dim]) for _, loop, a in accesses) for dim in rank
        ):
            labels = '", "'.join(dict.fromkeys(stage.label for stage, _, _ in accesses))
            raise RefusedPrimitive(
                f'a buffer that "{labels}" share is not cut by the loop "{found[0][1].label.data}"'
            )


def _is_tile(loop: te.ForOp, subscript: tuple[tuple[tuple[SSAValue, int], ...], int]) -> bool:
    """Whether a subscript covers exactly the loop's tile in an iteration."""
    values = loop.tile.values
    assert values is not None
    return interval_of(subscript, loop.body.block) == SymbolicInterval(((1, *values),), 0, 1)


def _move_between(nest: Nest, loops: Sequence[te.ForOp]) -> None:
    """Move loads of parameters between the loops before the first; refuse any other operation
    there."""
    block = loops[0].parent
    assert block is not None
    places = [block.get_operation_index(loop) for loop in loops]
    if places != sorted(places):
        raise RefusedPrimitive("the loops are not named in the order in which they run")
    between = list(block.ops)[places[0] : places[-1]]
    for op in between:
        if op in loops:
            continue
        if not _may_move(nest, op):
            raise RefusedPrimitive(
                f'"{loops[0].label.data}" and "{loops[-1].label.data}" have {op.name} between them',
                "join loops that follow each other",
            )
        block.insert_op_before(take_out(op), loops[0])


def _may_move(nest: Nest, op: Operation) -> bool:
    if isinstance(op, te.CopyOp):
        return op.is_load and not nest.writers(op.source)
    return isinstance(op, te.AllocOp | te.SpanOp | te.HullOp)
