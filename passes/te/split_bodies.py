"""``te-split-bodies``: an elementwise stage becomes one stage per operation, as the ALU works.

``trunci(minsi(maxsi(shrsi(addi(acc, bias), shift), lo), hi))`` becomes an addition, a shift, two
clips, and a stage that only narrows, which is a store. Constants stay with the operation that uses
them, where they are immediates. Bodies of reductions are left alone.

Takes and leaves kernels of tensors.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from vtac.dialects.te import ComputeOp, KernelOp, Read, YieldOp, identity_map, rows_of, shaped
from vtac.passes.te.computes import fresh_label


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
        """A stage for each operation but the last, which keeps the name."""
        operations = [inner for inner in op.body.block.ops if _computes(inner)]
        if len(op.reduce) or len(operations) < 2:
            return
        kernel = op.parent_op()
        assert isinstance(kernel, KernelOp)
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
