"""RNN, GRU and LSTM: unrolled they are what onnxruntime computes, with products accelerated."""

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
from vtac.lowering.onnx_to_graph.expansions.recurrent import ACTIVATIONS, GATES

KINDS = sorted(GATES)


def layer(kind: str, opset: int = 17, **form: object) -> tuple[onnx.ModelProto, tuple[int, ...]]:
    """One layer of a form: extents, direction, bias, initial states, lengths, results."""
    size: dict = {"steps": 5, "batch": 2, "inputs": 24, "hidden": 20} | form
    directions = 2 if size.get("direction") == "bidirectional" else 1
    rows, hidden, batch = GATES[kind] * size["hidden"], size["hidden"], size["batch"]
    layout = size.get("layout", 0)
    scale = np.float32(1 / np.sqrt(size["inputs"] + hidden))
    weights = {
        "w": scale * floats((directions, rows, size["inputs"]), 1),
        "r": scale * floats((directions, rows, hidden), 2),
    }
    inputs = ["x", "w", "r", "", "", "", "", ""]
    if size.get("bias"):
        weights["b"], inputs[3] = 0.3 * floats((directions, 2 * rows), 3), "b"
    if size.get("lengths"):
        weights["n"], inputs[4] = np.full(batch, size["steps"], np.int32), "n"
    start = (batch, directions, hidden) if layout else (directions, batch, hidden)
    if size.get("state"):
        weights["h"], inputs[5] = 0.5 * floats(start, 4), "h"
    if size.get("state") and kind == "LSTM":
        weights["c"], inputs[6] = 0.5 * floats(start, 5), "c"
    more = {"linear_before_reset": 1} if size.get("linear") and kind == "GRU" else {}
    more |= {"layout": 1} if layout else {}
    if size.get("peepholes") and kind == "LSTM":
        weights["p"], inputs[7] = 0.5 * floats((directions, 3 * hidden), 7), "p"
    if size.get("coupled") and kind == "LSTM":
        more["input_forget"] = 1
    if size.get("clip"):
        more["clip"] = size["clip"]
    if size.get("activations"):
        count = len(ACTIVATIONS[kind]) * directions
        names = (size["activations"] * count)[:count]
        # onnxruntime minds the case of a simple RNN's alone.
        more["activations"] = names if kind == "RNN" else [*map(str.lower, names)]
        more |= {k: size[k] for k in ("activation_alpha", "activation_beta") if size.get(k)}
    results = ["y", "y_h"] + (["y_c"] if kind == "LSTM" else [])
    made = helper.make_node(
        kind,
        inputs[: 8 if kind == "LSTM" else 6],
        results,
        "layer",
        hidden_size=hidden,
        direction=size.get("direction", "forward"),
        **more,
    )
    shape = (size["steps"], batch, size["inputs"])
    shape = (shape[1], shape[0], shape[2]) if layout else shape
    return small_model([made], {"x": shape}, results, weights, opset), shape


@given(
    st.sampled_from(KINDS),
    st.fixed_dictionaries(
        {
            "steps": st.integers(1, 6),
            "batch": st.integers(1, 3),
            "inputs": st.integers(68, 76),
            "hidden": st.integers(68, 76),
            "direction": st.sampled_from(["forward", "reverse", "bidirectional"]),
            "bias": st.booleans(),
            "state": st.booleans(),
            "lengths": st.booleans(),
            "linear": st.booleans(),
        }
    ),
    st.sampled_from([9, 13, 17]),
)
@settings(max_examples=30)
def test_unrolled_layers_are_the_same(kind: str, form: dict, opset: int) -> None:
    model, shape = layer(kind, opset, **form)
    ctx = context()
    module = import_model(model, ctx, calibrated=True)
    assert kind not in kinds(module)
    feeds = {"x": floats(shape, 6)}
    assert_same(run(model, feeds), run(host_model(module, ctx), feeds), 1e-4)


NAMES = st.sampled_from(["Sigmoid", "Tanh", "Relu", "HardSigmoid", "Softsign", "LeakyRelu", "Elu"])


@given(
    st.sampled_from(KINDS),
    st.fixed_dictionaries(
        {
            "steps": st.integers(1, 4),
            "inputs": st.just(70),
            "hidden": st.just(70),
            "direction": st.sampled_from(["forward", "reverse", "bidirectional"]),
            "bias": st.booleans(),
            "state": st.booleans(),
            "linear": st.booleans(),
            "peepholes": st.booleans(),
            "coupled": st.booleans(),
            "clip": st.sampled_from([None, 0.25, 1.0]),
            "activations": st.lists(NAMES, max_size=4),
            "activation_alpha": st.lists(st.sampled_from([0.125, 0.5]), max_size=3),
            "activation_beta": st.lists(st.sampled_from([0.25, 0.625]), max_size=2),
        }
    ),
    st.sampled_from([9, 17]),
)
@settings(max_examples=60)
def test_gates_of_any_form_are_the_same(kind: str, form: dict, opset: int) -> None:
    """Other activations and their parameters, bounds of gates, peepholes, coupled gates."""
    model, shape = layer(kind, opset, **form)
    ctx = context()
    module = import_model(model, ctx, calibrated=True)
    assert kind not in kinds(module)
    feeds = {"x": floats(shape, 6)}
    assert_same(run(model, feeds), run(host_model(module, ctx), feeds), 1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("target", ["pynq", "sim"])
def test_products_run_on_the_accelerator(kind: str, direction: str, target: str) -> None:
    form = {"bias": True, "linear": True, "direction": direction, "hidden": 64, "inputs": 64}
    model, shape = layer(kind, batch=1, **form)
    samples = [{"x": floats(shape, seed)} for seed in range(6)]
    stacked = {"x": np.stack([sample["x"] for sample in samples])}
    everything = vtac.Criteria(compare=False)
    module = vtac.compile(model, target, stacked, criteria=everything)
    assert any(place.where.startswith("vta") for place in module.explain)
    for feeds in samples[:2]:
        for expected, found in zip(run(model, feeds), module.run(feeds).values(), strict=True):
            assert np.sqrt(np.mean((found - expected) ** 2)) < 0.06 * expected.std()


@pytest.mark.parametrize("kind", KINDS)
def test_the_batch_may_come_first(kind: str) -> None:
    form = {"direction": "bidirectional", "state": True, "inputs": 70, "hidden": 70}
    (model, shape), (other, _) = layer(kind, layout=1, **form), layer(kind, **form)
    for tensor in model.graph.initializer:
        if tensor.name in ("h", "c"):  # the same states, [B, D, H]
            (plain,) = (t for t in other.graph.initializer if t.name == tensor.name)
            turned = onnx.numpy_helper.to_array(plain).transpose(1, 0, 2)
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(turned), plain.name))
    ctx, x = context(), floats(shape, 6)
    found = run(host_model(import_model(model, ctx, calibrated=True), ctx), {"x": x})
    expected = run(other, {"x": np.ascontiguousarray(x.transpose(1, 0, 2))})
    orders = [(2, 0, 1, 3), (1, 0, 2), (1, 0, 2)]
    wanted = [a.transpose(order) for a, order in zip(expected, orders, strict=False)]
    assert_same(wanted, found, 1e-4)


def test_small_layers_and_unequal_lengths_stay_whole() -> None:
    model, _ = layer("LSTM", inputs=4, hidden=4)
    assert kinds(import_model(model, context(), calibrated=True)) == ["LSTM"]
    model, _ = layer("GRU", lengths=True, hidden=64, inputs=64)
    for tensor in model.graph.initializer:
        if tensor.name == "n":
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array([5, 3], np.int32), "n"))
    assert kinds(import_model(model, context(), calibrated=True)) == ["GRU"]


@pytest.mark.parametrize("shape", [[4], [2, 2]])
def test_a_result_that_the_host_only_reshapes_is_not_in_part(shape: list[int]) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="dense"),
        helper.make_node("Reshape", ["m", "shape"], ["y"], name="reshape"),
    ]
    weights = {"w": floats((8, 4), 1), "shape": np.array(shape)}
    model = small_model(nodes, {"x": (1, 8)}, ["y"], weights)
    module = vtac.compile(
        model, "pynq", {"x": floats((4, 1, 8), 2)}, criteria=vtac.Criteria(compare=False)
    )
    dense = next(place for place in module.explain if place.node == "dense")
    assert dense.where.startswith("vta") and not dense.reason


def test_explain_says_that_gates_stay_on_the_host() -> None:
    model, shape = layer("LSTM", batch=1, inputs=64, hidden=64)
    samples = {"x": np.stack([floats(shape, seed) for seed in range(4)])}
    (place,) = vtac.compile(model, "pynq", samples).explain
    assert place.where.startswith("vta") and "another part stays on the host" in place.reason
