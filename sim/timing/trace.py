"""A run as a trace for the Perfetto viewer or Chrome's tracing page.

In the Trace Event Format: one process per machine, one track per module, one slice per instruction,
and for each token an arrow from the instruction that pushes it to the one that pops it. One cycle
is one microsecond of the viewer.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ...dialects.vta.assembly import disassemble
from ...dialects.vta.encoding import decode
from .report import TimingReport
from .work import InstructionKind

_FETCH = 1
_LOADS = (InstructionKind.INP, InstructionKind.WGT, InstructionKind.ACC, InstructionKind.UOP)
_ARROWS = 1 << 32
"""Most arrows of a process: their numbers differ between processes."""


def trace_events(
    report: TimingReport, process: int = 1, name: str | None = None
) -> list[dict[str, Any]]:
    """The events of one machine, in the order: names of tracks, slices, arrows.

    process: the number of its process in the trace. name: that of the process.
    """
    modules = report.target.system.modules
    tracks = {_FETCH: "fetch", **{track_of(module): module.name for module in modules}}
    events = name_events(tracks, name or f"VTA ({report.preset.name})")
    events += [*_chunks(report), *_slices(report), *_arrows(report)]
    for found in events:
        found["pid"] = process
        if "id" in found:
            found["id"] += (process - 1) * _ARROWS
    return events


def name_events(tracks: Mapping[int, str], process: str) -> list[dict[str, Any]]:
    """The events that name a process and its tracks."""
    events = [event("M", 0, _FETCH, name="process_name", args={"name": process})]
    for track, name in tracks.items():
        events.append(event("M", 0, track, name="thread_name", args={"name": name}))
        events.append(event("M", 0, track, name="thread_sort_index", args={"sort_index": track}))
    return events


def as_trace(report: TimingReport) -> str:
    """The whole trace as JSON text."""
    return trace_text(trace_events(report), report.cycles)


def trace_text(events: Iterable[Mapping[str, Any]], cycles: int) -> str:
    """Events as the JSON text of a trace."""
    lines = ",\n".join(map(json.dumps, events))
    other = json.dumps({"unit": "one cycle is shown as 1 us", "cycles": cycles})
    return f'{{"traceEvents": [\n{lines}\n],\n"otherData": {other}}}\n'


def track_of(module: int) -> int:
    """The track of a module."""
    return _FETCH + 1 + module


def event(phase: str, at: int, track: int, **rest: Any) -> dict[str, Any]:
    """An event of the first process."""
    return {"ph": phase, "ts": at, "pid": 1, "tid": track, **rest}


def _chunks(report: TimingReport) -> list[dict[str, Any]]:
    """Two slices per fetch: until the instructions arrive, and while they are dispatched."""
    events = []
    for chunk in report.timeline.chunks:
        if chunk.command > report.cycles:
            continue
        ready = min(chunk.ready, report.cycles)
        args = {"first": chunk.first, "last": chunk.end - 1}
        name = f"fetch {chunk.first}-{chunk.end - 1}"
        events.append(
            event("X", chunk.command, _FETCH, dur=ready - chunk.command, name=name, args=args)
        )
        done = min(int(report.timeline.dispatched[chunk.end - 1]) + 1, report.cycles)
        if done > ready:
            events.append(event("X", ready, _FETCH, dur=done - ready, name="dispatch", args=args))
    return events


def _slices(report: TimingReport) -> list[dict[str, Any]]:
    events = []
    work, timeline = report.work, report.timeline
    rows = [i for i, start in enumerate(timeline.start.tolist()) if start <= report.cycles]
    instructions = decode(report.target, work.words[rows])
    for index, instruction in zip(rows, instructions, strict=True):
        start, end = int(timeline.start[index]), int(timeline.end[index])
        args: dict[str, Any] = {"index": index, "instruction": disassemble(instruction)}
        if report.labels is not None:
            args["layer"] = report.labels[index]
        if end > report.cycles:
            args["note"] = "still running at FINISH" if index != work.finish else "the end"
            end = max(report.cycles, start + 1)
        kind = InstructionKind(int(work.kind[index]))
        name = f"LOAD {kind.name}" if kind in _LOADS else kind.name
        track = track_of(int(work.module[index]))
        events.append(event("X", start, track, dur=end - start, name=name, cat="vta", args=args))
    return events


def _arrows(report: TimingReport) -> list[dict[str, Any]]:
    events = []
    module, timeline = report.work.module, report.timeline
    for number, (producer, consumer, queue) in enumerate(timeline.edges.tolist()):
        rest = {"name": f"{report.target.system.queues[queue]} token", "cat": "token", "id": number}
        last, track = int(timeline.end[producer]) - 1, track_of(int(module[producer]))
        events.append(event("s", last, track, **rest))
        first, track = int(timeline.start[consumer]), track_of(int(module[consumer]))
        events.append(event("f", first, track, bp="e", **rest))
    return events
