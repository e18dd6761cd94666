"""``graph-inline-instances``: the layers of instances stand in the function, in the same order.

Takes a planned function; leaves layers, ``graph.window`` and ``graph.assemble``, which all that
follows knows. Bindings and places stay on the layers, so nothing of the plan is
lost but the names of groups. (``graph-to-te`` takes a function in this form.)
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument
from xdsl.passes import ModulePass

from vtac.dialects.graph import LayersOp
from vtac.passes.graph.cluster.layers import planned_functions


@dataclass(frozen=True)
class GraphInlineInstancesPass(ModulePass):
    """Put the layers of instances, and of groups, into their function."""

    name = "graph-inline-instances"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Inline every instance of functions for a cluster."""
        for function, _ in planned_functions(op):
            for each in [o for o in function.body.block.ops if isinstance(o, LayersOp)]:
                inline(each)


def inline(op: LayersOp) -> None:
    """Replace a group or an instance by the ops of its body."""
    block, body, yielded = op.parent, op.body.block, list(op.yielded)
    assert block is not None
    given = dict(zip(body.args, op.inputs, strict=True))
    results = [given[v] if isinstance(v, BlockArgument) else v for v in yielded]
    for argument, operand in given.items():
        argument.replace_all_uses_with(operand)
    for inner in list(body.ops):
        if inner is not body.last_op:
            body.detach_op(inner)
            block.insert_op_before(inner, op)
    for old, new in zip(op.outputs, results, strict=True):
        old.replace_all_uses_with(new)
    block.erase_op(op)
