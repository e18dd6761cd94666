"""Static analysis of any computation: FlexTensor's kinds and odd ones, written as formulas.

Each gives a schedule space without a template of its own; the default point and random points of it
compile, are free of hazards (`te.build` checks that) and compute what NumPy computes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from dense_cases import KINDS, Case, Draw

from vtac import CompileError, te
from vtac.dialects import te as ir
from vtac.dialects.context import VtacContext
from vtac.dialects.target import Target
from vtac.lowering.python_to_te.module import module_of
from vtac.tools.driver.discovery import OurPasses
from vtac.tools.driver.pipelines import built_passes
from vtac.tools.tensor_expressions import compiler as te_compiler

TARGETS = {
    "1x16": Target.named("pynq"),
    "2x4, small": Target.named("sim").replace(
        log_batch=1,
        log_block=2,
        log_inp_buff_size=13,
        log_wgt_buff_size=14,
        log_acc_buff_size=14,
    ),
}


def block_circulant(draw: Draw) -> Case:
    """y[i, r] = sum over j and k of c[i, j, (r - k) mod n] * x[j, k].

    The kernel c of each block is stored once, unrolled: w[i, j, d] = c[i, j, (d + 1) mod n].
    """
    rows, columns, size = draw.size(4), draw.size(4), draw.random.choice([3, 4, 8, 16])
    circulant = draw.numpy.integers(-128, 128, (rows, columns, size))
    w = te.placeholder((rows, columns, 2 * size - 1), f"w{draw.number}")
    unrolled = [circulant[..., (d + 1) % size] for d in range(2 * size - 1)]
    draw.inputs[w] = np.stack(unrolled, -1).astype(np.int8)
    x, vector = draw.tensor("x", (columns, size))
    j, k = te.reduce_axes(j=columns, k=size)
    y = te.compute(
        (rows, size),
        lambda i, r: te.total(w[i, j, r - k + size - 1] * x[j, k], j, k),
        f"acc{draw.number}",
    )
    expected = np.zeros((rows, size), np.int64)
    for r in range(size):
        for k in range(size):
            expected[:, r] += circulant[:, :, (r - k) % size] @ vector[:, k]
    return draw.finish(y, expected, None)


def shift(draw: Draw) -> Case:
    """Each group of channels moves by one of nine steps (Wu et al., Shift, CVPR 2018)."""
    channels, height, width = draw.size(4), draw.size(6), draw.size(6)
    x, array = draw.tensor("x", (3, 3, channels, height, width))
    y = te.compute(
        x.shape,
        lambda dy, dx, c, h, w: te.narrow(x.outside(0)[dy, dx, c, h + dy - 1, w + dx - 1]),
        f"y{draw.number}",
    )
    padded = np.pad(array, [(0, 0)] * 3 + [(1, 1)] * 2)
    moved = [
        padded[dy, dx, :, dy : dy + height, dx : dx + width] for dy in range(3) for dx in range(3)
    ]
    return Case(y, draw.inputs, np.array(moved).reshape(x.shape).astype(np.int8))


FOURTEEN = dict(list(KINDS.items())[:12]) | {"block-circulant": block_circulant, "shift": shift}


def check(case: Case, target: Target) -> None:
    run = te.build(case.output, target)
    inputs = {tensor.name: array for tensor, array in case.inputs.items()}
    np.testing.assert_array_equal(run(**inputs), case.expected)


def spaces_of(case: Case, target: Target) -> tuple[list[ir.KernelOp], list[ir.SpaceOp]]:
    """The kernels of a computation, and the spaces declared for them."""
    ctx = VtacContext()
    module = module_of([case.output], target, ctx)
    pipeline = te_compiler.PIPELINE.replace("te-schedule", "te-declare-space")
    for step in built_passes(pipeline.until("te").passes, OurPasses()):
        step.apply(ctx, module)
    module.verify()
    ops = list(module.body.block.ops)
    return (
        [op for op in ops if isinstance(op, ir.KernelOp)],
        [op for op in ops if isinstance(op, ir.SpaceOp)],
    )


@pytest.mark.parametrize("kind", FOURTEEN)
def test_each_kind_has_a_space_for_each_kernel(kind: str) -> None:
    for number in range(4):
        case = FOURTEEN[kind](Draw(7, number))
        kernels, spaces = spaces_of(case, TARGETS["1x16"])
        assert [k.sym_name.data for k in kernels] == [s.kernel.root_reference.data for s in spaces]
        assert all(space.knobs.size > 1 for space in spaces)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", FOURTEEN)
def test_random_points_of_each_kind_are_exact(
    kind: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        case = FOURTEEN[kind](Draw(11, number))
        passes = f"te-declare-space,te-choose-point{{method=random seed={number}}},te-apply-point"
        pipeline = te_compiler.LOWERING.replace("graph-to-te", te_compiler.PREPARE)
        monkeypatch.setattr(te_compiler, "PIPELINE", pipeline.replace("te-schedule", passes))
        check(case, TARGETS[target])


@pytest.mark.parametrize("kind", ["block-circulant", "shift"])
@pytest.mark.parametrize("target", TARGETS)
def test_new_operators_by_default(kind: str, target: str) -> None:
    for number in range(4):
        check(FOURTEEN[kind](Draw(3, number)), TARGETS[target])


ROWS, INNER = 20, 33


def product(x: te.Tensor, w: te.Tensor) -> te.Computed:
    k = te.reduce_axes(k=INNER)
    return te.compute((ROWS, ROWS), lambda i, j: te.total(x[i, k] * w[k, j], k), "product")


Formula = Callable[[te.Tensor, te.Tensor], te.Computed]
Meaning = Callable[[Any, Any], Any]

MOVES: dict[str, tuple[Formula, Meaning]] = {
    "transposed sums": (
        lambda x, w: (
            (p := product(x, w))
            and te.compute((ROWS, ROWS), lambda i, j: te.narrow(p[j, i] >> 7), "y")
        ),
        lambda x, w: (x @ w).T >> 7,
    ),
    "reversed sums": (
        lambda x, w: (
            (p := product(x, w))
            and te.compute((ROWS, ROWS), lambda i, j: te.narrow(p[ROWS - 1 - i, j]), "y")
        ),
        lambda x, w: (x @ w)[::-1],
    ),
    "every other row of sums": (
        lambda x, w: (
            (p := product(x, w))
            and te.compute((ROWS // 2, ROWS), lambda i, j: te.narrow(p[2 * i, j]), "y")
        ),
        lambda x, w: (x @ w)[::2],
    ),
    "sums between zeros": (
        lambda x, w: (
            (p := product(x, w))
            and te.compute((ROWS + 2, ROWS), lambda i, j: te.narrow(p.outside(0)[i - 1, j]), "y")
        ),
        lambda x, w: np.pad(x @ w, ((1, 1), (0, 0))),
    ),
    "sums between other numbers": (
        lambda x, w: (
            (p := product(x, w))
            and te.compute((ROWS + 3, ROWS), lambda i, j: te.narrow(p.outside(-7)[i - 2, j]), "y")
        ),
        lambda x, w: np.pad(x @ w, ((2, 1), (0, 0)), constant_values=-7),
    ),
    "rows between zeros": (
        lambda x, w: te.compute(
            (ROWS + 2, INNER), lambda i, j: te.narrow(x.outside(0)[i - 1, j]), "y"
        ),
        lambda x, w: np.pad(x, ((1, 1), (0, 0))),
    ),
    "rows between other numbers": (
        lambda x, w: te.compute(
            (ROWS + 2, INNER), lambda i, j: te.narrow(x.outside(3)[i - 1, j]), "y"
        ),
        lambda x, w: np.pad(x, ((1, 1), (0, 0)), constant_values=3),
    ),
    "reversed rows": (
        lambda x, w: te.compute((ROWS, INNER), lambda i, j: te.narrow(x[ROWS - 1 - i, j]), "y"),
        lambda x, w: x[::-1],
    ),
    "some rows": (
        lambda x, w: te.compute((5, INNER), lambda i, j: te.narrow(x[3 * i + 1, j]), "y"),
        lambda x, w: x[1:16:3],
    ),
    "repeated rows": (
        lambda x, w: te.compute((4, ROWS, INNER), lambda h, i, j: te.narrow(x[i, j]), "y"),
        lambda x, w: np.broadcast_to(x, (4, ROWS, INNER)),
    ),
    "a diagonal": (
        lambda x, w: te.compute((ROWS,), lambda i: te.narrow(x[i, i]), "y"),
        lambda x, w: np.diagonal(x)[:ROWS],
    ),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MOVES)
def test_elements_that_move_before_they_are_stored(name: str, target: str) -> None:
    formula, meaning = MOVES[name]
    draw = Draw(1, 0)
    x, left = draw.tensor("x", (ROWS, INNER))
    w, right = draw.tensor("w", (INNER, ROWS))
    output = formula(x, w)
    if "sums" not in name:
        del draw.inputs[w]
    check(Case(output, draw.inputs, meaning(left, right).astype(np.int8)), TARGETS[target])


def test_a_parameter_of_accumulators_is_narrowed() -> None:
    draw = Draw(2, 0)
    v, array = draw.tensor("v", (7, 9), np.int32)
    output = te.compute((9, 7), lambda i, j: te.narrow(v[j, i]), "y")
    check(Case(output, draw.inputs, array.T.astype(np.int8)), TARGETS["1x16"])


def test_what_no_space_is_known_for_is_refused_with_a_reason() -> None:
    x = te.placeholder((20, 33), "x")
    m = te.compute((20, 33), lambda i, j: te.clip(x[i, j] + 5, -100, 100), "m")
    whole = te.compute((20, 33), lambda i, j: te.narrow(m[i, j]), "whole")
    half = te.compute((10, 33), lambda i, j: te.narrow(m[2 * i, j]), "half")
    with pytest.raises(CompileError, match="the results of one kernel must have one shape"):
        te.build([whole, half], "pynq")
