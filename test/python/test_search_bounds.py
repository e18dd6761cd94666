"""The search over tilings of kernels with many products and reduction axes stays bounded."""

from math import prod
from typing import Any

import numpy as np
import pytest

from vtac import te
from vtac.passes.te.schedule import search
from vtac.passes.te.schedule.evaluate import FormulaCosts
from vtac.passes.te.schedule.search import MOST_POINTS


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of points that the formula is asked for, as they come."""
    found = list[int]()

    class Counted(FormulaCosts):
        def __init__(self, space: Any, columns: Any, *rest: Any):
            super().__init__(space, columns, *rest)
            found.append(prod(columns.shape))

    monkeypatch.setattr(search, "FormulaCosts", Counted)
    return found


def check_sum_of_products(count: int, axes: int, seed: int) -> None:
    """A sum of products, each with as many reduction axes, is exact."""
    extents = [3, 2, 4, 2, 3][:axes]
    names = [f"k{axis}" for axis in range(axes)]
    rng = np.random.default_rng(seed)
    arrays, terms = list[Any](), list[Any]()
    for number in range(count):
        a = te.placeholder((40, *extents), f"a{number}")
        b = te.placeholder((*extents, 20), f"b{number}")
        arrays += [rng.integers(-3, 4, each.shape).astype(np.int8) for each in (a, b)]
        terms.append((a, b, te.reduce_axes(**dict(zip(names, extents, strict=True)))))

    def formula(i: Any, j: Any) -> Any:
        sums = [te.total(a[(i, *k)] * b[(*k, j)], *k) for a, b, k in terms]
        whole = sums[0]
        for each in sums[1:]:
            whole = whole + each
        return te.saturate(whole >> 4)

    run = te.build(te.compute((40, 20), formula, "y"), target="chisel-pynq")
    pairs = zip(arrays[::2], arrays[1::2], strict=True)
    want = sum(
        a.reshape(40, -1).astype(np.int64) @ b.reshape(-1, 20).astype(np.int64) for a, b in pairs
    )
    np.testing.assert_array_equal(run(*arrays), (want >> 4).clip(-128, 127))


@pytest.mark.parametrize(("count", "axes"), [(1, 5), (6, 3), (12, 2)])
def test_many_products_and_axes_stay_bounded(points: list[int], count: int, axes: int) -> None:
    check_sum_of_products(count, axes, seed=count)
    assert 0 < max(points) <= MOST_POINTS


@pytest.mark.parametrize(("count", "axes"), [(1, 5), (3, 3)])
def test_fewer_points_are_exact_too(
    points: list[int], monkeypatch: pytest.MonkeyPatch, count: int, axes: int
) -> None:
    monkeypatch.setattr(search, "MOST_POINTS", 3_000)
    check_sum_of_products(count, axes, seed=0)
    assert 0 < max(points) <= 3_000
