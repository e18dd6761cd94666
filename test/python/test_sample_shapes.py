"""Shapes that a model leaves open are taken from calibration samples."""

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from small_models import context, floats, run, small_model, value_info
from xdsl.dialects.builtin import DYNAMIC_INDEX

import vtac
from vtac.dialects.errors import CompileError
from vtac.dialects.graph import shape_of
from vtac.lowering.onnx_to_graph import import_model
from vtac.runtime.samples import InputSpec, load_samples, shapes_from_samples
from vtac.tools.driver.compiler import compile_model
from vtac.tools.driver.planner import main_function

node = helper.make_node


def two_inputs(first: list, second: list) -> onnx.ModelProto:
    """A product of ``a`` [first, 4] and one of ``b`` [second, 4], each a result."""
    weights = [numpy_helper.from_array(floats((4, 3), seed), n) for n, seed in (("v", 1), ("w", 2))]
    graph = helper.make_graph(
        [node("MatMul", ["a", "v"], ["y"]), node("MatMul", ["b", "w"], ["z"])],
        "g",
        [value_info("a", [*first, 4]), value_info("b", [*second, 4])],
        [value_info("y", None), value_info("z", None)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("name", ["?", "", "-1", "*", "None", "unknown", None])
def test_what_is_no_name_is_no_common_extent(name):
    module = import_model(two_inputs([name], [name]), context(), shapes={"a": (2, 4), "b": (5, 4)})
    assert [shape_of(argument) for argument in main_function(module).args] == [(2, 4), (5, 4)]
    open_one = import_model(two_inputs([name], [name]), context(), shapes={"a": (2, 4)})
    assert [shape_of(argument) for argument in main_function(open_one).args] == [
        (2, 4),
        (DYNAMIC_INDEX, 4),
    ]


@pytest.mark.parametrize("name", ["batch", "N", "unk__12"])
def test_a_name_is_a_common_extent(name):
    module = import_model(two_inputs([name], [name]), context(), shapes={"a": (2, 4)})
    assert [shape_of(argument) for argument in main_function(module).args] == [(2, 4), (2, 4)]


@settings(max_examples=20)
@given(
    name=st.sampled_from(["batch", "N", "unk__12"]),
    extents=st.lists(st.integers(0, 4), min_size=2, max_size=2, unique=True),
    from_samples=st.booleans(),
    third=st.booleans(),
)
def test_a_name_of_two_extents_is_no_common_one(
    name: str, extents: list[int], from_samples: bool, third: bool
) -> None:
    """onnxruntime runs such inputs; the user is told. A third input of that name stays open."""
    model = two_inputs([name], [name])
    feeds = {i: floats((e, 4), e) for i, e in zip("ab", extents, strict=True)}
    if third:
        model.graph.input.append(value_info("c", [name]))
        model.graph.node.append(node("Relu", ["c"], ["u"]))
        model.graph.output.append(value_info("u", [name]))
        feeds["c"] = floats((3,), 1)
    shapes = {} if from_samples else {i: feeds[i].shape for i in "ab"}
    samples = {i: feed[None] for i, feed in feeds.items()} if from_samples else None
    told = f"dimension '{name}' is {extents[0]} in 'a', {extents[1]} in 'b'"
    with pytest.warns(UserWarning, match=told):
        module = vtac.compile(model, "pynq", samples, shapes=shapes)
    *known, last = [*(value.shape for value in module.inputs)]
    if third:
        assert last == ((3,) if from_samples else (None,))
    assert (known if third else [*known, last]) == [(e, 4) for e in extents]
    found = module.run(feeds)
    for output, expected in zip(module.output_names, run(model, feeds), strict=True):
        assert found[output].shape == expected.shape
        np.testing.assert_allclose(found[output], expected, atol=0.1 if from_samples else 1e-6)


@settings(max_examples=40)
@given(
    shape=st.lists(st.integers(1, 3), min_size=2, max_size=4),
    axis=st.integers(0, 3),
    other=st.integers(0, 2),
    given_by=st.sampled_from(["model", "shapes", "samples", "batches"]),
    kind=st.sampled_from(["Relu", "Softmax", "Flatten", "Transpose", "ReduceSum", "Sigmoid"]),
)
@pytest.mark.filterwarnings("ignore")
def test_inputs_with_an_extent_of_0_run(
    shape: list[int], axis: int, other: int, given_by: str, kind: str
) -> None:
    """An empty input alone, and one that a concatenation puts beside numbers, such as a cache."""
    axis %= len(shape)
    empty, beside = ([*shape[:axis], extent, *shape[axis + 1 :]] for extent in (0, other))
    free, also = ([*shape[:axis], name, *shape[axis + 1 :]] for name in ("Z", "Y"))
    is_open = given_by != "model"
    model = small_model(
        [
            node("Concat", ["x", "p"], ["c"], axis=axis),
            node("Relu", ["c"], ["y"]),
            node(kind, ["x"], ["z"]),
        ],
        {"x": free if is_open else empty, "p": also if is_open else beside},
        ["y", "z"],
    )
    feeds = {"x": floats(tuple(empty), 1), "p": floats(tuple(beside), 2)}
    shapes = {name: feed.shape for name, feed in feeds.items()} if given_by == "shapes" else {}
    samples = {
        "model": None,
        "shapes": None,
        "samples": {name: feed[None] for name, feed in feeds.items()},
        "batches": {name: np.stack([feed] * 3) for name, feed in feeds.items()},
    }[given_by]
    module = vtac.compile(model, "pynq", samples, shapes=shapes)
    assert [value.shape for value in module.inputs] == [tuple(empty), tuple(beside)]
    found = module.run(feeds)
    for name, expected in zip(("y", "z"), run(model, feeds), strict=True):
        assert found[name].shape == expected.shape
        np.testing.assert_allclose(found[name], expected, atol=0.05)


def test_shapes_go_before_samples():
    samples = {"a": floats((6, 4), 3), "b": floats((2, 4), 4)}
    module = compile_model(two_inputs(["?"], ["?"]), "pynq", samples, shapes={"a": (3, 4)})
    assert [value.shape for value in module.inputs] == [(3, 4), (1, 4)]
    assert {p.where for p in module.explain} == {"vta_0"}


def recurrent(batch: str | int | None, layers: int = 1) -> onnx.ModelProto:
    """An LSTM over [time, batch, 6] with a state [1, batch, 5], and a product behind it."""
    tensors = {
        "w": floats((1, 20, 6), 1) / 4,
        "r": floats((1, 20, 5), 2) / 4,
        "v": floats((5, 3), 3),
        "shape": np.array([-1, 5]),
    }
    graph = helper.make_graph(
        [
            node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
            node("LSTM", ["t", "w", "r", "", "", "h0", "c0"], ["", "h"], hidden_size=5),
            node("Reshape", ["h", "shape"], ["f"]),
            node("MatMul", ["f", "v"], ["y"]),
        ],
        "g",
        [
            value_info("x", [batch, 7, 6]),
            value_info("h0", [1, batch, 5]),
            value_info("c0", [1, batch, 5]),
        ],
        [value_info("y", None)],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("batch", "states", "samples"),
    [
        (1, (1, 1, 5), 8),  # one state for eight samples
        (1, (8, 1, 5), 8),  # a state for each
        (2, (1, 2, 5), 8),  # four batches share a state
        ("batch", (1, 1, 5), 8),
        ("batch", (1, 4, 5), 8),  # the state says that the batch is 4
        ("batch", (1, 8, 5), 8),
        (None, (1, 1, 5), 8),
    ],
)
def test_states_of_recurrent_networks(batch, states, samples):
    model, x = recurrent(batch), floats((samples, 7, 6), 5)
    state = floats(states, 6) / 4
    module = compile_model(model, "pynq", {"x": x, "h0": state, "c0": state})
    size = states[1]
    assert [value.shape for value in module.inputs] == [(size, 7, 6), (1, size, 5), (1, size, 5)]
    feeds = {"x": x[:size], "h0": state[:1], "c0": state[:1]}
    expected, found = run(model, feeds)[0], module.run(feeds)["y"]
    assert np.sqrt(((found - expected) ** 2).mean() / (expected**2).mean()) < 0.05
    assert any(p.where == "vta_0" for p in module.explain)


def test_numbers_of_samples_that_differ_are_explained():
    samples = {"a": floats((6, 4), 3), "b": floats((4, 4), 4)}
    with pytest.raises(CompileError, match="different numbers of samples: 'a' 6, 'b' 4") as error:
        compile_model(two_inputs([1], [1]), "pynq", samples)
    assert "one whole value of an input, such as a state, serves all" in str(error.value)


def test_samples_of_several_sizes_are_explained():
    samples = {"a": [floats((2, 3, 4)), floats((2, 5, 4))], "b": floats((2, 4))}
    with pytest.raises(CompileError, match="'a' differ in shape") as error:
        compile_model(two_inputs(["n", "m"], [1]), "pynq", samples)
    assert "A program is for one shape" in str(error.value)


@given(
    length=st.integers(1, 5),
    count=st.integers(1, 4),
    batch=st.integers(1, 3),
    name=st.sampled_from(["T", "?", ""]),
    parts=st.booleans(),
    whole_state=st.booleans(),
)
def test_batches_say_how_long_an_unknown_first_axis_is(
    length: int, count: int, batch: int, name: str, parts: bool, whole_state: bool
) -> None:
    """Sequences of unknown length, [T, N, 4], beside a state, [1, N, 2]."""
    specs = [
        InputSpec("x", (DYNAMIC_INDEX, batch, 4), np.dtype(np.float32), (name, "", "")),
        InputSpec("h", (1, batch, 2), np.dtype(np.float32)),
    ]
    x = floats((count, length, batch, 4), 1)
    h = floats((1, batch, 2), 2) if whole_state else floats((count, 1, batch, 2), 2)
    data = {"x": [part[None] for part in x] if parts else x, "h": h}
    shapes = shapes_from_samples(data, specs)
    assert shapes == {"x": (length, batch, 4)}
    samples = load_samples(data, specs)
    assert len(samples) == count
    for number, each in enumerate(samples):
        assert (each["x"] == x[number]).all()
        assert (each["h"] == (h if whole_state else h[number])).all()


def test_lengths_that_are_taken_for_samples_are_explained() -> None:
    specs = [
        InputSpec("x", (DYNAMIC_INDEX, 1, 4), np.dtype(np.float32), ("T", "", "")),
        InputSpec("h", (1, 1, 2), np.dtype(np.float32)),
    ]
    data = {"x": [floats((5, 1, 4), 1)] * 3, "h": [floats((1, 1, 2), 2)] * 3}
    with pytest.raises(CompileError, match=r"fix it .--shape x=LENGTH,1,4., or give one array"):
        load_samples(data, specs)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((None, 3), "no sequence of whole numbers"),
        (("1", 3), "no sequence of whole numbers"),
        ((1.5, 3), "no sequence of whole numbers"),
        (7, "no sequence of whole numbers"),
        ((0, 4), "does not fit the model's"),
        ((-1, 3), "is negative"),
        ((1 << 40, 3), "is too large"),
        ((1,), "does not fit the model's"),
        ((1, 4), "does not fit the model's"),
    ],
)
def test_shapes_that_are_none(shape: Any, message: str) -> None:
    model = small_model([helper.make_node("Relu", ["x"], ["y"])], {"x": ["N", 3]}, ["y"])
    with pytest.raises(CompileError, match=message):
        vtac.compile(model, shapes={"x": shape})


@pytest.mark.parametrize("named", [True, False])
def test_samples_that_can_be_read_only_once(named: bool) -> None:
    product = node("MatMul", ["x", "w"], ["y"])
    model = small_model([product], {"x": ["N", 4]}, ["y"], {"w": floats((4, 3))})
    once = iter(list(floats((5, 2, 4), 3)))
    module = vtac.compile(model, "pynq", {"x": once} if named else once)
    assert module.run({"x": floats((2, 4))})["y"].shape == (2, 3)


@pytest.mark.parametrize("nothing", [object(), np.float32(3), 7])
def test_what_is_no_samples_is_said(nothing: object) -> None:
    model = small_model([node("Relu", ["x"], ["y"])], {"x": [2, 4]}, ["y"])
    with pytest.raises(CompileError, match=r"neither an array nor a list|argument calibration: "):
        vtac.compile(model, "pynq", nothing)
    with pytest.raises(CompileError, match="neither an array nor a list"):
        vtac.compile(model, "pynq", {"x": nothing})
