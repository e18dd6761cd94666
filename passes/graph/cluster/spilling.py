"""How much traffic to DDR an order of instances leaves, if its tensors are placed as they come.

It is estimated without rewriting anything: a tensor that several instances assemble is held from
its first piece to its last reader.
"""

from collections.abc import Sequence

from vtac.dialects.graph import LayersOp
from vtac.dialects.graph.pieces import bytes_in, whole
from vtac.passes.graph.cluster.buffers import TensorBuffer
from vtac.passes.graph.cluster.graph_place_tensors import within_peak
from vtac.passes.graph.cluster.instance_graph import InstanceGraph, Node
from vtac.passes.graph.cluster.layers import activations, is_layer


def spilled_traffic(graph: InstanceGraph, order: Sequence[Node], room: int) -> int:
    """Bytes that are written to DDR and read back; arguments and results not counted."""
    buffers, steps = _buffers(graph, order)
    if not steps:
        return 0
    kept = set(map(id, within_peak(list(buffers), room)))
    return sum(b.size * (1 + b.reads) for b in buffers if id(b) not in kept)


def _buffers(graph: InstanceGraph, order: Sequence[Node]) -> tuple[list[TensorBuffer], int]:
    """A buffer for each piece and for each tensor inside an instance, and the number of steps."""
    outer: dict[object, TensorBuffer] = {}
    found: list[TensorBuffer] = []
    step = 0
    returned = {
        v for op in graph.function.body.block.ops if op.name == "func.return" for v in op.operands
    }
    for node in order:
        start = step
        inner: dict[object, TensorBuffer] = {}
        layers = list(node.body.block.ops) if isinstance(node, LayersOp) else [node]
        for op in (op for op in layers if is_layer(op)):
            for value in activations(op):
                if value in inner:
                    inner[value].read(step)
            for value in op.results:
                inner[value] = TensorBuffer(value, bytes_in(value, whole(value)))
                inner[value].write(step)
            step += 1
        step = max(step, start + 1)
        for piece in graph.pieces_read(node):
            if piece.value in outer:
                outer[piece.value].read(step - 1)
        yielded = set(node.yielded) if isinstance(node, LayersOp) else set()
        found += [b for value, b in inner.items() if value not in yielded]
        for value in node.results:
            size = bytes_in(value, whole(value))
            outer[value] = TensorBuffer(value, size)
            outer[value].write(step - 1)
            if value not in returned:
                found.append(outer[value])
    return found, step
