"""``merge-regions``: neighbouring composites of one codegen become one region, never in a cycle.

The third step of BYOC's partitioning. Two regions joined by an edge are merged unless a path leads
from one to the other through a third place: merged, they would then need each other's results.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from vtac.dialects.graph import CompositeOp
from vtac.passes.graph.match_patterns import CODEGEN

REGION = "graph.region"
"""Number of the region a composite belongs to."""


class Quotient:
    """The graph of a block's ops in which each region is one node."""

    def __init__(self, block: Block):
        self.ops = list(block.ops)
        self._index = {op: i for i, op in enumerate(self.ops)}
        self._parent = list(range(len(self.ops)))
        self._successors: list[set[int]] = [set() for _ in self.ops]
        for op in self.ops:
            for inner in op.walk():
                for operand in inner.operands:
                    owner = operand.owner
                    producer = self._index.get(owner) if isinstance(owner, Operation) else None
                    if producer is not None and producer != self._index[op]:
                        self._successors[producer].add(self._index[op])

    def find(self, node: int) -> int:
        """The representative of the node's region."""
        while self._parent[node] != node:
            self._parent[node] = self._parent[self._parent[node]]
            node = self._parent[node]
        return node

    def node(self, op: Operation) -> int:
        """The representative of the region of an op."""
        return self.find(self._index[op])

    def successors(self, node: int) -> set[int]:
        """Regions that use a result of this one."""
        return {self.find(s) for s in self._successors[node]} - {node}

    def has_detour(self, first: int, second: int) -> bool:
        """Whether a path leads from ``first`` to ``second`` through a third region."""
        pending = [s for s in self.successors(first) if s != second]
        seen = set(pending)
        while pending:
            for successor in self.successors(pending.pop()):
                if successor == second:
                    return True
                if successor not in seen:
                    seen.add(successor)
                    pending.append(successor)
        return False

    def merge(self, first: int, second: int) -> None:
        """Make one region of two."""
        self._parent[second] = first
        self._successors[first] |= self._successors[second]


def _codegen(op: Operation) -> str | None:
    return op.codegen.data if isinstance(op, CompositeOp) and op.codegen is not None else None


def assign_regions(block: Block) -> None:
    """Number the regions of a block's annotated composites, in the order of their first ops."""
    graph = Quotient(block)
    composites = [op for op in graph.ops if _codegen(op) is not None]
    for user in composites:
        for operand in user.operands:
            producer = operand.owner
            if not isinstance(producer, Operation) or producer.parent is not block:
                continue
            first, second = graph.node(producer), graph.node(user)
            if (
                _codegen(producer) == _codegen(user)
                and first != second
                and not graph.has_detour(first, second)
            ):
                graph.merge(first, second)
    numbers: dict[int, int] = {}
    for op in composites:
        number = numbers.setdefault(graph.node(op), len(numbers))
        op.attributes[REGION] = IntegerAttr(number, i64)


@dataclass(frozen=True)
class MergeRegionsPass(ModulePass):
    """Merge neighbouring composites into the largest regions that form no cycle."""

    name = "merge-regions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Assign regions in every function that no codegen has taken."""
        for function in op.walk():
            if isinstance(function, FuncOp) and CODEGEN not in function.attributes:
                for block in function.body.blocks:
                    assign_regions(block)
