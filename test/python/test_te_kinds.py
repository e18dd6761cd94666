"""The dense kinds, random and exact: what ``vtac.te`` compiles equals what NumPy computes.

All cases of a kind share one program, which passes the hazard checker and runs in strict mode.
"""

from itertools import product
from math import ceil

import numpy as np
import pytest
from dense_cases import KINDS, Draw, bilinear

from vtac import CompileError, te
from vtac.dialects.target import Target

TARGETS = {
    "1x16": Target.named("pynq"),
    "4x8": Target.named("chisel-pynq").replace(log_batch=2, log_block=3),
}

TWELVE = list(KINDS)[:12]
CASES = {kind: 20 if kind in TWELVE else 4 for kind in KINDS}
"""Cases per kind and target."""


def check(cases: list, target: Target) -> None:
    """Run cases as one program."""
    run = te.build([case.output for case in cases], target)
    inputs = {tensor.name: array for case in cases for tensor, array in case.inputs.items()}
    for number, (got, case) in enumerate(zip(run(**inputs), cases, strict=True)):
        shapes = [(tensor.name, tensor.shape) for tensor in case.inputs]
        np.testing.assert_array_equal(got, case.expected, err_msg=f"case {number}: {shapes}")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_random_cases(kind: str, target: str) -> None:
    seed = list(TARGETS).index(target)
    check([KINDS[kind](Draw(seed, n)) for n in range(CASES[kind])], TARGETS[target])


def test_bilinear_is_exact_where_the_alu_multiplies() -> None:
    check([bilinear(Draw(5, n), exact=True) for n in range(4)], Target.named("sim"))


def micro_ops(output: te.Computed, target: str = "pynq") -> int:
    """GEMM micro-ops of one run."""
    run = te.build(output, target)
    given = run.signature.inputs.items()
    run(**{name: np.ones(shape, dtype) for name, (shape, dtype) in given})
    assert run.counters is not None
    return run.counters.gemm_micro_ops


def test_a_matrix_vector_product_fills_the_blocks() -> None:
    a, x = te.placeholder((70, 100), "a"), te.placeholder((100,), "x")
    assert micro_ops(te.matrix_vector(a, x)) == ceil(70 / 16) * ceil(100 / 16)


def test_depthwise_convolution_is_one_micro_op_a_tap_of_sixteen_channels() -> None:
    x, w = te.placeholder((1, 20, 6, 6), "x"), te.placeholder((20, 3, 3), "w")
    assert micro_ops(te.depthwise_convolution(x, w)) == ceil(20 / 16) * 4 * 4 * 9


def test_small_groups_share_a_block() -> None:
    x, w = te.placeholder((1, 8, 4, 5), "x"), te.placeholder((8, 3, 4, 1), "w")
    assert micro_ops(te.grouped_convolution(x, w)) == ceil(8 / 4) * 5


def test_a_transposed_convolution_multiplies_no_inserted_zeros() -> None:
    """An input element meets a tap once, as in the convolution that it transposes."""
    x, w = te.placeholder((1, 16, 5, 5), "x"), te.placeholder((16, 16, 4, 4), "w")
    meetings = sum(0 <= 2 * i + k - 1 < 10 for i, k in product(range(5), range(4)))
    assert micro_ops(te.transposed_convolution(x, w, strides=2, pads=1)) == meetings**2
    with pytest.raises(CompileError, match="do not divide"):
        te.build(te.transposed_convolution(x, w, strides=2, dilations=2))
