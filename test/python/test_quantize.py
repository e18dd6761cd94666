"""The quantiser: exact where nothing need be rounded, within its own bound elsewhere."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_networks import (
    Network,
    find,
    main_of,
    ops_of,
    quantised,
    reasons,
    run,
    set_ranges_from,
)
from xdsl.dialects.builtin import BoolAttr, ModuleOp
from xdsl.ir import SSAValue

from vtac.dialects import graph
from vtac.dialects.context import VtacContext, constant_value
from vtac.dialects.graph.ranges import set_range
from vtac.passes.approximation.shifts import RealWeights, choose_shifts
from vtac.passes.approximation.steps import natural_scales
from vtac.passes.graph.quantize import error_bounds

Array = np.ndarray[Any, np.dtype[Any]]
INCLUDE = {"count_include_pad": BoolAttr.from_bool(True)}
EXCLUDE = {"count_include_pad": BoolAttr.from_bool(False)}


def constant_of(ctx: VtacContext, value: SSAValue) -> Array:
    return constant_value(ctx, value.owner.value, value.type)  # type: ignore[union-attr]


def span(lo: float, hi: float, *values: SSAValue) -> None:
    for value in values:
        set_range(value, lo, hi)


# Shifts and weights.


def test_largest_shift_that_clips_no_weight() -> None:
    rows = np.array([[1.0, -0.5], [127.0, 0.0], [0.3, 0.1], [-1.0, 0.0], [0.0, 0.0]])
    assert choose_shifts(RealWeights(rows), 0, 1).tolist() == [6, 0, 8, 7, 0]


def test_one_more_shift_where_clipping_costs_less_than_rounding() -> None:
    # 128 clips to 127 at the larger shift; the many others double their resolution.
    weights = RealWeights(np.array([[1.0, *[0.3047] * 50]]))
    without = np.array([6])
    assert choose_shifts(weights, 0, 1).tolist() == [7]
    assert weights.errors(without + 1) < weights.errors(without)
    assert weights.rounded(without + 1).max() == 127


def test_a_block_shares_its_smallest_shift() -> None:
    weights = RealWeights(np.array([[1.0], [100.0], [0.0], [0.5], [0.25]]))
    assert choose_shifts(weights, 0, 2).tolist() == [0, 0, 7, 7, 8]
    assert choose_shifts(RealWeights(np.zeros((3, 2))), 1, 2).tolist() == [1, 1, 1]


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(0, 3))
def test_shifts_stay_in_bounds_and_are_best(seed: int, block: int, least: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(7, 9)) * 2.0 ** rng.integers(-40, -2, (7, 1))
    shift = choose_shifts(RealWeights(rows), least, block)
    assert shift.min() >= least and shift.max() <= 31
    for start in range(0, 7, block):
        some = slice(start, start + block)
        assert len(set(shift[some])) == 1
        weights = RealWeights(rows[some])
        chosen = weights.errors(shift[some]).sum()
        if shift[start] > least:
            assert chosen <= weights.errors(shift[some] - 1).sum()


@given(st.integers(0, 2**32), st.integers(1, 5), st.sampled_from([1, 2, 9, 300]))
def test_what_clipping_costs_at_least_decides_nothing_else(seed: int, block: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_t(3, size=(7, k)) * 2.0 ** rng.integers(-12, 0, (7, 1))
    weights = RealWeights(rows)
    for shift in rng.integers(0, 12, (3, 7)):
        assert (weights.clipped(shift) <= weights.errors(shift)).all()
    shift = choose_shifts(weights, 0, block)
    for start in range(0, 7, block):
        some = RealWeights(rows[start : start + block])
        more = shift[start : start + block] + 1
        if some.fit(more - 1).all() and more[0] <= 31:
            gain = some.errors(more - 1) - some.errors(more)
            assert gain.sum() <= 1e-12 * some.errors(more - 1).sum()


def test_errors_are_those_of_rounding_at_any_shift() -> None:
    rows = np.random.default_rng(0).normal(size=(3, 50))
    weights = RealWeights(rows)
    for shift in (np.array([3, 5, 7]), np.array([4, 5, 6]), np.array([3, 6, 7])):
        stored = weights.rounded(shift) * np.ldexp(1.0, -shift)[:, None]
        expected = np.square(stored - rows).sum(axis=1)
        np.testing.assert_allclose(weights.errors(shift), expected, rtol=1e-12)


def test_last_layer_scales_keep_integers_exact() -> None:
    rows = np.array([[1.0, -3.0], [0.5, 0.75], [0.1, 0.3], [0.0, 0.0], [-128.0, 5.0]])
    scales = natural_scales(rows)
    assert scales.tolist() == [2.0**-5, 2.0**-7, 0.3 / 127, 1.0, 1.0]


# The integer form of each kind of op.


def test_a_convolution_takes_in_addition_and_relu() -> None:
    net = Network((1, 2, 4, 4))
    (x,) = net.inputs
    y = net.conv(x, np.array([[[[1.0]], [[2.0]]], [[[0.0]], [[-3.0]]]]), np.array([1.0, -2.0]))
    total = net.add(y, x)
    result = net.relu(total)
    module = net.module(result)
    span(-128, 127, x, y, total, result)
    out = quantised(net, module)
    assert ops_of(out) == ["quantize", "conv", "shift_left", "add", "requantize", "dequantize"]
    (conv,), (requantize,) = find(out, graph.ConvOp), find(out, graph.RequantizeOp)
    assert constant_of(net.ctx, conv.w).ravel().tolist() == [32, 64, 0, -96]
    assert constant_of(net.ctx, requantize.shift).tolist() == [5, 5]
    assert constant_of(net.ctx, requantize.bias).tolist() == [48, -48]
    assert (requantize.lo.value.data, requantize.hi.value.data) == (0, 127)


def test_the_widest_of_two_convolutions_shares_its_accumulators() -> None:
    net = Network((1, 2, 3, 3))
    (x,) = net.inputs
    rng = np.random.default_rng(1)
    wide = net.conv(x, rng.normal(size=(2, 2, 3, 3)), pads=[1, 1, 1, 1])
    narrow = net.conv(x, rng.normal(size=(2, 2, 1, 1)))
    module = net.module(net.add(wide, narrow))
    x0 = rng.normal(size=(1, 2, 3, 3)).astype(np.float32)
    set_ranges_from(module, net.ctx, [[x0]])
    out = quantised(net, module)
    expected = ["quantize", "conv", "requantize", "conv", "shift_left", "add", "requantize"]
    assert ops_of(out) == [*expected, "dequantize"]
    assert [c.kernel_shape() for c in find(out, graph.ConvOp)] == [(1, 1), (3, 3)]


def test_values_with_other_readers_end_their_group() -> None:
    net = Network((1, 1, 2, 2))
    (x,) = net.inputs
    y = net.conv(x, np.ones((1, 1, 1, 1)))
    result = net.relu(y)
    module = net.module(result, y)
    span(-128, 127, x, y, result)
    out = quantised(net, module)
    assert ops_of(out) == [
        "quantize", "conv", "requantize", "dequantize", "shift_left", "requantize", "dequantize",
    ]  # fmt: skip


def test_the_last_dense_layer_leaves_int32() -> None:
    net = Network((2, 3, 2, 2))
    (x,) = net.inputs
    rng = np.random.default_rng(2)
    hidden = net.conv(x, rng.normal(size=(4, 3, 2, 2)), rng.normal(size=4))
    flat = net.reshape(net.relu(hidden), [2, 4])
    logits = net.gemm(flat, rng.normal(size=(5, 4)), rng.normal(size=5))
    probabilities = net.add_op(graph.HostOp("Softmax", [logits], [logits.type]))
    module = net.module(probabilities)
    span(-4, 4, x, flat.owner.x)
    out = quantised(net, module)
    assert ops_of(out) == [
        "quantize", "conv", "requantize", "reshape", "gemm", "add_bias", "dequantize", "host",
    ]  # fmt: skip
    (dequantize,) = find(out, graph.DequantizeOp)
    assert len(dequantize.scales) == 5


def test_a_convolution_over_its_whole_input_is_a_dense_layer() -> None:
    net = Network((1, 3, 2, 2))
    (x,) = net.inputs
    w = np.random.default_rng(3).normal(size=(4, 3, 2, 2))
    module = net.module(net.reshape(net.conv(x, w), [1, 4]))
    span(-1, 1, x)
    assert ops_of(quantised(net, module)) == [
        "quantize", "conv", "add_bias", "dequantize", "reshape",
    ]  # fmt: skip


def test_average_pooling_is_a_sum_and_a_shift() -> None:
    net = Network((1, 2, 6, 6))
    (x,) = net.inputs
    y = net.pool(graph.AveragePoolOp, x, [3, 3], [3, 3], **EXCLUDE)
    z = net.global_average_pool(y)
    module = net.module(z)
    span(-128, 127, x, y, z)
    out = quantised(net, module)
    assert ops_of(out) == [
        "quantize", "sum_pool", "requantize", "sum_pool", "requantize", "dequantize",
    ]  # fmt: skip
    first, second = find(out, graph.RequantizeOp)
    # The odd part of 9 stays in the scale: 8/9 of the input's. The sum of 2 x 2 needs no more.
    (quantize,) = find(out, graph.QuantizeOp)
    assert first.scale.value.data == pytest.approx(quantize.scale.value.data * 8 / 9)
    assert second.scale.value.data == first.scale.value.data
    assert constant_of(net.ctx, first.shift).tolist() == [3, 3]
    assert constant_of(net.ctx, second.shift).tolist() == [2, 2]


def test_clip_bounds_are_those_of_requantisation() -> None:
    net = Network((1, 1, 2, 2))
    (x,) = net.inputs
    y = net.clip(net.clip(net.conv(x, np.ones((1, 1, 1, 1))), -3, None), None, 5.25)
    module = net.module(y)
    span(-64, 63.5, x)
    span(-32, 31.75, y)
    (requantize,) = find(quantised(net, module), graph.RequantizeOp)
    assert (requantize.lo.value.data, requantize.hi.value.data) == (-12, 21)


def test_max_pool_and_reshape_keep_the_scale() -> None:
    net = Network((1, 2, 4, 4))
    (x,) = net.inputs
    y = net.conv(x, np.ones((2, 2, 1, 1)))
    pooled = net.pool(graph.MaxPoolOp, y, [2, 2], [2, 2])
    z = net.gemm(net.reshape(pooled, [1, 8]), np.ones((3, 8)))
    result = net.relu(z)
    module = net.module(result)
    span(-127, 127, x, y)
    span(0, 127, result)
    out = quantised(net, module)
    assert ops_of(out) == [
        "quantize", "conv", "requantize", "max_pool", "reshape", "gemm", "requantize", "dequantize",
    ]  # fmt: skip


def test_residual_scales_are_tied_by_powers_of_two() -> None:
    net = Network((1, 1, 2, 2))
    (x,) = net.inputs
    total = net.add(net.conv(x, np.full((1, 1, 1, 1), 0.3)), x)
    module = net.module(total)
    span(-1, 1, x, total.owner.a)
    span(-2.6, 2.6, total)
    out = quantised(net, module)
    (quantize,), (requantize,) = find(out, graph.QuantizeOp), find(out, graph.RequantizeOp)
    ratio = requantize.scale.value.data / quantize.scale.value.data
    assert ratio == 2 ** round(np.log2(ratio))
    (skip,) = find(out, graph.ShiftLeftOp)
    shift, amount = constant_of(net.ctx, requantize.shift), constant_of(net.ctx, skip.amount)
    assert amount[0] == shift[0] - np.log2(ratio)


# Ops that stay float, and the reasons.


def test_reasons_for_what_stays_float() -> None:
    rng = np.random.default_rng(4)
    net = Network((1, 4, 4, 4))
    (x,) = net.inputs
    broad = net.add(x, net.constant(rng.normal(size=(1, 1, 1, 4))))
    relu = net.relu(broad)
    pooled = net.pool(graph.AveragePoolOp, x, [4, 4], [1, 1], [3, 3, 0, 0], **EXCLUDE)
    module = net.module(relu, pooled)
    set_ranges_from(module, net.ctx, [[rng.normal(size=(1, 4, 4, 4)).astype(np.float32)]])
    out = quantised(net, module)
    assert ops_of(out) == ["add", "relu", "average_pool"]
    assert reasons(out) == {
        "add": "broadcasting addition of shapes [1, 4, 4, 4] and [1, 1, 1, 4]",
        "relu": "its operands stay on the host, where int8 would only lose precision",
        "average_pool": "its windows average 1 to 16 elements: too many divisors",
    }
    assert error_bounds(main_of(out)) == [0.0, 0.0]


def test_ops_without_ranges_stay_float() -> None:
    net = Network((1, 1, 2, 2), (1, 1, 2, 2))
    x, other = net.inputs
    y = net.conv(x, np.ones((1, 1, 1, 1)))
    total = net.add(other, other)
    module = net.module(y, total)
    span(-1, 1, x, total)
    assert reasons(quantised(net, module)) == {
        "conv": "its result has no calibrated range",
        "add": "an operand has no calibrated range",
    }


def test_sums_that_could_leave_int32_stay_float() -> None:
    net = Network((1, 1 << 18))
    (x,) = net.inputs
    y = net.gemm(x, np.full((1, 1 << 18), 127.0))
    result = net.relu(y)
    module = net.module(result)
    span(-128, 127, x, y, result)
    assert reasons(quantised(net, module)) == {
        "gemm": "a partial sum could leave int32",
        "relu": "a partial sum could leave int32",
    }


def test_a_large_bias_takes_coarser_steps_instead_of_overflowing() -> None:
    net = Network((1, 1, 2, 2))
    (x,) = net.inputs
    y = net.conv(x, np.full((1, 1, 1, 1), 1e-6), np.array([1000.0]))
    module = net.module(y)
    span(-1, 1, x)
    span(-1024, 1016, y)
    out = quantised(net, module)
    x0 = np.ones((1, 1, 2, 2), np.float32)
    assert run(out, net.ctx, [x0])[0] == pytest.approx(1000, abs=4)
    shift = constant_of(net.ctx, find(out, graph.RequantizeOp)[0].shift)
    assert 0 < shift[0] < 31


def test_zero_channels_have_no_shift() -> None:
    net = Network((1, 1, 2, 2))
    (x,) = net.inputs
    y = net.conv(x, np.array([0.0, 0.5]).reshape(2, 1, 1, 1), np.array([3.0, 0.0]))
    module = net.module(y)
    span(-128, 127, x, y)
    out = quantised(net, module)
    (requantize,) = find(out, graph.RequantizeOp)
    assert constant_of(net.ctx, requantize.shift).tolist() == [0, 7]
    assert constant_of(net.ctx, requantize.bias).tolist() == [3, 64]


def test_scales_that_cannot_be_tied_keep_the_addition_float() -> None:
    net = Network((1, 2, 5, 5))
    (x,) = net.inputs
    mean = net.pool(graph.AveragePoolOp, x, [3, 3], [1, 1], [1, 1, 1, 1], **INCLUDE)
    total = net.add(mean, x)
    module = net.module(total)
    span(-1, 1, x, mean, total)
    out = quantised(net, module)
    assert ops_of(out) == ["quantize", "sum_pool", "requantize", "dequantize", "add"]
    reason = "the scales of its addends cannot differ by powers of two only"
    assert reasons(out) == {"add": reason}


def test_a_core_that_cannot_reach_an_addends_steps_rounds_alone() -> None:
    # One weight times one input step exceeds all of the addend, which others read finely.
    net = Network((1, 1, 2, 2), (1, 1, 2, 2))
    x, fine = net.inputs
    y = net.conv(x, np.full((1, 1, 1, 1), 100.0))
    total = net.add(y, fine)
    module = net.module(total, net.conv(fine, np.ones((1, 1, 1, 1))))
    span(-1.28, 1.27, x)
    span(-0.0128, 0.0127, fine, main_of(module).body.block.last_op.operands[1])
    span(-128, 127, y, total)
    out = quantised(net, module)
    assert not reasons(out)
    names = ops_of(out)
    assert names.index("requantize") < names.index("shift_left")
    assert len(find(out, graph.ShiftLeftOp)) == 2
    arrays = [np.full((1, 1, 2, 2), 0.5, np.float32), np.full((1, 1, 2, 2), 0.01, np.float32)]
    assert run(out, net.ctx, arrays)[0] == pytest.approx(50, abs=1)


# Sharing of shifts.


def noisy_layer(spread: float) -> tuple[Network, ModuleOp]:
    """A convolution whose channels differ in size by factors up to ``spread``."""
    rng = np.random.default_rng(5)
    net = Network((1, 16, 6, 6))
    sizes = np.geomspace(1, spread, 16).reshape(-1, 1, 1, 1)
    y = net.conv(net.inputs[0], rng.normal(size=(16, 16, 3, 3)) * sizes)
    module = net.module(y)
    set_ranges_from(module, net.ctx, [[rng.normal(size=(1, 16, 6, 6)).astype(np.float32)]])
    return net, module


@pytest.mark.parametrize(("spread", "shares"), [(1.5, True), (4000.0, False)])
def test_auto_shares_where_the_error_stays_small(spread: float, shares: bool) -> None:
    net, module = noisy_layer(spread)
    shift = {}
    for policy in ("channel", "block", "auto"):
        (requantize,) = find(quantised(net, module, policy), graph.RequantizeOp)
        shift[policy] = constant_of(net.ctx, requantize.shift)
    assert len(set(shift["block"])) == 1 < len(set(shift["channel"]))
    assert np.array_equal(shift["auto"], shift["block" if shares else "channel"])
