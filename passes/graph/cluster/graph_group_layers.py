"""``graph-group-layers``: layers become groups that are split together.

Takes functions for a cluster; leaves every layer in a ``graph.group`` with its ``graph.splits``,
groups in topological order. `grouping` has the patterns and the rules. A group is convex, and what
others read of it is among its results. Ops that move nothing and that no group has taken stay
between the groups.

Options: ``room``, ``stage``, ``mode`` and ``rows`` as of ``graph-split-info``; ``max_groups`` is
the largest number of ops that are merged: with 1, each layer is a group.

Verified afterwards: every layer is in a group, and the splits of groups can be made.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph import SPLITS, ConstantOp, GroupOp, YieldOp
from vtac.passes.graph.cluster.graph_split_info import (
    WEIGHT_STAGE,
    Splits,
    best_split,
    verify_splits,
)
from vtac.passes.graph.cluster.grouping import LayerGroups
from vtac.passes.graph.cluster.layers import is_layer, planned_functions
from vtac.passes.graph.cluster.modes import mode_named

UNLIMITED = 1 << 30


@dataclass(frozen=True)
class GraphGroupLayersPass(ModulePass):
    """Group the layers of functions for a cluster."""

    name = "graph-group-layers"

    room: int | None = None
    stage: int = WEIGHT_STAGE
    mode: str = "cost"
    rows: bool = True
    max_groups: int = UNLIMITED

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Group the layers of every function that has no groups yet."""
        mode = mode_named(self.name, self.mode)
        for function, cluster in planned_functions(op):
            if any(isinstance(each, GroupOp) for each in function.body.block.ops):
                continue
            room = cluster.gb_bytes if self.room is None else self.room
            splits = Splits(room - self.stage, mode, self.rows)

            def factor(
                ops: Sequence[Operation], outputs: Sequence[SSAValue], splits: Splits = splits
            ) -> int | None:
                best = best_split(splits.of(ops, outputs))
                return None if best is None else best.factor.data

            groups = LayerGroups(function, factor, self.max_groups)
            members = [group.ops for group in groups.merge()]
            for group in make_groups(function, members):
                inner = [o for o in group.body.block.ops if o is not group.body.block.last_op]
                group.attributes[SPLITS] = ArrayAttr(splits.of(inner, group.yielded))
            verify_groups(function)
            verify_splits(function)


def make_groups(function: FuncOp, members: Sequence[Sequence[Operation]]) -> list[GroupOp]:
    """Move ops into groups, which come in this order; what moves nothing and is alone stays out.

    Constants outside of composites are copied into the groups that read them.
    """
    block = function.body.block
    last = block.last_op
    assert isinstance(last, ReturnOp)
    groups: list[GroupOp] = []
    for ops in members:
        if not any(map(is_layer, ops)):
            for op in ops:
                block.detach_op(op)
                block.insert_op_before(op, last)
            continue
        group = _group(f"group{len(groups)}", ops)
        block.insert_op_before(group, last)
        for old, new in _moves(ops, group):
            old.replace_uses_with_if(new, lambda use, g=group: use.operation.parent_op() is not g)  # type: ignore[misc]
        groups.append(group)
    return groups


def _group(name: str, ops: Sequence[Operation]) -> GroupOp:
    """A detached group of ops that are taken from their block."""
    inside = set(ops)
    made = [result for op in ops for result in op.results]
    outputs = [v for v in made if any(u.operation not in inside for u in v.uses) or not v.uses]
    inputs = list(
        dict.fromkeys(
            v
            for op in ops
            for v in op.operands
            if v.owner not in inside and not isinstance(v.owner, ConstantOp)
        )
    )
    body = Block(arg_types=[value.type for value in inputs])
    group = GroupOp(name, inputs, [value.type for value in outputs], body)
    group.location = ops[-1].location
    constants: dict[SSAValue, SSAValue] = {}
    for value, argument in zip(inputs, body.args, strict=True):
        argument.name_hint = value.name_hint
    arguments = dict(zip(inputs, body.args, strict=True))
    for op in ops:
        if op.parent is not None:
            op.parent.detach_op(op)
        for number, operand in enumerate(op.operands):
            owner = operand.owner
            if isinstance(owner, ConstantOp):
                if operand not in constants:
                    copied = owner.clone()
                    body.add_op(copied)
                    constants[operand] = copied.result
                op.operands[number] = constants[operand]
            elif operand in arguments:
                op.operands[number] = arguments[operand]
        body.add_op(op)
        op.attributes.pop(SPLITS, None)
    body.add_op(YieldOp(*outputs))
    for old, new in zip(outputs, group.outputs, strict=True):
        new.name_hint = old.name_hint
    return group


def _moves(ops: Sequence[Operation], group: GroupOp) -> list[tuple[SSAValue, SSAValue]]:
    return list(zip(group.yielded, group.outputs, strict=True))


def verify_groups(function: FuncOp) -> None:
    """Raise `VerifyException` unless every layer is in a group."""
    for op in function.body.block.ops:
        if is_layer(op):
            raise VerifyException(f"{op.name} is in no group")
