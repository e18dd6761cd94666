"""The run over time: what each module does, and what the memories hold.

The launches of a run follow one another on one axis of cycles. The host's time between them is not
known and takes no place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vtac.runtime.memory_use import MemoryUse
from vtac.runtime.profile import LaunchProfile, Profile
from vtac.sim.tokens import Module

Column = NDArray[np.int64]

SPANS = 40_000
"""The most spans of a page. Where there are more, neighbours are merged and short ones left out."""

SAMPLES = 600
"""The number of parts of a run for which the largest amount in a memory is kept."""

NO_NODE = -1


@dataclass(frozen=True)
class Spans:
    """What the modules did: columns int64 [n], by module and start.

    start, length: in cycles of the run. module, kind: numbers of `Module` and of the clock's kinds.
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
    lengths = [launch.report.cycles for launch in profile.launches]
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
    """Rows of start, length, module, kind and node."""
    work, timeline = launch.report.work, launch.report.timeline
    rows = np.flatnonzero(timeline.start < launch.report.cycles)
    ends = np.minimum(timeline.end[rows], launch.report.cycles)
    labels = launch.report.labels or [""] * len(timeline.start)
    nodes = np.array([numbers.get(labels[row], NO_NODE) for row in rows.tolist()], np.int64)
    start = timeline.start[rows]
    columns = (start + first, ends - start, work.module[rows], work.kind[rows], nodes)
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
    occupied shares in per cent, and ``dram`` with bytes.
    """
    found = []
    whole = max(profile.cycles, 1)
    for launch, start, use in zip(profile.launches, launch_starts(profile), uses, strict=True):
        cycles = launch.report.cycles
        parts = max(2, round(count * cycles / whole))
        scratchpads, dram = {}, {}
        if use is not None:
            for memory, levels in use.scratchpads.items():
                share = 100 * levels.sampled(cycles, parts) / use.depths[memory]
                scratchpads[memory.name.lower()] = np.round(share, 1).tolist()
            for kind, levels in use.dram.items():
                dram[kind.value] = levels.sampled(cycles, parts).tolist()
        found.append({"start": start, "cycles": cycles, "scratchpads": scratchpads, "dram": dram})
    return found


def module_names() -> list[str]:
    """The modules by number."""
    return [module.name.lower() for module in Module]
