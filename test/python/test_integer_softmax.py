"""Softmax in integers: ops that are exact, a bounded error, and only where it pays."""

import re
from dataclasses import dataclass, replace
from typing import Any

import encoder
import numpy as np
import pytest
from compiled_encoders import compiled_encoder
from encoder import Form
from graph_reference import run_reference
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import run
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, TensorType, i8
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

import vtac
from vtac.dialects.context import VtacContext
from vtac.dialects.target import Target
from vtac.passes.graph.softmax.emit import Emitter, matmul
from vtac.passes.graph.softmax.softmax import ONE, RAISED, START, VERTEX, Ending, Softmax
from vtac.passes.graph.streams.fine import OpDraft, Part

Array = np.ndarray[Any, np.dtype[Any]]

ERROR = 0.004
"""Of an exponential over its softmax: the parabola's 0.27 %, and the rounding of distances."""


@dataclass
class Given:
    """Queries and keys that are arguments of a function."""

    queries: SSAValue
    keys: SSAValue

    def parts(self, draft: OpDraft) -> list[Part]:
        return [(matmul(draft, self.queries, self.keys), 0)]


def emitted(
    softmax: Softmax, heads: list[tuple[Array, Array, Array]], ending: Ending, lanes: int
) -> list[Array]:
    """What the ops compute in the graph's reference, which checks that sums fit int32."""
    ctx = VtacContext()
    arrays = [array for head in heads for array in head]
    block = Block(arg_types=[TensorType(i8, array.shape) for array in arrays])
    end = ReturnOp()
    block.add_op(end)
    draft = OpDraft(ctx, end, end)
    emitter = Emitter(softmax, lanes, draft)
    made = emitter.heads([Given(*block.args[n : n + 2]) for n in range(0, len(arrays), 3)])
    values = [block.args[n + 2] for n in range(0, len(arrays), 3)]
    results = [
        emitter.result(head, value, ending, 1.0).result
        for head, value in zip(made, values, strict=True)
    ]
    draft.commit()
    end.detach()
    block.add_op(ReturnOp(*results))
    types = [arg.type for arg in block.args], [result.type for result in results]
    function = FuncOp("main", types, Region(block))
    names = [f"x{n}" for n in range(len(arrays))]
    function.attributes["graph.inputs"] = ArrayAttr([StringAttr(name) for name in names])
    module = ModuleOp([function])
    module.verify()
    found = run_reference(module, dict(zip(names, arrays, strict=True)), ctx.resources)
    return list(found.values())


def softmax_of(scores: Array) -> Array:
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def numbers_for(keys: int, depth: int, deviation: float, factor: float = 1.0) -> Softmax:
    """For products of normal int8 whose scores have a deviation."""
    step = deviation / 32**2 / np.sqrt(depth)
    return Softmax(keys, step, 128 * 128 * depth, 5 * deviation, factor)


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return np.clip(np.rint(rng.normal(0, 32, shape)), -128, 127).astype(np.int8)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 999), st.integers(1, 6), st.integers(1, 9), st.integers(1, 70),
    st.sampled_from([8, 16, 40]), st.floats(0.01, 6), st.floats(0.05, 8), st.sampled_from([8, 16]),
)  # fmt: skip
def test_ops_are_exact(
    seed: int, heads: int, rows: int, keys: int, depth: int, deviation: float, factor: float,
    lanes: int,
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    softmax = numbers_for(keys, depth, deviation, factor)
    assert softmax.refusal() is None
    sizes = rows, keys, depth
    given = [tuple(normal(rng, size, depth) for size in sizes) for _ in range(heads)]
    given = [(q, k, np.ascontiguousarray(normal(rng, depth, keys))) for q, k, _ in given]
    bias = rng.integers(-(1 << softmax.shift), 1 << softmax.shift, depth)
    ending = Ending(bias, np.full(depth, softmax.shift), -100, 110)
    found = emitted(softmax, given, ending, lanes)
    for result, (q, k, v) in zip(found, given, strict=True):
        scores = q.astype(np.int64) @ k.T.astype(np.int64)
        np.testing.assert_array_equal(result, softmax.at(scores, v.T, ending))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 999), st.integers(1, 300), st.floats(0.01, 6))
def test_shares_are_near_the_floats(seed: int, keys: int, deviation: float) -> None:
    """Each share is off by 0.4 % of itself, and by what the shifts cut off."""
    rng = np.random.default_rng(seed)
    softmax = numbers_for(keys, 32, deviation)
    scores = np.rint(rng.normal(0, deviation, (5, keys)) / softmax.step).astype(np.int64)
    scores = np.clip(scores, -softmax.reach, softmax.reach)
    found, real = softmax.shares(scores), softmax_of(scores * softmax.step)
    least = ONE * 2.0**-softmax.unit
    # Exponentials lose less than one by the shift, and so does each addend of their sum.
    assert (np.abs(found - real) <= ERROR * real + 1.5 * (1 + keys * real) / least).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 999), st.integers(1, 300), st.floats(0.01, 6), st.floats(0.05, 8))
def test_results_are_near_the_floats(seed: int, keys: int, deviation: float, factor: float) -> None:
    """One step for rounding, and what shares are off for values of 128 steps at most."""
    rng = np.random.default_rng(seed)
    softmax = numbers_for(keys, 32, deviation, factor)
    scores = np.rint(rng.normal(0, deviation, (5, keys)) / softmax.step).astype(np.int64)
    scores = np.clip(scores, -softmax.reach, softmax.reach)
    values = normal(rng, keys, 16)
    half = np.full(16, 1 << softmax.shift >> 1)
    found = softmax.at(scores, values, Ending(half, np.full(16, softmax.shift)))
    real = softmax.shares(scores) @ values * factor
    assert np.abs(found - np.clip(real, -128, 127)).max() <= 0.5 + 0.01 * factor * 4


@pytest.mark.parametrize("keys", [1, 7, 16, 197])
def test_extremes(keys: int) -> None:
    """Equal scores far outside what calibration saw, and one that dominates."""
    softmax = numbers_for(keys, 32, 1.0)
    for score in (0, softmax.reach, 100):
        found = softmax.shares(np.full((1, keys), score))
        np.testing.assert_allclose(found, 1 / keys, rtol=1e-9)
    dominant = np.zeros((1, keys), np.int64)
    dominant[0, keys // 2] = round(18 / softmax.step)
    assert softmax.shares(dominant)[0, keys // 2] == 1
    # Below all that was seen, sums are too small, and results with them; nothing overflows.
    low = np.full((1, keys), -softmax.reach)
    half = np.full(4, 1 << softmax.shift >> 1)
    values = np.full((keys, 4), 127, np.int8)
    result = softmax.at(low, values, Ending(half, np.full(4, softmax.shift)))
    assert (result >= 0).all()


def test_the_parabola_is_near_the_exponential() -> None:
    r = np.arange(256)
    wrong = (((r + VERTEX) ** 2 + RAISED) >> START) / (ONE * np.exp2(-r / 256)) - 1
    assert np.abs(wrong).max() < 0.003
    assert (((r + VERTEX) ** 2 + RAISED) >> START).max() <= ONE


def test_what_has_no_integers_is_refused() -> None:
    assert "sum over its keys" in str(numbers_for(700, 32, 1.0).refusal())
    far = replace(numbers_for(16, 32, 1.0), span=1e4, reach=2**31 - 1, step=1e-4)
    assert far.refusal() is not None


SIM = Target.named("sim")
SMALL = Form(layers=1, length=16, width=32, heads=2)


def place_of(module: vtac.Module) -> Any:
    (found,) = [place for place in module.explain if place.op == "Softmax"]
    return found


@pytest.mark.parametrize(
    "form",
    [
        SMALL,
        replace(SMALL, length=21, heads=1, spread=2.0),
        replace(SMALL, length=19, width=96, heads=6, inner=32),
        replace(SMALL, length=7, batch=2),
        replace(SMALL, length=16, width=40, heads=5, inner=32),
    ],
)
def test_attention_is_one_launch_and_exact(form: Form) -> None:
    """Scores, softmax and values in the launch of what follows, in any order of execution."""
    module, (batch, _), (integers, _) = compiled_encoder(form, SIM)
    place = place_of(module)
    assert place.where != "host"
    error = re.search(r"at most (\S+) steps of the product with the values off", place.reason)
    assert error is not None and float(error[1]) <= 0.5
    for seed in (None, 1):
        (result,) = module.run(batch, order_seed=seed).values()
        np.testing.assert_allclose(result, integers, rtol=1e-6, atol=1e-6)
    (floats,) = run(encoder.build(form), batch)
    assert np.linalg.norm(result - floats) <= 0.05 * np.linalg.norm(floats)


def test_the_host_has_it_where_that_is_faster() -> None:
    host = {"bytes_a_cycle": 1e6, "cycles_an_op": 0, "cycles_a_launch": 0}
    module, _, _ = compiled_encoder(SMALL, SIM, criteria=vtac.Criteria(host=host))
    place = place_of(module)
    assert place.where == "host"
    assert re.search(r"in integers it would take \S+ cycles, on the host", place.reason)


def test_masked_scores_stay_with_the_host() -> None:
    module, (batch, _), (integers, _) = compiled_encoder(
        replace(SMALL, mask="causal"), SIM, criteria=vtac.Criteria()
    )
    place = place_of(module)
    assert place.where == "host" and "no product of activations" in place.reason
    (result,) = module.run(batch).values()
    np.testing.assert_allclose(result, integers, rtol=1e-6, atol=1e-6)
