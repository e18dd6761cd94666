"""A run of a cluster as a trace: one process per unit, arrows for tokens and for semaphores."""

from typing import Any

from ..timing.trace import event, name_events, trace_events, trace_text, track_of
from .errors import disassemble_step
from .timing import ClusterReport

_SEMAPHORES = 1 << 52
"""Above the numbers of all arrows of tokens."""


def cluster_trace_events(report: ClusterReport) -> list[dict[str, Any]]:
    """The events of all units, then the arrows of semaphores."""
    cluster, events = report.cluster, []
    for unit, core in enumerate(report.cores):
        events += trace_events(core, unit + 1, cluster.unit_name(unit))
    if report.dma is not None:
        events += _dma_events(report)
    return [*events, *_arrows(report)]


def as_cluster_trace(report: ClusterReport) -> str:
    """The whole trace as JSON text."""
    return trace_text(cluster_trace_events(report), report.cycles)


def _dma_events(report: ClusterReport) -> list[dict[str, Any]]:
    """The commands of the DMA; copies overlap, so they take two tracks in turn."""
    dma, unit = report.dma, report.cluster.cores
    assert dma is not None
    tracks = {1: "commands", 2: "copies", 3: "copies"}
    events = name_events(tracks, report.cluster.unit_name(unit))
    copies = 0
    for index, command in enumerate(report.program.commands):
        start, end = int(dma.start[index]), int(dma.end[index])
        if start > dma.cycles:
            continue
        text = disassemble_step(command)
        name = text.split()[0]
        track = 1
        if name == "COPY":
            copies += 1
            track = 2 + copies % 2
        end = end if end <= report.cycles else max(report.cycles, start + 1)
        args = {"index": index, "command": text}
        events.append(event("X", start, track, dur=end - start, name=name, cat="vta", args=args))
    for found in events:
        found["pid"] = unit + 1
    return events


def _arrows(report: ClusterReport) -> list[dict[str, Any]]:
    """From the end of each signal to the cycle in which a wait takes it up."""
    cores, events = report.cluster.cores, []
    system = report.cluster.core.system
    ends = system.stores, system.moves[system.activations]
    for number, (source, signal, destination, wait, _, taken) in enumerate(
        report.semaphore_edges.tolist()
    ):
        rest = {"name": "semaphore", "cat": "semaphore", "id": _SEMAPHORES + number}
        last = int(report.timeline(source).end[signal]) - 1
        first = max(taken, int(report.timeline(destination).start[wait]))
        tracks = [
            1 if unit == cores else track_of(module)
            for unit, module in zip((source, destination), ends, strict=True)
        ]
        events.append({**event("s", last, tracks[0], **rest), "pid": source + 1})
        events.append({**event("f", first, tracks[1], bp="e", **rest), "pid": destination + 1})
    return events
