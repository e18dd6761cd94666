"""``te-split-bodies``: an elementwise stage becomes one stage per operation, as the ALU works.

``trunci(minsi(maxsi(shrsi(addi(acc, bias), shift), lo), hi))`` becomes an addition, a shift, two
clips, and a stage that only narrows, which is a store. Constants stay with the operation that uses
them, where they are immediates. Bodies of reductions are left alone.

A store writes accumulators in the order in which it reads them. So a stage that narrows, and
permutes, repeats or leaves out elements, or reads a parameter, becomes a stage that copies
accumulators and one that narrows.

Takes and leaves kernels of tensors.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from vtac.dialects.te import (
    ComputeOp,
    DomainAttr,
    KernelOp,
    Read,
    YieldOp,
    identity_map,
    rows_of,
    scalar_body,
    shaped,
)
from vtac.passes.te.computes import fresh_label, fresh_name, with_reads


@dataclass(frozen=True)
class SplitBodiesPass(ModulePass):
    """Split elementwise stages into one stage per operation."""

    name = "te-split-bodies"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Split the bodies of all elementwise stages."""
        PatternRewriteWalker(_SplitBody(), apply_recursively=False).rewrite_module(op)


class _SplitBody(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ComputeOp, rewriter: PatternRewriter) -> None:
        """Insert a stage for each operation of the body but the last.

        The last operation remains in a stage of the original name.
        """
        operations = [inner for inner in op.body.block.ops if _computes(inner)]
        kernel = op.parent_op()
        assert isinstance(kernel, KernelOp)
        if not len(op.reduce) and len(operations) == 1 and _needs_moving(op, operations[0]):
            _move_first(op, kernel, rewriter)
            return
        if len(op.reduce) or len(operations) < 2:
            return
        scalars: dict[SSAValue, Read] = dict(zip(op.body.block.args, op.reads, strict=True))
        for operation in operations:
            label = op.label.data
            if operation is not operations[-1]:
                label = fresh_label(kernel, f"{label}_{operation.name.rpartition('.')[2]}")
            stage = _stage(label, op, operation, scalars)
            if operation is operations[-1]:
                stage.result.name_hint = op.result.name_hint
                rewriter.replace(op, stage)
                return
            stage.result.name_hint = label
            rewriter.insert(stage)
            same = rows_of(identity_map(len(op.spatial)))
            scalars[operation.results[0]] = Read(stage.result, same)


def _needs_moving(op: ComputeOp, operation: Operation) -> bool:
    """Whether it narrows other elements than its own, some that lie outside, or a parameter."""
    if not isinstance(operation, arith.TruncIOp):
        return False
    (read,) = op.reads
    same = read.rows == rows_of(identity_map(len(op.spatial)))
    return isinstance(read.value, BlockArgument) or read.outside is not None or not same


def _move_first(op: ComputeOp, kernel: KernelOp, rewriter: PatternRewriter) -> None:
    """Bring the elements into accumulators, and to where they are narrowed.

    What lies outside is left out of a sum of one term, which starts from 0. Where it is not 0, all
    terms are made smaller by it, and the sum larger.
    """
    (read,) = op.reads
    rank, outside = len(op.spatial), read.outside

    def placed(stage: ComputeOp) -> Read:
        stage.location, stage.result.name_hint = op.location, stage.label.data
        rewriter.insert(stage)
        return Read(stage.result, rows_of(identity_map(len(stage.spatial))))

    label = fresh_label(kernel, f"{op.label.data}_moved")
    if outside is None:
        body = scalar_body([i32], lambda value: value)
        moved = placed(ComputeOp(label, op.spatial, {}, [read], body, i32))
    else:
        if outside:
            lower = _plus(fresh_label(kernel, f"{op.label.data}_lower"), read.value, -outside)
            read = Read(placed(lower).value, read.rows, 0)
        body = scalar_body([i32, i32], lambda acc, x: arith.AddiOp(acc, x).result)
        once = DomainAttr({fresh_name("once", op.spatial.names): 1})
        moved = placed(ComputeOp(label, op.spatial, once, [read], body, i32, identity=0))
        if outside:
            higher = fresh_label(kernel, f"{op.label.data}_higher")
            moved = placed(_plus(higher, moved.value, outside))
    store = with_reads(op, [Read(moved.value, rows_of(identity_map(rank)))])
    store.location, store.result.name_hint = op.location, op.result.name_hint
    rewriter.replace(op, store)


def _plus(label: str, value: SSAValue, amount: int) -> ComputeOp:
    """A stage that adds a constant to each element of a tensor."""

    def body(element: SSAValue) -> SSAValue:
        constant = arith.ConstantOp(IntegerAttr(amount, i32)).result
        return arith.AddiOp(element, constant).result

    shape = shaped(value).get_shape()
    domain = {f"i{axis}": extent for axis, extent in enumerate(shape)}
    own = Read(value, rows_of(identity_map(len(shape))))
    return ComputeOp(label, domain, {}, [own], scalar_body([i32], body), i32)


def _computes(op: Operation) -> bool:
    return not isinstance(op, arith.ConstantOp | YieldOp)


def _stage(
    label: str, op: ComputeOp, operation: Operation, scalars: dict[SSAValue, Read]
) -> ComputeOp:
    """The stage of one operation of the body; ``scalars`` says how each value is read."""
    block, reads = Block(), list[Read]()
    operands: list[SSAValue] = []
    for operand in operation.operands:
        if isinstance(operand.owner, arith.ConstantOp):
            constant = operand.owner.clone()
            block.add_op(constant)
            operands.append(constant.result)
        else:
            read = scalars[operand]
            reads.append(read)
            operands.append(block.insert_arg(shaped(read.value).element_type, len(block.args)))
    clone = operation.clone(dict(zip(operation.operands, operands, strict=True)))
    clone = _addition_of_immediate(clone)
    block.add_ops([clone, YieldOp(clone.results[0])])
    result = clone.results[0].type
    stage = ComputeOp(label, op.spatial, {}, reads, Region(block), result)
    stage.location = op.location
    return stage


def _addition_of_immediate(op: Operation) -> Operation:
    """``x - 3`` as ``x + -3``: the ALU only adds."""
    if not isinstance(op, arith.SubiOp) or not isinstance(op.rhs.owner, arith.ConstantOp):
        return op
    constant = op.rhs.owner
    assert isinstance(constant.value, IntegerAttr)
    constant.properties["value"] = IntegerAttr(-constant.value.value.data, constant.value.type)
    return arith.AddiOp(op.lhs, op.rhs)
