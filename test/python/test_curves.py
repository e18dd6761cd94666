"""Functions of one variable as clamped lines: the fit, its stated error, and whole networks."""

from itertools import pairwise

import numpy as np
import pytest
from element_networks import ElementBuilder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from network_comparison import TARGETS, assert_exact
from random_networks import Value, finish

import vtac
from vtac.passes.graph.quantize.curves import STEEPEST, STORED, fitted
from vtac.passes.graph.quantize.rules.activations import hard_swish

SHIFTING = sorted(name for name, target in TARGETS.items() if not target.alu_mul)
FUNCTIONS = {
    "hard swish": hard_swish,
    "tanh": np.tanh,
    "parabola": lambda x: x * x / 6,
    "falling": lambda x: -3 * x,
    "constant": lambda x: 0 * x + 2,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@given(reach=st.floats(0.1, 40), shift=st.integers(0, 12), tolerance=st.sampled_from([0.3, 0.5, 1]))
def test_lines_stay_within_the_tolerance(
    name: str, reach: float, shift: int, tolerance: float
) -> None:
    real = FUNCTIONS[name](STORED / 128 * reach)
    wanted = np.ldexp((real - real[0]) / max(np.abs(real).max() / 127, 1e-9), shift)
    if np.abs(np.diff(wanted)).max() > STEEPEST:
        return
    pieces = fitted(wanted, tolerance * 2**shift)
    if pieces is None:
        assert shift == 0, "only coarse slopes can miss the tolerance"
        return
    found = sum(piece.at(STORED) for piece in pieces)
    assert np.abs(found - wanted).max() <= tolerance * 2**shift + 1e-6
    assert all(abs(piece.slope) <= STEEPEST and piece.first < piece.last for piece in pieces)
    ends = [(piece.first, piece.last) for piece in pieces]
    assert all(last <= first for (_, last), (first, _) in pairwise(ends))


def test_a_straight_line_is_one_line() -> None:
    (piece,) = fitted(3.0 * np.arange(256), 0.5) or []
    assert (piece.first, piece.last, piece.slope) == (-128, 127, 3)


@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 1000),
    size=st.floats(0.05, 1.5),
    channels=st.sampled_from([3, 8, 20]),
    target=st.sampled_from(SHIFTING),
)
def test_hard_swish_without_products(seed: int, size: float, channels: int, target: str) -> None:
    build = ElementBuilder(None, False, np.random.default_rng(seed))  # type: ignore[arg-type]
    name, before = "x", channels
    for after in (8, channels):
        weights = build.constant(build.rng.normal(0, size, (after, before, 3, 3)))
        name = build.node("Conv", [name, weights], pads=[1] * 4)
        name, before = build.node("HardSwish", [name]), after
    shape = (1, channels, 5, 6)
    network = finish(build, Value(name, shape, 0), shape, seed)
    module = vtac.compile(
        network.model, TARGETS[target], network.samples, criteria=vtac.Criteria(compare=False)
    )
    functions = [p for p in module.explain if p.op == "graph.hard_swish"]
    assert len(functions) == 2
    hosted = [placement for placement in functions if placement.where == "host"]
    assert all("do not come within a step" in placement.reason for placement in hosted)
    if not hosted:
        assert_exact(network, TARGETS[target], "auto")
