"""Networks of ops that move elements or work on each: exact against the reference, near floats.

As `test_random_networks`, whose comparison this uses: all of a network runs on the accelerator, its
integers are those of the NumPy reference, and floats lie within the quantiser's bound; networks
that only move and negate integers lose nothing.
"""

import numpy as np
from element_networks import ElementBuilder, element_networks
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from network_comparison import TARGETS, assert_exact
from random_networks import Network, Value, finish

FEW = settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
ANY_TARGET = st.sampled_from(sorted(TARGETS))
MULTIPLYING_TARGET = st.sampled_from(sorted(n for n, target in TARGETS.items() if target.alu_mul))


@FEW
@given(network=element_networks(exact=True), target=ANY_TARGET)
def test_moved_integers_stay_the_same(network: Network, target: str) -> None:
    assert_exact(network, TARGETS[target], "channel")


@FEW
@given(network=element_networks(exact=False), target=ANY_TARGET)
def test_general_networks(network: Network, target: str) -> None:
    assert_exact(network, TARGETS[target], "auto")


@FEW
@given(network=element_networks(exact=False, multiplies=True), target=MULTIPLYING_TARGET)
def test_networks_with_products(network: Network, target: str) -> None:
    assert_exact(network, TARGETS[target], "channel")


def test_rows_of_more_dimensions_are_those_of_a_matrix() -> None:
    build = ElementBuilder(None, False, np.random.default_rng(3))  # type: ignore[arg-type]
    weights = [build.constant(build.rng.normal(0, 0.4, shape)) for shape in ((8, 20), (20, 8))]
    bias = build.constant(build.rng.normal(0, 1, 20))
    name = build.node("Add", [build.node("MatMul", ["x", weights[0]]), bias])
    name = build.node("MatMul", [build.node("Relu", [name]), weights[1]])
    shape = (2, 5, 8)
    network = finish(build, Value(build.node("Add", [name, "x"]), shape, 0), shape, 3)
    assert_exact(network, TARGETS["1x16"], "auto")
