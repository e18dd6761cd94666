"""A run as a trace for the Perfetto viewer or Chrome's tracing page.

In the Trace Event Format: one track per module, one slice per instruction, and for each token an
arrow from the instruction that pushes it to the one that pops it. One cycle is one microsecond of
the viewer.
"""

import json
from typing import Any

from ...dialects.vta.assembly import disassemble
from ...dialects.vta.encoding import decode
from ..tokens import Module, Queue
from .report import TimingReport
from .work import Kind

_FETCH = 1
_PLAIN = (Kind.SYNC, Kind.STORE, Kind.GEMM, Kind.RESET, Kind.ALU, Kind.FINISH)


def trace_events(report: TimingReport) -> list[dict[str, Any]]:
    """The events, in the order: names of tracks, slices, arrows."""
    tracks = {_FETCH: "fetch", **{_track(module): module.name.lower() for module in Module}}
    events: list[dict[str, Any]] = [
        _event("M", 0, _FETCH, name="process_name", args={"name": f"VTA ({report.preset.name})"})
    ]
    for track, name in tracks.items():
        events.append(_event("M", 0, track, name="thread_name", args={"name": name}))
        events.append(_event("M", 0, track, name="thread_sort_index", args={"sort_index": track}))
    events += _chunks(report)
    events += _slices(report)
    events += _arrows(report)
    return events


def as_trace(report: TimingReport) -> str:
    """The whole trace as JSON text."""
    events = ",\n".join(json.dumps(event) for event in trace_events(report))
    other = json.dumps({"unit": "one cycle is shown as 1 us", "cycles": report.cycles})
    return f'{{"traceEvents": [\n{events}\n],\n"otherData": {other}}}\n'


def _track(module: int) -> int:
    return _FETCH + 1 + module


def _event(phase: str, at: int, track: int, **rest: Any) -> dict[str, Any]:
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
            _event("X", chunk.command, _FETCH, dur=ready - chunk.command, name=name, args=args)
        )
        done = min(int(report.timeline.dispatched[chunk.end - 1]) + 1, report.cycles)
        if done > ready:
            events.append(_event("X", ready, _FETCH, dur=done - ready, name="dispatch", args=args))
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
        kind = Kind(int(work.kind[index]))
        name = kind.name if kind in _PLAIN else f"LOAD {kind.name}"
        track = _track(int(work.module[index]))
        events.append(_event("X", start, track, dur=end - start, name=name, cat="vta", args=args))
    return events


def _arrows(report: TimingReport) -> list[dict[str, Any]]:
    events = []
    module, timeline = report.work.module, report.timeline
    for number, (producer, consumer, queue) in enumerate(timeline.edges.tolist()):
        rest = {"name": f"{Queue(queue)} token", "cat": "token", "id": number}
        last, track = int(timeline.end[producer]) - 1, _track(int(module[producer]))
        events.append(_event("s", last, track, **rest))
        first, track = int(timeline.start[consumer]), _track(int(module[consumer]))
        events.append(_event("f", first, track, bp="e", **rest))
    return events
