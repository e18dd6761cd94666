"""Integers of networks whose steps no two bytes express, where the target multiplies.

Weights with one step per input channel, and sums of operands with steps in any ratio, are computed
in as many bits as needed: results are those of the network, but where its own sum lies at a half.
"""

from typing import Any

import numpy as np
import onnx
from exact_integers import Oracle
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import vtac
from vtac.passes.graph.quantize.multiplier import CLOSE

Array = np.ndarray[Any, np.dtype[Any]]
FINE = 0.01
"""By so many steps of the result the rounding of finer weights, and of multipliers, moves a sum."""


def model(
    nodes: list[onnx.NodeProto], shapes: dict[str, list[int]], constants: dict[str, Array]
) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT8, s) for n, s in shapes.items()]
    output = helper.make_tensor_value_info("y", TensorProto.INT8, None)
    weights = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, [output], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def verify(
    network: onnx.ModelProto, feeds: dict[str, Array], real: Array, zero: int, moved: float
) -> None:
    """Compare with the real sums, in steps of the result, and with the NumPy reference.

    moved: by so many steps of the result a sum may be moved.
    """
    oracle = Oracle([feeds])
    module = vtac.compile(network, "sim", observe=oracle.observe)
    assert {place.where for place in module.explain} == {"vta_0"}
    assert not oracle.judge(module).differences
    (result,) = module.run(feeds).values()
    sure = np.abs(real - np.floor(real) - 0.5) > moved
    expected = np.clip(np.rint(real) + zero, -128, 127)
    np.testing.assert_array_equal(result[sure], expected[sure])
    assert np.abs(result - expected).max() <= 1


@settings(max_examples=12)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 3]),
    st.sampled_from(["Conv", "MatMul"]),
    st.integers(1, 24),
    st.integers(1, 20),
)
def test_weights_with_a_step_per_input_channel(
    seed: int, kernel: int, kind: str, inner: int, outer: int
) -> None:
    rng = np.random.default_rng(seed)
    dense = kind == "MatMul"
    shape = (inner, outer) if dense else (outer, inner, kernel, kernel)
    weights = rng.integers(-127, 128, shape).astype(np.int8)
    steps = (rng.uniform(0.2, 2, inner) * 0.01).astype(np.float32)
    step, zero, to = (
        np.float32(rng.uniform(0.01, 0.1)),
        int(rng.integers(-20, 20)),
        int(rng.integers(-20, 20)),
    )
    x = rng.integers(-128, 128, (5, inner) if dense else (1, inner, 5, 5)).astype(np.int8)
    around = (slice(None), None) if dense else (None, slice(None), None, None)
    w = weights * steps.astype(np.float64)[around]
    given_x = (x.astype(np.float64) - zero) * step
    if dense:
        real = given_x @ w
    else:
        windows = np.lib.stride_tricks.sliding_window_view(given_x, (kernel, kernel), (2, 3))
        real = np.einsum("nchwij,ocij->nohw", windows, w)
    spread = np.float32(np.abs(real).max() / 120)
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0 if dense else 1),
        helper.make_node(kind, ["xd", "wd"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "ys", "yz"], ["y"]),
    ]
    constants = {
        "xs": step, "xz": np.int8(zero), "w": weights, "ws": steps, "wz": np.zeros(inner, np.int8),
        "ys": spread, "yz": np.int8(to),
    }  # fmt: skip
    network = model(nodes, {"x": list(x.shape)}, constants)
    verify(network, {"x": x}, real / spread, to, FINE)


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.integers(1, 20))
@example(34286, 3, 5)  # two bytes suffice, and move one sum across a half
def test_sums_of_operands_with_steps_in_any_ratio(seed: int, count: int, channels: int) -> None:
    rng = np.random.default_rng(seed)
    steps = np.exp(rng.uniform(np.log(0.01), np.log(0.1), count)).astype(np.float32)
    zeros = rng.integers(-20, 20, count)
    arrays = [rng.integers(-128, 128, (1, channels, 6, 6)).astype(np.int8) for _ in range(count)]
    real = sum(
        (a.astype(np.float64) - z) * np.float64(s)
        for a, z, s in zip(arrays, zeros, steps, strict=True)
    )
    spread, to = np.float32(np.abs(real).max() / 120), int(rng.integers(-20, 20))
    nodes, constants = [], {"ys": spread, "yz": np.int8(to)}
    for n, (step, zero) in enumerate(zip(steps, zeros, strict=True)):
        constants |= {f"s{n}": step, f"z{n}": np.int8(zero)}
        nodes.append(helper.make_node("DequantizeLinear", [f"x{n}", f"s{n}", f"z{n}"], [f"d{n}"]))
    nodes.append(helper.make_node("Sum", [f"d{n}" for n in range(count)], ["c"]))
    nodes.append(helper.make_node("QuantizeLinear", ["c", "ys", "yz"], ["y"]))
    feeds = {f"x{n}": a for n, a in enumerate(arrays)}
    network = model(nodes, {name: list(a.shape) for name, a in feeds.items()}, constants)
    verify(network, feeds, real / spread, to, CLOSE + FINE)


def test_sums_that_need_no_more_bits_take_one_plane() -> None:
    """Where two bytes express the ratio, a second plane would cost products for nothing."""
    cycles = []
    for ratio in (0.5, 0.9961):
        nodes = [
            *(helper.make_node("DequantizeLinear", [f"x{n}", f"s{n}"], [f"d{n}"]) for n in (0, 1)),
            helper.make_node("Sum", ["d0", "d1"], ["c"]),
            helper.make_node("QuantizeLinear", ["c", "ys", "yz"], ["y"]),
        ]
        constants = {
            "s0": np.float32(0.04), "s1": np.float32(0.04 * ratio), "ys": np.float32(0.04),
            "yz": np.int8(0),
        }  # fmt: skip
        network = model(nodes, {"x0": [1, 16, 8, 8], "x1": [1, 16, 8, 8]}, constants)
        profile = vtac.compile(network, "sim").profile()
        cycles.append(sum(launch.report.total.gemm_micro_ops for launch in profile.launches))
    assert cycles[0] < cycles[1]
