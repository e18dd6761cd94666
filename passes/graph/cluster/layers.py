"""The layers of a planned function in the order in which they run, and where each value lies.

A *layer* is an op that computes. Ops that only say where something lies are no layers: windows,
assemblies, concatenations and slices of whole elements, reshapes. Step number k is the k-th layer
in the order of the text, instances and groups included.
"""

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from vtac.dialects.graph import (
    CompositeOp,
    ConcatOp,
    ConstantOp,
    LayersOp,
    ReshapeOp,
    SliceOp,
    TensorAssembleOp,
    TensorWindowOp,
    YieldOp,
    packing,
)
from vtac.dialects.graph.rectangles import moves_whole_elements
from vtac.dialects.target import TARGET_ATTRIBUTE, ClusterTarget
from vtac.passes.te.accelerated import accelerated_functions


def planned_functions(module: ModuleOp) -> list[tuple[FuncOp, ClusterTarget]]:
    """The accelerator functions of a module that are for a cluster, with that cluster."""
    found = []
    for function in accelerated_functions(module):
        holder: Operation | None = function
        while holder is not None and TARGET_ATTRIBUTE not in holder.attributes:
            holder = holder.parent_op()
        target = None if holder is None else holder.attributes[TARGET_ATTRIBUTE]
        if isinstance(target, ClusterTarget) and needs_a_plan(target):
            found.append((function, target))
    return found


def needs_a_plan(cluster: ClusterTarget) -> bool:
    """Whether there is anything to decide: several cores, or a global buffer."""
    return cluster.cores > 1 or cluster.gb_bytes > 0


def is_void(op: Operation) -> bool:
    """Whether an op moves nothing on the accelerator: it only says where something lies."""
    if isinstance(op, TensorWindowOp | TensorAssembleOp | ReshapeOp):
        return True
    if isinstance(op, ConcatOp | SliceOp):
        layout = packing(op.result.type)
        return layout is None or moves_whole_elements(op, layout.batch.data, layout.block.data)
    if isinstance(op, CompositeOp):
        return all(
            isinstance(inner, YieldOp | ConstantOp) or is_void(inner) for inner in op.body.block.ops
        )
    return False


def is_layer(op: Operation) -> bool:
    """Whether an op computes."""
    skipped = isinstance(op, ConstantOp | YieldOp | ReturnOp | LayersOp)
    return not skipped and not is_void(op)


def ops_in_order(function: FuncOp) -> Iterator[Operation]:
    """The ops of a function and those in its groups and instances, which follow these."""
    for op in function.body.block.ops:
        yield op
        if isinstance(op, LayersOp):
            yield from op.body.block.ops


def layers_of(function: FuncOp) -> list[Operation]:
    """The layers in the order in which they run."""
    return [op for op in ops_in_order(function) if is_layer(op)]


def activations(op: Operation) -> list[SSAValue]:
    """The operands of an op that are no constants, each once."""
    values = dict.fromkeys(op.operands)
    return [v for v in values if not isinstance(v.owner, ConstantOp)]
