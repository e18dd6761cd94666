"""From the graph to tensor expressions: packed constants, and one kernel for each fused group."""

from vtac.lowering.graph_to_te.convert import GraphToTePass

__all__ = ["GraphToTePass"]
