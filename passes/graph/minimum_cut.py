"""Two-way choices of least total cost: a minimum cut, found by networkx.

Each node is on one of two sides. A node may cost something on either side, and so may an edge
between nodes on different sides. The cheapest choice is a minimum cut between two terminals that
stand for the sides (Ford and Fulkerson, "Flows in Networks", chapter 1).
"""

from collections import defaultdict
from collections.abc import Hashable

_SOURCE, _SINK = "source", "sink"


class TwoWayChoice:
    """Nodes that are chosen or not, and what this costs; costs are integers."""

    def __init__(self) -> None:
        self._edges: defaultdict[tuple[Hashable, Hashable], int | None] = defaultdict(int)

    def cost_if_chosen(self, node: Hashable, cost: int | None) -> None:
        """Add ``cost`` if the node is chosen; None forbids that."""
        self._add((0, node), (1, _SINK), cost)

    def cost_if_left(self, node: Hashable, cost: int | None) -> None:
        """Add ``cost`` if the node is not chosen; None forbids that."""
        self._add((1, _SOURCE), (0, node), cost)

    def cost_if_only(self, chosen: Hashable, left: Hashable, cost: int | None) -> None:
        """Add ``cost`` if the first node is chosen and the second is not; None forbids that."""
        self._add((0, chosen), (0, left), cost)

    def _add(self, start: Hashable, end: Hashable, cost: int | None) -> None:
        known = self._edges[start, end]
        self._edges[start, end] = None if known is None or cost is None else known + cost

    def chosen(self) -> set[Hashable]:
        """The nodes that are chosen in a choice of least cost.

        Of several such choices it is the one with the fewest nodes. Raises `ValueError` if every
        choice is forbidden.
        """
        # networkx takes a third of a second to import, and few networks need it.
        import networkx as nx

        network = nx.DiGraph()
        network.add_nodes_from([(1, _SOURCE), (1, _SINK)])
        for (start, end), cost in self._edges.items():
            if cost is None:
                network.add_edge(start, end)
            elif cost:
                network.add_edge(start, end, capacity=cost)
        try:
            residual = nx.algorithms.flow.preflow_push(network, (1, _SOURCE), (1, _SINK))
        except nx.NetworkXUnbounded as error:
            raise ValueError("there is no choice of finite cost") from error
        open_edges = nx.subgraph_view(
            residual, filter_edge=lambda a, b: residual[a][b]["flow"] < residual[a][b]["capacity"]
        )
        reached = nx.descendants(open_edges, (1, _SOURCE))
        return {node for kind, node in reached if kind == 0}
