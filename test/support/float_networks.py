"""Random float networks as ONNX: convolutions, dense layers, relus, and what goes with them."""

from random import Random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class FloatNetwork:
    """A model under construction: methods add a node and return its output's name."""

    def __init__(self, shape: tuple[int, ...], seed: int = 0):
        self.random, self.numbers = Random(seed), np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.shapes = {"x": shape}

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        array = self.numbers.uniform(-1, 1, shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op: str, inputs: list[str], shape: tuple[int, ...], **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(op, inputs, [name], f"{op}{len(self.nodes)}", **attributes)
        )
        self.shapes[name] = shape
        return name

    def conv(self, x: str) -> str:
        """Any kernel, strides, dilations, groups and pads, asymmetric ones too."""
        pick, (n, c, *size) = self.random.choice, self.shapes[x]
        group = pick([g for g in (1, 2, c) if c % g == 0])
        out, kernel = group * pick([1, 2, 3]), [pick([1, 2, 3]) for _ in size]
        strides, dilations = [pick([1, 1, 2]) for _ in size], [pick([1, 1, 2]) for _ in size]
        reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
        begins, ends = [pick([0, 1]) for _ in size], [r - 1 for r in reach]
        made = [
            (s + b + e - r) // t + 1
            for s, b, e, r, t in zip(size, begins, ends, reach, strides, strict=True)
        ]
        bias = [self.weight(out)] if pick([True, False]) else []
        return self.add(
            "Conv",
            [x, self.weight(out, c // group, *kernel), *bias],
            (n, out, *made),
            group=group,
            strides=strides,
            dilations=dilations,
            pads=[*begins, *ends],
        )

    def max_pool(self, x: str) -> str:
        n, c, h, w = self.shapes[x]
        shape = n, c, h, (w - 1) // 2 + 1
        return self.add(
            "MaxPool", [x], shape, kernel_shape=[2, 1], strides=[1, 2], pads=[0, 0, 1, 0]
        )

    def relu(self, x: str) -> str:
        return self.add("Relu", [x], self.shapes[x])

    def sum(self, x: str) -> str:
        """With itself, or with an earlier value of its shape."""
        other = self.random.choice(
            [v for v, shape in self.shapes.items() if shape == self.shapes[x]]
        )
        return self.add("Add", [x, other], self.shapes[x])

    def host(self, x: str) -> str:
        """Something that no codegen takes."""
        return self.add("Sin", [x], self.shapes[x])

    def flatten(self, x: str) -> str:
        return self.add("Flatten", [x], (self.shapes[x][0], int(np.prod(self.shapes[x][1:]))))

    def gemm(self, x: str) -> str:
        (n, inner), trans = self.shapes[x], self.random.choice([0, 1])
        out = self.random.choice([3, 4])
        w = self.weight(out, inner) if trans else self.weight(inner, out)
        bias = self.random.choice([[], [self.weight(out)], [self.weight(n, 1)]])
        return self.add("Gemm", [x, w, *bias], (n, out), transB=trans, alpha=0.5, beta=2.0)

    def model(self, *outputs: str) -> onnx.ModelProto:
        def value(name: str) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, self.shapes[name])

        graph = helper.make_graph(
            self.nodes, "g", [value("x")], [value(name) for name in outputs], self.weights
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def input(self) -> np.ndarray:
        return self.numbers.uniform(-1, 1, self.shapes["x"]).astype(np.float32)


def random_network(seed: int) -> FloatNetwork:
    """Some layers over space, then some dense ones, with ops for the host among them."""
    net = FloatNetwork((2, 4, 6, 5), seed)
    x = "x"
    for _ in range(4):
        x = net.random.choice([net.conv, net.conv, net.max_pool, net.relu, net.sum, net.host])(x)
    x = net.flatten(net.relu(net.conv(x)))
    for _ in range(2):
        x = net.random.choice([net.relu, net.sum])(net.gemm(x))
    return net
