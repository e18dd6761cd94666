"""Primitives that change loops alone: axes, init, split, tile, fuse, reorder.

Loops of one axis form a chain: the outer one cuts the range, an inner one runs over the tile at
hand. Statements use the start of the innermost.
"""

from collections.abc import Sequence
from itertools import pairwise

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects import te

from .nest import Nest, NestStage, RefusedPrimitive, perfect_chain, take_out, take_out_all, wrap


def axes(nest: Nest, step: te.AxesOp) -> None:
    """Bind handles to the stage's own loops, outermost first."""
    stage = nest.stage(step.stage)
    names = [name.data for name in step.names]
    found = [loop.label.data for loop in stage.loops]
    if names != found:
        raise RefusedPrimitive(f'the loops of stage "{stage.label}" are ({", ".join(found)})')
    for handle, loop in zip(step.axes, stage.loops, strict=True):
        nest.loops[handle] = stage, loop


def init(nest: Nest, step: te.InitOp) -> None:
    """Bind a handle to the stage that sets the start of a reduction."""
    stage = nest.stage(step.stage)
    if stage.init is None:
        raise RefusedPrimitive(f'stage "{stage.label}" is no reduction, it has no init')
    nest.handles[step.init] = stage.init


def split(nest: Nest, step: te.SplitOp) -> None:
    """Put a loop over tiles around a loop."""
    factor = step.factor.value.data if step.factor is not None else None
    sizes = [int(size) for size in step.sizes.get_values()] if step.sizes is not None else None
    stage, loop = nest.loop(step.axis)
    outer = _split(stage, loop, factor, sizes)
    nest.loops[step.outer] = stage, outer
    nest.loops[step.inner] = stage, loop


def _split(
    stage: NestStage, loop: te.ForOp, factor: int | None, sizes: Sequence[int] | None
) -> te.ForOp:
    label, over, own = loop.label.data, loop.over, loop.tile_step
    for size in [factor] if sizes is None else sizes:
        if own is None or (size is not None and size % own):
            raise RefusedPrimitive(
                f'loop "{label}" has tiles of {own or "different sizes"}; {size} is no multiple',
                "split a loop before its tiles, from the outermost to the innermost",
            )
    if sizes is not None and (over.bounds is None or over.bounds[1] != sum(sizes)):
        extent = "not known here" if over.bounds is None else over.bounds[1]
        raise RefusedPrimitive(
            f'the sizes add up to {sum(sizes)}, the extent of "{label}" is {extent}'
        )
    outer = te.ForOp(
        label, over, step=factor or 1, sizes=sizes, is_reduce=loop.is_reduce is not None
    )
    wrap(outer, loop)
    loop.set_over(outer.tile)
    stage.loops.insert(stage.loops.index(loop), outer)
    return outer


def tile(nest: Nest, step: te.TileOp) -> None:
    """Split two neighbouring loops and put both outer loops outside."""
    first_factor, second_factor = (int(factor) for factor in step.factors.get_values())
    stage, first = nest.loop(step.first)
    other, second = nest.loop(step.second)
    if other is not stage:
        raise RefusedPrimitive("tile takes two loops of one stage")
    outer = _split(stage, first, first_factor, None), _split(stage, second, second_factor, None)
    _reorder(stage, [*outer, first, second])
    handles = step.first_outer, step.second_outer, step.first_inner, step.second_inner
    for handle, loop in zip(handles, (*outer, first, second), strict=True):
        nest.loops[handle] = stage, loop


def fuse(nest: Nest, step: te.FuseOp) -> None:
    """Make one loop of two neighbours; where one of them runs once, the other is both."""
    stage, outer = nest.loop(step.outer)
    other, inner = nest.loop(step.inner)
    place = stage.loops.index(outer)
    if other is not stage or stage.loops[place + 1 : place + 2] != [inner]:
        raise RefusedPrimitive("fuse takes a loop and the next one inside it, of one stage")
    perfect_chain([outer, inner])
    for gone, kept in ((inner, outer), (outer, inner)):
        bounds, tile_step = gone.over.bounds, gone.tile_step
        if bounds is not None and tile_step is not None and 1 <= bounds[1] <= tile_step:
            dissolve(stage, gone, bounds)
            nest.loops[step.fused] = stage, kept
            return
    fused = _fused(stage, outer, inner)
    nest.loops[step.fused] = stage, fused


def _fused(stage: NestStage, outer: te.ForOp, inner: te.ForOp) -> te.ForOp:
    """A loop over pairs of tiles, in the place of two."""
    if (outer.is_reduce is None) != (inner.is_reduce is None):
        raise RefusedPrimitive(
            f'of "{outer.label.data}" and "{inner.label.data}" one is a reduction, one is not'
        )
    ranges, steps = [], []
    for loop in (outer, inner):
        bounds = loop.over.bounds
        if bounds is None or bounds[1] < 1 or loop.tile_step is None:
            raise RefusedPrimitive(
                f'"{loop.label.data}" has no known range in even tiles, so its pairs with the other'
                " loop cannot be counted",
                "fuse loops that are no tiles of others, before the stage is computed elsewhere",
            )
        ranges.append(bounds)
        steps.append(loop.tile_step)
    label = f"{outer.label.data}_{inner.label.data}"
    fused = te.ForOp(label, te.Range(0, 1), is_reduce=outer.is_reduce is not None)
    number, count = fused.body.block.args
    unfuse = te.UnfuseOp((number, count), ranges, steps)
    fused.set_over(te.Range(0, unfuse.pair_count))
    tiles = [*outer.body.block.args, *inner.body.block.args]
    for result, argument in zip(unfuse.results, tiles, strict=True):
        result.name_hint = argument.name_hint
        argument.replace_all_uses_with(result)
    outer.parent.insert_op_before(fused, outer)  # type: ignore[union-attr]
    between = [op for op in take_out_all(outer.body.block) if op is not inner]
    fused.body.block.add_ops([unfuse, *between, *take_out_all(inner.body.block)])
    take_out(outer).erase()
    inner.erase()
    place = stage.loops.index(outer)
    stage.loops[place : place + 2] = [fused]
    return fused


def dissolve(stage: NestStage, loop: te.ForOp, bounds: tuple[int, int]) -> None:
    """Replace a loop that runs once by its body, in which the tile is a constant.

    The constant stands at the kernel's beginning, so that it is between no two loops.
    """
    block = loop.parent
    assert block is not None
    for use in list(loop.index.uses):
        inner = use.operation
        if isinstance(inner, te.ForOp) and inner.over == loop.tile:
            inner.set_over(te.Range(*bounds))
    span = te.SpanOp([], *bounds)
    span.start.name_hint, span.length.name_hint = loop.label.data, f"{loop.label.data}_n"
    for argument, value in zip(loop.body.block.args, span.results, strict=True):
        argument.replace_all_uses_with(value)
    ops = take_out_all(loop.body.block)
    block.insert_ops_before(ops, loop)
    if span.start.uses or span.length.uses:
        kernel: Operation | None = loop
        while kernel is not None and not isinstance(kernel, te.KernelOp):
            kernel = kernel.parent_op()
        assert kernel is not None
        Rewriter.insert_op(span, InsertPoint.at_start(kernel.body.block))
    stage.loops.remove(loop)
    take_out(loop).erase()


def reorder(nest: Nest, step: te.ReorderOp) -> None:
    """Put some loops of one stage, in the given order, into the places that they have now."""
    found = [nest.loop(axis) for axis in step.axes]
    if len({id(stage) for stage, _ in found}) > 1:
        raise RefusedPrimitive("reorder takes the loops of one stage")
    if found:
        _reorder(found[0][0], [loop for _, loop in found])


def _reorder(stage: NestStage, wanted: Sequence[te.ForOp]) -> None:
    places = sorted(stage.loops.index(loop) for loop in wanted)
    chain = stage.loops[places[0] : places[-1] + 1]
    perfect_chain(chain)
    ordered = iter(wanted)
    new = [next(ordered) if loop in wanted else loop for loop in chain]
    _keep_dependences(new)
    block, innermost = chain[0].parent, chain[-1].body.block
    assert block is not None
    contents = [take_out(op) for op in list(innermost.ops) if not isinstance(op, te.UnfuseOp)]
    for loop in reversed(chain[1:]):
        take_out(loop)
    if new[0] is not chain[0]:
        block.insert_op_before(new[0], chain[0])
        take_out(chain[0])
    for outer, inner in pairwise(new):
        outer.body.block.add_op(inner)
    new[-1].body.block.add_ops(contents)
    stage.loops[places[0] : places[-1] + 1] = new


def _keep_dependences(loops: Sequence[te.ForOp]) -> None:
    """Refuse an order in which a loop over a tile stands outside of what makes the tile."""
    inside: set[SSAValue] = set()
    for loop in reversed(loops):
        if inside.intersection(loop.operands):
            raise RefusedPrimitive(
                f'a loop over tiles of "{loop.label.data}" must stay outside of the loop in them'
            )
        inside.update(loop.body.block.args)
        for op in loop.body.block.ops:
            if isinstance(op, te.UnfuseOp):
                inside.update(op.results)
