"""Primitives that place values in memories: set_scope, cache_read, cache_write, in_place."""

from dataclasses import replace

from xdsl.dialects import arith
from xdsl.dialects.builtin import i8
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects import te
from vtac.passes.te.share_buffers import NotShared, share

from .nest import Nest, NestStage, RefusedPrimitive, ancestor_in, is_around, perfect_chain
from .transfers import check_load


def set_scope(nest: Nest, step: te.SetScopeOp) -> None:
    """Give the buffer of a stage another scope and number of slots."""
    stage = nest.stage(step.stage)
    alloc = stage.alloc
    in_dram = step.scope.data is te.Scope.DRAM
    for copy in [u.operation for u in alloc.buffer.uses if isinstance(u.operation, te.CopyOp)]:
        other = copy.target if copy.source is alloc.buffer else copy.source
        if (te.scope_of(other) is te.Scope.DRAM) is in_dram:
            raise RefusedPrimitive(
                f'a copy between stage "{stage.label}" and a cache would not be between DRAM and a'
                " scratchpad",
                "set_scope the stage before its caches are made; in a scratchpad it needs none.",
            )
    type = te.shaped(alloc.buffer)
    new = te.AllocOp(
        te.buffer_type(type.get_shape(), type.element_type, step.scope.data),
        () if alloc.is_whole else alloc.window,
        step.slots.value.data,
    )
    Rewriter.insert_op(new, InsertPoint.before(alloc))
    nest.replace_buffer(stage, new)


def cache_read(nest: Nest, step: te.CacheReadOp) -> None:
    """Copy a whole operand of a stage to a scope, and read it there; compute_at moves the copy.

    A parameter of the kernel is copied before all loops, anything else before the stage.
    """
    stage = nest.stage(step.stage)
    update, number = stage.update, step.operand_number.value.data
    if not 0 <= number < len(update.sources):
        raise RefusedPrimitive(
            f'stage "{stage.label}" has {len(update.sources)} operands, no {number}'
        )
    source = update.sources[number]
    if te.scope_of(source) is not te.Scope.DRAM or step.scope.data is te.Scope.DRAM:
        raise RefusedPrimitive("cache_read copies from DRAM to a scratchpad")
    type, owner = te.shaped(source), source.owner
    window = owner.window if isinstance(owner, te.AllocOp) and not owner.is_whole else ()
    alloc = te.AllocOp(
        te.buffer_type(type.get_shape(), type.element_type, step.scope.data),
        window,
        step.slots.value.data,
    )
    name = source.name_hint or "x"
    alloc.buffer.name_hint = f"{name}_{step.scope.data.value}"
    copy = te.CopyOp(source, alloc.buffer)
    check_load(nest, copy)
    copy.location = alloc.location = update.location
    place: Operation | None = stage.parts[0].root
    assert place is not None and place.parent is not None
    if isinstance(owner, te.AllocOp):
        if owner.parent is None or not is_around(owner.parent, place.parent):
            place = ancestor_in(update, owner.parent) if owner.parent is not None else None
    elif not nest.writers(source):
        place = ancestor_in(place, nest.kernel.body.block)
    if place is None:
        raise RefusedPrimitive(f'operand {number} of "{stage.label}" is not there where it is read')
    Rewriter.insert_op([alloc, copy], InsertPoint.before(place))
    update.operands[1 + number] = alloc.buffer
    order = stage.order - 0.5
    cache = NestStage(f"{stage.label}.{name}", order, alloc.buffer, [], [copy])
    nest.add(cache)
    nest.handles[step.cache] = cache


def cache_write(nest: Nest, step: te.CacheWriteOp) -> None:
    """Compute a stage in a scope first; the stage itself only copies (narrows) from there."""
    stage = nest.stage(step.stage)
    update = stage.update
    perfect_chain(stage.loops)
    block = update.parent
    assert block is not None
    if stage.loops and [op for op in block.ops if not isinstance(op, te.UnfuseOp)] != [update]:
        raise RefusedPrimitive(
            f'there is more than a statement in the loops of "{stage.label}"',
            "cache_write before anything is computed or copied there",
        )
    if stage.init is not None or update.accumulate is not None:
        raise RefusedPrimitive(
            f'stage "{stage.label}" is a reduction', "its value has a buffer: set_scope"
        )
    result = te.yielded(update.body)
    narrows = isinstance(result.owner, arith.TruncIOp)
    wide = result.owner.operands[0] if isinstance(result.owner, arith.TruncIOp) else result
    shape = te.shaped(stage.buffer).get_shape()
    alloc = te.AllocOp(te.buffer_type(shape, wide.type, step.scope.data), (), step.slots.value.data)
    alloc.buffer.name_hint = f"{stage.buffer.name_hint or stage.label}_{step.scope.data.value}"
    copied = stage.root.clone()
    Rewriter.insert_op([alloc, copied], InsertPoint.before(stage.root))
    loops, statement = _own_nest(copied)
    computed = NestStage(f"{stage.label}.value", stage.order - 0.25, alloc.buffer, loops, [])
    body = statement.detach_region(statement.body)
    inner = te.yielded(body)
    if narrows and isinstance(inner.owner, arith.TruncIOp):
        inner.replace_all_uses_with(inner.owner.input)
        Rewriter.erase_op(inner.owner)
    write = replace(statement.write, buffer=alloc.buffer)
    new = te.UpdateOp(computed.label, write, statement.reads, body)
    new.location = update.location
    Rewriter.replace_op(statement, new)
    computed.statements = [new]
    narrow = te.scalar_body(
        [wide.type], lambda value: arith.TruncIOp(value, i8).result if narrows else value
    )
    read = te.Access(alloc.buffer, update.write.subscripts)
    narrowed = te.UpdateOp(stage.label, update.write, [read], narrow)
    narrowed.location = update.location
    Rewriter.replace_op(update, narrowed)
    stage.statements = [narrowed]
    nest.add(computed)
    nest.handles[step.cache] = computed


def _own_nest(root: Operation) -> tuple[list[te.ForOp], te.UpdateOp]:
    loops: list[te.ForOp] = []
    current: Operation | None = root
    while isinstance(current, te.ForOp):
        loops.append(current)
        ops = current.body.block.ops
        current = next((op for op in ops if not isinstance(op, te.UnfuseOp)), None)
    assert isinstance(current, te.UpdateOp)
    return loops, current


def in_place(nest: Nest, step: te.InPlaceOp) -> None:
    """Let a stage write over the operand it reads."""
    stage = nest.stage(step.stage)
    replaced = stage.buffer
    try:
        left = share(stage.update, step.operand_number.value.data, nest.lifetimes)
    except NotShared as error:
        raise RefusedPrimitive(f'stage "{stage.label}" cannot work in place: {error}') from None
    if left is None:
        stage.leave_out()
    nest.follow_buffer(replaced)
