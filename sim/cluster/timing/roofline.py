"""The roofs of a cluster, one roofline per memory (see `sim.timing.roofline`).

The peak is that of all cores together. DDR feeds all units through its channels; GB feeds each
core through a channel of its own.
"""

from dataclasses import dataclass

from ...timing.roofline import Roofs
from .report import ClusterReport


@dataclass(frozen=True)
class MemoryRoofline:
    """One memory: its roofs, and where a launch lies below them.

    intensity: multiply-accumulates per byte that cores and the DMA read from it, infinite where
    they read nothing. reached: multiply-accumulates per cycle of the launch.
    """

    name: str
    roofs: Roofs
    intensity: float
    reached: float

    @property
    def limit(self) -> float:
        """The most multiply-accumulates per cycle at this intensity."""
        return self.roofs.limit(self.intensity)


def cluster_rooflines(report: ClusterReport) -> tuple[MemoryRoofline, ...]:
    """The rooflines of DDR and, where there is one, of GB."""
    cluster, timing = report.cluster, report.cluster.timing
    peak = cluster.cores * Roofs.of(cluster.core, timing.core).peak
    port = timing.core.port_bytes
    found = []
    memories = [("DDR", report.ddr_bytes, port * timing.ddr_channels / timing.ddr_beat_cycles)]
    if cluster.gb_bytes:
        memories.append(("GB", report.gb_bytes, port * cluster.cores))
    for name, units, bandwidth in memories:
        read = sum(
            amount
            for classes in units
            for kind, amount in classes.items()
            if kind not in ("out", "written")
        )
        intensity = report.macs / read if read else float("inf")
        roofs = Roofs(peak, bandwidth)
        found.append(MemoryRoofline(name, roofs, intensity, report.macs / report.cycles))
    return tuple(found)
