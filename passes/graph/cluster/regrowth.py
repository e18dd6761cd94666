"""Puts instances into another order, and assembles before each what it reads.

For each assembled tensor the parts of it that exist so far are kept as rectangles. What the next
instance reads is joined from these and from new pieces, as a rectangle again, which then replaces
them: the assembly before is a piece of the next one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import LocationAttr
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, SSAValue

from vtac.dialects.graph import ConstantOp, InstanceOp, TensorAssembleOp, TensorWindowOp
from vtac.dialects.graph.pieces import (
    Rectangle,
    contains,
    hull,
    meet,
    relative,
    type_of_piece,
    volume,
    whole,
)
from vtac.passes.graph.cluster.instance_graph import (
    InstanceGraph,
    Node,
    TensorPiece,
    pieces_in,
    read_of,
)


@dataclass
class _Growing:
    """A tensor that is assembled piece by piece. parts: what exists of it so far."""

    tensor: SSAValue
    pieces: list[TensorPiece]
    location: LocationAttr
    parts: list[TensorPiece] = field(default_factory=list)

    def made(self, value: SSAValue) -> None:
        """Record that a value exists from now on: its pieces are parts that can be joined."""
        self.parts += [piece for piece in self.pieces if piece.value is value]

    def joined(self, read: Rectangle, block: Block) -> TensorPiece:
        """A part that contains a rectangle.

        If no part does, one is assembled at the end of the block from those that meet it.
        """
        for part in self.parts:
            if contains(part.rectangle, read):
                return part
        chosen = [part for part in self.parts if meet(part.rectangle, read) is not None]
        kept: list[TensorPiece] = []
        while True:
            outer = chosen[0].rectangle
            for part in chosen[1:]:
                outer = hull(outer, part.rectangle)
            more = [p for p in self.parts if p not in chosen and meet(p.rectangle, outer)]
            if not more:
                break
            chosen += more
        if sum(volume(part.rectangle) for part in chosen) != volume(outer):
            meeting = [part for part in chosen if meet(part.rectangle, read) is not None]
            chosen, outer, kept = self._windows(meeting, read, block), read, self.parts
        starts = [[start for start, _ in relative(part.rectangle, outer)] for part in chosen]
        op = TensorAssembleOp(
            [part.value for part in chosen], starts, type_of_piece(self.tensor, outer)
        )
        op.location = self.location
        op.result.name_hint = self.tensor.name_hint
        block.add_op(op)
        joined = TensorPiece(op.result, outer)
        self.parts = kept or [part for part in self.parts if part not in chosen] + [joined]
        return joined

    def _windows(
        self, parts: Sequence[TensorPiece], read: Rectangle, block: Block
    ) -> list[TensorPiece]:
        """What of these parts is read, where they make up no rectangle; it will be copied."""
        found = []
        for part in parts:
            common = meet(part.rectangle, read)
            assert common is not None
            window = TensorWindowOp(part.value, relative(common, part.rectangle))
            window.location = self.location
            block.add_op(window)
            found.append(TensorPiece(window.result, common))
        return found


def rewrite_in_order(graph: InstanceGraph, order: Sequence[Node]) -> None:
    """Rebuild the body of a function with its nodes in an order that respects dependences."""
    block = graph.function.body.block
    last = block.last_op
    assert isinstance(last, ReturnOp)
    growing: dict[SSAValue, _Growing] = {
        op.result: _Growing(op.result, pieces_in(op.result), op.location)
        for op in block.ops
        if isinstance(op, TensorAssembleOp)
    }
    old = [op for op in block.ops if isinstance(op, TensorAssembleOp)]
    constants = [op for op in block.ops if isinstance(op, ConstantOp)]
    for op in (*constants, *order, *old, last):
        block.detach_op(op)
    for op in constants:
        block.add_op(op)
    for node in order:
        for number, operand in enumerate(node.operands):
            if operand in growing:
                _feed(node, number, growing[operand], block)
        block.add_op(node)
        for result in node.results:
            for tensor in growing.values():
                tensor.made(result)
    for number, value in enumerate(last.arguments):
        if value in growing:
            last.operands[number] = growing[value].joined(whole(value), block).value
    block.add_op(last)
    for op in reversed(old):
        op.erase()


def _feed(node: Node, number: int, tensor: _Growing, block: Block) -> None:
    """Let a node read an operand from the part of a tensor that exists."""
    part = tensor.joined(read_of(node, number), block)
    if not isinstance(node, InstanceOp):
        node.operands[number] = part.value
        return
    node.operands[number] = part.value
    body = node.body.block
    argument = body.args[number]
    if part.rectangle == whole(argument):
        return
    new = body.insert_arg(part.value.type, number)
    new.name_hint = argument.name_hint
    for use in list(argument.uses):
        window = use.operation
        assert isinstance(window, TensorWindowOp)
        inside = relative(window.rectangle, part.rectangle)
        if inside == whole(new):
            window.result.replace_all_uses_with(new)
        else:
            moved = TensorWindowOp(new, inside)
            moved.location, moved.attributes = window.location, window.attributes
            moved.result.name_hint = window.result.name_hint
            body.insert_op_before(moved, window)
            window.result.replace_all_uses_with(moved.result)
        body.erase_op(window)
    body.erase_arg(argument)
