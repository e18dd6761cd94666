"""Networks of ops that move elements or work on each: exact against the reference, near floats.

As `test_random_networks`, whose comparison this uses: all of a network runs on the accelerator, its
integers are those of the NumPy reference, and floats lie within the quantiser's bound; networks
that only move and negate integers lose nothing.
"""

from element_networks import element_networks
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from network_comparison import TARGETS, assert_exact
from random_networks import Network

FEW = settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
ANY_TARGET = st.sampled_from(sorted(TARGETS))


@FEW
@given(network=element_networks(exact=True), target=ANY_TARGET)
def test_moved_integers_stay_the_same(network: Network, target: str) -> None:
    assert_exact(network, TARGETS[target], "channel")


@FEW
@given(network=element_networks(exact=False), target=ANY_TARGET)
def test_general_networks(network: Network, target: str) -> None:
    assert_exact(network, TARGETS[target], "auto")
