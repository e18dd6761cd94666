"""Models that onnxruntime's optimiser saved, and operators that only onnxruntime accepts."""

import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from small_models import assert_same, context, floats, kinds, one_thread, run, small_model

from vtac.dialects.errors import CompileError
from vtac.lowering.graph_to_onnx import host_model
from vtac.lowering.onnx_to_graph import import_model
from vtac.tools.driver.compiler import compile_model

node = helper.make_node
LEVELS = ort.GraphOptimizationLevel
ACTIVATIONS = {
    "Relu": {},
    "Tanh": {},
    "Sigmoid": {},
    "LeakyRelu": {"alpha": 0.25},
    "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
}


def optimised(model: onnx.ModelProto, level: LEVELS, folder: Path) -> onnx.ModelProto:
    """The model as onnxruntime saves it after optimising it."""
    options = one_thread()
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    ort.InferenceSession(model.SerializeToString(), options)
    return onnx.load(folder / "optimised.onnx")


def network(activation: list[onnx.NodeProto], residual: bool) -> onnx.ModelProto:
    """A convolution from ``x`` to ``c``, perhaps an addition, an activation from ``s`` to ``a``."""
    added = node("Add", ["c", "x"], ["s"]) if residual else None
    activation[0].input[0] = "s" if residual else "c"
    return small_model(
        [
            node("Conv", ["x", "w", "b"], ["c"], pads=[1] * 4, name="first"),
            *([added] if added else []),
            *activation,
            node("MaxPool", ["a"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
            node("Conv", ["p", "v"], ["y"], pads=[1] * 4),
        ],
        {"x": [1, 16, 6, 6]},
        ["y"],
        {
            "w": floats((16, 16, 3, 3), 1) / 12,
            "b": floats((16,), 2),
            "v": floats((16, 16, 3, 3), 3) / 12,
            "low": np.float32(-0.5),
            "high": np.float32(0.75),
        },
    )


def assert_compiles(model: onnx.ModelProto, expected: onnx.ModelProto) -> None:
    x = floats((1, 16, 6, 6), 9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = compile_model(model)
    assert_same(run(expected, {"x": x}), [module.run({"x": x})["y"]], rtol=1e-5)


@pytest.mark.parametrize("level", [LEVELS.ORT_ENABLE_EXTENDED, LEVELS.ORT_ENABLE_ALL])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("kind", [*ACTIVATIONS, "Clip"])
def test_optimised_networks_compute_the_same(kind, residual, level, tmp_path):
    if kind == "Clip":
        activation = node("Clip", ["", "low", "high"], ["a"])
    else:
        activation = node(kind, [""], ["a"], **ACTIVATIONS[kind])
    model = network([activation], residual)
    assert_compiles(optimised(model, level, tmp_path), model)


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("kind", ["Relu", "LeakyRelu", "Clip"])
def test_fused_convolutions_are_convolutions(kind, residual):
    inputs = ["x", "w", "b", *(["x"] if residual else [])]
    parameters = {"LeakyRelu": [0.25], "Clip": [-0.5, 0.75]}.get(kind, [])
    fused = node(
        "FusedConv", inputs, ["y"], "fused", domain="com.microsoft", pads=[1] * 4, activation=kind
    )
    if parameters:
        fused.attribute.append(helper.make_attribute("activation_params", parameters))
    model = small_model(
        [fused], {"x": [1, 16, 6, 6]}, ["y"], {"w": floats((16, 16, 3, 3), 1), "b": floats((16,))}
    )
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    expected = ["graph.conv", *(["graph.add"] if residual else [])]
    expected.append({"Relu": "graph.relu", "LeakyRelu": "graph.leaky_relu"}.get(kind, "graph.clip"))
    assert kinds(import_model(model, context())) == expected
    assert_compiles(model, model)


def test_fused_products_are_products():
    activation = {"activation": "LeakyRelu", "activation_alpha": 0.25}
    fused = node(
        "FusedGemm", ["x", "w", "b"], ["y"], domain="com.microsoft", transB=1, **activation
    )
    model = small_model(
        [fused], {"x": [3, 5]}, ["y"], {"w": floats((4, 5), 1), "b": floats((4,), 2)}
    )
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    assert kinds(import_model(model, context())) == ["graph.gemm", "graph.leaky_relu"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = compile_model(model)
    x = floats((3, 5), 9)
    assert_same(run(model, {"x": x}), [module.run({"x": x})["y"]], rtol=1e-5)


def test_a_deprecated_operator_runs_as_onnxruntime_runs_it():
    model = small_model(
        [
            node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
            node("GroupNormalization", ["c", "g", "b"], ["y"], num_groups=2),
        ],
        {"x": [1, 16, 6, 6]},
        ["y"],
        {"w": floats((8, 16, 3, 3), 1), "g": floats((2,), 2), "b": floats((2,), 3)},
        opset=18,
    )
    assert_compiles(model, model)


def test_what_onnxruntime_refuses_is_refused():
    model = small_model([node("Foo", ["x"], ["y"], domain="nobody.knows")], {"x": [2]}, ["y"])
    model.opset_import.append(helper.make_opsetid("nobody.knows", 1))
    with pytest.raises(CompileError, match=r"unknown operator domain 'nobody\.knows'"):
        import_model(model, context())


MICROSOFT = "com.microsoft"


def of_microsoft(
    made: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, ...]],
    outputs: list[str],
    weights: dict[str, np.ndarray],
) -> onnx.ModelProto:
    model = small_model(made, inputs, outputs, weights)
    model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
    return model


def assert_taken_apart(model: onnx.ModelProto, inputs: dict[str, tuple[int, ...]]) -> None:
    """No operator of onnxruntime's is left, and the network means the same."""
    ctx = context()
    module = import_model(model, ctx, calibrated=True)
    left = {n.op_type for n in model.graph.node if n.domain == MICROSOFT} & set(kinds(module))
    assert not left
    feeds = {name: floats(shape, n) for n, (name, shape) in enumerate(inputs.items())}
    assert_same(run(model, feeds), run(host_model(module, ctx), feeds), 1e-4)


@settings(max_examples=60)
@given(
    batch=st.lists(st.integers(1, 3), max_size=2),
    extents=st.tuples(*[st.integers(2, 6)] * 3),
    turned=st.tuples(st.booleans(), st.booleans()),
    alpha=st.sampled_from([None, 1.0, 0.125, -2.5]),
    constant=st.sampled_from(["none", "a", "b", "b without batch"]),
)
def test_fused_products_are_taken_apart(
    batch: list[int],
    extents: tuple[int, int, int],
    turned: tuple[bool, bool],
    alpha: float | None,
    constant: str,
) -> None:
    m, k, n = extents
    shapes = {
        "a": (*batch, *((k, m) if turned[0] else (m, k))),
        "b": (*batch, *((n, k) if turned[1] else (k, n))),
    }
    if constant == "b without batch":
        shapes["b"] = shapes["b"][-2:]
    weights = {name: floats(shapes.pop(name), 7) for name in "ab" if name == constant[0]}
    more = {} if alpha is None else {"alpha": alpha}
    flags = {"transA": int(turned[0]), "transB": int(turned[1])}
    made = node("FusedMatMul", ["a", "b"], ["y"], domain=MICROSOFT, **flags, **more)
    assert_taken_apart(of_microsoft([made], shapes, ["y"], weights), shapes)


@pytest.mark.parametrize(
    ("kind", "biased"),
    [("Gelu", False), ("FastGelu", False), ("FastGelu", True), ("BiasGelu", True)],
)
@pytest.mark.parametrize("shape", [(2, 6), (1, 3, 5)])
def test_fused_gelus_are_taken_apart(kind: str, biased: bool, shape: tuple[int, ...]) -> None:
    weights = {"b": floats(shape[-1:], 3)} if biased else {}
    made = node(kind, ["x", "b"] if biased else ["x"], ["y"], domain=MICROSOFT)
    assert_taken_apart(of_microsoft([made], {"x": shape}, ["y"], weights), {"x": shape})


@settings(max_examples=20)
@given(
    shape=st.lists(st.integers(2, 6), min_size=3, max_size=3),
    shifted=st.booleans(),
    biased=st.booleans(),
    summed=st.booleans(),
    epsilon=st.sampled_from([None, 1e-3]),
)
def test_fused_normalisations_are_taken_apart(
    shape: list[int], shifted: bool, biased: bool, summed: bool, epsilon: float | None
) -> None:
    width = shape[-1]
    weights = {"g": floats((width,), 3), "s": floats((width,), 4), "b": floats((width,), 5)}
    inputs = ["x", "z", "g", "s" if shifted else "", "b" if biased else ""]
    outputs = ["y", "", "", "sum"] if summed else ["y"]
    more = {} if epsilon is None else {"epsilon": epsilon}
    made = node("SkipLayerNormalization", inputs, outputs, domain=MICROSOFT, **more)
    used = {name: array for name, array in weights.items() if name in inputs}
    both = {"x": tuple(shape), "z": tuple(shape)}
    assert_taken_apart(of_microsoft([made], both, [*filter(None, outputs)], used), both)


def test_a_block_of_fused_operators_runs_on_the_accelerator() -> None:
    """Behind operators without shape inference the samples say which shapes there are."""
    made = [
        node("FusedMatMul", ["x", "w"], ["p"], domain=MICROSOFT, transB=1, alpha=0.5),
        node("BiasGelu", ["p", "b"], ["q"], domain=MICROSOFT),
        node("FusedMatMul", ["q", "v"], ["r"], domain=MICROSOFT),
        node("SkipLayerNormalization", ["r", "x", "g"], ["y"], domain=MICROSOFT),
    ]
    weights = {
        "w": floats((64, 32), 1) / 6,
        "b": floats((64,), 2) / 4,
        "v": floats((64, 32), 3) / 8,
        "g": np.ones(32, np.float32),
    }
    model = of_microsoft(made, {"x": (1, 16, 32)}, ["y"], weights)
    samples = floats((8, 16, 32), 4)
    module = compile_model(model, "sim", samples)
    where = {p.op: p.where for p in module.explain}
    assert where["FusedMatMul"].startswith("vta") and where["BiasGelu"].startswith("vta"), where
    (expected,), (found,) = run(model, {"x": samples[:1]}), module.run(samples[:1]).values()
    assert np.sqrt(np.mean((found - expected) ** 2)) < 0.05 * expected.std()
