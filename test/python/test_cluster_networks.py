"""Random networks on clusters: the integers of one core, whatever the plan and the order.

``test/benchmarks/bench_cluster_networks.py`` does the same for hundreds of networks and all numbers
of cores.
"""

import encoder
import numpy as np
import pytest
from cluster_cases import CORES, check_mutants, check_network

from vtac.dialects.target import ClusterTarget
from vtac.tools.driver.prepared_model import PreparedModel

QUICK = {2: (1, 2, 3), 3: (4, 8)}
"""Some networks, and for how many cores each."""


@pytest.mark.parametrize("seed", QUICK)
def test_clusters_compute_what_one_core_computes(seed: int) -> None:
    assert set(QUICK[seed]) <= set(CORES)
    check_network(seed, QUICK[seed])


@pytest.mark.parametrize(("seed", "cores"), [(2, 3), (3, 4)])
def test_every_order_is_needed(seed: int, cores: int) -> None:
    """Whatever token, wait or signal is taken away, the checker finds it."""
    assert check_mutants(seed, cores, most=200) > 50


def test_transformers_between_host_parts() -> None:
    """A decoder in several launches, whose host parts lie between: the same on three cores."""
    form = encoder.Form(
        layers=1, length=8, width=16, heads=2, mask="causal", source=12, pre_norm=True
    )
    samples = encoder.feeds(form, 2)
    machine = ClusterTarget.named("cluster-8").replace(cores=3, gb_bytes=65536)
    prepared = PreparedModel(encoder.build(form), machine, samples)
    single, cluster = prepared.compile(machine.core), prepared.compile(machine)
    assert len(cluster.package.functions) == len(single.package.functions) > 1
    found, expected = cluster.run(samples), single.run(samples)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
