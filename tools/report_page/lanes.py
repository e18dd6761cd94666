"""Lanes beside a list of nodes, as ``git log --graph`` draws them.

Each node stands in a row, in an order in which it comes after everything that it reads. The result
of a node takes a lane from the node's row down to the row of its last reader.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LaneRow:
    """The lanes of one row.

    lane: where the node stands. reads: the lanes that lead to it from the row above. passes: the
    lanes that go on to the row below. is_read: whether a later row reads the node, so that its lane
    goes on.
    """

    lane: int
    reads: tuple[int, ...]
    passes: tuple[int, ...]
    is_read: bool


def lane_rows(nodes: Sequence[str], after: Mapping[str, Sequence[str]]) -> list[LaneRow]:
    """The lanes of each node in order. after: the nodes that each reads.

    A node that stands further down cannot be read; such edges are not drawn.
    """
    row_of = {node: row for row, node in enumerate(nodes)}
    reads = [_earlier(node, after.get(node, ()), row_of) for node in nodes]
    last = dict[str, int]()
    for row, makers in enumerate(reads):
        last.update(dict.fromkeys(makers, row))
    lanes: list[str | None] = []
    rows = []
    for row, node in enumerate(nodes):
        sources = [lanes.index(maker) for maker in reads[row]]
        ends = sorted(lane for lane in sources if last[lanes[lane] or ""] == row)
        for lane in ends:
            lanes[lane] = None
        passes = tuple(lane for lane, maker in enumerate(lanes) if maker is not None)
        lane = ends[0] if ends else _free(lanes)
        if node in last:
            lanes[lane] = node
        rows.append(LaneRow(lane, tuple(sorted(sources)), passes, node in last))
    return rows


def width(rows: Sequence[LaneRow]) -> int:
    """The number of lanes that the rows need."""
    return max((max(row.lane, *row.passes, *row.reads, 0) for row in rows), default=0) + 1


def _earlier(node: str, makers: Sequence[str], row_of: Mapping[str, int]) -> list[str]:
    return [m for m in dict.fromkeys(makers) if row_of.get(m, len(row_of)) < row_of[node]]


def _free(lanes: list[str | None]) -> int:
    """The first lane that nothing uses; a new one if all are in use."""
    if None not in lanes:
        lanes.append(None)
    return lanes.index(None)
