"""Products of two activations on the accelerator: exact, and near the float network."""

import warnings
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import onnx
import onnxruntime
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from product_networks import product_network
from random_groups import TARGETS
from small_models import one_thread
from xdsl.dialects.builtin import ModuleOp

import vtac
from vtac.dialects.context import VtacContext
from vtac.dialects.target import Target
from vtac.lowering.graph_to_onnx import host_model
from vtac.passes.graph.quantize import error_bounds
from vtac.tools.planner import main_function

Array = np.ndarray[Any, np.dtype[Any]]
node = helper.make_node
MACHINES = {**TARGETS, "sim": Target.named("sim")}


def compiled(
    model: onnx.ModelProto, inputs: dict[str, Array], target: Target
) -> tuple[vtac.Module, Array, float | None]:
    """The module, what onnxruntime makes of its integers, and its bound."""
    found: dict[str, Any] = {}

    def observe(level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if level == "quantised":
            found["exact"] = run(host_model(module, ctx), inputs)
            (found["bound"],) = error_bounds(main_function(module))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ranges from one sample
        module = vtac.compile(
            model,
            target,
            {name: array[None] for name, array in inputs.items()},
            observe=observe,
            criteria=vtac.Criteria(compare=False),  # also where the host would finish sooner
        )
    return module, found["exact"], found["bound"]


def run(model: onnx.ModelProto, inputs: dict[str, Array]) -> Array:
    """Node by node: optimised, onnxruntime's sums of 8-bit products may saturate."""
    options = one_thread()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, inputs)[0]


def check(
    model: onnx.ModelProto,
    inputs: dict[str, Array],
    target: Target,
    orders: Sequence[int | None] = (None, 1),
) -> vtac.Module:
    """In every order exact, and within the bound; the module."""
    module, exact, bound = compiled(model, inputs, target)
    for seed in orders:
        (result,) = module.run(inputs, order_seed=seed).values()
        np.testing.assert_array_equal(result, exact)
    wrong = np.abs(exact.astype(np.float64) - run(model, inputs)).max()
    assert bound is not None and wrong <= bound + 1e-6
    return module


def places(module: vtac.Module, kind: str) -> list[str]:
    return [found.where for found in module.explain if found.op == kind]


@settings(max_examples=4)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(MACHINES)))
def test_random_products(random: Random, target: str) -> None:
    network = product_network(random)
    module = check(network.model, network.inputs, MACHINES[target])
    assert "host" not in places(module, "graph.matmul")


def test_attention() -> None:
    """Scores, softmax on the host, values; heads in front and back again."""
    rows, width, heads = 6, 24, 3
    random = np.random.default_rng(0)
    weights = {
        name: (random.standard_normal((width, width)) / width**0.5).astype(np.float32)
        for name in ("wq", "wk", "wv", "wo")
    }
    constants = {
        **weights,
        "split": np.array([0, 0, heads, width // heads]),
        "joined": np.array([0, 0, width]),
        "root": np.float32((width / heads) ** 0.5),
    }
    nodes = []
    for name, order in {"q": [0, 2, 1, 3], "k": [0, 2, 3, 1], "v": [0, 2, 1, 3]}.items():
        nodes += [
            node("MatMul", ["x", f"w{name}"], [f"{name}0"]),
            node("Reshape", [f"{name}0", "split"], [f"{name}1"]),
            node("Transpose", [f"{name}1"], [f"{name}2"], perm=order),
        ]
    nodes += [
        node("MatMul", ["q2", "k2"], ["scores"]),
        node("Div", ["scores", "root"], ["scaled"]),
        node("Softmax", ["scaled"], ["shares"], axis=-1),
        node("MatMul", ["shares", "v2"], ["mixed"]),
        node("Transpose", ["mixed"], ["moved"], perm=[0, 2, 1, 3]),
        node("Reshape", ["moved", "joined"], ["flat"]),
        node("MatMul", ["flat", "wo"], ["out"]),
        node("Add", ["out", "x"], ["y"]),
    ]
    model = model_of(nodes, {"x": (2, rows, width)}, constants)
    x = random.standard_normal((2, rows, width)).astype(np.float32)
    module = check(model, {"x": x}, TARGETS["2x16"])
    assert "host" not in places(module, "graph.matmul")
    wrong = np.abs(module.run({"x": x})["y"] - run(model, {"x": x}))
    assert wrong.max() < 0.05 * np.abs(x).max()


def test_one_value_on_both_sides() -> None:
    """It is packed as activations and as weights, also where a region of its own makes it."""
    w = np.random.default_rng(0).uniform(-1, 1, (20, 18)).astype(np.float32)
    nodes = [
        node("MatMul", ["x", "w"], ["h"]),
        node("Relu", ["h"], ["a"]),
        node("Transpose", ["a"], ["b"], perm=[1, 0]),
        node("MatMul", ["a", "b"], ["g"]),
        node("MatMul", ["g", "a"], ["p"]),
        node("Relu", ["p"], ["y"]),
    ]
    model = model_of(nodes, {"x": (5, 20)}, {"w": w})
    x = np.random.default_rng(1).uniform(-1, 1, (5, 20)).astype(np.float32)
    module = check(model, {"x": x}, TARGETS["1x16"])
    assert places(module, "graph.matmul") == ["vta_0", "vta_1", "vta_1"]


def test_gemm_with_transposed_activations_and_a_bias() -> None:
    c = np.arange(7, dtype=np.float32)
    gemm = node("Gemm", ["a", "b", "c"], ["y"], alpha=0.5, beta=2.0, transA=1)
    model = model_of([gemm], {"a": (6, 5), "b": (6, 7)}, {"c": c})
    random = np.random.default_rng(0)
    inputs = {n: random.uniform(-2, 2, s).astype(np.float32) for n, s in shapes_of(model).items()}
    assert places(check(model, inputs, TARGETS["4x8"]), "graph.gemm") == ["vta_0"]


def shapes_of(model: onnx.ModelProto) -> dict[str, list[int]]:
    return {
        value.name: [d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in model.graph.input
    }


def model_of(
    nodes: list[onnx.NodeProto], inputs: dict[str, Sequence[int]], constants: dict[str, Any]
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8)
