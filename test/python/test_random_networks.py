"""Whole networks, random: the accelerator's integers against the reference, and against floats.

The reference is the quantised graph evaluated in NumPy (`graph_reference`), which shares no
code with what lies below. It starts from the imported IR, so it cannot see a wrong import: half of
the networks lose nothing in quantisation, and must reproduce onnxruntime's floats exactly.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from network_comparison import TARGETS, assert_exact
from random_networks import Network, networks

MANY = settings(max_examples=38, suppress_health_check=[HealthCheck.too_slow])
"""More than three hundred networks in all."""


@pytest.mark.parametrize("target", TARGETS)
@MANY
@given(network=networks(exact=True), shift=st.sampled_from(["channel", "block", "auto"]))
def test_exact_networks(target: str, network: Network, shift: str) -> None:
    assert_exact(network, TARGETS[target], shift)


@pytest.mark.parametrize("target", TARGETS)
@MANY
@given(network=networks(exact=False), shift=st.sampled_from(["channel", "block", "auto"]))
def test_general_networks(target: str, network: Network, shift: str) -> None:
    assert_exact(network, TARGETS[target], shift)
