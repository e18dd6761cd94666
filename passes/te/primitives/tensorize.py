"""The primitive tensorize: a proved match (`matching`) becomes invocations of intrinsics."""

from dataclasses import replace

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects import te
from vtac.passes.te.matching import IntrinsicCall, IntrinsicCover, Mismatch, match

from .intervals import never_outside
from .loops import dissolve
from .nest import Nest, NestStage, RefusedPrimitive, perfect_chain


def tensorize(nest: Nest, step: te.TensorizeOp) -> None:
    """Replace the statement by intrinsics, remove the lane loops, mark the others as hardware."""
    stage = nest.stage(step.stage)
    owner, axis = nest.loop(step.axis)
    if owner is not stage:
        raise RefusedPrimitive(f'the axis is a loop of "{owner.label}", not of "{stage.label}"')
    update = stage.update
    intrinsics = [_declaration(nest, name.root_reference.data) for name in step.intrinsics]
    try:
        found = match(update, intrinsics, never_outside(nest, update), stage.identity)
    except Mismatch as mismatch:
        raise RefusedPrimitive(
            f'stage "{stage.label}" is not {", ".join(i.sym_name.data for i in intrinsics)}:'
            f" {mismatch.what}",
            mismatch.hint,
        ) from None
    if axis in found.lanes:
        raise RefusedPrimitive(
            f'"{axis.label.data}" is a lane of the intrinsic; name a loop outside it'
        )
    _rewrite(stage, update, axis, found)


def _rewrite(stage: NestStage, update: te.UpdateOp, axis: te.ForOp, found: IntrinsicCover) -> None:
    first, *others = found.invocations
    invoke = _invoke(first, stage, {})
    invoke.location = update.location
    Rewriter.replace_op(update, invoke)
    stage.statements = [invoke]
    for loop in found.lanes:
        bounds = loop.over.bounds
        assert bounds is not None
        dissolve(stage, loop, bounds)
    hardware = stage.loops[stage.loops.index(axis) :]
    perfect_chain(hardware)
    for loop in hardware:
        if any(isinstance(op, te.UnfuseOp) for op in loop.body.block.ops):
            raise RefusedPrimitive(
                f'"{loop.label.data}" is a fused loop, an instruction\'s loops are single axes',
                "name a loop inside it",
            )
    innermost = hardware[-1].body.block
    if innermost.first_op is not innermost.last_op:
        raise RefusedPrimitive("the instruction's loops also hold other operations")
    for loop in hardware:
        loop.hardware = UnitAttr()
    for invocation in reversed(others):
        mapping: dict[SSAValue, SSAValue] = {}
        copy = axis.clone(mapping)
        Rewriter.insert_op(copy, InsertPoint.after(axis))
        [old] = [op for op in copy.walk() if isinstance(op, te.InvokeOp)]
        new = _invoke(invocation, stage, mapping)
        new.location = update.location
        Rewriter.replace_op(old, new)
        stage.statements.insert(1, new)


def _invoke(
    invocation: IntrinsicCall, stage: NestStage, mapping: dict[SSAValue, SSAValue]
) -> te.InvokeOp:
    def mapped(access: te.Access) -> te.Access:
        subscripts = tuple(
            (tuple((mapping.get(index, index), c) for index, c in terms), constant)
            for terms, constant in access.subscripts
        )
        return replace(access, subscripts=subscripts)

    constant = invocation.immediate
    return te.InvokeOp(
        invocation.intrinsic.sym_name.data,
        stage.label,
        mapped(invocation.write),
        [mapped(read) for read in invocation.reads],
        mapped(constant) if isinstance(constant, te.Access) else constant,
    )


def _declaration(nest: Nest, name: str) -> te.IntrinsicOp:
    found = te.declared(nest.kernel, te.IntrinsicOp, name)
    if found is None:
        raise RefusedPrimitive(
            f"there is no te.intrinsic @{name}", "run te-declare-intrinsics before"
        )
    return found
