"""The elements that an index of an instruction reaches, against its loops run one by one."""

import numpy as np
import pytest

from vtac.dialects.vta import MicroOps
from vtac.passes.vta.accesses import indices
from vtac.passes.vta.precedence import _hull


def reached(rows: np.ndarray, column: int, loops: tuple[int, int], by: tuple[int, int]) -> set[int]:
    return {
        int(row[column]) + outer * by[0] + inner * by[1]
        for outer in range(loops[0])
        for inner in range(loops[1])
        for row in rows
    }


@pytest.mark.parametrize("seed", range(100))
def test_elements_and_hulls_of_indices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 12))
    if rng.integers(2):  # evenly, as most are, and perhaps each twice
        rows = rng.integers(0, 40, 3) + np.arange(count)[:, None] // rng.integers(1, 3)
    else:
        rows = rng.integers(0, 60, (count, 3))
    outer, inner, *by = rng.integers(1, 5, 2).tolist() + rng.integers(0, 9, 2).tolist()
    micro_ops, loops, factors = MicroOps.of(rows), (outer, inner), (by[0], by[1])
    for column in range(3):
        expected = reached(rows, column, loops, factors)
        found = indices(micro_ops, column, loops, factors)
        listed = range(found.start, found.stop) if isinstance(found, slice) else found.tolist()
        assert list(listed) == sorted(expected)
        assert isinstance(found, slice) == (len(expected) == max(expected) - min(expected) + 1)
        assert _hull(micro_ops, column, loops, factors) == (min(expected), max(expected) + 1)
