"""The clock of a cluster: the machines of `sim.timing` on shared memories.

Each core is a `Machine` of the single clock. Here are the memories between them: DDR in one or two
channels (`ddr`), the global buffer (`gb`), semaphores (`semaphores`), and the DMA as a machine of
its own (`dma`). `report` puts them together.
"""

from .occupancy import gb_occupancy
from .report import ClusterRegion, ClusterReport, estimate_cluster
from .roofline import MemoryRoofline, cluster_rooflines

__all__ = [
    "ClusterRegion",
    "ClusterReport",
    "MemoryRoofline",
    "cluster_rooflines",
    "estimate_cluster",
    "gb_occupancy",
]
