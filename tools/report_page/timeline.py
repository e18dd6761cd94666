"""The run over time: what each module does, and what the memories hold.

Of a cluster each core has modules of its own, and its copy engine is one more. The launches of a
run follow one another on one axis of cycles. The host's time between them is not known and takes no
place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vtac.dialects.target import CORE
from vtac.runtime.memory_use import MemoryUse
from vtac.runtime.profile import LaunchProfile, Profile
from vtac.sim.cluster import ClusterReport
from vtac.sim.cluster.timing import gb_occupancy
from vtac.sim.timing.machine import Timeline
from vtac.sim.timing.work import WorkColumns

Column = NDArray[np.int64]

SPANS = 40_000
"""The most spans of a page. Where there are more, neighbours are merged and short ones left out."""

SAMPLES = 600
"""The number of parts of a run for which the largest amount in a memory is kept."""

NO_NODE = -1


@dataclass(frozen=True)
class Spans:
    """What the modules did: columns int64 [n], by module and start.

    start, length: in cycles of the run. module: the number of its track, see `tracks_of`. kind: the
    number of the clock's kind.
    node: the number of the node, `NO_NODE` for none. least: what is shorter than that is left out,
    and what lies no further apart is merged.
    """

    start: Column
    length: Column
    module: Column
    kind: Column
    node: Column
    least: int = 0

    def as_lists(self) -> dict[str, list[int] | int]:
        """Plain lists for JSON; starts as differences, which are shorter."""
        starts = np.diff(self.start, prepend=0)
        return {
            "start": starts.tolist(),
            "length": self.length.tolist(),
            "module": self.module.tolist(),
            "kind": self.kind.tolist(),
            "node": self.node.tolist(),
            "least": self.least,
        }


def launch_starts(profile: Profile) -> list[int]:
    """The cycle of the run at which each launch starts."""
    lengths = [launch.timing.cycles for launch in profile.launches]
    return [sum(lengths[:number]) for number in range(len(lengths))]


def spans_of(profile: Profile, numbers: Mapping[str, int], limit: int = SPANS) -> Spans:
    """The spans of all launches. numbers: of the nodes, by name."""
    pieces = [
        _launch_spans(launch, start, numbers)
        for launch, start in zip(profile.launches, launch_starts(profile), strict=True)
    ]
    table = np.concatenate(pieces) if pieces else np.zeros((0, 5), np.int64)
    table = table[np.lexsort((table[:, 0], table[:, 2]))]
    least, merged = 0, table
    while len(merged) > limit:
        least = max(1, 2 * least)
        merged = _merged(table, least)
        merged = merged[merged[:, 1] >= least]
    start, length, module, kind, node = merged.T
    return Spans(start, length, module, kind, node, least)


def _launch_spans(launch: LaunchProfile, first: int, numbers: Mapping[str, int]) -> Column:
    """Rows of start, length, track, kind and node, of all units of a launch."""
    pieces = [
        _unit_spans(core.work, core.timeline, core.labels, numbers, len(CORE.modules) * unit)
        for unit, core in enumerate(launch.cores)
    ]
    report = launch.timing
    if isinstance(report, ClusterReport) and report.dma is not None:
        unit = report.cluster.cores
        engine = _unit_spans(report.work(unit), report.dma, None, numbers, 0)
        engine[:, 2] = len(CORE.modules) * unit
        pieces.append(engine)
    found = np.concatenate(pieces)
    found[:, 0] += first
    return found


def _unit_spans(
    work: WorkColumns,
    timeline: Timeline,
    labels: Sequence[str] | None,
    numbers: Mapping[str, int],
    track: int,
) -> Column:
    """The rows of one unit; ``track`` is that of its first module."""
    rows = np.flatnonzero(timeline.start < timeline.cycles)
    ends = np.minimum(timeline.end[rows], timeline.cycles)
    names = labels or [""] * len(timeline.start)
    nodes = np.array([numbers.get(names[row], NO_NODE) for row in rows.tolist()], np.int64)
    start = timeline.start[rows]
    columns = (start, ends - start, work.module[rows] + track, work.kind[rows], nodes)
    return np.stack(columns, axis=1).astype(np.int64)


def _merged(table: Column, gap: int) -> Column:
    """The same with neighbours joined that are equal in module, kind and node and lie near."""
    ends = table[:, 0] + table[:, 1]
    far = table[1:, 0] - ends[:-1] > gap
    differ = (table[1:, 2:] != table[:-1, 2:]).any(axis=1)
    firsts = np.flatnonzero(np.concatenate([[True], far | differ]))
    result = table[firsts].copy()
    result[:, 1] = np.maximum.reduceat(ends, firsts) - result[:, 0]
    return result


def memory_samples(
    profile: Profile, uses: Sequence[MemoryUse | None], count: int = SAMPLES
) -> list[dict[str, Any]]:
    """For each launch the largest amounts in equal parts of its time.

    Each has the cycle at which it starts, its cycles, and two mappings: ``scratchpads`` with the
    occupied shares in per cent, and ``dram`` with bytes. Of a cluster the global buffer takes the
    place of the scratchpads, of which each core has its own.
    """
    found = []
    whole = max(profile.cycles, 1)
    for launch, start, use in zip(profile.launches, launch_starts(profile), uses, strict=True):
        cycles = launch.timing.cycles
        parts = max(2, round(count * cycles / whole))
        scratchpads, dram = {}, {}
        if use is not None:
            for memory, levels in use.scratchpads.items():
                share = 100 * levels.sampled(cycles, parts) / use.depths[memory]
                scratchpads[memory.name.lower()] = np.round(share, 1).tolist()
            for kind, levels in use.dram.items():
                dram[kind.value] = levels.sampled(cycles, parts).tolist()
        report = launch.timing
        if isinstance(report, ClusterReport) and report.cluster.gb_bytes:
            share = 100 * gb_occupancy(report).sampled(cycles, parts) / report.cluster.gb_bytes
            scratchpads["gb"] = np.round(share, 1).tolist()
        found.append({"start": start, "cycles": cycles, "scratchpads": scratchpads, "dram": dram})
    return found


@dataclass(frozen=True)
class Track:
    """A row of the timeline. core: whose module it is, -1 for the copy engine."""

    name: str
    core: int
    computes: bool


def tracks_of(profile: Profile) -> list[Track]:
    """The rows of the timeline, in the order of their numbers: the modules of each core in turn."""
    cores = len(profile.launches[0].cores) if profile.launches else 1
    found = [
        Track(name if cores == 1 else f"{core} {name}", core, module is CORE.computes)
        for core in range(cores)
        for module, name in zip(CORE.modules, module_names(), strict=True)
    ]
    reports = [launch.timing for launch in profile.launches]
    if any(isinstance(report, ClusterReport) and report.dma is not None for report in reports):
        found.append(Track("copies", -1, False))
    return found


def module_names() -> list[str]:
    """The modules by number."""
    return [module.name for module in CORE.modules]
