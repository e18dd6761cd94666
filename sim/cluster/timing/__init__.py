"""The clock of a cluster: the machines of `sim.timing` on shared memories.

Each core is a `Machine` of the single clock. Here are the memories between them: DDR in one or two
channels (`ddr`), the global buffer (`gb`), semaphores (`semaphores`), and the DMA as a machine of
its own (`dma`). `report` puts them together.
"""

from .report import ClusterReport, estimate_cluster
from .roofline import MemoryRoofline, cluster_rooflines

__all__ = ["ClusterReport", "MemoryRoofline", "cluster_rooflines", "estimate_cluster"]
