"""``graph-plan-instances``: the number of instances of each group.

Takes functions for a cluster; leaves groups with ``graph.split``. With ``mode=paper`` groups are
those of ``graph-group-layers``, and each takes the best of its ``graph.splits``: most layers, then
the smallest factor, then the outermost dimension (Zhao et al., "GraphTurbo", OSDI 2023, Eq. 1). By
cost (the default) the layers are grouped anew: `segments` finds the cuts of the network, the images
per instance and the strips of rows of least cost.

Verified afterwards: chosen factors are at most the number of pieces that there can be.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import SPLIT, GroupOp
from vtac.dialects.graph.pieces import units_of
from vtac.passes.graph.cluster.graph_instantiate import factors_of_group
from vtac.passes.graph.cluster.graph_split_info import best_split, splits_of
from vtac.passes.graph.cluster.layers import planned_functions
from vtac.passes.graph.cluster.modes import Mode, mode_named
from vtac.passes.graph.cluster.segments import group_by_cost


@dataclass(frozen=True)
class GraphPlanInstancesPass(ModulePass):
    """Choose the instances of groups.

    mode: ``cost`` or ``paper``.
    """

    name = "graph-plan-instances"

    mode: str = "cost"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Plan every function for a cluster."""
        mode = mode_named(self.name, self.mode)
        for function, cluster in planned_functions(op):
            if mode is Mode.COST:
                group_by_cost(function, cluster)
            else:
                _as_in_the_paper(function)
            verify_plan(function)


def _as_in_the_paper(function: FuncOp) -> None:
    for group in function.body.block.ops:
        if isinstance(group, GroupOp):
            splits = splits_of(group)
            if splits is None:
                where = f"@{group.group.data}"
                what = "the group does not say how it can be split"
                raise CompileError(Problem(where, what, "Run graph-group-layers before."))
            best = best_split(splits)
            is_split = best is not None and best.factor.data > 1
            group.attributes[SPLIT] = ArrayAttr([best] if best is not None and is_split else [])


def verify_plan(function: FuncOp) -> None:
    """Raise `VerifyException` unless every group has the pieces into which it is to be split."""
    for group in function.body.block.ops:
        if isinstance(group, GroupOp):
            for name, factor in factors_of_group(group).items():
                most = min(units_of(value, name) for value in group.yielded)
                if factor > most:
                    raise VerifyException(f"@{group.group.data} has {most} pieces, not {factor}")
