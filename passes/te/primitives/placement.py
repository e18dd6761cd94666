"""Primitives that move a stage into the loops of another: compute_at and compute_with.

The part of the stage to compute there follows from the reads there (`intervals`); its loops then
run over those ranges, and its buffer holds just that window.
"""

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from vtac.dialects import te

from .intervals import SymbolicInterval, interval_of, materialise, range_interval
from .nest import (
    Nest,
    NestStage,
    RefusedPrimitive,
    accesses_to,
    ancestor_in,
    copies_from,
    is_around,
    label_of,
)


def compute_at(nest: Nest, step: te.ComputeAtOp) -> None:
    """Move a stage to the beginning of a loop's body, and compute only what is read in the body."""
    stage = nest.stage(step.stage)
    _, loop = nest.loop(step.axis)
    block = loop.body.block
    _check_place(nest, stage, loop)
    reads = list(accesses_to(stage.buffer))[::-1]
    copies = copies_from(stage.buffer)
    for reader in (*(op for op, _ in reads), *copies):
        if ancestor_in(reader, block) is None:
            raise RefusedPrimitive(
                f'"{stage.label}" is also read by {label_of(reader)}, outside of the loop'
                f' "{loop.label.data}"',
                "compute it at a loop around all of its readers",
            )
    if not reads and not copies:
        raise RefusedPrimitive(
            f'nothing reads "{stage.label}"', "a result goes along by compute_with"
        )
    intervals = [
        [interval_of(subscript, block) for subscript in access.subscripts] for _, access in reads
    ]
    copied = [copy.window for copy in copies]
    intervals += [[range_interval(item, block) for item in window] for window in copied]
    window = _window(nest, stage, intervals, block)
    _move(nest, stage, window, loop)
    alloc = stage.alloc
    shape = te.shaped(stage.buffer).get_shape()
    whole = window == [te.Range(0, size) for size in shape]
    new = te.AllocOp(alloc.buffer.type, () if whole else window, alloc.slots.value.data)
    nest.order.replace_alloc(stage, new)
    nest.replace_buffer(stage, new)
    for copy, part in zip(copies, copied, strict=True):
        copy.set_window(part)


def compute_with(nest: Nest, step: te.ComputeWithOp) -> None:
    """Move a result of the kernel into the tiles of another with the same axes."""
    stage = nest.stage(step.stage)
    anchor, loop = nest.loop(step.axis)
    block = loop.body.block
    _check_place(nest, stage, loop)
    if isinstance(stage.buffer.owner, te.AllocOp):
        raise RefusedPrimitive(f'"{stage.label}" is no result of the kernel', "use compute_at")
    if stage.buffer.uses and (list(accesses_to(stage.buffer)) or copies_from(stage.buffer)):
        raise RefusedPrimitive(
            f'"{stage.label}" is read in the kernel', "use compute_at for its readers"
        )
    shapes = [te.shaped(part.buffer).get_shape() for part in (stage, anchor)]
    if shapes[0] != shapes[1]:
        raise RefusedPrimitive(
            f'"{stage.label}" has the shape {shapes[0]}, "{anchor.label}" {shapes[1]}; they share'
            " tiles only if they share their axes"
        )
    subscripts = anchor.update.write.subscripts
    intervals = [[interval_of(subscript, block) for subscript in subscripts]]
    _move(nest, stage, _window(nest, stage, intervals, block), loop)


def _check_place(nest: Nest, stage: NestStage, loop: te.ForOp) -> None:
    if any(isinstance(op, te.InvokeOp) for part in stage.parts for op in part.statements):
        raise RefusedPrimitive(f'"{stage.label}" is tensorized already', "place stages before that")
    home = stage.root.parent
    assert home is not None
    if any(loop in part.loops for part in stage.parts):
        raise RefusedPrimitive(f'"{stage.label}" cannot be computed inside itself')
    block = loop.body.block
    if ancestor_in(loop, home) is None and not is_around(block, home):
        raise RefusedPrimitive(
            f'the loop "{loop.label.data}" is not where "{stage.label}" could move'
        )
    for part in stage.parts:
        for source in part.sources:
            place = source.owner if isinstance(source.owner, Block) else source.owner.parent
            if place is None or not is_around(place, block):
                raise RefusedPrimitive(
                    f'"{stage.label}" reads a buffer that is only there further inside than the'
                    f' loop "{loop.label.data}"'
                )
    others = [part.label for part in nest.writers(stage.buffer) if part not in stage.parts]
    if others:
        raise RefusedPrimitive(
            f'the buffer of "{stage.label}" is also written by "{others[0]}"',
            "place stages before they share buffers (in_place)",
        )


def _window(
    nest: Nest, stage: NestStage, intervals: Sequence[Sequence[SymbolicInterval]], block: Block
) -> list[te.Range]:
    """The union of the regions in each dimension, as ranges for use in ``block``."""
    shape = te.shaped(stage.buffer).get_shape()
    kernel = nest.kernel.body.block
    return [
        materialise([region[dim] for region in intervals], size, block, kernel)
        for dim, size in enumerate(shape)
    ]


def _move(nest: Nest, stage: NestStage, window: Sequence[te.Range], loop: te.ForOp) -> None:
    """Move the stage's nests into the loop and let them run over the window."""
    nest.order.move(stage, loop.body.block)
    for part in stage.parts:
        for statement in part.statements:
            _narrow(part, statement, window)


def _narrow(part: NestStage, statement: Operation, window: Sequence[te.Range]) -> None:
    if not isinstance(statement, te.UpdateOp):
        return
    for (terms, _), item in zip(statement.write.subscripts, window, strict=True):
        if not terms:
            continue
        loop = outermost(part, terms[0][0])
        if loop.sizes is not None and item != loop.over:
            raise RefusedPrimitive(
                f'loop "{loop.label.data}" of "{part.label}" is split into fixed sizes',
                "compute the stage there first, then split it by a factor",
            )
        loop.set_over(item)


def outermost(part: NestStage, index: SSAValue) -> te.ForOp:
    """The stage's own loop that cuts the range of an index first."""
    owner = index.owner
    loop = owner.parent_op() if isinstance(owner, Block) else None
    while isinstance(loop, te.ForOp) and loop in part.loops:
        values = loop.over.values
        outer = values[0].owner if values is not None else None
        around = outer.parent_op() if isinstance(outer, Block) else None
        if not isinstance(around, te.ForOp) or around not in part.loops:
            return loop
        loop = around
    raise RefusedPrimitive(f'stage "{part.label}" is not indexed by its own loops')
