"""Products of two activations on the accelerator: exact, and near the float network."""

import warnings
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from product_networks import product_network
from random_groups import TARGETS
from small_models import run, small_model
from xdsl.dialects.builtin import ModuleOp

import vtac
from vtac.dialects.context import VtacContext
from vtac.dialects.target import Target
from vtac.lowering.graph_to_onnx import host_model
from vtac.passes.graph.quantize import error_bounds
from vtac.tools.driver.planner import main_function

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
            (found["exact"],) = run(host_model(module, ctx), inputs)
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
    (expected,) = run(model, inputs)
    wrong = np.abs(exact.astype(np.float64) - expected).max()
    assert bound is not None and wrong <= bound + 1e-6
    return module


def places(module: vtac.Module, kind: str) -> list[str]:
    return [found.where for found in module.explain if found.op == kind]


@settings(max_examples=12)
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
        "root": np.array((width / heads) ** 0.5, np.float32),
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
    model = small_model(nodes, {"x": (2, rows, width)}, ["y"], constants)
    x = random.standard_normal((2, rows, width)).astype(np.float32)
    module = check(model, {"x": x}, TARGETS["2x16"])
    assert "host" not in places(module, "graph.matmul")
    (expected,) = run(model, {"x": x})
    wrong = np.abs(module.run({"x": x})["y"] - expected)
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
    model = small_model(nodes, {"x": (5, 20)}, ["y"], {"w": w})
    x = np.random.default_rng(1).uniform(-1, 1, (5, 20)).astype(np.float32)
    module = check(model, {"x": x}, TARGETS["1x16"])
    assert places(module, "graph.matmul") == ["vta_0", "vta_1", "vta_1"]


def test_gemm_with_transposed_activations_and_a_bias() -> None:
    c = np.arange(7, dtype=np.float32)
    gemm = node("Gemm", ["a", "b", "c"], ["y"], alpha=0.5, beta=2.0, transA=1)
    shapes = {"a": (6, 5), "b": (6, 7)}
    model = small_model([gemm], shapes, ["y"], {"c": c})
    random = np.random.default_rng(0)
    inputs = {n: random.uniform(-2, 2, s).astype(np.float32) for n, s in shapes.items()}
    assert places(check(model, inputs, TARGETS["4x8"]), "graph.gemm") == ["vta_0"]
