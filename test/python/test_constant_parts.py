"""Parts of a network that constants decide: branches, weights that are computed, empty tensors."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from small_models import assert_same, context, floats, kinds, run, small_model

import vtac
from vtac.lowering.graph_to_onnx import host_model
from vtac.lowering.onnx_to_graph import import_model

node = helper.make_node
ON_ACCELERATOR = ["graph.conv", "graph.relu", "graph.conv"]
SHAPE = (1, 3, 6, 5)


def around(nodes: list[onnx.NodeProto], weights: dict, opset: int = 17) -> onnx.ModelProto:
    """Nodes from "a" to "b" between two convolutions."""
    weights = weights | {"first": floats((4, 3, 1, 1), 1), "last": floats((2, 4, 1, 1), 2)}
    ends = [node("Conv", ["x", "first"], ["a"]), node("Conv", ["b", "last"], ["y"])]
    return small_model([ends[0], *nodes, ends[1]], {"x": SHAPE}, ["y"], weights, opset)


def assert_imported(model: onnx.ModelProto, expected: list[str], **more: object) -> None:
    """The network has these ops, and means the same."""
    ctx = context()
    module = import_model(model, ctx, **more)
    assert kinds(module) == expected
    feeds = {"x": floats(SHAPE, 5)}
    assert_same(run(model, feeds), run(host_model(module, ctx), feeds), 1e-5)


def branch(name: str, nodes: list, output: str, weights: tuple = ()) -> onnx.GraphProto:
    value = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
    return helper.make_graph(nodes, name, [], [value], list(weights))


def choice(condition: str, output: str, depth: int = 0) -> onnx.NodeProto:
    """An If whose branches use the same names, weights of their own, and values from outside."""
    two = onnx.numpy_helper.from_array(np.array(2, np.float32), f"k{depth}")
    inner = [
        node("Mul", ["a", f"k{depth}"], [f"m{depth}"]),
        node("Relu", [f"m{depth}"], [f"r{depth}"]),
    ]
    if depth < 1:
        inner[1] = choice("yes", f"r{depth}", depth + 1)
    return node(
        "If",
        [condition],
        [output],
        then_branch=branch("yes", inner, f"r{depth}", (two,)),
        else_branch=branch("no", [node("Neg", ["a"], [f"n{depth}"])], f"n{depth}"),
    )


@pytest.mark.parametrize("truth", [True, False])
def test_a_known_branch_is_taken(truth: bool) -> None:
    weights = {"which": np.array(truth), "yes": np.array(True)}
    model, ctx = around([choice("which", "b")], weights), context()
    module = import_model(model, ctx)
    assert "If" not in kinds(module)
    assert ("graph.mul" in kinds(module)) == truth
    feeds = {"x": floats(SHAPE, 5)}
    assert_same(run(model, feeds), run(host_model(module, ctx), feeds), 1e-5)


def test_a_branch_that_shapes_decide_is_taken() -> None:
    """As exporters write a squeeze of a dimension that may be 1."""
    nodes = [
        node("Shape", ["a"], ["s"]),
        node("Gather", ["s", "zero"], ["n"]),
        node("Equal", ["n", "one"], ["which"]),
        node(
            "If",
            ["which"],
            ["b"],
            then_branch=branch("yes", [node("Relu", ["a"], ["r"])], "r"),
            else_branch=branch("no", [node("Identity", ["a"], ["i"])], "i"),
        ),
    ]
    weights = {"zero": np.array(0), "one": np.array(1)}
    assert_imported(around(nodes, weights), ON_ACCELERATOR)


@settings(max_examples=10)
@given(
    outputs=st.integers(1, 40),
    norm=st.sampled_from(["ReduceL1", "ReduceL2", "ReduceSumSquare"]),
    power=st.booleans(),
)
def test_weights_that_operators_compute_are_weights(outputs: int, norm: str, power: bool) -> None:
    """Also such as are too large for folding at import."""
    weights = {"w": floats((outputs, 3, 9, 9), 3), "g": floats((outputs, 1, 1, 1), 4)}
    nodes = [
        node(norm, ["w"], ["n"], axes=[1, 2, 3], keepdims=1),
        node("Sqrt" if power else "Abs", ["n"], ["m"]),
        node("Mul", ["w", "g"], ["v"]),
        node("Div", ["v", "m"], ["k"]),
        node("Conv", ["x", "k"], ["y"], pads=[4, 4, 4, 4]),
    ]
    model = small_model(nodes, {"x": SHAPE}, ["y"], weights, 17)
    assert_imported(model, ["graph.conv"])


def test_random_weights_are_drawn_at_each_run() -> None:
    nodes = [node("RandomNormalLike", ["w"], ["k"]), node("Conv", ["x", "k"], ["y"])]
    model = small_model(nodes, {"x": SHAPE}, ["y"], {"w": floats((4, 3, 1, 1))}, 17)
    assert "RandomNormalLike" in kinds(import_model(model, context()))


@pytest.mark.parametrize("first", [True, False])
def test_empty_tensors_beside_others_go(first: bool) -> None:
    names = ["e", "r"] if first else ["r", "e"]
    nodes = [node("Relu", ["a"], ["r"]), node("Concat", names, ["b"], axis=1)]
    assert_imported(around(nodes, {"e": np.zeros((1, 0, 6, 5), np.float32)}), ON_ACCELERATOR)


def test_results_without_a_name_are_not_read() -> None:
    nodes = [node("Relu", ["a"], ["r"]), node("Dropout", ["r", "", ""], ["b", ""])]
    assert_imported(around(nodes, {}, 13), ON_ACCELERATOR)


@settings(max_examples=25)
@given(data=st.data())
def test_einsum_is_a_product_of_matrices(data: st.DataObject) -> None:
    groups = [data.draw(st.integers(least, 2)) for least in (0, 1, 1, 1)]
    letters = iter("abcdefgh")
    batch, rows, columns, summed = ([next(letters) for _ in range(n)] for n in groups)
    extents = {
        letter: data.draw(st.integers(1, 4))
        for part in (batch, rows, columns, summed)
        for letter in part
    }
    terms = [
        "".join(data.draw(st.permutations(batch + own + more)))
        for own, more in ((rows, summed), (columns, summed), (rows, columns))
    ]
    shapes = [tuple(extents[letter] for letter in term) for term in terms[:2]]
    equation = f"{terms[0]},{terms[1]}->{terms[2]}"
    fixed = data.draw(st.booleans())
    weights = {"w": floats(shapes[1], 2)} if fixed else {}
    inputs = {"x": shapes[0]} if fixed else {"x": shapes[0], "w": shapes[1]}
    model = small_model(
        [node("Einsum", ["x", "w"], ["y"], equation=equation)], inputs, ["y"], weights
    )
    ctx = context()
    module = import_model(model, ctx, calibrated=True)
    assert "Einsum" not in kinds(module)
    feeds = {name: floats(shape, 5) for name, shape in inputs.items()}
    assert_same(run(model, feeds), run(host_model(module, ctx), feeds), 1e-5)


@pytest.mark.parametrize("as_list", [True, False])
def test_samples_tell_the_rank_of_an_input(as_list: bool) -> None:
    nodes = [node("Conv", ["x", "w"], ["y"])]
    model = small_model(nodes, {"x": None}, ["y"], {"w": floats((4, 3, 1, 1), 1)})
    samples = floats((5, 3, 6, 7), 2)
    module = vtac.compile(model, "pynq", {"x": list(samples[:, None]) if as_list else samples})
    assert module.run({"x": samples[:1]})["y"].shape == (1, 4, 6, 7)
