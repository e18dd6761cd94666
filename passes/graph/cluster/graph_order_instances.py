"""``graph-order-instances``: the order in which instances run.

Takes instances and the assemblies of their results; leaves them in another order, in which each
instance depends only on those whose pieces its windows meet. (The others are dropped exactly, on
rectangles.) ``order=breadth`` keeps the order of the text, which runs group after group.
``order=depth`` always runs the instance that was set free last, so that the small results of
several early instances are gathered for a late one (Zhao et al., "GraphTurbo", OSDI 2023,
Algorithm 3).
``order=best``, the default, takes the one whose tensors, placed in the global buffer, leave less
traffic to DDR.

What an instance reads of an assembled tensor is assembled before it, from the pieces that it needs:
a tensor grows from one consumer to the next, each assembly a piece of the next one, so that every
piece lies in one place.

Verified afterwards: the order is topological (by dominance of values).
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import ClusterTarget
from vtac.passes.graph.cluster.instance_graph import InstanceGraph, Node
from vtac.passes.graph.cluster.layers import planned_functions
from vtac.passes.graph.cluster.regrowth import rewrite_in_order
from vtac.passes.graph.cluster.spilling import spilled_traffic


class InstanceOrder(enum.Enum):
    """Which instance comes next."""

    BREADTH = "breadth"
    DEPTH = "depth"
    BEST = "best"


@dataclass(frozen=True)
class GraphOrderInstancesPass(ModulePass):
    """Order the instances of functions for a cluster. order: an `InstanceOrder`."""

    name = "graph-order-instances"

    order: str = "best"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Order the instances of every function for a cluster."""
        try:
            order = InstanceOrder(self.order)
        except ValueError:
            orders = ", ".join(each.value for each in InstanceOrder)
            what = f"there is no order '{self.order}'"
            raise CompileError(Problem(self.name, what, f"Orders: {orders}.")) from None
        for function, cluster in planned_functions(op):
            order_instances(function, cluster, order)


def order_instances(function: FuncOp, cluster: ClusterTarget, order: InstanceOrder) -> None:
    """Rewrite a function so that its instances stand in an order."""
    graph = InstanceGraph(function)
    if not graph.nodes:
        return
    chosen: Sequence[Node] = graph.nodes
    if order is InstanceOrder.DEPTH:
        chosen = depth_first(graph)
    elif order is InstanceOrder.BEST:
        orders: list[Sequence[Node]] = [depth_first(graph), graph.nodes]
        chosen = min(orders, key=lambda each: spilled_traffic(graph, each, cluster.gb_bytes))
    rewrite_in_order(graph, chosen)


def depth_first(graph: InstanceGraph) -> list[Node]:
    """Always the node that became free last; at the start the first one of the text."""
    missing = {node: len(graph.producers[node]) for node in graph.nodes}
    ready = [node for node in reversed(graph.nodes) if not missing[node]]
    order: list[Node] = []
    while ready:
        node = ready.pop()
        order.append(node)
        freed = []
        for consumer in graph.consumers[node]:
            missing[consumer] -= 1
            if not missing[consumer]:
                freed.append(consumer)
        ready.extend(reversed(freed))
    return order
