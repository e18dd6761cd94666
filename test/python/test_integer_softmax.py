"""The softmax in integers that bench_softmax.py measures: exact ops, a bounded error."""

from typing import Any

import numpy as np
import pytest
from bench_softmax import compiled, softmax_of
from graph_reference import run_reference
from hypothesis import given, settings
from hypothesis import strategies as st
from integer_softmax import ONE, Softmax, curve
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, TensorType, i8
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from vtac.dialects.context import VtacContext
from vtac.passes.graph.streams.fine import Draft

Array = np.ndarray[Any, np.dtype[Any]]

ERROR = 0.004
"""Of an exponential over its softmax: the parabola's 0.3 %, and the rounding of scores."""


def emitted(softmax: Softmax, queries: Array, keys: Array, values: Array) -> Array:
    """What the ops compute in the graph's reference, which checks that sums fit int32."""
    ctx = VtacContext()
    block = Block(arg_types=[TensorType(i8, queries.shape)])
    end = ReturnOp()
    block.add_op(end)
    draft = Draft(ctx, end, end)
    y = softmax.emit(draft, draft.product(block.args[0], keys), values)
    draft.commit()
    end.detach()
    block.add_op(ReturnOp(y))
    function = FuncOp("main", ([block.args[0].type], [y.type]), Region(block))
    function.attributes["graph.inputs"] = ArrayAttr([StringAttr("x")])
    module = ModuleOp([function])
    module.verify()
    return next(iter(run_reference(module, {"x": queries}, ctx.resources).values()))


def problem(seed: int, rows: int, keys: int, depth: int, deviation: float) -> tuple[Any, ...]:
    """A softmax whose scores have a deviation, with queries, keys and values of int8."""
    rng = np.random.default_rng(seed)
    q, k, v = (
        rng.integers(-127, 128, shape).astype(np.int8)
        for shape in ((rows, depth), (keys, depth), (keys, depth))
    )
    mask = rng.random(keys) < 0.3
    mask[rng.integers(keys)] = False
    step = deviation / 73**2 / np.sqrt(depth)
    return Softmax(keys, step, 128 * 128 * depth, mask), q, k, v


@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 999), st.integers(1, 9), st.integers(2, 70), st.sampled_from([16, 32]),
    st.floats(0.01, 8),
)  # fmt: skip
def test_ops_are_exact(seed: int, rows: int, keys: int, depth: int, deviation: float) -> None:
    softmax, q, k, v = problem(seed, rows, keys, depth, deviation)
    scores = q.astype(np.int64) @ k.T.astype(np.int64)
    np.testing.assert_array_equal(emitted(softmax, q, k, v), softmax.at(scores, v))


@pytest.mark.parametrize(("rows", "keys"), [(16, 16), (9, 13), (20, 45)])
def test_the_simulator_has_the_same_integers(rows: int, keys: int) -> None:
    softmax, _, k, v = problem(keys, rows, keys, 32, 3.0)
    module, queries = compiled(softmax, rows, k, v)
    assert module.crossings.launches == 1
    scores = queries.astype(np.int64) @ k.T.astype(np.int64)
    np.testing.assert_array_equal(module.run({"x": queries})["y"], softmax.at(scores, v))


def shares(softmax: Softmax, scores: Array) -> tuple[Array, Array]:
    """In integers and in floats, with what is masked 10,000 below, as transformers do it."""
    e = softmax.exponentials(scores)
    reals = scores * softmax.step - np.where(softmax.mask, 10000.0, 0)
    return e / e.sum(axis=-1, keepdims=True), softmax_of(reals)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 999), st.integers(1, 300), st.floats(0.01, 8), st.booleans())
def test_shares_are_near_the_floats(seed: int, keys: int, deviation: float, masked: bool) -> None:
    """Each share is off by 0.4 % of itself, and of what 18 octaves cut off."""
    rng = np.random.default_rng(seed)
    mask = (rng.random(keys) < 0.4) if masked else np.zeros(keys, bool)
    mask[rng.integers(keys)] = False
    softmax = Softmax(keys, 2.0**-12, 1 << 18, mask)
    scores = np.rint(rng.normal(0, deviation, (5, keys)) * 2**12).astype(np.int64)
    scores += rng.integers(-(2**14), 2**14, (5, 1))
    scores = np.clip(scores, -(1 << 17), 1 << 17)
    found, real = shares(softmax, scores)
    # Exponentials lose less than one by the shift, and so does each addend of their sum.
    assert (np.abs(found - real) <= ERROR * real + 1.5 * (1 + keys * real) / ONE).all()
    assert not found[:, mask].any()


@pytest.mark.parametrize("keys", [1, 7, 16, 197])
def test_extremes(keys: int) -> None:
    """Equal scores, a dominant one, all far below 0, everything masked but one."""
    none = np.zeros(keys, bool)
    softmax = Softmax(keys, 2.0**-12, 1 << 18, none)
    for scores in (np.zeros(keys), np.full(keys, -(1 << 17)), np.full(keys, 1 << 17)):
        found, real = shares(softmax, scores[None].astype(np.int64))
        np.testing.assert_allclose(found, real, rtol=1e-9)
    dominant = np.full((1, keys), -(1 << 17))
    dominant[0, keys // 2] = 1 << 17
    assert shares(softmax, dominant)[0][0, keys // 2] == 1
    but_one = ~none
    but_one[keys // 3] = False
    found, _ = shares(Softmax(keys, 2.0**-12, 1 << 18, but_one), dominant)
    assert found[0, keys // 3] == 1 and found.sum() == 1


def test_the_parabola_is_near_the_exponential() -> None:
    r = np.arange(256)
    a, b, c = curve()
    wrong = ((a * (r + b) ** 2 + c) >> 16) / (ONE * np.exp2(r / 256)) - 1
    assert np.abs(wrong).max() < 0.003
    assert np.abs(a * (r + b) ** 2 + c).max() < 2**31
