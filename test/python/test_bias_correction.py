"""Biases corrected by observations: means of channels match the float network's."""

from fractions import Fraction
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_networks import Network, find, main_of, run, set_ranges_from
from xdsl.dialects.builtin import ModuleOp

from vtac.dialects import graph
from vtac.dialects.context import VtacContext
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.lowering.graph_to_onnx import host_model
from vtac.passes.approximation.multipliers import rescaling_of
from vtac.passes.graph.float_groups.groups import Sum
from vtac.passes.graph.quantize import QuantizePass, error_bounds
from vtac.passes.graph.quantize.correction import _mean, _mean_of_some
from vtac.passes.graph.quantize.layer import Layer
from vtac.passes.graph.quantize.quantize import ERROR_ESTIMATES_ATTRIBUTE
from vtac.passes.graph.quantize.scales import Scale
from vtac.runtime.calibration import calibrate, calibration_values
from vtac.tools.driver.observations import Observed, Observer


def network(rng: np.random.Generator) -> tuple[Network, ModuleOp]:
    """A convolution in groups, a residual addition, a mean and a dense layer; coarse weights."""
    net = Network((1, 4, 6, 6))
    (x,) = net.inputs
    x = net.relu(net.conv(x, rng.normal(size=(8, 2, 3, 3)), rng.normal(size=8), group=2))
    x = net.add(net.conv(x, rng.normal(size=(8, 8, 1, 1)) * 0.3, rng.normal(size=8)), x)
    x = net.pool(graph.MaxPoolOp, net.relu(x), [2, 2])
    x = net.reshape(net.global_average_pool(x), [1, 8])
    return net, net.module(net.gemm(x, rng.normal(size=(3, 8)), rng.normal(size=3)))


def observe(module: ModuleOp, ctx: VtacContext, batches: list[dict[str, np.ndarray]]) -> Observed:
    function = main_of(module)
    names = calibration_values(function)
    shown = {name: value for value, name in names.items() if value not in function.args}
    model = host_model(module, ctx, extra_outputs=shown)
    observer = Observer(module, function, names, batches, ctx)
    calibrate(model, names, batches, watch=observer.watch)
    return observer.observed()


@settings(max_examples=4)
@given(st.integers(0, 2**32 - 1))
def test_means_match_and_the_bound_holds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net, module = network(rng)
    samples = [rng.normal(size=(1, 4, 6, 6)).astype(np.float32) for _ in range(8)]
    set_ranges_from(module, net.ctx, [[x] for x in samples])
    floats = np.array([run(module, net.ctx, [x])[0] for x in samples])
    plain, corrected = module.clone(), module.clone()
    QuantizePass().apply(net.ctx, plain)
    net.ctx.observations = observe(corrected, net.ctx, [{"x0": x} for x in samples])
    QuantizePass().apply(net.ctx, corrected)
    corrected.verify()
    wrong = []
    for quantised in (plain, corrected):
        answers = np.array([run(quantised, net.ctx, [x])[0] for x in samples])
        wrong.append(np.abs((answers - floats).mean(axis=0)).max())
        (bound,) = error_bounds(main_of(quantised))
        assert bound is not None and np.abs(answers - floats).max() <= bound
    # The last layer's bias is free: what is left is the rounding of one accumulator step.
    assert wrong[1] <= wrong[0] + 1e-6 and wrong[1] < 1e-3


@settings(max_examples=8)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["shift", "multiply"]), st.booleans())
def test_means_of_layers_match_however_sums_return_to_int8(
    seed: int, requantise: str, residual: bool
) -> None:
    rng = np.random.default_rng(seed)
    net = Network((1, 4, 6, 6))
    (x,) = net.inputs
    x = net.relu(net.conv(x, rng.normal(size=(8, 4, 3, 3)), rng.normal(size=8)))
    if residual:
        y = net.conv(x, rng.normal(size=(8, 8, 3, 3)), rng.normal(size=8), pads=[1] * 4)
        module = net.module(net.relu(net.add(y, x)))
    else:
        y = net.conv(x, rng.normal(size=(5, 8, 3, 3)), rng.normal(size=5))
        module = net.module(net.relu(y))
    module.attributes[TARGET_ATTRIBUTE] = Target.named("sim")
    samples = [rng.normal(size=(1, 4, 6, 6)).astype(np.float32) for _ in range(8)]
    set_ranges_from(module, net.ctx, [[x] for x in samples])
    floats = np.array([run(module, net.ctx, [x])[0] for x in samples])
    net.ctx.observations = observe(module, net.ctx, [{"x0": x} for x in samples])
    QuantizePass(requantise=requantise).apply(net.ctx, module)
    answers = np.array([run(module, net.ctx, [x])[0] for x in samples])
    kind = graph.RescaleOp if requantise == "multiply" else graph.RequantizeOp
    last = find(module, kind)[-1]
    wrong = np.abs((answers - floats).mean(axis=(0, 1, 3, 4)))
    assert wrong.max() < 0.2 * last.scale.value.data


def test_an_exact_network_keeps_its_biases() -> None:
    rng = np.random.default_rng(0)
    net = Network((1, 2, 4, 4))
    (x,) = net.inputs
    y = net.relu(net.conv(x, rng.integers(-1, 2, (3, 2, 3, 3)), rng.integers(-4, 5, 3)))
    module = net.module(y)
    samples = [rng.integers(-3, 4, (1, 2, 4, 4)).astype(np.float32) for _ in range(4)]
    set_ranges_from(module, net.ctx, [[x] for x in samples], whole=True)
    plain, corrected = module.clone(), module.clone()
    QuantizePass().apply(net.ctx, plain)
    net.ctx.observations = observe(corrected, net.ctx, [{"x0": x} for x in samples])
    QuantizePass().apply(net.ctx, corrected)
    for quantised in (plain, corrected):  # what is observed makes for another estimate
        del main_of(quantised).attributes[ERROR_ESTIMATES_ATTRIBUTE]
    assert str(corrected) == str(plain)


@pytest.mark.parametrize("seed", range(60))
def test_means_of_some_channels_are_those_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, kind = int(rng.integers(1, 40)), ("leaves int32", "shift", "multiplier")[seed % 3]
    zeros, zero_point = np.zeros(count), int(rng.integers(-9, 9))
    scale = None if kind == "leaves int32" else Scale(1.0, Fraction(1), -1, zero_point)
    ratios = rng.uniform(0.001, 0.1, count)
    layer = Layer(
        group=cast(Sum, None),
        terms=(),
        steps=rng.uniform(0.1, 2, count if rng.integers(2) else 1),
        constant=zeros,
        bias=rng.integers(-(1 << 12), 1 << 12, count).astype(float),
        offset=zeros,
        reach=zeros,
        shift=rng.integers(0, 12, count),
        lo=-128,
        hi=127,
        scale=scale,
        rescaling=rescaling_of(ratios, zero_point, -128, 127) if kind == "multiplier" else None,
    )
    shape = int(rng.integers(1, 3)), count, *rng.integers(1, 9, rng.integers(0, 3)).tolist()
    sums = [rng.integers(-(1 << 14), 1 << 14, shape).astype(np.float32) for _ in range(3)]
    channels = rng.random(count) < rng.random()
    channels[rng.integers(count)] = True
    expected = _mean(layer, sums)[channels]
    assert _mean_of_some(layer, sums, channels).tolist() == expected.tolist()
