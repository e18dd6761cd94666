"""Networks that come quantised, in both forms: exact against the reference, near onnxruntime.

Random scales, zero points (of activations and of weights), int8 and uint8, pads, odd shapes; no
calibration samples. With a multiplier, or two planes of weights, each rounding is off by a step at
most; a shift alone may be off by a few.
"""

import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from quantised_networks import Quantised, network
from xdsl.dialects.builtin import ModuleOp

import vtac
from vtac.dialects.context import VtacContext
from vtac.runtime.reference import run_reference

SHIFT_STEPS = 6
"""What a shift alone may be off, in steps of the result."""


def expected_of(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """What the nodes mean one by one: onnxruntime without its optimisations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, inputs)[0]


def compiled(
    model: onnx.ModelProto, inputs: dict[str, np.ndarray], target: str, requantise: str
) -> tuple[vtac.Module, np.ndarray]:
    """The module, and what its integers are by the NumPy reference."""
    integers: dict[str, np.ndarray] = {}

    def evaluate(level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if level == "quantised":
            integers.update(run_reference(module, inputs, ctx.resources))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there are no samples, and none are needed
        module = vtac.compile(model, target, requantise=requantise, observe=evaluate)
    (values,) = integers.values()
    return module, values


def assert_near(case: Quantised, target: str, requantise: str, steps: int) -> None:
    module, integers = compiled(case.model, case.inputs, target, requantise)
    assert all(placement.where != "host" for placement in module.explain)
    for seed in (None, 1):
        (result,) = module.run(case.inputs, order_seed=seed).values()
        np.testing.assert_array_equal(result, integers)
    wrong = np.abs(integers.astype(int) - expected_of(case.meaning, case.inputs).astype(int))
    assert wrong.max() <= steps


CASES = st.builds(
    network,
    seed=st.integers(0, 10_000),
    qoperator=st.booleans(),
    residual=st.booleans(),
    unsigned=st.booleans(),
)


@settings(max_examples=4)
@given(case=CASES)
def test_a_multiplier_is_off_by_a_step_a_rounding(case: Quantised) -> None:
    assert_near(case, "sim", "auto", case.depth)


@settings(max_examples=3)
@given(case=CASES)
def test_two_planes_are_off_by_a_step_a_rounding(case: Quantised) -> None:
    assert_near(case, "pynq", "exact", case.depth)


@settings(max_examples=3)
@given(case=CASES)
def test_shifts_are_off_by_a_few_steps(case: Quantised) -> None:
    assert_near(case, "chisel-pynq", "auto", SHIFT_STEPS * case.depth)


def test_multiply_needs_a_target_that_multiplies() -> None:
    case = network(0, qoperator=False, residual=False, unsigned=False)
    with pytest.raises(vtac.CompileError, match="alu_mul"):
        vtac.compile(case.model, "pynq", requantise="multiply")


@pytest.mark.parametrize("unsigned", [False, True])
@pytest.mark.parametrize("kind", ["ConvInteger", "MatMulInteger"])
def test_integer_products_leave_as_int32(kind: str, unsigned: bool) -> None:
    rng = np.random.default_rng(3)
    dtype, code = (np.uint8, TensorProto.UINT8) if unsigned else (np.int8, TensorProto.INT8)
    limits = np.iinfo(dtype)
    shape, weights = ([1, 3, 5, 4], (17, 3, 3, 3)) if kind == "ConvInteger" else ([3, 20], (20, 7))
    x = rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    w = rng.integers(limits.min, limits.max + 1, weights).astype(dtype)
    constants = {"w": w, "x_zero": dtype(limits.max - 7), "w_zero": dtype(limits.min + 3)}
    attributes = {"pads": [1, 0, 1, 1]} if kind == "ConvInteger" else {}
    graph = helper.make_graph(
        [helper.make_node(kind, ["x", *constants], ["y"], **attributes)],
        "integers",
        [helper.make_tensor_value_info("x", code, shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    module, integers = compiled(model, {"x": x}, "pynq", "auto")
    assert any(placement.where != "host" for placement in module.explain)
    np.testing.assert_array_equal(integers, expected_of(model, {"x": x}))
    np.testing.assert_array_equal(module.run({"x": x})["y"], integers)
