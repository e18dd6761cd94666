"""The report of the clock about one launch of a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ....dialects.target import INSTRUCTION_BYTES, ClusterTarget, MemoryScope, Module
from ....dialects.vta.dma import Copy
from ...timing.accounts import Account, Cause
from ...timing.machine import Timeline
from ...timing.report import TimingReport
from ...timing.work import InstructionKind, WorkColumns
from ..program import ClusterProgram, copy_scopes, decode_cluster
from .clock import ClusterRun, cluster_preset, run_clock, semaphore_edges


@dataclass(frozen=True)
class ClusterRegion:
    """The instructions of one label (a layer) on all cores.

    start, end: when the first of them started and the last one ended; layers overlap. waited:
    cycles that its waits took, on all cores. utilisation: the share of the cores' cycles between
    start and end in which a GEMM works on its micro-ops.
    """

    label: str
    start: int
    end: int
    macs: int
    ddr_bytes: int
    gb_bytes: int
    waited: int
    utilisation: float


class ClusterReport:
    """The run of one program on a cluster.

    cores: the report of each core, whose cycles end with its own FINISH. dma: the timeline of the
    DMA, None without one. program: the decoded streams.
    """

    def __init__(
        self,
        program: ClusterProgram,
        run: ClusterRun,
        labels: Sequence[Sequence[str] | None] | None,
    ) -> None:
        self.program, self.cluster, self._run = program, program.cluster, run
        preset = cluster_preset(self.cluster)
        self.cores = tuple(
            TimingReport(
                self.cluster.core,
                preset,
                run.works[unit],
                run.timelines[unit],
                None if labels is None else labels[unit],
            )
            for unit in range(self.cluster.cores)
        )
        self.dma: Timeline | None = run.timelines[-1] if self.cluster.dma else None

    @property
    def cycles(self) -> int:
        """From launch to the start of the last FINISH of any unit."""
        return max(timeline.cycles for timeline in self._run.timelines)

    @property
    def seconds(self) -> float:
        """The same at the clock of the cores."""
        return self.cycles / (self.cluster.timing.core.clock_mhz * 1e6)

    def work(self, unit: int) -> WorkColumns:
        """The columns of a unit's stream."""
        return self._run.works[unit]

    def timeline(self, unit: int) -> Timeline:
        """The events of a unit."""
        return self._run.timelines[unit]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Losses of data, tokens or signals, which are most likely mistakes of the program."""
        found = [
            str(self.program.error(unit, index, reason))
            for unit, timeline in enumerate(self._run.timelines)
            for index, reason in timeline.warnings
        ]
        found += [
            str(self.program.error(event.unit, event.step, "its signal is lost: 255 are counted"))
            for _, event in self._run.semaphores.lost
        ]
        return tuple(found)

    @cached_property
    def semaphore_edges(self) -> NDArray[np.int64]:
        """Each signal that was taken, int64 [n, 6]: source unit and step, destination unit and
        step, the cycle from which it counts, the cycle that takes it up."""
        return semaphore_edges(self._run, self.cluster.cores)

    @cached_property
    def waited(self) -> tuple[int, ...]:
        """For each unit the cycles that its waits took."""
        found = []
        for work, timeline in zip(self._run.works, self._run.timelines, strict=True):
            waits = (work.kind == InstructionKind.WAIT) & (timeline.start <= timeline.cycles)
            ends = np.minimum(timeline.end[waits], timeline.cycles)
            found.append(int((ends - timeline.start[waits]).sum()))
        return tuple(found)

    @cached_property
    def ddr_bytes(self) -> tuple[dict[str, int], ...]:
        """For each unit the bytes that it moves to or from DDR, by class.

        The classes of a core are those of `Account.nbytes`; the DMA has ``instruction``, ``read``
        and ``written``.
        """
        found = [dict(core.total.nbytes) for core in self.cores]
        return (*found, *([self._dma_bytes(MemoryScope.DDR)] if self.cluster.dma else []))

    @cached_property
    def gb_bytes(self) -> tuple[dict[str, int], ...]:
        """The same of GB."""
        found = [dict(core.total.gb_nbytes) for core in self.cores]
        return (*found, *([self._dma_bytes(MemoryScope.GB)] if self.cluster.dma else []))

    def _dma_bytes(self, scope: MemoryScope) -> dict[str, int]:
        found = {"read": 0, "written": 0}
        if scope is MemoryScope.DDR:
            found = {"instruction": INSTRUCTION_BYTES * len(self.program.commands), **found}
        for command in self.program.commands:
            if isinstance(command, Copy):
                source = copy_scopes(self.cluster, command)[0]
                found["read" if source is scope else "written"] += command.nbytes
        return found

    @property
    def total_ddr_bytes(self) -> int:
        """Bytes to and from DDR of all units together."""
        return sum(sum(classes.values()) for classes in self.ddr_bytes)

    @cached_property
    def bounds(self) -> dict[str, int]:
        """Lower bounds of the cycles by resource; no cluster of these rates is faster.

        compute: the busiest core's micro-ops, as the program spreads them. even compute: the same
        if all cores had as many. ddr reads, ddr writes: bytes over the bandwidth of DDR. gb reads,
        gb writes: the largest amount of one unit over the bandwidth of its channel.
        """
        timing, port = self.cluster.timing, self.cluster.timing.core.port_bytes
        computes = [core.total.bounds["compute"] for core in self.cores]
        reads = writes = 0
        for classes in self.ddr_bytes:
            written = classes.get("out", 0) + classes.get("written", 0)
            writes += written
            reads += sum(classes.values()) - written
        gb = {"gb reads": 0, "gb writes": 0}
        for classes in self.gb_bytes:
            written = classes.get("out", 0) + classes.get("written", 0)
            gb["gb writes"] = max(gb["gb writes"], -(-written // port))
            gb["gb reads"] = max(gb["gb reads"], -(-(sum(classes.values()) - written) // port))
        rate = port * timing.ddr_channels
        return {
            "compute": max(computes),
            "even compute": -(-sum(computes) // self.cluster.cores),
            "ddr reads": -(-reads * timing.ddr_beat_cycles // rate),
            "ddr writes": -(-writes // rate),
            **gb,
        }

    @cached_property
    def regions(self) -> tuple[ClusterRegion, ...]:
        """One region per label, in order of their start; empty without labels.

        Bytes are those of LOADs and STOREs, not those of instructions.
        """
        accounts: dict[str, list[Account]] = {}
        for core in self.cores:
            for account in core.regions:
                accounts.setdefault(account.label, []).append(account)
        found = [self._region(label, parts) for label, parts in accounts.items()]
        return tuple(sorted(found, key=lambda region: (region.start, region.end)))

    def _region(self, label: str, parts: Sequence[Account]) -> ClusterRegion:
        begun = [part for part in parts if part.instructions]
        start = min((part.start for part in begun), default=self.cycles)
        end = max((part.end for part in begun), default=start)
        span = max(end - start, 1) * self.cluster.cores
        gemms = sum(part.gemm_micro_ops for part in parts) * self.cluster.timing.core.gemm_cycles
        system = self.cluster.core.system
        waiting = system.moves[system.activations]
        waits = [part.modules[waiting].get(Cause.SEMAPHORE, 0) for part in parts]
        return ClusterRegion(
            label=label,
            start=start,
            end=end,
            macs=sum(part.macs for part in parts),
            ddr_bytes=sum(sum(part.nbytes.values()) - part.nbytes["instruction"] for part in parts),
            gb_bytes=sum(sum(part.gb_nbytes.values()) for part in parts),
            waited=sum(waits),
            utilisation=gemms / span,
        )

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all cores."""
        return sum(core.total.macs for core in self.cores)

    def utilisation(self, unit: int) -> float:
        """The share of the launch in which a core's GEMM works on micro-ops that accumulate."""
        account = self.cores[unit].total
        return account.gemm_micro_ops * self.cluster.timing.core.gemm_cycles / self.cycles

    def busy(self, unit: int, module: Module | None = None) -> float:
        """The share of the launch in which a module of a core works; None: that of products."""
        account = self.cores[unit].total
        return account.busy(account.computes if module is None else module) / self.cycles


def estimate_cluster(
    cluster: ClusterTarget,
    streams: Sequence[NDArray[np.uint64]],
    labels: Sequence[Sequence[str] | None] | None = None,
) -> ClusterReport:
    """Time a program: one stream per unit, uint64 [n, 2] with absolute addresses.

    Data play no part. labels: for each core one label per instruction, or None. Raises
    `ClusterError` on a program that the cluster cannot run (a deadlock, a transfer that leaves its
    memory, a wait of the wrong unit).
    """
    program = decode_cluster(cluster, streams, None, strict=False)
    for unit, names in enumerate(labels or ()):
        if names is not None and len(names) != len(program.streams[unit]):
            count = len(program.streams[unit])
            raise ValueError(f"{len(names)} labels for {count} steps of unit {unit}")
    return ClusterReport(program, run_clock(program, streams), labels)
