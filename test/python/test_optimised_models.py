"""Models that onnxruntime's optimiser saved, and operators that only onnxruntime accepts."""

import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper
from small_models import assert_same, context, floats, kinds, one_thread, run, small_model

from vtac.dialects.errors import CompileError
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
