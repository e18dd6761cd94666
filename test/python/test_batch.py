"""The same model for more samples per run: n samples at once are n runs of one sample."""

from collections.abc import Sequence
from dataclasses import replace

import encoder
import numpy as np
import onnx
import pytest
from float_networks import random_network
from onnx import TensorProto, helper, numpy_helper
from small_models import run

import vtac
from vtac.dialects.errors import CompileError
from vtac.lowering.onnx_to_graph.batch import with_batch


def model_of(
    nodes: Sequence[onnx.NodeProto],
    shapes: dict[str, Sequence[int | str]],
    constants: dict[str, np.ndarray],
    result: str = "y",
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def shapes_of(model: onnx.ModelProto) -> dict[str, list[int]]:
    return {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in model.graph.input
    }


def assert_same(model: onnx.ModelProto, batch: int, seed: int = 0) -> None:
    """All samples at once against one run after the other."""
    rng, before = np.random.default_rng(seed), shapes_of(model)
    (own,) = {shape[0] for shape in before.values()}
    assert batch % own == 0
    changed = with_batch(model, batch)
    feeds = {
        name: rng.normal(size=(batch, *shape[1:])).astype(np.float32)
        for name, shape in before.items()
    }
    whole = run(changed, feeds)
    parts = [
        run(model, {name: array[start : start + own] for name, array in feeds.items()})
        for start in range(0, batch, own)
    ]
    for number, found in enumerate(whole):
        expected = np.concatenate([part[number] for part in parts])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


TARGETS = {
    "own number": ([1, 24], (1, 24)),
    "own number and a free extent": ([1, -1, 4], (1, 6, 4)),
    "free extent first": ([-1, 4], (6, 4)),
    "taken over": ([0, 24], (1, 24)),
    "all rows": ([6, 4], (6, 4)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("is_node", [False, True])
def test_reshapes(target: str, is_node: bool) -> None:
    """Target shapes follow, be they initialisers or nodes; those of constants do not."""
    shape, _ = TARGETS[target]
    array = np.array(shape, np.int64)
    nodes = [
        helper.make_node("Reshape", ["w", "of_w"], ["v"]),
        helper.make_node("Add", ["x", "v"], ["sum"]),
        helper.make_node("Reshape", ["sum", "to"], ["y"]),
    ]
    constants = {
        "w": np.arange(24, dtype=np.float32),
        "of_w": np.array([1, 2, 3, 4], np.int64),
    }
    if is_node:
        nodes.insert(
            0, helper.make_node("Constant", [], ["to"], value=numpy_helper.from_array(array))
        )
    else:
        constants["to"] = array
    model = model_of(nodes, {"x": [1, 2, 3, 4]}, constants)
    for batch in (1, 2, 5):
        assert_same(model, batch)


def test_resizes() -> None:
    sizes = np.array([2, 3, 8, 8], np.int64)
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="nearest")
    assert_same(model_of([node], {"x": [2, 3, 4, 4]}, {"sizes": sizes}), 6)


@pytest.mark.parametrize("seed", range(8))
def test_random_networks(seed: int) -> None:
    net = random_network(seed)
    gemms = [node for node in net.nodes if node.op_type == "Gemm"]
    biases = {t.name: list(t.dims) for t in net.weights}
    if any(len(biases.get(node.input[-1], [])) == 2 for node in gemms if len(node.input) > 2):
        return  # a bias per row fixes the number of rows
    assert_same(net.model(net.nodes[-1].output[0]), 4, seed)


SMALL = encoder.Form(layers=1, length=8, width=16, heads=2)


@pytest.mark.parametrize(
    "form", [SMALL, replace(SMALL, pre_norm=True), replace(SMALL, mask="causal")], ids=str
)
def test_transformers(form: encoder.Form) -> None:
    """Reshapes to heads and back, which name the batch, the length and the width."""
    assert_same(encoder.build(form), 3)


def test_models_are_left_as_they_are() -> None:
    model = model_of(
        [helper.make_node("Reshape", ["x", "to"], ["y"])],
        {"x": [1, 4]},
        {"to": np.array([1, 2, 2], np.int64)},
    )
    before = model.SerializeToString(deterministic=True)
    changed = with_batch(model, 3)
    assert model.SerializeToString(deterministic=True) == before
    assert shapes_of(changed) == {"x": [3, 4]}
    symbolic = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": ["N", 4]}, {})
    assert shapes_of(with_batch(symbolic, 3)) == {"x": [3, 4]}


def test_what_has_no_batch() -> None:
    both = model_of(
        [helper.make_node("Add", ["a", "b"], ["y"])], {"a": [1, 4], "b": [2, 4], "c": []}, {}
    )
    with pytest.raises(CompileError) as failed:
        with_batch(both, 4)
    told = str(failed.value)
    assert "1 in 'a', 2 in 'b'" in told and "input 'c'" in told
    token = np.zeros((1, 1, 4), np.float32)
    joined = model_of(
        [helper.make_node("Concat", ["t", "x"], ["y"], name="join", axis=1)],
        {"x": [1, 3, 4]},
        {"t": token},
    )
    with pytest.raises(CompileError, match="join"):
        vtac.compile(joined, "sim", batch=2)
