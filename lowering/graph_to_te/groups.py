"""Groups the ops of an accelerator function into kernels.

A composite is one kernel. Other ops share a kernel with the ops with which they exchange int32
tensors, since accumulators cannot be passed from one kernel to another.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import CompositeOp, ConstantOp, ReshapeOp, YieldOp
from vtac.lowering.graph_to_te.kernel import label_of


@dataclass(frozen=True)
class Group:
    """The ops of one kernel, in order.

    name: the name of the kernel.
    layer: the op from which the group takes its location.
    inner: for a composite, the operand for each argument of its body.
    outputs: results of the group, each with the value that computes it inside.
    """

    name: str
    layer: Operation
    ops: Sequence[Operation]
    inner: Mapping[SSAValue, SSAValue]
    outputs: Sequence[tuple[SSAValue, SSAValue]]

    @property
    def inputs(self) -> list[SSAValue]:
        """The values from outside that the ops read, with constants, in order of first use."""
        made = {result for op in self.ops for result in op.results}
        found: dict[SSAValue, None] = {}
        for op in self.ops:
            for operand in op.operands:
                if operand not in made:
                    found.setdefault(self.inner.get(operand, operand))
        return list(found)


def groups_of(function: FuncOp) -> Iterator[Group]:
    """The groups of a function, in an order in which each one follows the groups that it reads."""
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
                Problem(label_of(layer), "int32 accumulators would have to leave the accelerator")
            )
    return Group(layer.name.rpartition(".")[2], layer, ops, {}, outputs)
