"""Random networks on clusters: the integers of one core, whatever the plan and the order.

``test/benchmarks/bench_cluster_networks.py`` does the same for hundreds of networks and all numbers
of cores.
"""

import pytest
from cluster_cases import CORES, check_mutants, check_network

QUICK = {1: (2,), 2: (1, 3), 3: (4,), 5: (8,)}
"""Some networks, and for how many cores each."""


@pytest.mark.parametrize("seed", QUICK)
def test_clusters_compute_what_one_core_computes(seed: int) -> None:
    assert set(QUICK[seed]) <= set(CORES)
    check_network(seed, QUICK[seed])


@pytest.mark.parametrize(("seed", "cores"), [(2, 3), (3, 4)])
def test_every_order_is_needed(seed: int, cores: int) -> None:
    """Whatever token, wait or signal is taken away, the checker finds it."""
    assert check_mutants(seed, cores, most=200) > 50
