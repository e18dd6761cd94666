"""fold-constants and canonicalize-graph leave the numbers as they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from small_models import (
    CLEANING,
    assert_imports,
    assert_same,
    context,
    floats,
    kinds,
    ops_of,
    run,
    small_model,
)

from vtac.lowering.graph_to_onnx import host_model
from vtac.lowering.onnx_to_graph import import_model

node = helper.make_node


def cleaned(model, feeds, rtol=1e-5):
    """The kinds of ops after cleaning; the answers must stay."""
    ctx = context()
    module = import_model(model, ctx)
    for cleaning in CLEANING:
        cleaning.apply(ctx, module)
        module.verify()
    assert_same(run(model, feeds), run(host_model(module, ctx), feeds), rtol)
    return kinds(module), module


@given(st.data())
def test_pads_scales_and_offsets_around_a_layer(data):
    draw = data.draw
    rank, channels = draw(st.integers(1, 2)), draw(st.integers(1, 5))
    group = channels if draw(st.booleans()) else 1
    weights = {"w": floats((channels, 1 if group > 1 else channels, *[3] * rank))}
    nodes, value = [], "x"

    def then(kind, *inputs, **attributes):
        nonlocal value
        nodes.append(node(kind, [value, *inputs], [f"v{len(nodes)}"], **attributes))
        value = f"v{len(nodes) - 1}"

    if draw(st.booleans()):
        pads = [0, 0, *draw(st.lists(st.integers(0, 2), min_size=rank, max_size=rank))] * 2
        weights["pads"] = np.array(pads)
        then("Pad", "pads")
    then("Conv", "w", group=group, pads=draw(st.sampled_from([[0] * 2 * rank, [1] * 2 * rank])))
    for step in draw(st.lists(st.sampled_from(["bn", "mul", "add", "relu", "two"]), max_size=4)):
        number = len(nodes)
        vector = [f"{step}{number}_{i}" for i in range(4)]
        shape = draw(st.sampled_from([(channels, *[1] * rank), (1, channels, *[1] * rank), (1,)]))
        if step == "bn":
            for i, name in enumerate(vector):
                weights[name] = np.abs(floats((channels,), number + i)) + 0.1
            then("BatchNormalization", *vector)
        elif step in ("mul", "add"):
            weights[vector[0]] = floats(shape, number)
            then(step.capitalize(), vector[0])
        elif step == "relu":
            then("Relu")
        else:
            then("Add", value)
    model = small_model(nodes, {"x": [2, channels, *[6] * rank]}, [value], weights)
    found, _ = cleaned(model, {"x": floats((2, channels, *[6] * rank), 9)}, 1e-4)
    assert "graph.pad" not in found
    if not any(kind in ("graph.relu",) for kind in found) and found.count("graph.add") == 0:
        assert found == ["graph.conv"]


@given(
    st.sampled_from(["MaxPool", "AveragePool", "Conv"]),
    st.sampled_from([0.0, float("-inf"), 1.0]),
    st.lists(st.integers(0, 3), min_size=2, max_size=2),
    st.lists(st.integers(0, 1), min_size=2, max_size=2),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_pads_before_windows(kind, value, pads, own, positive, counts, dilated):
    attributes = {"pads": own, "kernel_shape": [2], "strides": [1]}
    if kind == "AveragePool":
        attributes["count_include_pad"] = int(counts)
    elif dilated:
        attributes["dilations"] = [2]
    inputs = ["p", "w"] if kind == "Conv" else ["p"]
    model = small_model(
        [
            node("Relu" if positive else "Identity", ["x"], ["r"]),
            node("Pad", ["r", "pads", "value"], ["p"]),
            node(kind, inputs, ["y"], **attributes),
        ],
        {"x": [1, 1, 5]},
        ["y"],
        {
            "pads": np.array([0, 0, pads[0], 0, 0, pads[1]]),
            "value": np.array(value, np.float32),
            "w": floats((1, 1, 2)),
        },
    )
    if not np.isfinite(value) and kind != "MaxPool":
        return
    x = floats((1, 1, 5)) - 0.5
    found, _ = cleaned(model, {"x": x})
    if value == 0 and kind == "Conv":
        assert "graph.pad" not in found


@pytest.mark.parametrize("opset", [7, 11, 13, 17])
def test_dense_layers_take_one_form(opset):
    weights = {
        "w1": floats((4, 12)),
        "c1": floats((1, 4), 1),
        "w2": floats((4, 3), 2),
        "c2": floats((3,), 3),
        "w3": floats((3, 2), 4),
        "c3": floats((1,), 5),
    }
    model = small_model(
        [
            node("Flatten", ["x"], ["f"]),
            node("Gemm", ["f", "w1", "c1"], ["a"], transB=1, alpha=0.5, beta=3.0),
            node("MatMul", ["a", "w2"], ["b"]),
            node("Add", ["c2", "b"], ["c"]),
            node("Relu", ["c"], ["r"]),
            node("Gemm", ["r", "w3", "c3"], ["y"]),
        ],
        {"x": ["N", 3, 2, 2]},
        ["y"],
        weights,
        opset=opset,
    )
    found, module = cleaned(model, {"x": floats((5, 3, 2, 2), 6)})
    # The second reads the first's [N, 4, 1, 1] before it is flattened.
    assert found == ["graph.conv", "graph.conv", "graph.reshape", "graph.relu", "graph.gemm"]
    assert all(len(op.operands) == 3 for op in ops_of(module) if op.name[6:] in ("conv", "gemm"))


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=2),
    st.integers(1, 2),
    st.sampled_from(["Conv", "MaxPool", "AveragePool", "GlobalAveragePool"]),
    st.data(),
)
def test_folded_windows_have_the_value_of_onnxruntime(kernel, group, kind, data):
    rank = len(kernel)
    numbers = lambda lo, hi: data.draw(  # noqa: E731
        st.lists(st.integers(lo, hi), min_size=rank, max_size=rank)
    )
    pads = [data.draw(st.integers(0, k - 1)) for k in kernel * 2]
    attributes = {"strides": numbers(1, 3), "pads": pads}
    inputs = ["c"]
    if kind == "Conv":
        inputs = ["c", "w", "b"]
        attributes |= {"group": group, "dilations": numbers(1, 2)}
    elif kind == "GlobalAveragePool":
        attributes = {}
    else:
        attributes |= {"kernel_shape": kernel}
    if kind == "AveragePool":
        attributes |= {"count_include_pad": data.draw(st.integers(0, 1))}
    image = floats((2, 4, *[40] * rank))  # too large to be folded at import
    model = small_model(
        [node(kind, inputs, ["k"], **attributes), node("Mul", ["k", "x"], ["y"])],
        {"x": [1]},
        ["y"],
        {"c": image, "w": floats((4, 4 // group, *kernel), 1), "b": floats((4,), 2)},
    )
    found, _ = cleaned(model, {"x": np.ones(1, np.float32)})
    assert found == ["graph.mul"]


def test_folded_elementwise_ops_are_exact():
    c = floats((2, 3000))
    model = small_model(
        [
            node("Add", ["c", "d"], ["a"]),
            node("Clip", ["a", "lo", "hi"], ["b"]),
            node("Relu", ["b"], ["r"]),
            node("Reshape", ["r", "shape"], ["k"]),
            node("Add", ["k", "x"], ["y"]),
        ],
        {"x": [3000, 2]},
        ["y"],
        {
            "c": c,
            "d": floats((3000,), 1),
            "lo": np.array(-0.1, np.float32),
            "hi": np.array(0.3, np.float32),
            "shape": np.array([3000, 2]),
        },
    )
    found, _ = cleaned(model, {"x": np.zeros((3000, 2), np.float32)}, 0.0)
    assert found == ["graph.add"]


def test_values_with_several_readers_stay():
    model = small_model(
        [
            node("Conv", ["x", "w"], ["h"]),
            node("Add", ["h", "c"], ["a"]),
            node("Relu", ["h"], ["b"]),
            node("Add", ["a", "b"], ["y"]),
        ],
        {"x": [1, 2, 5]},
        ["y"],
        {"w": floats((3, 2, 3)), "c": floats((3, 1), 1)},
    )
    found, _ = cleaned(model, {"x": floats((1, 2, 5))})
    assert found == ["graph.conv", "graph.add", "graph.relu", "graph.add"]


def test_a_weight_read_by_two_layers_is_scaled_for_one():
    model = small_model(
        [
            node("Conv", ["x", "w"], ["h"]),
            node("Mul", ["h", "k"], ["a"]),
            node("Conv", ["x", "w"], ["b"]),
            node("Add", ["a", "b"], ["y"]),
        ],
        {"x": [1, 2, 5]},
        ["y"],
        {"w": floats((3, 2, 3)), "k": floats((3, 1), 1)},
    )
    found, _ = cleaned(model, {"x": floats((1, 2, 5))})
    assert sorted(found) == ["graph.add", "graph.conv", "graph.conv"]


def test_squeeze_and_unsqueeze_are_reshapes():
    model = small_model(
        [
            node("GlobalAveragePool", ["x"], ["g"]),
            node("Squeeze", ["g", "axes"], ["s"]),
            node("Unsqueeze", ["s", "axes"], ["u"]),
            node("Relu", ["u"], ["y"]),
        ],
        {"x": ["N", 2, 3, 3]},
        ["y"],
        {"axes": np.array([2, 3])},
    )
    found, _ = cleaned(model, {"x": floats((2, 2, 3, 3))})
    assert found[0] == "graph.global_average_pool" and "Squeeze" not in found
    assert_imports(model, {"x": floats((2, 2, 3, 3))})
    assert numpy_helper.to_array(model.graph.initializer[0]).tolist() == [2, 3]
