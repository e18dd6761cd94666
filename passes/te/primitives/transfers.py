"""The primitives dma and pad. Declarations of intrinsics say which transfers the hardware has.

The module's intrinsics that lower to load and store (`te.standard_intrinsics`) say which scopes and
elements a transfer takes, and what it puts where an element lies outside of the tensor.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects import te
from vtac.passes.te.matching import Mismatch, match

from .intervals import interval_of, known_bounds, materialise, never_outside
from .nest import Nest, NestStage, RefusedPrimitive, accesses_to, label_of, perfect_chain


def dma(nest: Nest, step: te.DmaOp) -> None:
    """Replace the loops from an axis inward by one copy of the elements that they cover."""
    stage = nest.stage(step.stage)
    owner, loop = nest.loop(step.axis)
    if owner is not stage:
        raise RefusedPrimitive(f'the axis is a loop of "{owner.label}", not of "{stage.label}"')
    update = stage.update
    lanes = _proved(nest, stage, update)
    if loop in lanes:
        raise RefusedPrimitive(
            f'"{loop.label.data}" is a lane of the transfer; name a loop outside it'
        )
    place = stage.loops.index(loop)
    perfect_chain(stage.loops[place:])
    block, target = loop.parent, te.shaped(update.destination)
    assert block is not None
    pads = _pads(stage, update)
    read, kernel = update.reads[0], nest.kernel.body.block
    window = [
        materialise([interval_of(subscript, block)], size, block, kernel)
        for subscript, size in zip(update.write.subscripts, target.get_shape(), strict=True)
    ]
    same = target.get_shape() == te.shaped(read.buffer).get_shape()
    copy = te.CopyOp(read.buffer, update.destination, (), None if same and not any(pads) else pads)
    copy.set_window(window)
    copy.location = update.location
    Rewriter.replace_op(loop, copy)
    stage.loops, stage.statements = stage.loops[:place], [copy]


def _proved(nest: Nest, stage: NestStage, update: te.UpdateOp) -> Sequence[te.ForOp]:
    """The lane loops of the declared transfer that the statement equals."""
    if len(update.sources) != 1 or update.accumulate is not None:
        raise RefusedPrimitive(f'stage "{stage.label}" is no copy of one operand')
    ends = te.scope_of(update.sources[0]), te.scope_of(update.destination)
    declared = nest.transfers
    if not declared:
        raise RefusedPrimitive("no transfer is declared", "run te-declare-intrinsics before")
    fitting = [op for op in declared if tuple(scope.data for scope in op.scopes)[::-1] == ends]
    if not fitting:
        known = ", ".join(
            f"@{op.sym_name.data} ({op.lanes[1].scope.value} to {op.lanes[0].scope.value})"
            for op in declared
        )
        raise RefusedPrimitive(
            f"the copy goes from {ends[0].value} to {ends[1].value}; declared are {known}",
            "set_scope the stage or its operand",
        )
    failures, inside = [], never_outside(nest, update)
    for intrinsic in fitting:
        try:
            return match(update, [intrinsic], inside, stage.identity).lanes
        except Mismatch as mismatch:
            failures.append((intrinsic.sym_name.data, mismatch))
    name, first = failures[0]
    hint = first.hint or "cache_write splits a computation off; a store narrows, a load copies"
    raise RefusedPrimitive(f'stage "{stage.label}" is not {name}: {first.what}', hint)


def _pads(stage: NestStage, update: te.UpdateOp) -> list[int]:
    """How far before the operand the destination begins in each dimension."""
    pads = []
    for written, read in zip(update.write.subscripts, update.reads[0].subscripts, strict=True):
        if written[0] != read[0]:
            raise RefusedPrimitive(
                f'stage "{stage.label}" permutes or repeats elements, a copy does not'
            )
        pads.append(written[1] - read[1])
    if min(pads) < 0 or (any(pads) and te.scope_of(update.destination) is te.Scope.DRAM):
        raise RefusedPrimitive(f'stage "{stage.label}" moves elements by {[-p for p in pads]}')
    return pads


def check_load(nest: Nest, load: te.CopyOp) -> None:
    """Refuse a load that no declaration covers; without any declaration every load is accepted."""
    declared = nest.transfers
    element, scope = te.shaped(load.source).element_type, te.scope_of(load.target)
    shape = te.shaped(load.source).get_shape()
    fitting = [op for op in declared if op.scopes.data[0].data is scope]
    for op in fitting:
        lanes = op.lane_shape(0)
        if op.elements.data[0] == element and shape[-len(lanes) :] == lanes:
            return
    if declared:
        assert isinstance(element, IntegerType)
        what = ", ".join(
            f"@{op.sym_name.data}, elements of {op.lane_shape(0)} {op.lanes[0].element}"
            for op in fitting
        )
        raise RefusedPrimitive(
            f"{te.shaped(load.source)} is not loaded into {scope.value}: declared is"
            f" {what or 'no such load'}",
            "choose another scope",
        )


def pad(nest: Nest, step: te.PadOp) -> None:
    """Let the buffer of a cached operand hold the border that its readers read, filled by DMA."""
    stage = nest.stage(step.cache)
    [copy] = stage.statements
    alloc = stage.alloc
    if not isinstance(copy, te.CopyOp) or not copy.is_load or copy.pads is not None:
        raise RefusedPrimitive(
            f'"{stage.label}" is no cached operand that could get pads', "cache_read it"
        )
    if not alloc.is_whole:
        raise RefusedPrimitive(
            f'"{stage.label}" has its place already', "te.pad comes before compute_at"
        )
    readers = list(dict.fromkeys(op for op, _ in accesses_to(alloc.buffer)))
    updates = [op for op in readers if isinstance(op, te.UpdateOp)]
    if len(updates) < len(readers):
        raise RefusedPrimitive(
            f"{label_of(readers[0])} is no scalar statement any more", "pad before that"
        )
    zero = _filling(nest, te.scope_of(alloc.buffer))
    reads = [read for op in updates for read in op.reads if read.buffer is alloc.buffer]
    for read in reads:
        if read.outside is not None and read.outside != zero:
            raise RefusedPrimitive(
                f'"{stage.label}" is read as {read.outside} outside of its tensor; pads of'
                f" {te.scope_of(alloc.buffer).value} are {'not there' if zero is None else zero}",
                "leave the operand without pads: taps outside are then left out",
            )
    shape = te.shaped(copy.source).get_shape()
    borders = [_border(nest, reads, dim, size) for dim, size in enumerate(shape)]
    if not any(map(any, borders)):
        raise RefusedPrimitive(
            f'no read of "{stage.label}" leaves its tensor, there is nothing to pad'
        )
    grown = [low + size + high for size, (low, high) in zip(shape, borders, strict=True)]
    lows = [low for low, _ in borders]
    type = te.buffer_type(grown, te.shaped(alloc.buffer).element_type, te.scope_of(alloc.buffer))
    new = te.AllocOp(type, (), alloc.slots.value.data)
    Rewriter.insert_op(new, InsertPoint.before(alloc))
    for update in updates:
        nest.replace_statement(update, _shifted(update, alloc.buffer, lows))
    nest.replace_buffer(stage, new)
    copy.pads = te.CopyOp(copy.source, copy.target, (), lows).pads


def _filling(nest: Nest, scope: te.Scope) -> int | None:
    """What a load into a scope puts outside of the tensor."""
    for op in nest.transfers:
        if op.lanes[0].scope is scope:
            return op.lanes[1].outside
    raise RefusedPrimitive(
        f"no load into {scope.value} is declared", "run te-declare-intrinsics before"
    )


def _border(nest: Nest, reads: Sequence[te.Access], dim: int, size: int) -> tuple[int, int]:
    """How far before and after a dimension its reads go."""
    kernel = nest.kernel.body.block
    bounds = [known_bounds(interval_of(read.subscripts[dim], kernel), kernel) for read in reads]
    low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
    return max(-low, 0), max(high - size + 1, 0)


def _shifted(update: te.UpdateOp, buffer: object, by: Sequence[int]) -> te.UpdateOp:
    """The statement with its reads of a buffer moved, none of them outside any more."""

    def moved(read: te.Access) -> te.Access:
        if read.buffer is not buffer:
            return read
        subscripts = tuple(
            (terms, constant + low)
            for (terms, constant), low in zip(read.subscripts, by, strict=True)
        )
        return te.Access(read.buffer, subscripts)

    new = te.UpdateOp(
        update.label.data,
        update.write,
        [moved(read) for read in update.reads],
        update.body.clone(),
        accumulate=update.accumulate is not None,
        is_init=update.is_init is not None,
    )
    new.location = update.location
    return new
