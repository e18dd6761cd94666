"""Dynamically quantised networks: given samples, their layers are calibrated and accelerated."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from small_models import assert_same, context, floats, kinds, run, small_model

import vtac
from vtac.lowering.graph_to_onnx import host_model
from vtac.lowering.onnx_to_graph import import_model

node = helper.make_node


def dynamic(data: st.DataObject, convolves: bool) -> tuple[onnx.ModelProto, tuple[int, ...]]:
    """One layer, with scales and zero points of weights in any of their forms."""
    draw = data.draw
    unsigned, per_channel = draw(st.booleans()), draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    inputs, outputs = draw(st.integers(2, 20)), draw(st.integers(1, 20))
    low, high, dtype = (0, 256, np.uint8) if unsigned else (-127, 128, np.int8)
    shape = (outputs, inputs, 3, 3) if convolves else (inputs, outputs)
    zero = np.full(outputs if per_channel and not convolves else (), 128 if unsigned else 0, dtype)
    scale = rng.uniform(0.2, 2, outputs if per_channel else ()).astype(np.float32) * 0.01
    if per_channel and convolves:
        scale = scale.reshape(-1, 1, 1)
    weights = {"wq": rng.integers(low, high, shape).astype(dtype), "wz": zero, "ws": scale}
    kind, more = ("ConvInteger", {"pads": [1] * 4}) if convolves else ("MatMulInteger", {})
    layer = node(kind, ["q", "wq", "z", "wz"], ["i"], "layer", **more)
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], "dynamic"),
        layer,
        node("Cast", ["i"], ["f"], "cast", to=1),
    ]
    if draw(st.booleans()):
        nodes += [node("Mul", ["s", "ws"], ["t"]), node("Mul", ["f", "t"], ["y"], "scaled")]
    else:
        nodes += [node("Mul", ["f", "s"], ["t"]), node("Mul", ["ws", "t"], ["y"], "scaled")]
    x = (1, inputs, 5, 6) if convolves else (3, inputs)
    return small_model(nodes, {"x": x}, ["y"], weights, opset=13), x


@given(st.data(), st.booleans())
@settings(max_examples=20)
def test_layers_are_those_of_real_activations(data: st.DataObject, convolves: bool) -> None:
    model, shape = dynamic(data, convolves)
    ctx = context()
    module = import_model(model, ctx, calibrated=True)
    assert kinds(module) == ["graph.conv" if convolves else "graph.matmul"]
    x = floats(shape, 3)
    (expected,) = run(model, {"x": x})
    (found,) = run(host_model(module, ctx), {"x": x})
    assert np.abs(found - expected).max() <= 0.02 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("convolves", [False, True])
@settings(max_examples=4)
@given(data=st.data())
def test_given_samples_they_run_on_the_accelerator(data: st.DataObject, convolves: bool) -> None:
    model, shape = dynamic(data, convolves)
    samples = np.concatenate([floats(shape, seed) for seed in range(4)])
    everything = vtac.Criteria(compare=False)
    module = vtac.compile(model, "pynq", samples, criteria=everything)
    assert all(place.where != "host" for place in module.explain)
    (expected,) = run(model, {"x": samples[: shape[0]]})
    (found,) = module.run({"x": samples[: shape[0]]}).values()
    assert np.sqrt(np.mean((found - expected) ** 2)) < 0.04 * expected.std() + 1e-6


def test_dequantised_activations_are_the_real_ones() -> None:
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        node("MatMul", ["d", "w"], ["y"]),
    ]
    model = small_model(nodes, {"x": (3, 8)}, ["y"], {"w": floats((8, 4))})
    assert kinds(import_model(model, context(), calibrated=True)) == ["graph.matmul"]


def test_without_samples_and_for_other_readers_the_chain_stays() -> None:
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("MatMulInteger", ["q", "wq", "z"], ["i"]),
        node("Cast", ["i"], ["f"], to=1),
        node("Mul", ["s", "ws"], ["t"]),
        node("Mul", ["f", "t"], ["y"]),
    ]
    weights = {"wq": np.ones((8, 4), np.int8), "ws": np.float32(0.01) * np.ones(())}
    weights["ws"] = weights["ws"].astype(np.float32)
    model = small_model(nodes, {"x": (3, 8)}, ["y", "t"], weights)
    x = floats((3, 8), 1)
    for calibrated in (False, True):
        ctx = context()
        module = import_model(model, ctx, calibrated=calibrated)
        assert "DynamicQuantizeLinear" in kinds(module)
        assert_same(run(model, {"x": x}), run(host_model(module, ctx), {"x": x}), 2e-2)
