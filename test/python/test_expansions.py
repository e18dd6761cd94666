"""Operators that are written as others: the same numbers, and on the accelerator."""

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
EVERYTHING = vtac.Criteria(compare=False)


def assert_expanded(model: onnx.ModelProto, shape: tuple[int, ...], rtol: float = 1e-5) -> None:
    """The network means the same, has no operator of the host, and runs in integers."""
    ctx = context()
    module = import_model(model, ctx, calibrated=True)
    assert all(kind.startswith("graph.") for kind in kinds(module)), kinds(module)
    feeds = {"x": floats(shape, 5)}
    expected = run(model, feeds)
    assert_same(expected, run(host_model(module, ctx), feeds), rtol)


def assert_accelerated(model: onnx.ModelProto, shape: tuple[int, ...], error: float = 0.05) -> None:
    """All of a network runs on the accelerator, near the floats."""
    samples = np.concatenate([floats(shape, seed) for seed in range(6)])
    module = vtac.compile(model, "pynq", samples, criteria=EVERYTHING)
    hosted = [p for p in module.explain if p.where == "host"]
    assert not hosted, hosted
    (expected,) = run(model, {"x": samples[: shape[0]]})
    (found,) = module.run({"x": samples[: shape[0]]}).values()
    assert np.sqrt(np.mean((found - expected) ** 2)) < error * expected.std()


def around(nodes: list[onnx.NodeProto], weights: dict, channels: int, opset: int, rank: int = 2):
    """A model with convolutions before and behind nodes from "a" to "b"."""
    ones = (1,) * rank
    weights = weights | {
        "first": floats((channels, 3, *ones), 1),
        "last": floats((2, channels, *ones), 2),
    }
    before, behind = node("Conv", ["x", "first"], ["a"]), node("Conv", ["b", "last"], ["y"])
    shape = (1, 3, 6, 7)[: 2 + rank]
    return small_model([before, *nodes, behind], {"x": shape}, ["y"], weights, opset), shape


def pads_of(data: st.DataObject, opset: int, rank: int) -> tuple[onnx.NodeProto, dict]:
    modes = ["reflect", "edge"] + (["wrap"] if opset >= 19 else [])
    mode = data.draw(st.sampled_from(modes))
    draw = st.integers(0, 3)
    pads = [0, data.draw(draw)] + [data.draw(draw) for _ in range(rank)]
    pads += [0, data.draw(draw)] + [data.draw(draw) for _ in range(rank)]
    if not any(pads):
        pads[-1] = 1
    if opset < 11:
        return node("Pad", ["a"], ["b"], "pad", mode=mode, pads=pads), {}
    return node("Pad", ["a", "p"], ["b"], "pad", mode=mode), {"p": np.array(pads, np.int64)}


@given(st.data(), st.sampled_from([9, 11, 13, 19]), st.integers(1, 2))
@settings(max_examples=25)
def test_pads_with_elements(data: st.DataObject, opset: int, rank: int) -> None:
    made, weights = pads_of(data, opset, rank)
    grown = sum(np.reshape(weights.get("p", made.attribute[-1].ints), (2, -1))[:, 1])
    model, shape = around([made], weights, 5, opset, rank)
    model.graph.initializer.remove(next(t for t in model.graph.initializer if t.name == "last"))
    last = floats((2, 5 + int(grown), *(1,) * rank), 2)
    model.graph.initializer.append(onnx.numpy_helper.from_array(last, "last"))
    assert_expanded(model, shape)


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_pads_run_on_the_accelerator(mode: str) -> None:
    pads = {"p": np.array([0, 0, 2, 3, 0, 0, 1, 2], np.int64)}
    model, shape = around([node("Pad", ["a", "p"], ["b"], "pad", mode=mode)], pads, 20, 19)
    assert_accelerated(model, shape)


COORDINATES = ["half_pixel", "asymmetric", "pytorch_half_pixel", "align_corners"]


def resizing(mode: str, factors: list[int], opset: int) -> tuple[onnx.NodeProto, dict]:
    scales = np.array([1, 1, *factors], np.float32)
    if opset < 9:
        return node("Upsample", ["a"], ["b"], "up", mode="linear", scales=scales.tolist()), {}
    if opset < 11:
        kind = "Upsample" if opset < 10 else "Resize"
        return node(kind, ["a", "s"], ["b"], "up", mode="linear"), {"s": scales}
    more = {"coordinate_transformation_mode": mode}
    resize = node("Resize", ["a", "roi", "s"], ["b"], "up", mode="linear", **more)
    return resize, {"s": scales, "roi": np.zeros(0, np.float32)}


@given(
    st.sampled_from(COORDINATES[:3]),
    st.lists(st.integers(1, 8), min_size=2, max_size=2).filter(lambda found: max(found) > 1),
    st.sampled_from([8, 9, 10, 11, 13, 18]),
)
@settings(max_examples=25)
def test_interpolation_by_whole_factors(mode: str, factors: list[int], opset: int) -> None:
    made, weights = resizing(mode, factors, opset)
    model, shape = around([made], weights, 5, opset)
    assert_expanded(model, shape, 1e-4)


@pytest.mark.parametrize("mode", COORDINATES[:2])
@pytest.mark.parametrize("factors", [[2, 2], [3, 2], [4, 4]])
def test_interpolation_runs_on_the_accelerator(mode: str, factors: list[int]) -> None:
    made, weights = resizing(mode, factors, 13)
    model, shape = around([made], weights, 20, 13)
    assert_accelerated(model, shape)


def test_aligned_corners_stay_on_the_host() -> None:
    made, weights = resizing("align_corners", [2, 2], 13)
    model, _ = around([made], weights, 5, 13)
    assert "Resize" in kinds(import_model(model, context(), calibrated=True))


def test_without_samples_operators_stay_what_they_are() -> None:
    made, weights = resizing("half_pixel", [2, 2], 13)
    model, _ = around([made], weights, 5, 13)
    assert "Resize" in kinds(import_model(model, context()))


@given(st.lists(st.floats(-2, 4, width=32), min_size=6, max_size=6), st.sampled_from([9, 13, 17]))
@settings(max_examples=15)
def test_slopes_on_both_sides_of_one(slopes: list[float], opset: int) -> None:
    slope = {"s": np.array([0.25, 1.5, *slopes], np.float32).reshape(-1, 1, 1)}
    model, shape = around([node("PRelu", ["a", "s"], ["b"], "slope")], slope, 8, opset)
    assert_expanded(model, shape, 1e-4)
    if opset == 17:
        assert_accelerated(model, shape, 0.09)


@given(
    st.sampled_from(["Min", "Max"]),
    st.lists(st.floats(-2, 2, width=32), min_size=1, max_size=3),
    st.sampled_from([8, 12, 13]),
    st.booleans(),
)
@settings(max_examples=15)
def test_extremes_with_numbers_are_clips(
    kind: str, numbers: list[float], opset: int, first: bool
) -> None:
    names = [f"n{i}" for i in range(len(numbers))]
    shapes = [(), (1,), (1, 8, 1, 1)]
    weights = {
        name: np.full(shape, number, np.float32)
        for name, number, shape in zip(names, numbers, shapes, strict=False)
    }
    inputs = ["a", *names] if first else [*names, "a"]
    model, shape = around([node(kind, inputs, ["b"], "bound")], weights, 8, opset)
    assert kinds(import_model(model, context())) == ["graph.conv", "graph.clip", "graph.conv"]
    assert_expanded(model, shape)


def test_extremes_with_unequal_numbers_stay() -> None:
    weights = {"v": floats((8, 1, 1))}
    for inputs in (["a", "v"], ["a", "a"]):
        model, _ = around([node("Max", inputs, ["b"])], weights, 8, 13)
        assert "Max" in kinds(import_model(model, context(), calibrated=True))


@pytest.mark.parametrize("kind", ["Max", "Min", "Mean"])
@pytest.mark.parametrize("opset", [8, 13])
def test_tensors_are_compared_and_averaged(kind: str, opset: int) -> None:
    second = node("Relu", ["a"], ["r"])
    model, shape = around([second, node(kind, ["r", "a"], ["b"], "both")], {}, 20, opset)
    assert_expanded(model, shape)
    if opset == 13:
        assert_accelerated(model, shape)


@settings(max_examples=15)
@given(repeats=st.lists(st.integers(1, 3), min_size=3, max_size=3), opset=st.sampled_from([7, 13]))
def test_tiles_are_copies_side_by_side(repeats: list[int], opset: int) -> None:
    made = node("Tile", ["a", "n"], ["b"], "tile")
    model, shape = around([made], {"n": np.array([1, *repeats], np.int64)}, 4, opset)
    wide = floats((2, 4 * repeats[0], 1, 1), 2)
    model.graph.initializer.remove(next(t for t in model.graph.initializer if t.name == "last"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(wide, "last"))
    assert_expanded(model, shape)


@settings(max_examples=10)
@given(
    shape=st.lists(st.integers(1, 5), min_size=2, max_size=2), opset=st.sampled_from([8, 9, 13, 18])
)
def test_expansion_in_space_repeats_elements(shape: list[int], opset: int) -> None:
    nodes = [
        node("GlobalMaxPool", ["a"], ["m"], "largest"),
        node("Expand", ["m", "n"], ["b"], "expand"),
    ]
    model, size = around(nodes, {"n": np.array([1, 1, *shape], np.int64)}, 5, opset)
    assert_expanded(model, size)


@pytest.mark.parametrize("keeps", [0, 1])
@pytest.mark.parametrize("axes", [[2, 3], [3], [-1, -2]])
def test_the_largest_over_space_is_a_pooling(axes: list[int], keeps: int) -> None:
    nodes = [node("ReduceMax", ["a"], ["m" if not keeps else "b"], axes=axes, keepdims=keeps)]
    if not keeps:
        back = np.array(
            [1, 20, *(1 if i in (axes[0] % 4, axes[-1] % 4) else (6, 7)[i - 2] for i in (2, 3))]
        )
        nodes.append(node("Reshape", ["m", "n"], ["b"]))
    weights = {} if keeps else {"n": back}
    model, shape = around(nodes, weights, 20, 13)
    assert_expanded(model, shape)
    assert_accelerated(model, shape)


def test_casts_that_change_nothing_go() -> None:
    nodes = [node("Cast", ["a"], ["c"], to=1), node("CastLike", ["c", "x"], ["b"])]
    model, _ = around(nodes, {}, 8, 17)
    assert kinds(import_model(model, context())) == ["graph.conv", "graph.conv"]


ACTIVATIONS = [
    ("Celu", 12, {}),
    ("Celu", 12, {"alpha": 0.4}),
    ("Gelu", 20, {}),
    ("Gelu", 20, {"approximate": "tanh"}),
    ("Mish", 18, {}),
    ("Swish", 24, {}),
    ("Swish", 24, {"alpha": 1.7}),
]


@pytest.mark.parametrize(("operator", "opset", "attributes"), ACTIVATIONS)
def test_activations(operator: str, opset: int, attributes: dict) -> None:
    """Each is a function of one value, and so runs on the accelerator."""
    made = node(operator, ["a"], ["b"], "activation", **attributes)
    model, shape = around([made], {}, 20, opset)
    assert_expanded(model, shape)
    assert_accelerated(model, shape, 0.08)


@pytest.mark.parametrize("named", [True, False])
def test_nodes_keep_their_names_and_operators(named: bool) -> None:
    """Also where the model names no nodes: others keep their numbers."""
    name = "somewhere" if named else ""
    pads = {"p": np.array([0, 0, 2, 3, 0, 0, 1, 2], np.int64)}
    model, shape = around([node("Pad", ["a", "p"], ["b"], name, mode="reflect")], pads, 20, 19)
    module = vtac.compile(model, "pynq", floats((4, *shape[1:])), criteria=EVERYTHING)
    rows = [(placement.node, placement.op) for placement in module.explain]
    expected = [("Conv_0", "graph.conv"), (name or "Pad_0", "Pad"), ("Conv_1", "graph.conv")]
    assert rows == expected
