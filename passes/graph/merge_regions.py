"""``merge-regions``: neighbouring composites of one codegen become one region, never in a cycle.

The third step of BYOC's partitioning (section 3.1.2). First two regions joined by an edge are
merged, with two exceptions. One: a path leads from one to the other through a third node, so that
the merged region and that node would need each other's results. Two: the codegen wants a value that
one region makes for the other to cross the border of a region, where its layout changes. In the end
no edge is left along which regions can be merged.

Then regions that need nothing of each other are merged, since each launch costs: those of one
codegen that follow equally many launches on the longest path that leads to them. As many launches
remain as lie one after the other on the longest path, which is the least possible.

Composites are visited in order, so all that leads to one has been visited before. Sets of ops are
integers with one bit per op: whether a path leads anywhere is one intersection, and a network of
thousands of ops takes a fraction of a second.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnitAttr, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import CompositeOp
from vtac.passes.graph.codegen import Codegen, codegens_of, functions_of_host
from vtac.passes.graph.cost import computing_ops

REGION = "graph.region"
"""Number of the region a composite belongs to."""

APART = "graph.apart"
"""Attribute of composites, and then of functions, that are neighbours of a region with which they
would form a cycle."""

OuterValues = Callable[[Operation], Sequence[SSAValue]]
"""For an op, its operands that must come from outside its region."""


@dataclass
class _Node:
    """A region, or an op that belongs to none. Sets of ops, by the bits of their positions.

    ops: its own ops. users: ops that use its results. before: ops from which a path leads to it.
    outside: ops whose results must come from another region. size: how many ops its composites
    hold.
    """

    ops: int
    users: int
    before: int
    outside: int
    size: int


class Quotient:
    """The graph of a block's ops in which each region is one node."""

    def __init__(self, block: Block, outer: OuterValues):
        self.ops = list(block.ops)
        self._outer = outer
        self._position = {op: i for i, op in enumerate(self.ops)}
        self._parent = list(range(len(self.ops)))
        self._nodes: dict[int, _Node] = {}
        self._visited: list[int] = []
        self._producers = [self._producers_of(op) for op in self.ops]
        self._users = [0] * len(self.ops)
        for position, producers in enumerate(self._producers):
            for producer in producers:
                self._users[producer] |= 1 << position

    def _producers_of(self, op: Operation) -> list[int]:
        """The positions of the ops whose results an op, or its body, uses; the nearest last."""
        owners = {value.owner for inner in op.walk() for value in inner.operands} - {op}
        found = (
            self._position[o] for o in owners if isinstance(o, Operation) and o in self._position
        )
        return sorted(found)

    def find(self, position: int) -> int:
        """The position that stands for the region of an op."""
        while self._parent[position] != position:
            self._parent[position] = self._parent[self._parent[position]]
            position = self._parent[position]
        return position

    def visit(self, position: int) -> list[int]:
        """Make a node of the next op in order; returns the regions whose results it uses."""
        sources = list(dict.fromkeys(map(self.find, self._producers[position])))
        before = 0
        for source in sources:
            before |= self._nodes[source].before | self._nodes[source].ops
        op = self.ops[position]
        size = len(computing_ops(op)) if isinstance(op, CompositeOp) else 0
        outside = 0
        for value in self._outer(op):
            if isinstance(value.owner, Operation) and value.owner in self._position:
                outside |= 1 << self._position[value.owner]
        self._nodes[position] = _Node(1 << position, self._users[position], before, outside, size)
        self._visited.append(position)
        return sources

    def size(self, *regions: int) -> int:
        """The number of ops that some regions hold together."""
        return sum(self._nodes[region].size for region in regions)

    def has_detour(self, first: int, second: int) -> bool:
        """Whether a path leads from one visited node to another through a third."""
        a, b = self._nodes[first], self._nodes[second]
        return bool(a.users & b.before & ~a.ops & ~b.ops)

    def are_kept_apart(self, first: int, second: int) -> bool:
        """Whether one of two visited nodes wants results of the other from outside its region."""
        a, b = self._nodes[first], self._nodes[second]
        return bool(a.outside & b.ops or b.outside & a.ops)

    def merge(self, first: int, second: int) -> None:
        """Make one region of two; whatever comes behind either comes behind both."""
        a, b = self._nodes[first], self._nodes.pop(second)
        self._parent[second] = first
        a.ops, a.users, a.size = a.ops | b.ops, a.users | b.users, a.size + b.size
        a.outside |= b.outside
        a.before = (a.before | b.before) & ~a.ops
        self._visited.remove(second)
        for other in self._visited:
            node = self._nodes[other]
            if node.before & a.ops:
                node.before |= a.before | a.ops

    def levels(self, is_region: Callable[[Operation], bool]) -> dict[int, int]:
        """For the position that stands for each node, how many regions lie on the longest path to
        it, itself included."""
        before: dict[int, set[int]] = {position: set() for position in self._nodes}
        for position, producers in enumerate(self._producers):
            node = self.find(position)
            before[node].update(map(self.find, producers))
            before[node].discard(node)
        found: dict[int, int] = {}
        for node in TopologicalSorter(before).static_order():
            found[node] = max((found[other] for other in before[node]), default=0)
            found[node] += is_region(self.ops[node])
        return found


def _codegen(op: Operation) -> str | None:
    return op.codegen.data if isinstance(op, CompositeOp) and op.codegen is not None else None


def region_of(op: Operation) -> Attribute | None:
    """The number of an op's region, None before it has one."""
    return op.attributes.get(REGION)


def assign_regions(
    block: Block, max_ops: int | None, outer: OuterValues, refine: bool = False
) -> None:
    """Number the regions of a block's annotated composites, in the order of their first ops.

    refine: whether to divide existing regions instead of merging any.
    """
    graph = Quotient(block, outer)
    known = {op: region_of(op) if refine else None for op in graph.ops}
    apart: list[tuple[int, int]] = []
    for position, op in enumerate(graph.ops):
        sources = graph.visit(position)
        name = _codegen(op)
        if name is None:
            continue
        for source in sources:
            first, second = graph.find(source), graph.find(position)
            if _codegen(graph.ops[first]) != name or first == second:
                continue
            if known[graph.ops[first]] != known[op]:
                continue
            if max_ops is not None and graph.size(first, second) > max_ops:
                continue
            if graph.are_kept_apart(first, second):
                continue
            if graph.has_detour(first, second):
                apart.append((source, position))
            else:
                graph.merge(first, second)
    if not refine:
        _merge_levels(graph, max_ops)
    numbers: dict[int, int] = {}
    for position, op in enumerate(graph.ops):
        if _codegen(op) is not None:
            number = numbers.setdefault(graph.find(position), len(numbers))
            op.attributes[REGION] = IntegerAttr(number, i64)
    for pair in apart:
        if graph.find(pair[0]) != graph.find(pair[1]):
            for position in pair:
                graph.ops[position].attributes[APART] = UnitAttr()


def _merge_levels(graph: Quotient, max_ops: int | None) -> None:
    """Merge regions of one codegen that lie behind equally many regions of it.

    No path leads from one of them to another, and none will: what lies behind a region has a
    greater level than it.
    """
    found: dict[tuple[str, int], list[int]] = {}
    for position, level in graph.levels(lambda op: _codegen(op) is not None).items():
        name = _codegen(graph.ops[position])
        if name is None:
            continue
        merged = found.setdefault((name, level), [])
        for first in merged:
            if max_ops is None or graph.size(first, position) <= max_ops:
                graph.merge(first, position)
                break
        else:
            merged.append(position)


def outer_values_of(codegens: Mapping[str, Codegen]) -> OuterValues:
    """For each op the operands that its codegen wants from outside the region."""

    def outer(op: Operation) -> Sequence[SSAValue]:
        codegen = codegens.get(_codegen(op) or "")
        if codegen is None or not isinstance(op, CompositeOp):
            return ()
        return codegen.outer_values(op)

    return outer


@dataclass(frozen=True)
class MergeRegionsPass(ModulePass):
    """Merge neighbouring composites into the largest regions that form no cycle.

    max_ops: how many ops a region may hold; a composite that holds more is a region on its own.
    """

    name = "merge-regions"

    max_ops: int | None = None

    def __post_init__(self) -> None:
        """Raise `CompileError` on a number of ops that no region has."""
        if self.max_ops is not None and self.max_ops < 1:
            raise CompileError(Problem("max-ops", f"{self.max_ops} is less than 1"))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Assign regions in every function that no codegen has taken."""
        outer = outer_values_of({codegen.name: codegen for codegen in codegens_of(ctx)})
        for function in functions_of_host(op):
            for block in function.body.blocks:
                assign_regions(block, self.max_ops, outer)
