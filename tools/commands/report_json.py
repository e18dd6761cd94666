"""What was compiled, as plain values for JSON: ``vta-compile --json``."""

from dataclasses import asdict
from typing import Any

from vtac.runtime.executor import Module, describe
from vtac.tools.reports.partition_report import RegionReport
from vtac.tools.reports.report import Choice


def compilation_values(module: Module, output: str | None) -> dict[str, Any]:
    """The report of a module that was compiled now. output: the package's path, if one was written.

    Has the keys target, package, inputs, outputs (types by name), nodes (where each runs, and why),
    regions, crossings (launches, host parts, bytes between them in one run), instructions (by
    program), levels (ops by kind), plan (tensors of a cluster by memory), uncut (why layers of a
    cluster are not cut), tried (what the clock of a cluster tried, with cycles), choices, schedules
    (of each kernel: whether it comes from a record), seconds (by step), notes, warnings. Keys stay,
    and new ones may come.
    """
    report = module.report
    return {
        "target": None if module.target is None else str(module.target),
        "package": output,
        "inputs": {value.name: describe(value) for value in module.inputs},
        "outputs": {name: describe(value) for name, value in module.outputs},
        "nodes": [asdict(placement) for placement in module.explain],
        "regions": [_region(region) for region in report.partition.regions],
        "crossings": asdict(module.crossings),
        "instructions": report.instructions,
        "levels": {level.name: dict(level.ops) for level in report.levels},
        "plan": asdict(report.plan),
        "uncut": report.uncut,
        "tried": [{**asdict(each), "chosen": each.chosen} for each in report.tried],
        "choices": [asdict(choice) for choice in report.choices],
        "schedules": [_schedule(choice) for choice in report.schedules],
        "seconds": report.seconds,
        "notes": report.notes,
        "warnings": report.warnings,
    }


def _schedule(choice: Choice) -> dict[str, Any]:
    record = choice.record
    return {
        "layers": list(choice.layers),
        "origin": "tuned" if record is not None and not record.refused else "default",
        "expected_cycles": choice.cycles,
        "record": None if record is None else {**asdict(record), "gain": record.gain},
    }


def _region(region: RegionReport) -> dict[str, Any]:
    cost = region.cost
    return {
        "function": region.function,
        "codegen": region.codegen,
        "ops": dict(region.ops),
        "macs": cost.macs,
        "border_bytes": cost.border,
        "cycles": cost.cycles,
        "host_cycles": cost.host_cycles,
    }
