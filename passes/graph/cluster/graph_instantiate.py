"""``graph-instantiate``: groups become the instances into which they are split.

Takes groups with ``graph.split``; leaves a ``graph.instance`` for each piece, and behind the last
one a ``graph.assemble`` for each result of the group. An instance computes its piece alone: windows
in its body read what `split_rules` says, halo included, which neighbours compute again. Pads remain
only at the borders of tensors. Groups without ``graph.split``, and those of whose pieces one cannot
be computed, become one instance.

Verified afterwards (by the ops): pieces cover results exactly once, and windows lie in tensors.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from vtac.dialects.graph import (
    SPLIT,
    GroupOp,
    InstanceOp,
    SplitAttr,
    TensorAssembleOp,
    YieldOp,
)
from vtac.dialects.graph.pieces import Rectangle, whole
from vtac.dialects.graph.split_rules import Demands
from vtac.passes.graph.cluster.cut import Cutter
from vtac.passes.graph.cluster.footprint import PieceCache, asked_of
from vtac.passes.graph.cluster.layers import planned_functions


@dataclass(frozen=True)
class GraphInstantiatePass(ModulePass):
    """Replace groups by instances."""

    name = "graph-instantiate"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Instantiate every group of functions for a cluster."""
        cache = PieceCache()
        for function, _ in planned_functions(op):
            for group in [g for g in function.body.block.ops if isinstance(g, GroupOp)]:
                instantiate(ctx, group, cache)


def factors_of_group(group: GroupOp) -> dict[str, int]:
    """The chosen factors by dimension; none if it stays whole."""
    chosen = group.attributes.get(SPLIT)
    splits = chosen.data if isinstance(chosen, ArrayAttr) else ()
    return {s.dimension.data: s.factor.data for s in splits if isinstance(s, SplitAttr)}


def instantiate(ctx: Context, group: GroupOp, cache: PieceCache) -> list[InstanceOp]:
    """Replace a group by its instances."""
    ops = [op for op in group.body.block.ops if op is not group.body.block.last_op]
    asked, demands = _pieces(group, ops, cache)
    block = group.parent
    assert block is not None
    instances = []
    for part, (wanted, found) in enumerate(zip(asked, demands, strict=True)):
        instance = _instance(ctx, group, part, len(asked), wanted, found)
        block.insert_op_before(instance, group)
        instances.append(instance)
    for number, (value, old) in enumerate(zip(group.yielded, group.outputs, strict=True)):
        pieces = [instance.outputs[number] for instance in instances]
        new = pieces[0]
        if len(pieces) > 1:
            starts = [[start for start, _ in each[value]] for each in asked]
            assembly = TensorAssembleOp(pieces, starts, old.type)
            assembly.location = group.location
            block.insert_op_before(assembly, group)
            new = assembly.result
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    Rewriter.erase_op(group)
    return instances


def _pieces(
    group: GroupOp, ops: list[Operation], cache: PieceCache
) -> tuple[list[dict[SSAValue, Rectangle]], list[Demands]]:
    """What is asked of each instance, and what that takes."""
    outputs = list(dict.fromkeys(group.yielded))
    for factors in (factors_of_group(group), {}):
        asked = asked_of(outputs, factors)
        found = [cache.demands(ops, each) for each in asked]
        demands = [d for d in found if isinstance(d, Demands)]
        if asked and len(demands) == len(found):
            return asked, demands
    raise AssertionError("a whole group can be computed")


def _instance(
    ctx: Context,
    group: GroupOp,
    part: int,
    parts: int,
    asked: Mapping[SSAValue, Rectangle],
    demands: Demands,
) -> InstanceOp:
    old = group.body.block
    body = Block(arg_types=old.arg_types)
    cutter = Cutter(ctx, body)
    for before, after in zip(old.args, body.args, strict=True):
        after.name_hint = before.name_hint
        cutter.values[before] = after, whole(before)
    for op in old.ops:
        if op in demands.pieces:
            cutter.add(op, demands.pieces[op])
    results = [cutter.read(value, asked[value]) for value in group.yielded]
    body.add_op(YieldOp(*results))
    types = [value.type for value in results]
    instance = InstanceOp(group.group.data, part, parts, list(group.inputs), types, body)
    instance.location = group.location
    for old_result, result in zip(group.outputs, instance.outputs, strict=True):
        result.name_hint = old_result.name_hint
    return instance
