"""Weights rounded together: the power of the sums' errors never grows, and no limit is passed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtac.passes.approximation import rounding
from vtac.passes.approximation.planes import ONE_PLANE
from vtac.passes.approximation.rounding import (
    ENOUGH_BATCHES,
    ENOUGH_WINDOWS,
    Moments,
    alike,
    batches_apart,
    round_together,
)

POWER = "goi,gij,goj->go"
"""Of the errors of each output, [groups, outputs]."""


@given(
    seed=st.integers(0, 2**32 - 1),
    groups=st.integers(1, 3),
    outputs=st.integers(1, 4),
    products=st.integers(1, 9),
    seen=st.booleans(),
)
def test_the_power_of_errors_never_grows(
    seed: int, groups: int, outputs: int, products: int, seen: bool
) -> None:
    rng = np.random.default_rng(seed)
    real = rng.uniform(-130, 130, (groups * outputs, products))
    nearest = np.clip(np.rint(real), *ONE_PLANE)
    covariance = alike(groups, products)
    if seen:
        mixing = rng.normal(size=(groups * products, groups * products))
        inputs = rng.normal(size=(2, groups * products, 40)) + 3
        moments = Moments(groups, products)
        for batch in inputs:
            moments.add(np.einsum("ij,js->is", mixing, batch)[None])
        covariance = moments.covariance()
    together = round_together(real, nearest, covariance, ONE_PLANE)
    np.testing.assert_array_equal(together, np.clip(np.rint(together), *ONE_PLANE))
    powers = []
    for whole in (nearest, together):
        errors = (whole - real).reshape(groups, outputs, products)
        powers.append(np.einsum(POWER, errors, covariance, errors))
    assert (powers[1] <= powers[0] * (1 + 1e-9) + 1e-9).all()


def test_moments_are_those_of_the_windows() -> None:
    windows = np.random.default_rng(0).normal(size=(3, 6, 4, 5))
    moments = Moments(2, 3)
    moments.add(windows[:2])
    moments.add(windows[2:])
    rows = np.moveaxis(windows, 1, 0).reshape(2, 3, -1)
    for found, each in zip(moments.covariance(), rows, strict=True):
        seen = np.cov(each, bias=True)
        known = rows.shape[2] / (rows.shape[2] + 3)
        np.testing.assert_allclose(found, known * seen + (1 - known) * np.diag(np.diag(seen)))


def test_inputs_that_do_not_go_together_leave_weights_at_the_nearest() -> None:
    rng = np.random.default_rng(2)
    real = rng.uniform(-100, 100, (8, 20))
    alone = rng.uniform(0.1, 3, (1, 20, 1)) * np.eye(20)
    whole = round_together(real, np.rint(real), alone, ONE_PLANE)
    np.testing.assert_array_equal(whole, np.rint(real))


def test_errors_of_alike_inputs_sum_to_nothing() -> None:
    """Each weight alone is nearest to 1, off by 0.4; together some are 2."""
    real = np.full((1, 10), 1.4)
    whole = round_together(real, np.ones((1, 10)), alike(1, 10), ONE_PLANE)
    assert abs((whole - real).sum()) < 1


@given(batches=st.integers(1, 300), windows=st.integers(1, 5000), products=st.integers(1, 1024))
def test_batches_left_out_are_not_needed(batches: int, windows: int, products: int) -> None:
    kept = len(range(0, batches, batches_apart(batches, windows, products)))
    assert kept >= min(batches, ENOUGH_BATCHES)
    assert kept == batches or kept * windows >= ENOUGH_WINDOWS * products


def test_late_updates_of_slopes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slopes are brought up to date after some weights; the integers are those of any number."""
    rng = np.random.default_rng(5)
    real = rng.uniform(-100, 100, (4, 150))
    moments = Moments(1, 150)
    moments.add(rng.normal(size=(1, 150, 900)) + rng.normal(size=(1, 1, 900)))
    covariance = moments.covariance()
    found = []
    for count in (1, 7, 150):
        monkeypatch.setattr(rounding, "_AT_ONCE", count)
        found.append(round_together(real, np.rint(real), covariance, ONE_PLANE))
        np.testing.assert_array_equal(found[0], found[-1])
    before, after = (
        np.einsum("oi,ij,oj->o", whole - real, covariance[0], whole - real)
        for whole in (np.rint(real), found[0])
    )
    assert (after < before).all()
