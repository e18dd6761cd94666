"""Wide and deep networks: nodes with many operands, long chains, many inputs and outputs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SHAPE = (1, 2, 2, 2)


@dataclass
class _Network:
    """The parts of an ONNX graph, as they are made."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)

    def input(self) -> str:
        """A new input of the network."""
        self.inputs.append(f"x{len(self.inputs)}")
        return self.inputs[-1]

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        """A new initialiser, normally distributed with this standard deviation."""
        name = f"w{len(self.weights)}"
        array = self.rng.normal(0, scale, shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def node(self, kind: str, *operands: str, **attributes: int) -> str:
        """A new node, which is named as its result."""
        result = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, operands, [result], result, **attributes))
        return result

    def conv(self, operand: str) -> str:
        """A 1x1 convolution that keeps the two channels and about the magnitude."""
        return self.node("Conv", operand, self.weight(2, 2, 1, 1, scale=1.0))


def _concat(net: _Network, count: int) -> list[str]:
    joined = net.node("Concat", *(net.input() for _ in range(count)), axis=1)
    return [net.node("Relu", joined)]


def _sum(net: _Network, count: int) -> list[str]:
    return [net.node("Relu", net.node("Sum", *(net.input() for _ in range(count))))]


def _adds(net: _Network, count: int) -> list[str]:
    last = net.input()
    for _ in range(count - 1):
        last = net.node("Add", last, net.input())
    return [net.node("Relu", last)]


def _adds_of_constants(net: _Network, count: int) -> list[str]:
    last = net.input()
    for _ in range(count):
        last = net.node("Add", last, net.weight(1, 2, 1, 1, scale=0.1))
    return [net.node("Relu", last)]


def _adds_of_one(net: _Network, count: int) -> list[str]:
    """Each Add has the network's input as its other operand."""
    first = last = net.input()
    for _ in range(count - 1):
        last = net.node("Add", last, first)
    return [net.node("Relu", last)]


def _layers(net: _Network, count: int) -> list[str]:
    last = net.input()
    for _ in range(count):
        last = net.node("Relu", net.conv(last))
    return [last]


def _relus(net: _Network, count: int) -> list[str]:
    last = net.input()
    for _ in range(count):
        last = net.node("Relu", last)
    return [last]


def _branches(net: _Network, count: int) -> list[str]:
    """Convolutions of one input, which are concatenated."""
    first = net.node("Relu", net.input())
    return [net.node("Concat", *(net.conv(first) for _ in range(count)), axis=1)]


def _added_branches(net: _Network, count: int) -> list[str]:
    first = net.node("Relu", net.input())
    return [net.node("Sum", *(net.conv(first) for _ in range(count)))]


def _outputs(net: _Network, count: int) -> list[str]:
    first = net.node("Relu", net.input())
    return [net.node("Relu", net.conv(first)) for _ in range(count)]


def _initialisers(net: _Network, count: int) -> list[str]:
    """A node that joins an input with constants."""
    return [net.node("Concat", net.input(), *(net.weight(*SHAPE) for _ in range(count)), axis=1)]


def _tower(net: _Network, count: int) -> list[str]:
    """Residual blocks of one convolution."""
    last = net.node("Relu", net.input())
    for _ in range(count):
        last = net.node("Relu", net.node("Add", last, net.conv(last)))
    return [last]


KINDS: Mapping[str, Callable[[_Network, int], list[str]]] = {
    "concat": _concat,
    "sum": _sum,
    "adds": _adds,
    "adds of constants": _adds_of_constants,
    "adds of one": _adds_of_one,
    "relus": _relus,
    "layers": _layers,
    "branches": _branches,
    "added branches": _added_branches,
    "outputs": _outputs,
    "initialisers": _initialisers,
    "tower": _tower,
}
"""What makes the results of a network of a given size, by name."""


def wide_network(kind: str, count: int, seed: int = 0) -> onnx.ModelProto:
    """A float network of `count` operands, layers, branches or outputs."""
    net = _Network(np.random.default_rng(seed))
    results = KINDS[kind](net, count)
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, SHAPE) for n in net.inputs]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in results]
    graph = helper.make_graph(net.nodes, "wide", inputs, outputs, net.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def samples_of(model: onnx.ModelProto, number: int = 4, seed: int = 1) -> dict[str, np.ndarray]:
    """So many normally distributed samples of each input."""
    rng = np.random.default_rng(seed)
    shape = (number, *SHAPE[1:])
    return {i.name: rng.normal(0, 1, shape).astype(np.float32) for i in model.graph.input}
