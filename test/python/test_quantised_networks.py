"""Networks that come quantised, in both forms: exact against the reference, near onnxruntime.

Random scales, zero points (of activations and of weights), int8 and uint8, pads, odd shapes; no
calibration samples. With a multiplier, or two planes of weights, each rounding is off by a step at
most; a shift alone may be off by a few; always within the bound that the quantiser gives.
"""

import warnings

import numpy as np
import onnx
import pytest
from graph_reference import run_reference
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from quantised_networks import Quantised, network
from small_models import context, run
from xdsl.dialects.builtin import ModuleOp

import vtac
from vtac.dialects.context import VtacContext
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.lowering.onnx_to_graph import import_model
from vtac.passes.graph.quantize import error_bounds
from vtac.tools.driver.discovery import OurPasses
from vtac.tools.driver.levels import UNCALIBRATED
from vtac.tools.driver.pipelines import parse_passes
from vtac.tools.driver.planner import main_function

SHIFT_STEPS = 6
"""What a shift alone may be off, in steps of the result."""


def compiled(
    model: onnx.ModelProto,
    inputs: dict[str, np.ndarray],
    target: str,
    requantise: str,
    samples: dict[str, np.ndarray] | None = None,
) -> tuple[vtac.Module, np.ndarray]:
    """The module, and what its integers are by the NumPy reference."""
    integers: dict[str, np.ndarray] = {}

    def evaluate(level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if level == "quantised":
            integers.update(run_reference(module, inputs, ctx.resources))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there are no samples, and none are needed
        module = vtac.compile(
            model,
            target,
            samples,
            requantise=requantise,
            observe=evaluate,
            criteria=vtac.Criteria(compare=False),  # also where the host would finish sooner
        )
    (values,) = integers.values()
    return module, values


def assert_near(
    case: Quantised,
    target: str,
    requantise: str,
    steps: int,
    samples: dict[str, np.ndarray] | None = None,
) -> None:
    module, integers = compiled(case.model, case.inputs, target, requantise, samples)
    assert all(placement.where != "host" for placement in module.explain)
    for seed in (None, 1):
        (result,) = module.run(case.inputs, order_seed=seed).values()
        np.testing.assert_array_equal(result, integers)
    (expected,) = run(case.meaning, case.inputs)
    wrong = np.abs(integers.astype(int) - expected.astype(int))
    assert wrong.max() <= steps


def cases(real: bool) -> st.SearchStrategy[Quantised]:
    some = st.booleans()
    seed = st.integers(0, 10_000)
    return st.builds(
        network, seed, qoperator=some, residual=some, unsigned=some, real=st.just(real)
    )


CASES = cases(real=False)


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


@settings(max_examples=2)
@given(case=CASES)
def test_samples_leave_integers_exact_and_near(case: Quantised) -> None:
    samples = {
        name: np.concatenate([np.roll(x, shift, axis=-1) for shift in range(4)])
        for name, x in case.inputs.items()
    }
    assert_near(case, "pynq", "auto", SHIFT_STEPS * case.depth, samples)


@settings(max_examples=12)
@given(
    case=cases(real=True),
    target=st.sampled_from(["pynq", "sim"]),
    requantise=st.sampled_from(["auto", "shift", "exact"]),  # on sim, exact is multiply
)
def test_real_results_lie_within_the_bound(case: Quantised, target: str, requantise: str) -> None:
    ctx = context()
    module = import_model(case.model, ctx)
    module.attributes[TARGET_ATTRIBUTE] = Target.named(target)
    passes = f"{UNCALIBRATED},quantize{{requantise={requantise}}}"
    for found in parse_passes(passes, OurPasses()):
        found.apply(ctx, module)
    (result,) = run_reference(module, case.inputs, ctx.resources).values()
    (bound,) = error_bounds(main_function(module))
    assert bound is not None
    (expected,) = run(case.meaning, case.inputs)
    assert np.abs(result - expected).max() <= bound


def test_multiply_needs_a_target_that_multiplies() -> None:
    case = network(0, qoperator=False, residual=False, unsigned=False)
    with pytest.raises(vtac.CompileError, match="alu_mul"):
        vtac.compile(case.model, "pynq", requantise="multiply")


def integers(kind: type[np.generic], *shape: int) -> np.ndarray:
    """All of a type's range, both ends in it."""
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    array = np.random.default_rng(3).integers(low, high + 1, shape).astype(kind)
    array.flat[0], array.flat[-1] = high, low
    return array


def assert_products_are_exact(
    kind: str, x: np.ndarray, constants: dict[str, np.ndarray], expected: np.ndarray, **more: object
) -> None:
    """Compile one node whose other inputs are constant; it is exact, and on the accelerator."""
    graph = helper.make_graph(
        [helper.make_node(kind, ["x", *constants], ["y"], **more)],
        "integers",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    module, quantised = compiled(model, {"x": x}, "pynq", "auto")
    assert all(placement.where != "host" for placement in module.explain)
    np.testing.assert_array_equal(quantised, expected)
    np.testing.assert_array_equal(module.run({"x": x})["y"], expected)


@pytest.mark.parametrize("weights", [np.int8, np.uint8])
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_integer_convolution_leaves_as_int32(
    kind: type[np.generic], weights: type[np.generic]
) -> None:
    """Two groups; zero points in the padding, and one per channel of the weights."""
    x, w = integers(kind, 1, 4, 5, 4), integers(weights, 6, 2, 3, 3)
    x_zero, w_zero = np.array(np.iinfo(kind).max - 7, kind), integers(weights, 6)
    reals = np.pad(x.astype(int) - int(x_zero), [(0, 0), (0, 0), (1, 1), (0, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(reals, (3, 3), (2, 3))
    grouped = windows.reshape(1, 2, 2, *windows.shape[2:])
    less = (w.astype(int) - w_zero.astype(int).reshape(-1, 1, 1, 1)).reshape(2, 3, 2, 3, 3)
    expected = np.einsum("ngcyxhw,gochw->ngoyx", grouped, less).reshape(1, 6, *windows.shape[2:4])
    constants = {"w": w, "x_zero": x_zero, "w_zero": w_zero}
    assert_products_are_exact("ConvInteger", x, constants, expected, group=2, pads=[1, 0, 1, 1])


@pytest.mark.parametrize("shape", [(3, 20), (2, 3, 20), (20,)])
def test_integer_product_leaves_as_int32(shape: tuple[int, ...]) -> None:
    """Matrices, several or rows alone; uint8 weights without a zero point reach 255."""
    x, w = integers(np.uint8, *shape), integers(np.uint8, 20, 7)
    assert_products_are_exact("MatMulInteger", x, {"w": w}, x.astype(int) @ w.astype(int))
