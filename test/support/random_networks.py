"""Random small networks as ONNX models, for hypothesis.

Two kinds. A *general* one has real weights and inputs. An *exact* one is made so that quantisation
loses nothing: small integer weights and inputs, power-of-two scales, and every intermediate result
bounded by 127, so that float onnxruntime must be reproduced without any difference.
"""

from dataclasses import dataclass, field

import numpy as np
import onnx
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

LIMIT = 127
"""What no value of an exact network may exceed in magnitude."""


@dataclass(frozen=True)
class Network:
    """A model with calibration samples and the input to judge it on (the first of them)."""

    model: onnx.ModelProto
    samples: NDArray[np.float32]
    exact: bool

    @property
    def inputs(self) -> dict[str, NDArray[np.float32]]:
        """One batch, by input name."""
        batch = self.model.graph.input[0].type.tensor_type.shape.dim[0].dim_value
        return {"x": self.samples[:batch]}


@dataclass
class Value:
    """A tensor of the model; ``bound`` as in `Builder`."""

    name: str
    shape: tuple[int, ...]
    bound: int


@dataclass
class Builder:
    """Collects nodes; ``bound`` of a value is the largest magnitude it can take (exact only)."""

    draw: st.DrawFn
    exact: bool
    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)

    def node(self, kind: str, inputs: list[str], **attributes: object) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def constant(self, array: NDArray[np.floating]) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def matrix(self, shape: tuple[int, ...], bound: int) -> tuple[NDArray[np.float64], int]:
        """Weights [out, ...] and the bound of their products with values within ``bound``."""
        if not self.exact:
            fan_in = int(np.prod(shape[1:]))
            return self.rng.normal(0, 1.5 / np.sqrt(fan_in), shape), 0
        weights = np.zeros(shape)
        terms = max(1, min(int(np.prod(shape[1:])), (LIMIT - 8) // max(bound, 1)))
        for row in weights.reshape(shape[0], -1):
            picked = self.rng.integers(0, row.size, self.rng.integers(1, terms + 1))
            row[picked] = self.rng.choice([-1, 1], picked.size)
        largest = int(np.abs(weights).reshape(shape[0], -1).sum(axis=1).max())
        return weights, largest * bound

    def bias(self, channels: int) -> NDArray[np.float64]:
        if self.exact:
            return self.rng.integers(-8, 9, channels).astype(np.float64)
        return self.rng.normal(0, 0.3, channels)

    def conv(self, x: Value, channels: int, *, same: bool = False, group: int = 1) -> Value:
        """A convolution with odd numbers, or one that keeps the spatial shape."""
        draw, rank = self.draw, len(x.shape) - 2
        kernel = [draw(st.sampled_from([1, 3] if same else [1, 2, 3, 4])) for _ in range(rank)]
        dilations = [1 if same else draw(st.sampled_from([1, 1, 1, 2])) for _ in range(rank)]
        if same:
            strides = [1] * rank
            pads = [k // 2 for k in kernel] * 2
        else:
            strides = [draw(st.integers(1, 3)) for _ in range(rank)]
            pads = [draw(st.integers(0, 2)) for _ in range(2 * rank)]
        for i in range(rank):
            room = x.shape[2 + i] + pads[i] + pads[rank + i]
            kernel[i] = min(kernel[i], (room - 1) // dilations[i] + 1)
        weights, bound = self.matrix((channels, x.shape[1] // group, *kernel), x.bound)
        inputs = [x.name, self.constant(weights)]
        if draw(st.booleans()):
            inputs.append(self.constant(self.bias(channels)))
            bound += 8
        windows = {"kernel_shape": kernel, "strides": strides, "pads": pads, "dilations": dilations}
        name = self.node("Conv", inputs, group=group, **windows)
        extent = [
            (x.shape[2 + i] + pads[i] + pads[rank + i] - dilations[i] * (kernel[i] - 1) - 1)
            // strides[i]
            + 1
            for i in range(rank)
        ]
        return Value(name, (x.shape[0], channels, *extent), bound)

    def grouped(self, x: Value) -> Value:
        """A convolution in groups, often as many as channels, of one to three outputs each."""
        divisors = [g for g in range(1, x.shape[1] + 1) if x.shape[1] % g == 0]
        group = self.draw(st.sampled_from([*divisors, x.shape[1], x.shape[1]]))
        return self.conv(x, group * self.draw(st.integers(1, 3)), group=group)

    def relu(self, x: Value) -> Value:
        return Value(self.node("Relu", [x.name]), x.shape, x.bound)

    def residual(self, x: Value) -> Value:
        """``x + conv(x)``: x has several users."""
        if self.exact and 2 * x.bound + 8 > LIMIT:
            return self.relu(x)
        y = self.conv(x, x.shape[1], same=True)
        if self.exact and x.bound + y.bound > LIMIT:
            return y
        terms = [x.name, y.name] if self.draw(st.booleans()) else [y.name, x.name]
        return Value(self.node("Add", terms), x.shape, x.bound + y.bound)

    def max_pool(self, x: Value) -> Value:
        draw, rank = self.draw, len(x.shape) - 2
        kernel = [min(draw(st.integers(1, 3)), extent) for extent in x.shape[2:]]
        strides = [draw(st.integers(1, 3)) for _ in range(rank)]
        pads = [draw(st.integers(0, k - 1)) for k in kernel + kernel]
        extent = [
            (x.shape[2 + i] + pads[i] + pads[rank + i] - kernel[i]) // strides[i] + 1
            for i in range(rank)
        ]
        name = self.node("MaxPool", [x.name], kernel_shape=kernel, strides=strides, pads=pads)
        return Value(name, (*x.shape[:2], *extent), x.bound)

    def dense(self, x: Value, features: int) -> Value:
        flat = int(np.prod(x.shape[1:]))
        name = self.node("Flatten", [x.name]) if len(x.shape) > 2 else x.name
        weights, bound = self.matrix((features, flat), x.bound)
        inputs = [name, self.constant(weights), self.constant(self.bias(features))]
        return Value(self.node("Gemm", inputs, transB=1), (x.shape[0], features), bound + 8)


@st.composite
def networks(draw: st.DrawFn, exact: bool) -> Network:
    """One to four layers of convolution, also grouped, residual addition, max pooling and relu;
    perhaps dense.

    The first is a convolution: what stands before one is not worth rounding, and stays float.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    batch, channels = draw(st.integers(1, 3)), draw(st.integers(1, 40))
    spatial = tuple(draw(st.integers(3, 9)) for _ in range(2))
    amplitude = 3
    build = Builder(draw, exact, rng)
    x = Value("x", (batch, channels, *spatial), amplitude)
    layers = draw(st.lists(st.sampled_from(["conv", "grouped", "residual", "pool"]), max_size=3))
    for layer in ["conv", *layers]:
        if layer == "pool":
            x = build.max_pool(x)
        elif layer == "residual":
            x = build.residual(x)
        elif layer == "grouped":
            x = build.grouped(x)
        else:
            x = build.conv(x, draw(st.integers(1, 40)))
        if layer != "pool" and draw(st.booleans()):
            x = build.relu(x)
    if draw(st.booleans()):
        x = build.dense(x, draw(st.integers(1, 20)))
    return finish(build, x, (batch, channels, *spatial), amplitude)


def finish(build: Builder, result: Value, shape: tuple[int, ...], amplitude: int) -> Network:
    """The network that computes ``result`` from an input of a shape, and samples for it."""
    graph = helper.make_graph(
        build.nodes,
        "random",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(result.name, TensorProto.FLOAT, result.shape)],
        build.weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    samples = (2 * shape[0], *shape[1:])
    if build.exact:
        values = build.rng.integers(-amplitude, amplitude + 1, samples)
    else:
        values = build.rng.normal(0, 1, samples)
    return Network(model, values.astype(np.float32), build.exact)
