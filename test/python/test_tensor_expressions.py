"""``vtac.te`` beyond the kinds: the page that teaches it, whole networks, levels, messages."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vtac import CompileError, te
from vtac.dialects.context import VtacContext
from vtac.dialects.target import Target
from vtac.dialects.te import KernelOp
from vtac.tools.commands.positions import Positions, parse_module
from vtac.tools.driver.discovery import load_dialects
from vtac.tools.tensor_expressions.compiler import lowered
from vtac.tools.tune.evaluate import evaluate_kernel

RNG = np.random.default_rng(3)


def int8(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape).astype(np.int8)


def test_the_page_that_teaches_it(root: Path) -> None:
    page = (root / "docs/tensor-expressions.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert blocks
    room: dict[str, object] = {}
    for block in blocks:
        exec(block, room)


def test_the_matrix_product_of_the_readme(root: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)
    (source,) = (block for block in blocks if "te.placeholder" in block)
    room: dict[str, Any] = {}
    exec(source, room)
    a, b = room["matrix_a"], room["matrix_b"]
    product = np.clip(a.astype(int) @ b >> 7, -128, 127)
    assert np.ptp(product) > 3
    np.testing.assert_array_equal(room["product"], product)


def test_kernels_hand_on_int8_and_known_tensors_are_packed_when_built() -> None:
    x = te.placeholder((2, 3, 7, 7), "x")
    w, d = int8(20, 3, 3, 3), int8(20, 3, 3)
    first = te.requantise(te.convolution(x, te.constant(w), pads=1), 8)
    second = te.requantise(te.depthwise_convolution(first, te.constant(d), strides=2), 9)
    run = te.build([second, te.max_pool(first, 2, 2)])
    assert list(run.signature.inputs) == ["x"]
    a = int8(2, 3, 7, 7)
    padded = np.pad(a.astype(int), ((0, 0), (0, 0), (1, 1), (1, 1)))
    view = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    one = np.clip(np.einsum("nchwij,ocij->nohw", view, w) + 128 >> 8, -128, 127)
    view = np.lib.stride_tricks.sliding_window_view(one, (3, 3), (2, 3))[:, :, ::2, ::2]
    two = np.clip(np.einsum("nchwij,cij->nchw", view, d.astype(int)) + 256 >> 9, -128, 127)
    pooled = one[:, :, :6, :6].reshape(2, 20, 3, 2, 3, 2).max((3, 5))
    for got, expected in zip(run(a), (two, pooled), strict=True):
        np.testing.assert_array_equal(got, expected)
        assert got.dtype == np.int8


def test_a_program_runs_again_in_any_order_of_the_modules() -> None:
    a, b = te.placeholder((5, 33), "a"), te.placeholder((33, 4), "b")
    run = te.build(te.matrix_product(a, b))
    for seed in (None, 0, 1):
        x, y = int8(5, 33), int8(33, 4)
        np.testing.assert_array_equal(run(b=y, a=x, order_seed=seed), x.astype(int) @ y)


def test_numbers_that_are_no_immediates() -> None:
    x = te.placeholder((3, 4), "x")
    y = te.compute((3, 4), lambda i, j: te.maximum(x[i, j] * 5 + 100_000, 100_010), "y")
    a = int8(3, 4)
    np.testing.assert_array_equal(te.build(y)(a), np.maximum(a.astype(int) * 5 + 100_000, 100_010))


def test_what_is_before_the_loops_is_text_that_is_read_again() -> None:
    x, w = te.placeholder((2, 5), "x"), te.placeholder((2, 3, 3), "w")
    y = te.transposed_convolution(te_batch(x), w, strides=2)
    ctx = VtacContext()
    load_dialects(ctx)
    target = Target.named("pynq")
    for level in ("expressions", "te"):
        text = str(lowered([y], target, level))
        again = parse_module(ctx, text, Positions(level), True)
        again.verify()
        assert str(again) == text


def te_batch(x: te.Tensor) -> te.Computed:
    """[c, w] as [1, c, w]."""
    return te.compute((1, *x.shape), lambda n, c, w: te.narrow(x[c, w] >> 1), "batch")


def test_the_kernels_of_expressions_mean_what_they_say() -> None:
    x, w = te.placeholder((1, 2, 5), "x"), te.placeholder((2, 3, 3), "w")
    y = te.transposed_convolution(x, w, strides=2, pads=1)
    module = lowered([y], Target.named("pynq"), "expressions")
    (kernel,) = (op for op in module.ops if isinstance(op, KernelOp))
    a, b = int8(1, 2, 5), int8(2, 3, 3)
    (got,) = evaluate_kernel(kernel, [a, b])
    full = np.zeros((1, 3, 11), int)
    for tap in range(3):
        full[:, :, tap : tap + 9 : 2] += np.einsum("ncw,co->now", a.astype(int), b[:, :, tap])
    np.testing.assert_array_equal(got, full[:, :, 1:-1])


X, V, K = te.placeholder((4, 6), "x"), te.placeholder((6,), "v"), te.reduce_axes(k=6)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            lambda: te.compute((4,), lambda i: te.total(X[i + 1, K] * V[K], K), "y"),
            r"1 to 4 .* of 4",
        ),
        (lambda: te.compute((4,), lambda i: te.total(X[i, K / 2] * V[K], K), "y"), "a quotient"),
        (lambda: te.compute((4,), lambda i: X[i, K]), "axis k, which is none of its own"),
        (lambda: te.compute((4,), lambda i: X[i]), "has 2 dimensions and is read at 1"),
        (lambda: te.compute((4,), lambda i, j: X[i, j]), "a function of 2 axes"),
        (lambda: te.compute((4, 0), lambda i, j: X[i, j]), "extent j is 0"),
        (lambda: te.compute((4,), lambda i: te.largest(X[i, K] + 1, K)), "a number to start from"),
        (lambda: te.compute((4, 6), lambda i, j: (X[i, j] + 1) * (V[j] + 1)), "multiplies"),
        (lambda: te.compute((4, 6), lambda i, j: X[i, j] >> 40), "a shift by 40"),
        (lambda: te.compute((4, 6), lambda i, j: X[i * j, j]), "multiplied by"),
        (lambda: te.compute((4, 6), lambda i, j: X[i, j] * 0.5), "0.5 is no scalar"),
        (lambda: te.matrix_vector(X, X), "differ: 6 and 4"),
        (
            lambda: te.convolution(te.placeholder((1, 1, 2)), te.placeholder((1, 1, 3))),
            "a window of 3",
        ),
        (lambda: X, "an output is an input"),
    ],
)
def test_what_is_wrong_is_said(wrong, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        te.build(wrong())


def test_arrays_that_do_not_fit() -> None:
    run = te.build(te.compute((4, 6), lambda i, j: X[i, j], "y"))
    for given, message in [
        ({"x": int8(4, 5)}, r"shape \[4, 5\], not \[4, 6\]"),
        ({"x": np.zeros((4, 6))}, "float64"),
        ({"x": np.full((4, 6), 128)}, "values that int8 does not"),
        ({"z": int8(4, 6)}, "none of the inputs x"),
    ]:
        with pytest.raises(CompileError, match=message):
            run(**given)
