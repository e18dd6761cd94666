"""Streams and layer normalisations in integers: exact, near the floats, and only where they pay."""

import re
from dataclasses import replace
from typing import Any

import encoder
import numpy as np
import pytest
from compiled_encoders import compiled_encoder
from encoder import Form
from graph_reference import run_reference
from hypothesis import example, given, settings
from hypothesis import strategies as st
from small_models import run
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, TensorType, i8
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from vtac.dialects.context import VtacContext
from vtac.dialects.target import Target
from vtac.passes.graph.streams.fine import (
    TOLERANCE,
    FineValue,
    OpDraft,
    planes_of_factors,
    rounded_factors,
)
from vtac.passes.graph.streams.layer_norms import LayerNorm
from vtac.passes.graph.streams.sums import LARGEST, emit_sum, fine_step

Array = np.ndarray[Any, np.dtype[Any]]


def normalised(x: Array, scale: Array, bias: Array, epsilon: float) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + epsilon) * scale + bias


def rows(seed: int, channels: int, deviation: float, unequal: float, count: int = 8) -> Array:
    """Rows whose deviations differ by factors, with means of their own."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, channels)) * np.exp(rng.normal(0, unequal, (count, 1)))
    return deviation * (x + rng.normal(0, 0.3, (count, 1)))


def numbers_for(
    x: Array, seed: int, epsilon: float, *, multiplier: int = 1, lanes: int = 16
) -> tuple[LayerNorm, Array, Array]:
    """A normalisation calibrated on rows; t for these rows; the floats."""
    rng = np.random.default_rng(seed)
    scale, bias = rng.uniform(0.2, 2, x.shape[1]), rng.normal(0, 0.3, x.shape[1])
    step = fine_step(float(x.min()), float(x.max()))
    most = LARGEST if multiplier == 1 else 127
    t = np.clip(np.rint(x / (step * multiplier)), -most, most)
    t *= multiplier
    y = normalised(t * step, scale, bias, epsilon)
    result = float(np.abs(y).max()) / 127 / 256
    power = float(np.square(x).mean())
    found = LayerNorm(x.shape[1], lanes, multiplier, step, scale, bias, epsilon, power, result)
    return found, t, y


@settings(max_examples=25)
@given(
    st.integers(0, 99),
    st.sampled_from([16, 24, 48, 128, 384, 768, 1000]),
    st.sampled_from([1e-3, 1.0, 50.0]),
    st.sampled_from([0.0, 0.3]),
)
def test_a_normalisation_is_near_the_floats(
    seed: int, channels: int, deviation: float, unequal: float
) -> None:
    """A quarter of a step of int8 at most, of rows whose deviations differ by a factor of 4."""
    epsilon = 1e-5 * deviation**2
    numbers, t, y = numbers_for(rows(seed, channels, deviation, unequal), seed, epsilon)
    assert numbers.refusal() is None
    wrong = np.abs(numbers.at(t) * numbers.result - y)
    assert wrong.max() <= 0.5 * 256 * numbers.result
    assert np.sqrt(np.square(wrong).mean() / np.square(y).mean()) <= 0.002


@pytest.mark.parametrize("planes", [True, False])
@pytest.mark.parametrize(
    ("seed", "channels", "wide"), [(0, 16, True), (1, 40, False), (2, 96, True)]
)
def test_the_ops_compute_the_same_integers(
    seed: int, channels: int, wide: bool, planes: bool
) -> None:
    """What is emitted, in the graph's reference, is `LayerNorm.at`, and nothing leaves int32."""
    multiplier = 1 if planes else LARGEST // 128
    x = rows(seed, channels, 1.0, 0.5)
    numbers, t, _ = numbers_for(x, seed, 1e-5, multiplier=multiplier)
    high, low = planes_of(t) if planes else ((t // multiplier).astype(np.int8), None)
    given = [high] if low is None else [high, low]

    def emit(draft: OpDraft, *values: Any) -> FineValue:
        operand = FineValue(values[0], values[1] if planes else None, np.array([numbers.step]))
        return numbers.emit(draft, operand, wide)

    results, _ = evaluated(emit, given)
    expected = numbers.at(t)
    if wide:
        np.testing.assert_array_equal(256 * results[0].astype(int) + results[1], expected)
    else:
        assert np.abs(256 * results[0].astype(int) - expected).max() <= 256


def planes_of(t: Array) -> tuple[Array, Array]:
    whole = t.astype(np.int64)
    low = (whole & 255).astype(np.uint8).view(np.int8)
    return ((whole - low.astype(np.int64)) // 256).astype(np.int8), low


def evaluated(emit: Any, arrays: list[Array]) -> tuple[list[Array], FineValue]:
    """The planes that drafted ops make of int8 arrays, in the reference, and their value."""
    ctx = VtacContext()
    block = Block(arg_types=[TensorType(i8, array.shape) for array in arrays])
    end = ReturnOp()
    block.add_op(end)
    draft = OpDraft(ctx, end, end)
    value = emit(draft, *block.args)
    draft.commit()
    made = [plane for plane in (value.high, value.low) if plane is not None]
    end.detach()
    block.add_op(ReturnOp(*made))
    types = [arg.type for arg in block.args], [plane.type for plane in made]
    function = FuncOp("main", types, Region(block))
    names = [f"x{number}" for number in range(len(arrays))]
    function.attributes["graph.inputs"] = ArrayAttr(map(StringAttr, names))
    module = ModuleOp([function])
    module.verify()
    results = run_reference(module, dict(zip(names, arrays, strict=True)), ctx.resources)
    return list(results.values()), value


@settings(max_examples=25)
@given(st.lists(st.floats(0.25, 1e3), min_size=1, max_size=8))
@example([0.599609375])
def test_factors_are_whole_numbers_near_them(factors: list[float]) -> None:
    """All are off by at most `TOLERANCE` of the largest, or half of a whole number."""
    array = 256 * np.array(factors)
    high, low, _ = planes_of_factors(array)
    whole = rounded_factors(array)
    assert low.dtype == np.int8 and (high is None or high.dtype == np.int8)
    assert np.abs(whole - array).max() <= max(TOLERANCE * array.max(), 0.5)


@settings(max_examples=10)
@given(st.integers(0, 99), st.booleans(), st.floats(0.05, 20))
def test_sums_of_streams(seed: int, fine: bool, ratio: float) -> None:
    """A sum of planes or int8, and int8 of another scale, is exact to a small part of int8."""
    rng = np.random.default_rng(seed)
    most = LARGEST if fine else 127
    first = rng.integers(-most, most + 1, (5, 24))
    second = rng.integers(-128, 128, (5, 24)).astype(np.int8)
    steps = np.array([1 / LARGEST if fine else 1 / 127]), np.array([ratio / 127])
    given = [*planes_of(first), second] if fine else [first.astype(np.int8), second]
    real = first * steps[0] + second * steps[1]

    def emit(draft: OpDraft, *values: Any) -> FineValue:
        stream = FineValue(values[0], values[1] if fine else None, steps[0])
        branch, step = FineValue(values[-1], None, steps[1]), fine_step(-1 - ratio, 1 + ratio)
        made = emit_sum(draft, [stream, branch], step)
        assert made is not None
        return made

    (high, low), value = evaluated(emit, given)
    found = (256 * high.astype(int) + low) * value.steps
    assert np.abs(found - real).max() <= (1 + ratio) / 127 * 0.25


SMALL = Form(layers=2, length=16, width=32, heads=2)
FORMS = {
    "post-norm": SMALL,
    "pre-norm": replace(SMALL, pre_norm=True),
    "batch, odd length": replace(SMALL, batch=2, length=7),
    "odd width": replace(SMALL, width=40, inner=56),
    "decoder": replace(SMALL, mask="causal", source=11),
    "image": replace(SMALL, patch=4, side=12, pre_norm=True, classes=10),
}


@pytest.mark.parametrize(
    ("name", "lanes"), [*((name, "sim") for name in FORMS), ("batch, odd length", "4x8")]
)
def test_streams_are_exact_and_save_launches(name: str, lanes: str) -> None:
    """The simulator has the integers of the quantised graph; each normalisation inside the network
    saves a launch."""
    sim = Target.named("sim")
    target = sim if lanes == "sim" else sim.replace(log_batch=2, log_block=3)
    module, (batch, _), (integers, _) = compiled_encoder(FORMS[name], target)
    for seed in (None, 1):
        (result,) = module.run(batch, order_seed=seed).values()
        np.testing.assert_allclose(result, integers, rtol=1e-5, atol=1e-5)
    (floats,) = run(encoder.build(FORMS[name]), batch)
    assert np.linalg.norm(result - floats) <= 0.05 * np.linalg.norm(floats)
    notes = [found.reason for found in module.explain if found.op == "LayerNormalization"]
    stated = [re.search(r"in integers, at most (\S+) steps", note) for note in notes]
    errors = [float(match[1]) for match in stated if match]
    assert errors and max(errors) <= 0.5


def test_where_the_alu_does_not_multiply_nothing_changes() -> None:
    module, _, _ = compiled_encoder(SMALL, Target.named("pynq"))
    places = {found.where for found in module.explain if found.op == "LayerNormalization"}
    assert places == {"host"}
