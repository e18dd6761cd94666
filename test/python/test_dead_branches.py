"""Networks with parts that compute nothing, and weights that nothing reads."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from small_models import floats, run, small_model

import vtac
from vtac.lowering.onnx_to_graph.check import host_loads
from vtac.lowering.onnx_to_graph.weights import without_weights

node = helper.make_node
SHAPE = (1, 4, 6, 6)
NUMBERS = {
    "w": floats((4, 4, 3, 3), 1) / 6,
    "none": np.zeros((4, 4, 3, 3), np.float32),
    "zero": np.zeros((), np.float32),
    "far": np.array(-1000, np.float32),
}
DEAD = {
    "times zero": [node("Mul", ["x", "zero"], ["d"])],
    "zero weights": [node("Conv", ["x", "none"], ["d"], pads=[1] * 4)],
    "itself": [node("Sub", ["x", "x"], ["d"])],
    "dead relu": [node("Add", ["x", "far"], ["f"]), node("Relu", ["f"], ["d"])],
    "pool of nothing": [
        node("Mul", ["x", "zero"], ["z"]),
        node("MaxPool", ["z"], ["d"], kernel_shape=[3, 3], pads=[1] * 4),
    ],
    "twice": [node("Mul", ["x", "zero"], ["z"]), node("Add", ["z", "z"], ["d"])],
}


@settings(max_examples=25, deadline=None)
@given(
    dead=st.sampled_from([*DEAD]),
    join=st.sampled_from(["Add", "Sub", "Concat", "Max", ""]),
    first=st.booleans(),
    relu=st.booleans(),
    target=st.sampled_from(["pynq", "sim"]),
)
def test_branches_that_are_zero(dead: str, join: str, first: bool, relu: bool, target: str) -> None:
    """A branch that is always zero, joined with one that is not, or alone, before a layer."""
    nodes = [*DEAD[dead], node("Conv", ["x", "w"], ["c"], pads=[1] * 4)]
    if join:
        pair = ["d", "c"] if first else ["c", "d"]
        nodes.append(node(join, pair, ["j"], **({"axis": 2} if join == "Concat" else {})))
    last = "j" if join else "d"
    if relu:
        nodes.append(node("Relu", [last], ["r"]))
    nodes.append(node("Conv", ["r" if relu else last, "w"], ["y"], "last", pads=[1] * 4))
    used = {name for each in nodes for name in each.input}
    weights = {name: array for name, array in NUMBERS.items() if name in used}
    model = small_model(nodes, {"x": SHAPE}, ["y"], weights)
    samples = floats((20, *SHAPE[1:]), 3).clip(-2, 2)
    module = vtac.compile(model, target, samples)
    (expected,) = run(model, {"x": samples[:1]})
    found = module.run(samples[:1])["y"]
    assert np.abs(found - expected).max() <= 0.1 * max(float(np.abs(expected).max()), 0.1)


@pytest.mark.parametrize("size", [1, 2000])
@pytest.mark.parametrize("constant", [False, True])
def test_weights_that_nothing_reads(size: int, constant: bool) -> None:
    """onnxruntime refuses arrays for weights that it has removed."""
    extra = floats((size,), 4)
    nodes = [node("Conv", ["x", "w"], ["y"], "it", pads=[1] * 4)]
    numbers = {"w": NUMBERS["w"]}
    if constant:
        value = onnx.numpy_helper.from_array(extra)
        nodes.append(node("Constant", [], ["unread"], value=value))
    else:
        numbers["unread"] = extra
    model = small_model(nodes, {"x": SHAPE}, ["y"], numbers)
    assert host_loads(model)
    assert "unread" not in without_weights(model)[1]
    samples = floats((8, *SHAPE[1:]), 3)
    module = vtac.compile(model, "pynq", samples)
    assert (vtac.evaluate(module, samples, model)["y"].snr_db or 0) > 25


def test_functions_of_another_opset_are_named() -> None:
    old = helper.make_function(
        "my", "Old", ["a"], ["b"], [node("Softmax", ["a"], ["b"])], [helper.make_opsetid("", 11)]
    )
    calls = [node("Old", ["x"], ["t"], "one", domain="my")]
    calls.append(node("Old", ["t"], ["y"], "two", domain="my"))
    model = small_model(calls, {"x": SHAPE}, ["y"], functions=[old])
    model.opset_import.append(helper.make_opsetid("my", 1))
    with pytest.raises(vtac.CompileError) as error:
        vtac.compile(model)
    for name in ("one", "two"):
        assert f"node '{name}' (Old): its function is written for another opset" in str(error.value)
