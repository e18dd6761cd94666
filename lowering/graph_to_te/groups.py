"""Which ops of an accelerator function share a kernel.

A composite is one kernel. Ops that stand alone join the ops they exchange accumulators with, since
int32 tensors never leave the accelerator's registers between kernels.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import CompositeOp, ConstantOp, ReshapeOp, YieldOp
from vtac.lowering.graph_to_te.kernel import layer_of


@dataclass(frozen=True)
class Group:
    """The ops of one kernel, in order.

    name: what the kernel is called.
    layer: the op whose location stands for the group.
    inner: for a composite, the value outside behind each argument of its body.
    outputs: values outside, each with the value of the body that it stands for.
    """

    name: str
    layer: Operation
    ops: Sequence[Operation]
    inner: Mapping[SSAValue, SSAValue]
    outputs: Sequence[tuple[SSAValue, SSAValue]]

    @property
    def inputs(self) -> list[SSAValue]:
        """Values from outside that the ops read, constants included, in order of first use."""
        made = {result for op in self.ops for result in op.results}
        found: dict[SSAValue, None] = {}
        for op in self.ops:
            for operand in op.operands:
                if operand not in made:
                    found.setdefault(self.inner.get(operand, operand))
        return list(found)


def groups_of(function: FuncOp) -> Iterator[Group]:
    """The groups of a function in an order in which each follows what it reads."""
    alone: dict[Operation, list[Operation]] = {}
    for op in function.body.block.ops:
        if not isinstance(op, CompositeOp | ConstantOp | ReturnOp):
            joined = [op]
            for operand in op.operands:
                owner = operand.owner
                if isinstance(owner, Operation) and owner in alone and _is_accumulators(operand):
                    joined = sorted({*alone[owner], *joined}, key=_position)
            for member in joined:
                alone[member] = joined
    for op in function.body.block.ops:
        if isinstance(op, CompositeOp):
            yield _of_composite(op)
        elif op in alone and alone[op][-1] is op:
            yield _of_ops(alone[op])


def _position(op: Operation) -> int:
    block = op.parent
    assert block is not None
    return block.get_operation_index(op)


def _is_accumulators(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType) and value.type.element_type == i32


def _of_composite(op: CompositeOp) -> Group:
    body = op.body.block
    last = body.last_op
    assert isinstance(last, YieldOp)
    ops = [inner for inner in body.ops if not isinstance(inner, YieldOp | ConstantOp)]
    inner: dict[SSAValue, SSAValue] = dict(zip(body.args, op.inputs, strict=True))
    outputs = list(zip(op.outputs, last.arguments, strict=True))
    return Group(op.pattern.data.rpartition(".")[2], op, ops, inner, outputs)


def _of_ops(ops: Sequence[Operation]) -> Group:
    members = set(ops)
    outputs = [
        (result, result)
        for op in ops
        for result in op.results
        if any(use.operation not in members for use in result.uses)
    ]
    layer = next((op for op in ops if not isinstance(op, ReshapeOp)), ops[0])
    for result, _ in outputs:
        if _is_accumulators(result):
            raise CompileError(
                Problem(layer_of(layer), "int32 accumulators would have to leave the accelerator")
            )
    return Group(layer.name.rpartition(".")[2], layer, ops, {}, outputs)
