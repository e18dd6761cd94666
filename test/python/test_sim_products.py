"""Products of a chunk: exact, and from operands that BLAS reads along their rows."""

import numpy as np
import pytest

from vtac.dialects.target import Target
from vtac.sim.buffers import Buffers
from vtac.sim.gemm_plan import Chunk
from vtac.sim.steps import Multiply, sums_of

TARGET = Target.named("sim")
BLOCK = TARGET.block


@pytest.mark.parametrize("seed", range(40))
def test_products_are_exact_with_either_operand_on_the_left(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups, blocks, n, depth = (int(rng.integers(1, most)) for most in (3, 4, 4, 5))
    calls = int(rng.choice([1, 1, 3]))
    rows = int(rng.choice([1, 5, 40, 64, 65, 150]))
    src = rng.integers(0, 20, (groups, 1, calls, rows, depth))
    wgt = rng.integers(0, 20 * BLOCK, (groups, blocks, 1, n * BLOCK, depth))
    buffers = Buffers(TARGET)
    buffers.inp[:-1] = rng.integers(-128, 128, buffers.inp[:-1].shape)
    buffers.wgt[:-1] = rng.integers(-128, 128, buffers.wgt[:-1].shape)
    multiply = Multiply(buffers, Chunk(src, wgt))
    first, more = int(rng.integers(0, 50)), int(rng.integers(0, 50))
    memory = np.full(2 * int(np.prod(multiply.shape)), np.nan, np.float32)
    sums = sums_of(memory, multiply.shape, multiply.flipped)
    multiply.into(sums, first, more)()
    inputs = buffers.inp.reshape(-1, BLOCK)[src + first].astype(np.int64)
    weights = buffers.wgt.reshape(-1, BLOCK)[wgt + more * BLOCK].astype(np.int64)
    expected = np.einsum("gzcmkx,gbynkx->gbcmn", inputs, weights)
    np.testing.assert_array_equal(sums, expected)
    multiply.onto(sums, first, more)()
    np.testing.assert_array_equal(sums, 2 * expected)


@pytest.mark.parametrize("rows", [1, 40, 64, 65, 150])
@pytest.mark.parametrize("columns", [1, 3, 8])
def test_no_operand_is_read_across(rows: int, columns: int) -> None:
    """Both operands and the result have consecutive values along their last axis."""
    src = np.zeros((1, 1, 1, rows, 3), np.intp)
    wgt = np.zeros((1, 2, 1, columns * BLOCK, 3), np.intp)
    multiply = Multiply(Buffers(TARGET), Chunk(src, wgt))
    for operand in multiply.operands:
        assert operand.strides[-1] == operand.itemsize
    right = multiply.operands[1]
    assert right.shape[-2] == 3 * BLOCK
    assert right.shape[-1] == (rows if multiply.flipped else columns * BLOCK)
