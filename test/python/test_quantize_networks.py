"""Whole networks through the quantiser: integer ones exactly, real ones within the bound."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from graph_reference import run_reference
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import one_thread
from small_networks import Network, main_of, quantised, reasons, run, set_ranges_from
from xdsl.dialects.builtin import BoolAttr, ModuleOp
from xdsl.ir import SSAValue

from vtac.dialects import graph
from vtac.dialects.context import VtacContext
from vtac.lowering.graph_to_onnx import host_model
from vtac.lowering.onnx_to_graph import import_model
from vtac.passes import side_by_side
from vtac.passes.graph.quantize import QuantizePass, error_bounds, error_estimates, quantize
from vtac.runtime.calibration import calibrate, calibration_values
from vtac.runtime.samples import input_specs, load_samples
from vtac.tools.driver.discovery import load_dialects, our_passes

Array = np.ndarray[Any, np.dtype[Any]]
INCLUDE = {"count_include_pad": BoolAttr.from_bool(True)}


def random_network(seed: int, integer: bool) -> tuple[Network, ModuleOp, list[Array]]:
    """1 to 4 layers of the supported kinds, and inputs; small integers, or normal numbers."""
    rng = np.random.default_rng(seed)
    n, c, size = int(rng.integers(1, 4)), int(rng.integers(1, 7)), int(rng.integers(3, 9))
    net = Network((n, c, size, size))
    values = [net.inputs[0]]

    def numbers(*shape: int) -> Array:
        if not integer:
            return rng.normal(size=shape) * 2.0 ** float(rng.integers(-3, 3))
        return rng.integers(-1, 2, shape) * (rng.random(shape) < 4 / np.prod(shape[1:]))

    def bias(channels: int) -> Array | None:
        return numbers(channels, 1).ravel() if rng.random() < 0.6 else None

    for _ in range(int(rng.integers(1, 5))):
        x = values[int(rng.integers(max(0, len(values) - 2), len(values)))]
        _, c, h, w = x.type.get_shape()
        kernel = [int(rng.integers(1, min(h, 3) + 1)), int(rng.integers(1, min(w, 3) + 1))]
        pads = [int(rng.integers(0, k)) for k in kernel * 2]
        strides = [int(s) for s in rng.integers(1, 4, 2)]
        match int(rng.integers(0, 9)):
            case 0:
                y = net.pool(graph.MaxPoolOp, x, kernel, strides, pads)
            case 1 if not integer:
                y = net.pool(graph.AveragePoolOp, x, kernel, strides, pads, **INCLUDE)
            case 2:
                y = net.conv(x, numbers(c, c, 1, 1), bias(c))
                y = net.add(y, x) if rng.random() < 0.7 else net.add(x, x)
            case 3 if not integer:
                y = net.clip(x, float(rng.normal()) - 1, float(rng.normal()) + 1)
            case 4 | 5:
                group = int(rng.choice([g for g in range(1, c + 1) if c % g == 0]))
                channels = group * int(rng.integers(1, 4))
                y = net.conv(x, numbers(channels, c // group, *kernel), bias(channels),
                             strides=strides, pads=pads, group=group)  # fmt: skip
            case _:
                channels = int(rng.integers(1, 21))
                y = net.conv(x, numbers(channels, c, *kernel), bias(channels), strides=strides,
                             pads=pads)  # fmt: skip
        values.append(net.relu(y) if rng.random() < 0.5 else y)
    outputs = [values[-1]]
    if rng.random() < 0.3 and len(values) > 2:
        outputs.append(values[-2])
    if rng.random() < 0.5:
        n, *rest = values[-1].type.get_shape()
        flat = net.reshape(values[-1], [n, int(np.prod(rest))])
        outputs[0] = net.gemm(flat, numbers(5, int(np.prod(rest))), bias(5))
    shape = net.inputs[0].type.get_shape()
    x0 = rng.integers(-4, 5, shape) if integer else rng.normal(size=shape)
    return net, net.module(*outputs), [x0.astype(np.float32)]


SHIFTS = st.sampled_from(["channel", "block", "auto"])


@settings(max_examples=60)
@given(st.integers(0, 2**32), SHIFTS)
def test_integer_networks_are_exact(seed: int, shift: str) -> None:
    net, module, inputs = random_network(seed, integer=True)
    floats = run(module, net.ctx, inputs)
    if max(np.abs(y).max() for y in floats) > 100:
        return
    set_ranges_from(module, net.ctx, [inputs], whole=True)
    out = quantised(net, module, shift)
    assert not reasons(out)
    if fits_int8(net, module, inputs):
        for expected, actual in zip(floats, run(out, net.ctx, inputs), strict=True):
            assert np.array_equal(expected, actual)


def fits_int8(net: Network, module: ModuleOp, inputs: Sequence[Array]) -> bool:
    """Whether every float value is an int8."""
    largest: list[float] = [0.0]
    named = {f"x{i}": array for i, array in enumerate(inputs)}
    run_reference(
        module, named, net.ctx.resources, lambda _, v: largest.append(float(np.abs(v).max()))
    )
    return max(largest) <= 127


@settings(max_examples=60)
@given(st.integers(0, 2**32), SHIFTS)
def test_real_networks_stay_within_the_bound(seed: int, shift: str) -> None:
    net, module, inputs = random_network(seed, integer=False)
    rng = np.random.default_rng(seed + 1)
    others = [[rng.normal(size=x.shape).astype(np.float32) for x in inputs] for _ in range(3)]
    set_ranges_from(module, net.ctx, [inputs, *others])
    out = quantised(net, module, shift)
    bounds, estimates = error_bounds(main_of(out)), error_estimates(main_of(out))
    powers = np.zeros(len(bounds))
    for arrays in (inputs, *others):
        floats, integers = run(module, net.ctx, arrays), run(out, net.ctx, arrays)
        for i, (expected, actual, bound) in enumerate(zip(floats, integers, bounds, strict=True)):
            assert bound is not None
            assert np.abs(expected - actual).max() <= bound
            powers[i] += np.square(expected - actual).mean() / 4
    for power, bound, estimate in zip(powers, bounds, estimates, strict=True):
        assert bound is not None and estimate is not None
        assert estimate <= bound
        assert np.sqrt(power) <= 2 * estimate  # of few elements


@pytest.mark.parametrize("seed", range(6))
def test_errors_are_the_same_from_two_processes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "_may_fork", lambda: True)
    found = []
    for least in (0, 1 << 60):
        monkeypatch.setattr(quantize, "MANY_WEIGHTS", least)
        net, module, inputs = random_network(seed, integer=False)
        set_ranges_from(module, net.ctx, [inputs])
        out = main_of(quantised(net, module))
        found.append((error_bounds(out), error_estimates(out)))
    (bounds, estimates), alone = found
    assert bounds != estimates and None not in bounds
    assert alone == (bounds, estimates)


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_extreme_inputs_never_overflow(seed: int) -> None:
    net, module, inputs = random_network(seed, integer=False)
    set_ranges_from(module, net.ctx, [inputs])
    out = quantised(net, module)
    for factor in (1e6, -1e6, 0.0):  # the reference raises where a sum leaves int32
        results = run(out, net.ctx, [np.sign(x) * np.float32(factor) for x in inputs])
        assert all(np.isfinite(result).all() for result in results)


def test_mnist8_agrees_with_onnxruntime(shared: Path) -> None:
    model = onnx.load(shared / "models/mnist8/model.onnx")
    images = np.load(shared / "data/mnist.npz")["x"].astype(np.float32)[:, None]
    ctx = VtacContext()
    load_dialects(ctx)
    module = import_model(model, ctx)
    for name in ("fold-constants", "canonicalize-graph", "flatten-to-conv"):
        our_passes()[name]().apply(ctx, module)
    function = main_of(module)
    values = calibration_values(function)
    shown = {name: value for value, name in values.items() if value not in function.args}
    samples = load_samples(images[:100], input_specs(function))
    calibrate(host_model(module, ctx, extra_outputs=shown), values, samples)
    QuantizePass().apply(ctx, module)
    assert not reasons(module)
    session = onnxruntime.InferenceSession(model.SerializeToString(), one_thread())
    (name,) = (spec.name for spec in input_specs(function))
    agreed = 0
    for image in images[100:400]:
        (ours,) = run_reference(module, {name: image[None]}, ctx.resources).values()
        agreed += int(ours.argmax() == session.run(None, {name: image[None]})[0].argmax())
    assert agreed >= 297


@settings(max_examples=20)
@given(st.sampled_from([0.5, 1.0, 4.0]), st.sampled_from([0.3, 0.37, 0.5]), st.integers(0, 99))
def test_a_mean_meets_an_addend_at_any_ratio_of_scales(
    tied: float, other: float, seed: int
) -> None:
    """Powers of two lead from the mean to the result; to the other addend they may not."""
    rng = np.random.default_rng(seed)
    net = Network((1, 3, 4, 4), (1, 3, 2, 2))

    def rounded(x: SSAValue, scale: float) -> SSAValue:
        return net.add_op(graph.FakeQuantizeOp(x, scale, 0, x.type))

    x, y = net.inputs
    mean = net.pool(graph.AveragePoolOp, rounded(x, 0.5), [2, 2], [2, 2], **INCLUDE)
    module = net.module(rounded(net.add(mean, rounded(y, other)), tied))
    arrays = [
        rng.uniform(-40, 40, shape).astype(np.float32) for shape in ((1, 3, 4, 4), (1, 3, 2, 2))
    ]
    set_ranges_from(module, net.ctx, [arrays])
    (expected,) = run(module, net.ctx, arrays)
    module = quantised(net, module)
    (found,) = run(module, net.ctx, arrays)
    assert not reasons(module)
    assert np.abs(found - expected).max() <= tied * (1 + 1e-6)  # a tie may round either way
