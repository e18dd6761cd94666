"""The report of a cluster's launch as tables for a terminal, as JSON, and as CSV."""

import csv
import dataclasses
import io
import json
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from ..timing.accounts import Cause
from .timing import ClusterReport, cluster_rooflines, gb_occupancy


def as_cluster_dict(report: ClusterReport) -> dict[str, Any]:
    """All numbers, by unit and by memory, for JSON."""
    return {
        "machine": report.cluster.fields(),
        "cycles": report.cycles,
        "seconds": report.seconds,
        "bounds": report.bounds,
        "ddr_bytes": report.total_ddr_bytes,
        "units": [_unit(report, unit) for unit in range(report.cluster.units)],
        "rooflines": [
            {
                "memory": line.name,
                "peak": line.roofs.peak,
                "bandwidth": line.roofs.bandwidth,
                "intensity": line.intensity if line.intensity < float("inf") else None,
                "limit": line.limit,
                "reached": line.reached,
            }
            for line in cluster_rooflines(report)
        ],
        "regions": [dataclasses.asdict(region) for region in report.regions],
        "gb_peak": gb_occupancy(report).peak,
        "warnings": list(report.warnings),
    }


def as_cluster_json(report: ClusterReport) -> str:
    """The same as text."""
    return json.dumps(as_cluster_dict(report), indent=2) + "\n"


def as_cluster_csv(report: ClusterReport) -> str:
    """One line per unit."""
    rows = [_row(report, unit) for unit in range(report.cluster.units)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval=0, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_cluster_table(report: ClusterReport) -> Group:
    """Tables for a terminal: the launch, its units, its memories."""
    parts: list[Any] = [_summary(report), "", _units(report), "", _memories(report)]
    if report.regions:
        parts += ["", _regions(report)]
    parts += [Text(f"warning: {warning}", style="yellow") for warning in report.warnings]
    return Group(*parts)


def _unit(report: ClusterReport, unit: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "unit": report.cluster.unit_name(unit),
        "cycles": report.timeline(unit).cycles,
        "semaphore": report.waited[unit],
        "ddr_bytes": report.ddr_bytes[unit],
        "gb_bytes": report.gb_bytes[unit],
    }
    if unit < report.cluster.cores:
        found["utilisation"] = report.utilisation(unit)
        found["modules"] = {
            module.name.lower(): {cause.value: n for cause, n in causes.items()}
            for module, causes in report.cores[unit].total.modules.items()
        }
    return found


def _row(report: ClusterReport, unit: int) -> dict[str, Any]:
    found = _unit(report, unit)
    row = {name: found[name] for name in ("unit", "cycles", "semaphore")}
    row |= {f"ddr {name}": amount for name, amount in found["ddr_bytes"].items()}
    row |= {f"gb {name}": amount for name, amount in found["gb_bytes"].items()}
    for module, causes in found.get("modules", {}).items():
        row |= {f"{module}: {cause.value}": causes.get(cause.value, 0) for cause in Cause}
    return row


def _summary(report: ClusterReport) -> Table:
    cluster, table = report.cluster, Table.grid(padding=(0, 2))
    mhz = cluster.timing.core.clock_mhz
    dma = " and a DMA" if cluster.dma else ""
    what = f"{cluster.cores} x {cluster.core.preset}, GB of {cluster.gb_bytes:,} bytes{dma}"
    table.add_row("cluster", what)
    table.add_row("cycles", f"{report.cycles:,} ({report.seconds * 1e3:.3f} ms at {mhz:g} MHz)")
    table.add_row("bounds", ", ".join(f"{name} {n:,}" for name, n in report.bounds.items()))
    table.add_row("DDR bytes", f"{report.total_ddr_bytes:,}")
    if cluster.gb_bytes:
        table.add_row("GB bytes", f"{gb_occupancy(report).peak:,} occupied at most")
    return table


def _units(report: ClusterReport) -> Table:
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0))
    for name in ("unit", "cycles", "GEMM %", "load %", "compute %", "store %", "semaphore"):
        table.add_column(name, justify="left" if name == "unit" else "right")
    table.add_column("DDR bytes", justify="right")
    table.add_column("GB bytes", justify="right")
    for unit in range(report.cluster.units):
        modules = report.cluster.core.system.modules
        shares = [""] * (1 + len(modules))
        if unit < report.cluster.cores:
            busy = [report.busy(unit, module) for module in modules]
            shares = [f"{100 * share:.1f}" for share in (report.utilisation(unit), *busy)]
        table.add_row(
            report.cluster.unit_name(unit),
            f"{report.timeline(unit).cycles:,}",
            *shares,
            f"{report.waited[unit]:,}",
            f"{sum(report.ddr_bytes[unit].values()):,}",
            f"{sum(report.gb_bytes[unit].values()):,}",
        )
    return table


def _regions(report: ClusterReport) -> Table:
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0))
    names = ("layer", "start", "end", "GEMM %", "semaphore", "DDR bytes", "GB bytes")
    for name in names:
        table.add_column(name, justify="left" if name == "layer" else "right")
    for region in report.regions:
        numbers = (region.waited, region.ddr_bytes, region.gb_bytes)
        times = (f"{region.start:,}", f"{region.end:,}", f"{100 * region.utilisation:.1f}")
        table.add_row(region.label, *times, *(f"{number:,}" for number in numbers))
    return table


def _memories(report: ClusterReport) -> Table:
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0))
    for name in ("memory", "MACs per byte read", "limit", "reached", "bytes by class"):
        table.add_column(name, justify="left" if name in ("memory", "bytes by class") else "right")
    for line in cluster_rooflines(report):
        units = report.ddr_bytes if line.name == "DDR" else report.gb_bytes
        classes: dict[str, int] = {}
        for found in units:
            for name, amount in found.items():
                classes[name] = classes.get(name, 0) + amount
        table.add_row(
            line.name,
            f"{line.intensity:.1f}",
            f"{line.limit:.0f} MACs per cycle",
            f"{line.reached:.0f}",
            ", ".join(f"{name} {amount:,}" for name, amount in classes.items() if amount),
        )
    return table
