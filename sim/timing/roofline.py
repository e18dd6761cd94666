"""The roofs of a machine, and where a layer lies below them.

Williams, Waterman and Patterson, "Roofline: An Insightful Visual Performance Model" (2009):
multiply-accumulates per cycle over multiply-accumulates per byte read from DRAM (writes have a
channel of their own), under the peak of the GEMM core and the bandwidth of the read channels.
"""

from dataclasses import dataclass

from ...dialects.target import Target, TimingPreset
from .accounts import Account


@dataclass(frozen=True)
class Roofs:
    """peak: multiply-accumulates per cycle. bandwidth: bytes read per cycle; None is unlimited."""

    peak: float
    bandwidth: float | None

    @classmethod
    def of(cls, target: Target, preset: TimingPreset) -> "Roofs":
        """The roofs of a machine with these rates."""
        bandwidth = preset.port_bytes * preset.read_channels
        peak = target.batch * target.block**2 / preset.gemm_cycles
        return cls(peak, None if preset.ideal_memory else bandwidth)

    def limit(self, intensity: float) -> float:
        """The most multiply-accumulates per cycle at an intensity."""
        return self.peak if self.bandwidth is None else min(self.peak, intensity * self.bandwidth)


def intensity(account: Account) -> float:
    """Multiply-accumulates per byte read from DRAM."""
    return account.macs / max(1, sum(account.nbytes.values()) - account.nbytes["out"])
