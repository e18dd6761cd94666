"""Instances and the pieces that they read of each other, as a graph.

Nodes are the ops of a function that are not assemblies: instances above all, and ops that move
nothing between them, such as a concatenation of what different groups compute, and layers outside
of groups. A node depends on those nodes whose pieces its windows meet, and on nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from vtac.dialects.graph import ConstantOp, InstanceOp, TensorAssembleOp, TensorWindowOp
from vtac.dialects.graph.pieces import Rectangle, hull, meet, whole

Node: TypeAlias = Operation


@dataclass(frozen=True)
class TensorPiece:
    """A rectangle of a tensor and the value that is made there."""

    value: SSAValue
    rectangle: Rectangle


def pieces_in(value: SSAValue) -> list[TensorPiece]:
    """The pieces of which a tensor is assembled; pieces of pieces are resolved."""
    found = []
    waiting = [TensorPiece(value, whole(value))]
    while waiting:
        piece = waiting.pop(0)
        owner = piece.value.owner
        if not isinstance(owner, TensorAssembleOp):
            found.append(piece)
            continue
        for inner, rectangle in zip(owner.pieces, owner.rectangles, strict=True):
            shifted = tuple(
                (lo + origin, hi + origin)
                for (lo, hi), (origin, _) in zip(rectangle, piece.rectangle, strict=True)
            )
            waiting.append(TensorPiece(inner, shifted))
    return found


def read_of(node: Node, number: int) -> Rectangle:
    """The rectangle that a node reads of an operand: the hull of its windows."""
    operand = node.operands[number]
    if not isinstance(node, InstanceOp):
        return whole(operand)
    read: Rectangle | None = None
    for use in node.body.block.args[number].uses:
        if not isinstance(use.operation, TensorWindowOp):
            return whole(operand)
        read = hull(read, use.operation.rectangle)
    return whole(operand) if read is None else read


@dataclass
class InstanceGraph:
    """The nodes of a function in the order of the text, and who needs whom."""

    function: FuncOp
    nodes: list[Node] = field(init=False)
    producers: dict[Node, dict[Node, None]] = field(init=False)
    consumers: dict[Node, dict[Node, None]] = field(init=False)

    def __post_init__(self) -> None:
        skipped = ConstantOp | ReturnOp | TensorAssembleOp
        ops = self.function.body.block.ops
        self.nodes = [op for op in ops if not isinstance(op, skipped)]
        known = set(self.nodes)
        self.producers = {node: {} for node in self.nodes}
        self.consumers = {node: {} for node in self.nodes}
        for node in self.nodes:
            for piece in self.pieces_read(node):
                owner = piece.value.owner
                if isinstance(owner, Operation) and owner in known:
                    self.producers[node][owner] = None
                    self.consumers[owner][node] = None

    def pieces_read(self, node: Node) -> Sequence[TensorPiece]:
        """The pieces that a node's windows meet."""
        found = []
        for number, operand in enumerate(node.operands):
            read = read_of(node, number)
            found += [p for p in pieces_in(operand) if meet(p.rectangle, read) is not None]
        return found
