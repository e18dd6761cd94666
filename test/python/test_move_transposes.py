"""move-transposes: a network with channels last compiles to what it is with channels first."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
from channels_last import channels_last, first, last
from element_networks import element_networks
from hypothesis import HealthCheck, given, settings
from network_comparison import TARGETS as RANDOM_TARGETS
from onnx import TensorProto, helper, numpy_helper
from quantised_networks import network
from random_networks import Network, networks
from small_models import one_thread
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import vtac
from vtac.dialects.context import VtacContext
from vtac.dialects.graph import ConstantOp, TransposeOp
from vtac.dialects.target import Target

TARGETS = {**RANDOM_TARGETS, "sim": Target.named("sim")}
FEW = settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow], deadline=None)


def _run(model: onnx.ModelProto, target: Target, samples: np.ndarray, batch: int):
    """The results, by position, the launches, and the canonical network."""
    canonical = []

    def keep(level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if level == "canonical":
            canonical.append(module.clone())

    everything = vtac.Criteria(compare=False)
    module = vtac.compile(model, target, samples, criteria=everything, observe=keep)
    results = list(module.run({"x": samples[:batch]}).values())
    return results, len(module.report.instructions), canonical[0], module


def transposes(network: ModuleOp) -> int:
    return sum(isinstance(op, TransposeOp) for op in network.walk())


def computing(network: ModuleOp) -> Counter[tuple[str, str]]:
    """What a network computes, how often: ops with the types of their results."""
    ops = [op for op in network.walk() if isinstance(op.parent_op(), FuncOp) and op.results]
    moving = (TransposeOp, ConstantOp)
    return Counter((op.name, str(op.results[0].type)) for op in ops if not isinstance(op, moving))


def may_turn(network: Network) -> bool:
    """Whether a network has several ways to lay out its values that need as many transposes.

    It has them where space is transposed in the network itself, and where a transposition moves
    nothing since an extent is 1.
    """
    inferred = onnx.shape_inference.infer_shapes(network.model).graph
    values = (*inferred.input, *inferred.value_info, *inferred.output)
    extents = [[d.dim_value for d in v.type.tensor_type.shape.dim][1:] for v in values]
    turned = any(node.op_type == "Transpose" for node in inferred.node)
    return turned or any(1 in shape for shape in extents)


def assert_same(network: Network, target: Target) -> None:
    """The same ops with channels first, so the same integers, in as many launches.

    No transposes are left but at inputs and outputs.
    """
    batch = len(network.inputs["x"])
    rank = network.samples.ndim
    expected, launches, before, _ = _run(network.model, target, network.samples, batch)
    model = channels_last(network.model)
    turned = network.samples.transpose(last(rank)) if rank > 2 else network.samples
    results, count, after, module = _run(model, target, np.ascontiguousarray(turned), batch)
    assert transposes(after) <= transposes(before) + 2, module.report
    is_same = computing(before) == computing(after)
    assert is_same or may_turn(network), module.report
    for result, wanted in zip(results, expected, strict=True):
        shown = result.transpose(first(result.ndim)) if result.ndim > 2 else result
        if is_same:
            np.testing.assert_array_equal(shown, wanted)
        else:
            assert np.abs(shown - wanted).max() <= 0.1 * np.abs(wanted).max() + 1e-6
    if is_same:
        assert count == launches


@pytest.mark.parametrize("target", ["1x16", "4x8"])
@FEW
@given(network=networks(exact=False))
def test_layers(target: str, network: Network) -> None:
    assert_same(network, TARGETS[target])


@FEW
@given(network=element_networks(exact=False, multiplies=True))
def test_ops_between(network: Network) -> None:
    assert_same(network, TARGETS["1x16"])


class Tensorflow:
    """Writes networks as tf2onnx does, channels last, from random weights."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def constant(self, array: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def add(self, kind: str, *inputs: str, **attributes: object) -> str:
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def random(self, *shape: int) -> str:
        scale = np.prod(shape[1:]) ** -0.5
        return self.constant(self.rng.normal(0, scale, shape).astype(np.float32))

    def conv(self, x: str, *shape: int, **attributes: object) -> str:
        """A convolution between transposes; biases are added behind it, one per channel."""
        x = self.add("Transpose", x, perm=[0, 3, 1, 2])
        y = self.add("Conv", x, self.random(*shape), **attributes)
        y = self.add("Transpose", y, perm=[0, 2, 3, 1])
        return self.add("Add", y, self.random(shape[0]))

    def clip(self, x: str, least: float, most: float) -> str:
        bounds = [self.constant(np.array(bound, np.float32)) for bound in (least, most)]
        return self.add("Clip", x, *bounds)

    def integers(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def model(self, x: Sequence[int], result: str, opset: int = 17) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "tensorflow",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
            [helper.make_empty_tensor_value_info(result)],
            self.weights,
        )
        opsets = [helper.make_opsetid("", opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def squeeze(net: Tensorflow, x: str, channels: int, means: Callable[[str], str]) -> str:
    """Squeeze and excitation: the mean over space, two layers, and a gate."""
    gate = net.add("Relu", net.conv(means(x), 4, channels, 1, 1))
    gate = net.add("HardSigmoid", net.conv(gate, channels, 4, 1, 1))
    return net.add("Mul", x, gate)


def mobile_block(net: Tensorflow, means: Callable[[str], str]) -> str:
    """An explicit Pad, a strided layer, a depthwise one with pads on one side, a gate, a sum."""
    pads = net.integers(0, 0, 1, 0, 0, 1, 1, 0)
    x = net.add("Pad", "x", pads)
    x = net.clip(net.conv(x, 16, 3, 3, 3, strides=[2, 2]), 0, 6)
    y = net.conv(x, 16, 1, 3, 3, group=16, pads=[0, 1, 2, 1])
    y = net.add("HardSwish", y)
    y = net.conv(squeeze(net, y, 16, means), 16, 16, 1, 1)
    return net.add("Add", y, x)


def _fully_on_the_accelerator(model: onnx.ModelProto, shape: Sequence[int], most: int = 2) -> None:
    """Compile, compare with floats, and find one launch with transposes at the borders alone."""
    samples = np.random.default_rng(1).normal(0, 1, (4 * shape[0], *shape[1:]))
    samples = samples.astype(np.float32)
    (result,), launches, canonical, module = _run(model, TARGETS["sim"], samples, shape[0])
    assert launches == 1, module.report
    assert transposes(canonical) <= most
    session = onnxruntime.InferenceSession(model.SerializeToString(), one_thread())
    (expected,) = session.run(None, {"x": samples[: shape[0]]})
    assert np.abs(result - expected).max() < 0.1 * np.abs(expected).max()


@pytest.mark.parametrize("opset", [14, 18])
@pytest.mark.parametrize("keeps", [0, 1])
def test_squeeze_and_excitation(opset: int, keeps: int) -> None:
    net = Tensorflow(1)

    def means(x: str) -> str:
        axes = {"axes": [1, 2]} if opset < 18 else {}
        operands = (x,) if opset < 18 else (x, net.integers(1, 2))
        mean = net.add("ReduceMean", *operands, keepdims=keeps, **axes)
        return mean if keeps else net.add("Reshape", mean, net.integers(1, 1, 1, 16))

    result = mobile_block(net, means)
    _fully_on_the_accelerator(net.model([1, 11, 12, 3], result, opset), [1, 11, 12, 3])


@pytest.mark.parametrize("flattens", [True, False])
def test_dense_behind_an_image(flattens: bool) -> None:
    net = Tensorflow(2)
    x = net.add("Relu", net.conv("x", 24, 5, 3, 3, pads=[1, 1, 1, 1]))
    x = net.add("Transpose", x, perm=[0, 3, 1, 2])
    x = net.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.add("Transpose", x, perm=[0, 2, 3, 1])
    flat = net.add("Flatten", x) if flattens else net.add("Reshape", x, net.integers(1, -1))
    dense = net.add("MatMul", flat, net.random(3 * 4 * 24, 10))
    result = net.add("Add", dense, net.random(10))
    model = net.model([1, 6, 8, 5], result)
    _fully_on_the_accelerator(model, [1, 6, 8, 5])


def test_product_between_transposes() -> None:
    """A dense layer over the channels of an image, and one from the left."""
    net = Tensorflow(3)
    x = net.conv("x", 16, 8, 3, 3)
    x = net.add("Relu", net.add("MatMul", x, net.random(16, 20)))
    x = net.conv(x, 8, 20, 3, 3)
    _fully_on_the_accelerator(net.model([1, 9, 9, 8], x), [1, 9, 9, 8])


def test_left_product_of_a_transpose() -> None:
    net = Tensorflow(4)
    x = net.add("Transpose", "x", perm=[1, 0])
    x = net.add("MatMul", net.random(20, 32), x)
    result = net.add("Relu", net.add("Transpose", x, perm=[1, 0]))
    _fully_on_the_accelerator(net.model([16, 32], result), [16, 32], most=0)


def test_convolutions_in_one_dimension() -> None:
    """As Keras's Conv1D is exported: an axis of extent 1 comes and goes around each layer."""
    net = Tensorflow(5)
    x = "x"
    for _ in range(3):
        x = net.add("Unsqueeze", x, net.integers(1))
        x = net.conv(x, 8, 8, 1, 3, pads=[0, 1, 0, 1])
        x = net.add("Relu", net.add("Squeeze", x, net.integers(1)))
    _fully_on_the_accelerator(net.model([1, 12, 8], x), [1, 12, 8])


@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize("residual", [False, True])
def test_quantised_networks(unsigned: bool, residual: bool) -> None:
    """QuantizeLinear and DequantizeLinear, channels last, as in a converted TFLite model."""
    case = network(7, False, residual, unsigned)
    turned = channels_last(case.model)
    results = []
    for model in (case.model, turned):
        module = vtac.compile(model, "pynq", criteria=vtac.Criteria(compare=False))
        inputs = {
            name: np.moveaxis(array, 1, -1) if model is turned and array.ndim > 2 else array
            for name, array in case.inputs.items()
        }
        (result,) = module.run(inputs).values()
        shown = np.moveaxis(result, -1, 1) if model is turned and result.ndim > 2 else result
        results.append((shown, len(module.report.instructions)))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]
