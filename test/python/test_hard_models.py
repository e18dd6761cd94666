"""Models of the kinds that users of such compilers report as broken, each small and our own.

Calibrated or quantised, they compile; the accelerator's integers equal the reference exactly, and
lie within the quantiser's bound of onnxruntime. What onnxruntime rejects, and what no machine could
run, is refused with the place, the cause and a way out (test_import_problems.py has more of those).
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from graph_reference import run_reference
from onnx import helper, numpy_helper
from small_models import context, floats, kinds, run, small_model
from xdsl.dialects.builtin import ModuleOp

from vtac.dialects.context import VtacContext
from vtac.dialects.graph import HostOp
from vtac.lowering.onnx_to_graph import import_model
from vtac.passes.graph.quantize import error_bounds
from vtac.passes.graph.reasons import host_reason
from vtac.runtime.executor import Module
from vtac.tools.driver.compiler import compile_model
from vtac.tools.driver.planner import main_function
from vtac.tools.files.ir_files import module_text

node = helper.make_node
Array = np.ndarray[Any, np.dtype[Any]]


def judged(
    model: onnx.ModelProto, feeds: Mapping[str, Array], target: str = "pynq", slack: float = 0.0
) -> Module:
    """The compiled model. Asserts the reference's integers, and answers near onnxruntime's.

    slack: what results may be off where there is no bound.
    """
    reference: dict[str, Array] = {}
    bounds: list[float | None] = []

    def observe(level: str, module: ModuleOp, ctx: VtacContext) -> None:
        if level == "quantised":
            main = main_function(module)
            bounds.extend(error_bounds(main))
            if not any(isinstance(op, HostOp) for op in main.walk()):  # it has no float operators
                reference.update(run_reference(module, feeds, ctx.resources))

    module = compile_model(model, target, {n: x[None] for n, x in feeds.items()}, observe=observe)
    found = module.run(dict(feeds))
    for output, exact, bound in zip(model.graph.output, run(model, feeds), bounds, strict=True):
        result = found[output.name]
        if output.name in reference:  # floats of the host are rounded in another order
            rtol = 1e-6 if hosted(module) else 0.0
            np.testing.assert_allclose(result, reference[output.name], rtol=rtol, atol=rtol)
        wrong = np.abs(result.astype(np.float64) - exact).max()
        assert wrong <= (slack if bound is None else bound + 1e-6), output.name
    return module


def hosted(module: Module) -> dict[str, str]:
    """The operators on the host, and why."""
    return {p.op: p.reason for p in module.explain if p.where == "host"}


def test_what_may_follow_a_convolution_with_uneven_pads() -> None:
    window = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [0, 0, 1, 1]}
    resize = {"mode": "nearest", "nearest_mode": "floor"}
    model = small_model(
        [
            node("Conv", ["x", "w"], ["c"], pads=[1, 0, 1, 2]),
            node("MaxPool", ["c"], ["ceiling"], kernel_shape=[2, 2], strides=[3, 3],
                 pads=[1, 1, 1, 1], ceil_mode=1),  # the last windows would start in the pad
            node("AveragePool", ["c"], ["counted"], count_include_pad=1, **window),
            node("Conv", ["c", "d"], ["two each"], group=6, pads=[2, 0, 1, 1], strides=[2, 1]),
            node("Resize", ["c", "", "", "sizes"], ["sized"],
                 coordinate_transformation_mode="asymmetric", **resize),
            node("Resize", ["c", "", "twice"], ["scaled"],
                 coordinate_transformation_mode="asymmetric", **resize),
        ],
        {"x": [1, 3, 5, 5]},
        ["ceiling", "counted", "two each", "sized", "scaled"],
        {
            "w": floats((6, 3, 2, 3), 1),
            "d": floats((12, 1, 3, 2), 3),
            "sizes": np.array([1, 6, 12, 10]),
            "twice": np.array([1, 1, 2, 2], np.float32),
        },
    )  # fmt: skip
    assert not hosted(judged(model, {"x": floats((1, 3, 5, 5))}))


def test_trailing_pads_that_do_not_count_and_transposed_convolutions_in_groups() -> None:
    model = small_model(
        [
            node("Conv", ["x", "w"], ["c"]),
            node(
                "AveragePool", ["c"], ["a"], kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 1]
            ),
            node("ConvTranspose", ["c", "t"], ["y"], group=2, strides=[2, 1], pads=[0, 1, 1, 0]),
        ],
        {"x": [1, 3, 6, 6]},
        ["a", "y"],
        {"w": floats((6, 3, 2, 2), 1), "t": floats((6, 4, 2, 3), 2)},
    )
    module = judged(model, {"x": floats((1, 3, 6, 6))}, slack=1.0)
    assert "ConvTranspose" not in hosted(module)


def squeezing(opset: int) -> onnx.ModelProto:
    axes = {"axes": [2, 3]} if opset < 13 else {}
    return small_model(
        [
            node("Conv", ["x", "w"], ["c"]),
            node("GlobalAveragePool", ["c"], ["p"]),
            node("Squeeze", ["p"] if axes else ["p", "axes"], ["s"], **axes),
            node("MatMul", ["s", "m"], ["y"]),
        ],
        {"x": [1, 5, 4, 4]},
        ["y"],
        {
            "w": floats((7, 5, 1, 1), 1),
            "m": floats((7, 255), 2),
            **({} if axes else {"axes": np.array([2, 3])}),
        },
        opset=opset,
    )


def test_squeeze_with_its_axes_here_or_there_before_255_outputs() -> None:
    assert not hosted(judged(squeezing(13), {"x": floats((1, 5, 4, 4))}))
    old, new = (import_model(squeezing(opset), context()) for opset in (11, 13))
    assert kinds(old) == kinds(new)


def test_dequantised_weights_with_a_scale_a_channel() -> None:
    rng = np.random.default_rng(0)
    model = small_model(
        [
            node("DequantizeLinear", ["q", "s", "z"], ["w"], axis=0),
            node("Conv", ["x", "w"], ["y"]),
        ],
        {"x": [1, 3, 4, 4]},
        ["y"],
        {
            "q": rng.integers(0, 256, (5, 3, 2, 2)).astype(np.uint8),
            "s": rng.uniform(0.01, 0.05, 5).astype(np.float32),
            "z": rng.integers(100, 156, 5).astype(np.uint8),
        },
    )
    assert not hosted(judged(model, {"x": floats((1, 3, 4, 4))}))


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_integer_convolution_with_a_scale_and_a_zero_point_a_channel(kind: type[Any]) -> None:
    rng = np.random.default_rng(0)
    limits = np.iinfo(kind)
    weights = rng.integers(limits.min, limits.max + 1, (5, 3, 3, 3)).astype(kind)
    middle = (limits.min + limits.max + 1) // 2
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
    model = small_model(
        [node("QLinearConv", names, ["y"], pads=[1, 1, 1, 1])],
        {"x": [1, 3, 5, 5]},
        ["y"],
        {
            "xs": np.array(0.02, np.float32),
            "xz": np.array(middle + 7, kind),
            "w": weights,
            "ws": rng.uniform(0.002, 0.02, 5).astype(np.float32),
            "wz": np.full(5, middle + 3 * (kind is np.uint8), kind),
            "ys": np.array(0.11, np.float32),
            "yz": np.array(middle - 9, kind),
            "b": rng.integers(-2000, 2000, 5).astype(np.int32),
        },
    )
    code = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.elem_type = code
    x = rng.integers(limits.min, limits.max + 1, (1, 3, 5, 5)).astype(kind)
    with warnings.catch_warnings(action="error"):  # it needs no samples
        module = compile_model(model, "sim")
    assert not hosted(module)
    wrong = module.run({"x": x})["y"].astype(int) - run(model, {"x": x})[0]
    assert np.abs(wrong).max() <= 1 and np.mean(wrong != 0) < 0.01


def test_a_constant_of_millions_of_values_is_no_text() -> None:
    """Twelve million: 48 MB, which take no part in checks, inference and printing."""
    big = np.broadcast_to(np.float32(0.5), (3, 2000, 2000))
    model = small_model(
        [
            node("Constant", [], ["k"], value=numpy_helper.from_array(big, "k")),
            node("Add", ["x", "k"], ["y"]),
        ],
        {"x": [3, 2000, 2000]},
        ["y"],
    )
    ctx = context()
    module = import_model(model, ctx)
    assert len(module_text(module)) < 2000
    assert kinds(module) == ["graph.add"] and len(ctx.resources) == 1


@pytest.mark.parametrize(
    ("fed", "reasons"),
    [
        ([], []),
        (["xs"], ["its scales or zero points are absent or not constant"]),
        (["w"], ["its weights or its bias are not constant"]),
    ],
)
def test_operators_of_quantised_tensors_say_why_they_stay(
    fed: list[str], reasons: list[str]
) -> None:
    """With scales of float16, which are no obstacle."""
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    scale, zero_point = np.array([0.02], np.float16), np.zeros(1, np.int8)
    arrays = {name: scale if name.endswith("s") else zero_point for name in names}
    arrays |= {"x": np.ones((4, 3), np.int8), "w": np.ones((3, 2), np.int8)}
    inputs = ["x", *fed]
    model = small_model(
        [node("QLinearMatMul", names, ["y"])],
        {name: list(arrays[name].shape) for name in inputs},
        ["y"],
        {name: array for name, array in arrays.items() if name not in inputs},
        opset=21,
    )
    for value in [*model.graph.input, *model.graph.output]:
        kind = arrays.get(value.name, zero_point).dtype
        value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(kind)
    module = import_model(model, context())
    found = [host_reason(op) for op in module.walk() if isinstance(op, HostOp)]
    assert [reason and reason.text for reason in found] == reasons


def test_operators_of_quantised_tensors_are_taken_apart() -> None:
    """Those that onnxruntime's quantiser writes."""
    domain, pooled = "com.microsoft", ["p", "ys", "yz", "zs", "zz"]
    nodes = [
        node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"], ["c"]),
        node("QLinearLeakyRelu", ["c", "ys", "yz", "ys", "yz"], ["l"], domain=domain, alpha=0.1),
        node("QLinearAdd", ["c", "ys", "yz", "l", "ys", "yz", "ys", "yz"], ["p"], domain=domain),
        node("QLinearGlobalAveragePool", pooled, ["y"], domain=domain),
    ]
    weights = {  # of 7 bits: without VNNI, onnxruntime adds two products with saturation to int16
        "w": np.random.default_rng(0).integers(-64, 64, (4, 3, 1, 1)).astype(np.int8),
        "xs": np.float32(0.02), "xz": np.uint8(120), "ws": np.float32(0.01), "wz": np.int8(0),
        "ys": np.float32(0.07), "yz": np.uint8(99), "zs": np.float32(0.03), "zz": np.uint8(110),
    }  # fmt: skip
    arrays = {name: np.asarray(value) for name, value in weights.items()}
    model = small_model(nodes, {"x": [1, 3, 4, 4]}, ["y"], arrays)
    model.opset_import.append(helper.make_opsetid(domain, 1))
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.elem_type = onnx.TensorProto.UINT8
    x = np.random.default_rng(1).integers(0, 256, (1, 3, 4, 4)).astype(np.uint8)
    with warnings.catch_warnings(action="error"):  # it needs no samples
        module = compile_model(model, "sim")
    assert not hosted(module)
    wrong = module.run({"x": x})["y"].astype(int) - run(model, {"x": x})[0]
    assert np.abs(wrong).max() <= 1
