"""Random small networks that are quantised already, in both of ONNX's forms.

A network is a list of layers over int8 or uint8 with scales of any ratio, zero points anywhere,
weights with a scale (and perhaps a zero point) a channel, odd shapes and pads. ``qdq`` writes it
with QuantizeLinear and DequantizeLinear, ``qoperator`` with QLinearConv and its kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Steps:
    """How an activation is stored."""

    scale: float
    zero_point: int
    dtype: type[np.generic]


@dataclass
class Writer:
    """A model under construction, in one of the two forms. Values are names of 8-bit tensors."""

    qoperator: bool
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    steps: dict[str, Steps] = field(default_factory=dict)

    def weight(self, array: Array) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, kind: str, inputs: list[str], domain: str = "", **attributes: Any) -> str:
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **attributes))
        return output

    def scale_of(self, steps: Steps) -> list[str]:
        zero_point = np.array(steps.zero_point, steps.dtype)
        return [self.weight(np.array(steps.scale, np.float32)), self.weight(zero_point)]

    def real(self, value: str) -> str:
        return self.node("DequantizeLinear", [value, *self.scale_of(self.steps[value])])

    def stored(self, real: str, steps: Steps) -> str:
        return self.named(self.node("QuantizeLinear", [real, *self.scale_of(steps)]), steps)

    def named(self, value: str, steps: Steps) -> str:
        self.steps[value] = steps
        return value

    def conv(
        self,
        x: str,
        w: Array,
        w_scale: Array,
        w_zero: Array,
        bias: Array,
        result: Steps,
        relu: bool,
        **attributes: Any,
    ) -> str:
        """A convolution; with ``relu`` the zero point of the result is its least integer."""
        if self.qoperator:
            inputs = [x, *self.scale_of(self.steps[x]), self.weight(w), self.weight(w_scale)]
            inputs += [self.weight(w_zero), *self.scale_of(result), self.weight(bias)]
            return self.named(self.node("QLinearConv", inputs, **attributes), result)
        real = self.node(
            "DequantizeLinear",
            [self.weight(w), self.weight(w_scale), self.weight(w_zero)],
            axis=0,
        )
        bias_scale = (np.float32(self.steps[x].scale) * w_scale).astype(np.float32)
        bias_real = self.node(
            "DequantizeLinear", [self.weight(bias), self.weight(bias_scale)], axis=0
        )
        y = self.node("Conv", [self.real(x), real, bias_real], **attributes)
        return self.stored(self.node("Relu", [y]) if relu else y, result)

    def add(self, a: str, b: str, result: Steps) -> str:
        if self.qoperator:
            inputs = [a, *self.scale_of(self.steps[a]), b, *self.scale_of(self.steps[b])]
            inputs += self.scale_of(result)
            return self.named(self.node("QLinearAdd", inputs, "com.microsoft"), result)
        return self.stored(self.node("Add", [self.real(a), self.real(b)]), result)

    def global_average(self, x: str, result: Steps) -> str:
        if self.qoperator:
            inputs = [x, *self.scale_of(self.steps[x]), *self.scale_of(result)]
            kind = "QLinearGlobalAveragePool"
            value = self.node(kind, inputs, "com.microsoft", channels_last=0)
            return self.named(value, result)
        return self.stored(self.node("GlobalAveragePool", [self.real(x)]), result)

    def max_pool(self, x: str) -> str:
        y = self.node("MaxPool", [x], kernel_shape=[2, 2], strides=[1, 1])
        return self.named(y, self.steps[x])

    def dense(self, x: str, w: Array, w_scale: float, result: Steps) -> str:
        """Flatten, and a product with a matrix."""
        flat = self.named(self.node("Flatten", [x]), self.steps[x])
        constants = [self.weight(w), self.weight(np.array(w_scale, np.float32))]
        constants.append(self.weight(np.zeros((), w.dtype)))
        if self.qoperator:
            inputs = [flat, *self.scale_of(self.steps[flat]), *constants, *self.scale_of(result)]
            return self.named(self.node("QLinearMatMul", inputs), result)
        real = self.node("DequantizeLinear", constants)
        return self.stored(self.node("MatMul", [self.real(flat), real]), result)

    def model(self, inputs: Mapping[str, Array], output: str, opset: int = 13) -> onnx.ModelProto:
        """The network whose result is ``output``, stored or real."""
        types = {np.dtype(np.int8): TensorProto.INT8, np.dtype(np.uint8): TensorProto.UINT8}
        value = helper.make_tensor_value_info
        result = TensorProto.FLOAT
        if output in self.steps:
            result = types[np.dtype(self.steps[output].dtype)]
        graph = helper.make_graph(
            self.nodes,
            "quantised",
            [value(name, types[array.dtype], array.shape) for name, array in inputs.items()],
            [value(output, result, None)],
            self.weights,
        )
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@dataclass(frozen=True)
class Quantised:
    """A network, an input for it, and through how many roundings a value goes at most.

    meaning: the same in the form of QuantizeLinear and DequantizeLinear. onnxruntime's integer
    kernels are no oracle: some saturate on the way, or take one zero point for all channels.
    """

    model: onnx.ModelProto
    meaning: onnx.ModelProto
    inputs: dict[str, Array]
    depth: int


def network(
    seed: int, qoperator: bool, residual: bool, unsigned: bool, real: bool = False
) -> Quantised:
    """A convolution, perhaps a depthwise one added to it, a pooling, and a dense layer.

    real: the result is dequantised.
    """
    rng = np.random.default_rng(seed)
    dtype = np.uint8 if unsigned else np.int8
    low = 0 if unsigned else -128

    def steps(scale: float, zero_point: int | None = None) -> Steps:
        offset = int(rng.integers(20, 236)) if zero_point is None else zero_point
        return Steps(float(np.float32(scale)), low + offset, dtype)

    channels, outputs = (int(n) for n in rng.integers(1, 20, 2))
    height, width = (int(n) for n in rng.integers(4, 8, 2))
    x = rng.integers(low, low + 256, (int(rng.integers(1, 3)), channels, height, width))
    writer = Writer(qoperator)
    writer.steps["x"] = steps(rng.uniform(0.01, 0.1))
    pads = [int(n) for n in rng.integers(0, 2, 4)]
    y = _conv(writer, rng, "x", channels, outputs, 1, steps, pads=pads)
    depth = 1
    if residual:
        z = _conv(writer, rng, y, outputs, outputs, outputs, steps, pads=[1, 1, 1, 1])
        largest = max(writer.steps[y].scale, writer.steps[z].scale)
        y = writer.add(y, z, steps(largest * rng.uniform(0.8, 1.6)))
        depth = 3
    if rng.integers(2):
        y = writer.max_pool(y)
    y = writer.global_average(y, steps(writer.steps[y].scale * rng.uniform(0.3, 1.2)))
    w = rng.integers(-127, 128, (outputs, 5)).astype(np.int8)
    w_scale = float(np.float32(rng.uniform(0.001, 0.01)))
    scale = writer.steps[y].scale * w_scale * 75 * 60 * np.sqrt(outputs) / 64
    y = writer.dense(y, w, w_scale, steps(scale))
    inputs = {"x": x.astype(dtype)}
    model = writer.model(inputs, writer.real(y) if real else y)
    meaning = network(seed, False, residual, unsigned, real).model if qoperator else model
    return Quantised(model, meaning, inputs, depth + 2)


def _conv(
    writer: Writer,
    rng: np.random.Generator,
    x: str,
    channels: int,
    outputs: int,
    group: int,
    steps: Any,
    pads: list[int],
) -> str:
    """A convolution 3x3 with a scale per channel, and a result that fills its range."""
    w = rng.integers(-127, 128, (outputs, channels // group, 3, 3)).astype(np.int8)
    w_zero = np.zeros(outputs, np.int8) if rng.integers(2) else rng.integers(-9, 9, outputs)
    w_scale = rng.uniform(0.001, 0.01, outputs).astype(np.float32)
    fan_in = np.sqrt(9 * channels / group)
    bias = rng.integers(-3000, 3000, outputs).astype(np.int32)
    relu = bool(rng.integers(2))
    reach = writer.steps[x].scale * float(w_scale.mean()) * 75 * 75 * fan_in
    result = steps(reach / 40, 0) if relu else steps(reach / 40)
    return writer.conv(
        x, w, w_scale, w_zero.astype(np.int8), bias, result, relu, pads=pads, group=group
    )
