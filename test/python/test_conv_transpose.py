"""Transposed convolutions of ONNX: the same numbers in phases, and on the accelerator."""

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
from vtac.passes.graph.canonicalize_graph import CanonicalizeGraphPass
from vtac.passes.graph.conv_transpose_phases import ConvTransposePhasesPass

node = helper.make_node


def norm(outputs: int) -> dict[str, np.ndarray]:
    vectors = {name: floats((outputs,), i) for i, name in enumerate(("scale", "offset", "mean"))}
    return vectors | {"variance": np.abs(floats((outputs,), 9)) + 0.5}


@settings(max_examples=15)
@given(st.data())
def test_phases_keep_the_numbers(data: st.DataObject) -> None:
    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    rank, group = draw(1, 2), draw(1, 2)
    channels, outputs = group * draw(1, 3), draw(1, 3)
    size, taps, strides = ([draw(1, top) for _ in range(rank)] for top in (5, 5, 3))
    dilations = [draw(1, 2) if stride == 1 else 1 for stride in strides]
    before, after, more = [], [], []
    for n, k, s, d in zip(size, taps, strides, dilations, strict=True):
        whole = (n - 1) * s + d * (k - 1) + 1
        before.append(draw(0, min(3, whole - 1)))
        after.append(draw(0, min(2, whole - 1 - before[-1])))
        more.append(draw(0, s - 1))
    weights = {"w": floats((channels, outputs, *taps)), "b": floats((group * outputs,), 1)}
    nodes = [
        node(
            "ConvTranspose",
            ["x", "w", "b"][: draw(2, 3)],
            ["y"],
            strides=strides,
            dilations=dilations,
            pads=before + after,
            output_padding=more,
            group=group,
        ),
        node("BatchNormalization", ["y", "scale", "offset", "mean", "variance"], ["z"]),
        node("Relu", ["z"], ["r"]),
    ][: draw(1, 3)]
    weights |= norm(group * outputs)
    form = data.draw(st.sampled_from(["explicit", "output_shape", "SAME_UPPER", "SAME_LOWER"]))
    if form != "explicit":
        gone = ("pads", "output_padding") if draw(0, 1) else ("pads",)
        removed = [a for a in nodes[0].attribute if a.name in gone]
        for attribute in removed:
            nodes[0].attribute.remove(attribute)
        if form == "output_shape":
            whole = zip(size, taps, strides, dilations, strict=True)
            full = [(n - 1) * s + d * (k - 1) + 1 for n, k, s, d in whole]
            extents = [extent - draw(0, extent - 1) for extent in full]
            nodes[0].attribute.append(helper.make_attribute("output_shape", extents))
        else:
            nodes[0].attribute.append(helper.make_attribute("auto_pad", form))
    model = small_model(nodes, {"x": (2, channels, *size)}, [nodes[-1].output[0]], weights)
    ctx = context()
    module = import_model(model, ctx)
    ConvTransposePhasesPass().apply(ctx, module)
    CanonicalizeGraphPass().apply(ctx, module)
    module.verify()
    found = kinds(module)
    assert found[0] == "graph.conv"
    assert not {"ConvTranspose", "graph.batch_norm"} & set(found)
    feeds = {"x": floats((2, channels, *size), 5)}
    assert_same(run(model, feeds), run(host_model(module, ctx), feeds), 1e-4)


def test_a_decoder_runs_on_the_accelerator() -> None:
    weights = {
        "w": 0.3 * floats((8, 6, 4, 4)),
        "v": 0.3 * floats((3, 6, 3, 3), 1),
        **norm(6),
    }
    nodes = [
        node("ConvTranspose", ["x", "w"], ["y"], "up", strides=[2, 2], pads=[1] * 4),
        node("BatchNormalization", ["y", "scale", "offset", "mean", "variance"], ["z"], "norm"),
        node("Relu", ["z"], ["r"], "relu"),
        node("Conv", ["r", "v"], ["image"], "last", pads=[1] * 4),
    ]
    model = small_model(nodes, {"x": (1, 8, 5, 5)}, ["image"], weights)
    samples = floats((20, 8, 5, 5), 7)
    module = vtac.compile(model, "pynq", samples)
    assert all(place.where != "host" for place in module.explain)
    for sample in samples[:3]:
        (expected,) = run(model, {"x": sample[None]})
        found = module.run({"x": sample[None]})["image"]
        assert found.shape == (1, 3, 10, 10)
        assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


def test_without_calibration_it_stays_one_node_of_the_host() -> None:
    weights = {"w": floats((3, 2, 4, 4))}
    nodes = [node("ConvTranspose", ["x", "w"], ["y"], "up", strides=[2, 2], pads=[1] * 4)]
    model = small_model(nodes, {"x": (1, 3, 5, 5)}, ["y"], weights)
    with pytest.warns(UserWarning, match="no calibration samples"):
        module = vtac.compile(model)
    parts = [onnx.load_from_string(part) for part in module.package.host_parts.values()]
    assert [found.op_type for part in parts for found in part.graph.node] == ["ConvTranspose"]
    feeds = {"x": floats((1, 3, 5, 5), 5)}
    assert_same(run(model, feeds), list(module.run(feeds).values()), 1e-6)


@settings(max_examples=8)
@given(st.data())
def test_quantised_models_run_on_the_accelerator(data: st.DataObject) -> None:
    def draw(low: int, high: int) -> int:
        return data.draw(st.integers(low, high))

    group, per_channel = draw(1, 2), data.draw(st.booleans())
    channels, outputs = group * draw(1, 8), draw(1, 9)
    size, taps, strides = ([draw(1, top) for _ in range(2)] for top in (5, 4, 3))
    more = [draw(0, s - 1) for s in strides]
    pads = [draw(0, (k - 1) // 2) for k in taps] * 2
    rng = np.random.default_rng(draw(0, 2**16))
    scales = rng.uniform(0.2, 2, outputs if per_channel else 1).astype(np.float32) * 0.01
    biases = np.tile(scales, group) if per_channel else scales
    weights = {
        "wq": rng.integers(-127, 128, (channels, outputs, *taps)).astype(np.int8),
        "s": scales if per_channel else scales.reshape(()),
        "z": np.zeros(outputs if per_channel else (), np.int8),
        "as": np.float32(0.03),
        "az": np.int8(draw(-20, 20)),
        "bq": rng.integers(-2000, 2000, group * outputs).astype(np.int32),
        "bs": (biases if per_channel else biases.reshape(())) * np.float32(0.03),
        "ys": np.float32(0.01 * np.sqrt(channels * np.prod(taps))),
        "yz": np.int8(draw(-20, 20)),
    }
    layer = {"strides": strides, "pads": pads, "output_padding": more, "group": group}
    nodes = [
        node("QuantizeLinear", ["x", "as", "az"], ["xq"]),
        node("DequantizeLinear", ["xq", "as", "az"], ["xd"]),
        node("DequantizeLinear", ["wq", "s", "z"], ["w"], axis=1),
        node("DequantizeLinear", ["bq", "bs"], ["b"], axis=0),
        node("ConvTranspose", ["xd", "w", "b"], ["c"], "up", **layer),
        node("QuantizeLinear", ["c", "ys", "yz"], ["yq"]),
        node("DequantizeLinear", ["yq", "ys", "yz"], ["y"]),
    ]
    shape = (1, channels, *size)
    model = small_model(nodes, {"x": shape}, ["y"], weights)
    module = vtac.compile(model, "sim", criteria=vtac.Criteria(compare=False))
    where = {place.node: place.where for place in module.explain}
    assert where["up"].startswith("vta")
    x = rng.normal(0, 1, shape).astype(np.float32)
    (expected,), found = run(model, {"x": x}), module.run({"x": x})["y"]
    steps = np.abs(found - expected) / weights["ys"]
    assert steps.max() < 3.5 and steps.mean() < 0.7
