"""The machine of several cores: what a cluster computes, how long it takes, whether it is safe.

A cluster is some VTA cores behind one DDR, with a global buffer, semaphores and a copy engine
(docs/cluster.md). Every core is the machine of `sim` itself; this package has what lies between
them.
"""

from .errors import ClusterError
from .functional import ClusterCounters, ClusterSimulator, run_cluster
from .hazards import ClusterHazard, check_cluster
from .program import ClusterProgram, decode_cluster
from .timing import ClusterReport, estimate_cluster

__all__ = [
    "ClusterCounters",
    "ClusterError",
    "ClusterHazard",
    "ClusterProgram",
    "ClusterReport",
    "ClusterSimulator",
    "check_cluster",
    "decode_cluster",
    "estimate_cluster",
    "run_cluster",
]
