"""The primitive inline: an elementwise stage is computed by its readers, where they read it."""

from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects import te

from .nest import Nest, RefusedPrimitive, accesses_to, copies_from, is_around, label_of


def inline(nest: Nest, step: te.InlineOp) -> None:
    """Substitute the stage's body and operands into every reader; remove the stage."""
    stage = nest.stage(step.stage)
    update, alloc = stage.update, stage.alloc
    if stage.init is not None or update.accumulate is not None:
        raise RefusedPrimitive(
            f'stage "{stage.label}" is a reduction; only elementwise stages are inlined'
        )
    if len(nest.writers(stage.buffer)) > 1 or copies_from(stage.buffer):
        raise RefusedPrimitive(f'the buffer of "{stage.label}" is shared or copied')
    readers = list(dict.fromkeys(op for op, _ in accesses_to(stage.buffer)))
    for reader in readers:
        if not isinstance(reader, te.UpdateOp):
            raise RefusedPrimitive(f"{label_of(reader)} is no scalar statement any more")
        if any(r.buffer is stage.buffer and r.outside is not None for r in reader.reads):
            raise RefusedPrimitive(f'{label_of(reader)} reads "{stage.label}" outside its shape')
        for source in update.sources:
            home = source.owner if isinstance(source.owner, Block) else source.owner.parent
            if home is None or reader.parent is None or not is_around(home, reader.parent):
                raise RefusedPrimitive(
                    f'an operand of "{stage.label}" is not there where {label_of(reader)} is',
                    "inline before cache_read and compute_at put operands into its loops",
                )
    for reader in readers:
        assert isinstance(reader, te.UpdateOp)
        new = _substituted(reader, update)
        new.location = reader.location
        nest.replace_statement(reader, new)
    Rewriter.erase_op(stage.root)
    Rewriter.erase_op(alloc)
    stage.leave_out()


def _substituted(reader: te.UpdateOp, producer: te.UpdateOp) -> te.UpdateOp:
    """The reader with each read of the producer replaced by the producer's expression."""
    body = reader.body.clone()
    arguments = list(body.block.args)
    offset = 1 if reader.accumulate is not None else 0
    reads: list[te.Access] = []
    for number, read in enumerate(reader.reads):
        argument = arguments[offset + number]
        if read.buffer is not producer.destination:
            reads.append(read)
            continue
        values: list[SSAValue] = []
        for inner in producer.reads:
            reads.append(_composed(inner, producer.write, read))
            place = argument.index + len(values)
            element = te.shaped(inner.buffer).element_type
            values.append(body.block.insert_arg(element, place))
        argument.replace_all_uses_with(_inserted(producer.body, body, values))
        body.block.erase_arg(argument)
    return te.UpdateOp(
        reader.label.data,
        reader.write,
        reads,
        body,
        accumulate=reader.accumulate is not None,
        is_init=reader.is_init is not None,
    )


def _inserted(source: Region, target: Region, values: list[SSAValue]) -> SSAValue:
    """Copy a body's operations to the start of another; return what the body yielded."""
    mapping: dict[SSAValue, SSAValue] = dict(zip(source.block.args, values, strict=True))
    copies = [op.clone(mapping) for op in source.block.ops if not isinstance(op, te.YieldOp)]
    if copies:
        Rewriter.insert_op(copies, InsertPoint.at_start(target.block))
    result = te.yielded(source)
    return mapping.get(result, result)


def _composed(inner: te.Access, write: te.Access, read: te.Access) -> te.Access:
    """The producer's access, with its own indices replaced by what the reader subscripts."""
    place = {terms[0][0]: dim for dim, (terms, _) in enumerate(write.subscripts) if terms}
    subscripts = []
    for terms, constant in inner.subscripts:
        total: dict[SSAValue, int] = {}
        for index, coefficient in terms:
            outer_terms, outer_constant = read.subscripts[place[index]]
            constant += coefficient * outer_constant
            for value, factor in outer_terms:
                total[value] = total.get(value, 0) + coefficient * factor
        subscripts.append((tuple((v, c) for v, c in total.items() if c), constant))
    return te.Access(inner.buffer, tuple(subscripts), inner.outside)
