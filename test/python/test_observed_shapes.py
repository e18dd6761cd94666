"""Operators without shape inference: what lies behind them is compiled for a sample's shapes."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_models import context, floats, kinds, run, value_info

from vtac.lowering.onnx_to_graph import import_model, values_of_unknown_shape
from vtac.tools.driver.compiler import compile_model

node = helper.make_node
MICROSOFT = "com.microsoft"


def between(nodes: list[onnx.NodeProto], **weights: np.ndarray) -> onnx.ModelProto:
    """Nodes from ``c`` to ``t`` between two convolutions, from ``x`` [1, 3, 8, 8] to ``y``."""
    tensors = {"w": floats((8, 3, 3, 3), 1) / 5, "v": floats((8, 8, 3, 3), 2) / 8, **weights}
    graph = helper.make_graph(
        [
            node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
            *nodes,
            node("Conv", ["t", "v"], ["y"], pads=[1] * 4),
        ],
        "g",
        [value_info("x", [1, 3, 8, 8])],
        [value_info("y", None)],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    opsets = [("", 21), (MICROSOFT, 1), ("ai.onnx.ml", 3)]
    imports = [helper.make_opsetid(*opset) for opset in opsets]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def loop(count: str) -> onnx.NodeProto:
    body = helper.make_graph(
        [node("Identity", ["go"], ["still"]), node("Sigmoid", ["s"], ["next"])],
        "body",
        [
            value_info("i", [], TensorProto.INT64),
            value_info("go", [], TensorProto.BOOL),
            value_info("s", None),
        ],
        [value_info("still", [], TensorProto.BOOL), value_info("next", None)],
    )
    return node("Loop", [count, "", "c"], ["t"], body=body)


SCALE = {"g": floats((8,), 3), "b": floats((8,), 4)}
FIXED = {
    "contrib": ([node("QuickGelu", ["c"], ["t"], domain=MICROSOFT)], {}),
    "group normalisation": (
        [node("GroupNormalization", ["c", "g", "b"], ["t"], num_groups=2)],
        SCALE,
    ),
    "loop": ([loop("n")], {"n": np.array(2)}),
    "two in a row, with the arithmetic of their shape between": (
        [
            node("QuickGelu", ["c"], ["q"], domain=MICROSOFT),
            node("Shape", ["q"], ["s"]),
            node("Reshape", ["q", "flat"], ["f"]),
            node("QuickGelu", ["f"], ["h"], domain=MICROSOFT),
            node("Reshape", ["h", "s"], ["t"]),
        ],
        {"flat": np.array([1, -1])},
    ),
    "scaler": (
        [
            node("Reshape", ["c", "rows"], ["r"]),
            node("Scaler", ["r"], ["z"], domain="ai.onnx.ml", offset=[0.1], scale=[2.0]),
            node("Reshape", ["z", "image"], ["t"]),
        ],
        {"rows": np.array([8, 64]), "image": np.array([1, 8, 8, 8])},
    ),
}


@pytest.mark.parametrize("name", FIXED)
def test_layers_behind_run_on_the_accelerator(name):
    nodes, weights = FIXED[name]
    model = between(nodes, **weights)
    samples = np.stack([floats((3, 8, 8), seed) for seed in range(4)])
    module = compile_model(model, "pynq", {"x": samples})
    places = [p.where for p in module.explain if p.op == "graph.conv"]
    assert len(places) == 2 and "host" not in places
    feeds = {"x": samples[:1]}
    expected, found = run(model, feeds)[0], module.run(feeds)["y"]
    assert np.sqrt(((found - expected) ** 2).mean() / (expected**2).mean()) < 0.05


@pytest.mark.parametrize(
    "nodes",
    [
        [
            node("NonZero", ["c"], ["i"]),
            node("Transpose", ["i"], ["j"]),
            node("GatherND", ["c", "j"], ["k"]),
            node("QuickGelu", ["k"], ["h"], domain=MICROSOFT),
            node("Reshape", ["h", "image"], ["t"]),
        ],
        [
            node("ReduceMax", ["c"], ["m"], keepdims=0),
            node("Cast", ["m"], ["n"], to=TensorProto.INT64),
            loop("n"),
        ],
    ],
)
def test_shapes_that_numbers_decide_are_not_taken_from_a_sample(nodes):
    model = between(nodes, image=np.array([1, 8, -1, 8]))
    assert values_of_unknown_shape(model) == []


def test_what_is_told_goes_on_through_inference():
    model = between([node("QuickGelu", ["c"], ["q"], domain=MICROSOFT), node("Relu", ["q"], ["t"])])
    assert values_of_unknown_shape(model) == ["q"]
    known = {"q": helper.make_tensor_type_proto(TensorProto.FLOAT, [1, 8, 8, 8])}
    assert values_of_unknown_shape(model, None, known) == []
    found = kinds(import_model(model, context(), known=known))
    assert found == ["graph.conv", "QuickGelu", "graph.relu", "graph.conv"]
