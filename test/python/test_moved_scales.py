"""Given scales stay given where elements are only moved: weights, and tensors side by side.

Quantised networks of random shapes against onnxruntime on a target that multiplies. There the
integers of a layer whose weights keep their steps are those of ONNX but for ties.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import vtac

Array = np.ndarray[Any, np.dtype[Any]]

FEW = 0.05
"""The share of results that may be off by a step: ties, and what layers make of those of others."""


@dataclass
class Network:
    """A network under construction. Values are names."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)

    def constant(self, array: Any, dtype: Any = None) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def node(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def rounded(self, x: str, scale: float, zero_point: int) -> str:
        steps = [self.constant(scale, np.float32), self.constant(zero_point, np.uint8)]
        stored = self.node("QuantizeLinear", [x, *steps])
        return self.node("DequantizeLinear", [stored, *steps])

    def kernel(self, shape: Sequence[int], axis: int, gain: float = 0.01) -> str:
        """Dequantised weights with one step per index along an axis."""
        steps = self.rng.uniform(gain / 2, gain, shape[axis]).astype(np.float32)
        stored = self.constant(self.rng.integers(-127, 128, shape), np.int8)
        zeros = self.constant(np.zeros(shape[axis]), np.int8)
        return self.node("DequantizeLinear", [stored, self.constant(steps), zeros], axis=axis)

    def assert_exact(self, y: str, shape: Sequence[int], scale: float, **more: Any) -> vtac.Module:
        """The network up to y is on the accelerator and has onnxruntime's integers, but for a few.

        scale: of y, which is rounded.
        """
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            self.nodes,
            "moved",
            [value("x", TensorProto.FLOAT, shape)],
            [value(y, TensorProto.FLOAT, None)],
            self.weights,
        )
        opsets = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        x = self.rng.normal(size=shape).astype(np.float32)
        plain = onnxruntime.SessionOptions()
        plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(model.SerializeToString(), plain)
        (expected,) = session.run(None, {"x": x})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # there are no samples, and none are needed
            criteria = vtac.Criteria(compare=False)
            module = vtac.compile(model, "sim", criteria=criteria, **more)
        hosted = [placement for placement in module.explain if placement.where == "host"]
        assert not hosted, hosted
        wrong = np.abs(module.run({"x": x})[y] - expected) / scale
        assert np.mean(wrong > 0.5) <= FEW, f"{np.mean(wrong > 0.5):.1%} differ"
        return module


def kernel_moved(net: Network, outputs: int, channels: int, size: int, way: str) -> str:
    """Weights [outputs, channels, size, size], stored otherwise."""
    if way == "transposed":
        order = [int(axis) for axis in net.rng.permutation(4)]
        shape = [(outputs, channels, size, size)[axis] for axis in order]
        stored = net.kernel(shape, order.index(0))
        return net.node("Transpose", [stored], perm=[order.index(axis) for axis in range(4)])
    if way == "reshaped":
        stored = net.kernel((outputs, channels * size * size), 0)
        target = net.constant([outputs, channels, size, size], np.int64)
        return net.node("Reshape", [stored, target])
    if way == "cut":
        stored = net.kernel((outputs + 3, channels, size, size), 0)
        limits = [net.constant([n], np.int64) for n in (2, outputs + 2, 0)]
        return net.node("Slice", [stored, *limits])
    first = net.rng.integers(1, outputs)
    parts = [net.kernel((n, channels, size, size), 0) for n in (first, outputs - first)]
    return net.node("Concat", parts, axis=0)


@settings(max_examples=12)
@given(
    seed=st.integers(0, 10_000), way=st.sampled_from(["transposed", "reshaped", "cut", "joined"])
)
def test_moved_weights_keep_their_steps(seed: int, way: str) -> None:
    net = Network(np.random.default_rng(seed))
    outputs, channels, size = (int(n) for n in net.rng.integers(2, (20, 9, 4)))
    x = net.rounded("x", 0.03, int(net.rng.integers(90, 160)))
    w = kernel_moved(net, outputs, channels, size, way)
    y = net.rounded(net.node("Conv", [x, w]), 0.05, int(net.rng.integers(90, 160)))
    net.assert_exact(y, (1, channels, 6, 5), 0.05)


def joined(net: Network, channels: int, parts: int, steps: tuple[float, int], axis: int) -> str:
    """Convolutions side by side, all rounded to the same steps, as their concatenation is."""
    x = net.rounded("x", 0.03, 120)
    made = []
    for _ in range(parts):
        outputs = int(net.rng.integers(1, 9)) if axis == 1 else 4
        w = net.kernel((outputs, channels, 1, 1), 0)
        made.append(net.rounded(net.node("Conv", [x, w]), *steps))
    return net.rounded(net.node("Concat", made, axis=axis), *steps)


@settings(max_examples=10)
@given(
    seed=st.integers(0, 10_000),
    parts=st.integers(2, 5),
    zero_point=st.sampled_from([0, 30, 128, 200, 255]),
    axis=st.sampled_from([1, 1, 2]),
)
def test_a_concatenation_keeps_the_steps_of_its_parts(
    seed: int, parts: int, zero_point: int, axis: int
) -> None:
    net = Network(np.random.default_rng(seed))
    channels = int(net.rng.integers(1, 20))
    y = joined(net, channels, parts, (0.04, zero_point), axis)
    net.assert_exact(y, (1, channels, 5, 4), 0.04)


@settings(max_examples=10)
@given(
    seed=st.integers(0, 10_000),
    parts=st.integers(2, 4),
    zero_point=st.sampled_from([0, 30, 128, 200]),
)
def test_weights_of_a_concatenation_keep_their_steps(
    seed: int, parts: int, zero_point: int
) -> None:
    net = Network(np.random.default_rng(seed))
    channels = int(net.rng.integers(1, 9))
    x = joined(net, channels, parts, (0.04, zero_point), 1)
    joint = sum(node.op_type == "Conv" for node in net.nodes)
    assert joint == parts
    extents = {t.name: t.dims for t in net.weights}
    kernels = [n for n in net.nodes if n.op_type == "DequantizeLinear" and n.input[0] in extents]
    inner = sum(extents[node.input[0]][0] for node in kernels)
    w = net.kernel((6, inner, 3, 3), 0, gain=0.002)
    y = net.rounded(net.node("Conv", [x, w], pads=[1, 1, 1, 1]), 0.05, 100)
    net.assert_exact(y, (1, channels, 6, 5), 0.05)


@pytest.mark.parametrize("mode", ["reflect", "edge"])
def test_pads_between_roundings_need_no_samples(mode: str) -> None:
    net = Network(np.random.default_rng(1))
    x = net.rounded("x", 0.03, 120)
    first = net.rounded(net.node("Conv", [x, net.kernel((8, 3, 1, 1), 0)]), 0.05, 100)
    pads = net.constant([0, 0, 1, 2, 0, 0, 2, 1], np.int64)
    padded = net.rounded(net.node("Pad", [first, pads], mode=mode), 0.05, 100)
    conv = net.node("Conv", [padded, net.kernel((4, 8, 3, 3), 0, gain=0.002)])
    net.assert_exact(net.rounded(conv, 0.05, 110), (1, 3, 6, 5), 0.05)
