"""A timing report for people and for programs: a table, JSON, CSV."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from .accounts import CLASSES, Account, Cause
from .report import TimingReport

WHOLE = "program"
"""The name of the whole program's row, beside the rows of labels."""


def as_dict(report: TimingReport) -> dict[str, Any]:
    """Everything but the events, as plain values with names."""
    return {
        "preset": report.preset.name,
        "verified": report.preset.verified,
        "clock_mhz": report.preset.clock_mhz,
        "cycles": report.cycles,
        "seconds": report.seconds,
        "program": _account(report.total),
        "regions": [{"label": region.label, **_account(region)} for region in report.regions],
        "warnings": list(report.warnings),
    }


def as_json(report: TimingReport) -> str:
    """`as_dict` as text."""
    return json.dumps(as_dict(report), indent=2) + "\n"


def as_csv(report: TimingReport) -> str:
    """One line for the program, then one per label; every report has the same columns."""
    stream = io.StringIO()
    rows = [_row(WHOLE, report.total), *(_row(r.label, r) for r in report.regions)]
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def as_table(report: TimingReport) -> Group:
    """Tables for a terminal: the summary, the modules, the regions."""
    parts: list[Any] = [_summary(report), "", _modules(report.total)]
    if report.regions:
        parts += ["", _regions(report.regions), "", _waits(report.regions)]
    parts += [Text(f"warning: {warning}", style="yellow") for warning in report.warnings]
    return Group(*parts)


def _numbers(account: Account) -> dict[str, Any]:
    return {
        "instructions": account.instructions,
        "cycles": account.cycles,
        "start": account.start,
        "end": account.end,
        "lower_bound": account.lower_bound,
        "bound_by": account.bound_by,
        "ratio": round(account.ratio, 6) if account.lower_bound else None,
        "gemm_utilisation": round(account.gemm_utilisation, 6),
        "gemm_micro_ops": account.gemm_micro_ops,
        "reset_micro_ops": account.reset_micro_ops,
        "alu_micro_ops": account.alu_micro_ops,
        "macs": account.macs,
    }


def _account(account: Account) -> dict[str, Any]:
    return {
        **_numbers(account),
        "bounds": dict(account.bounds),
        "bytes": dict(account.nbytes),
        "modules": {
            module.name.lower(): {
                "busy": account.busy(module),
                **{cause.value: cycles for cause, cycles in causes.items()},
            }
            for module, causes in account.modules.items()
        },
    }


def _row(label: str, account: Account) -> dict[str, Any]:
    row = {"label": label, **_numbers(account)}
    row |= {f"{name}_bytes": account.nbytes[name] for name in CLASSES}
    for module, causes in account.modules.items():
        row[f"{module.name.lower()}: busy"] = account.busy(module)
        row |= {f"{module.name.lower()}: {c.value}": causes.get(c, 0) for c in Cause}
    return row


def _summary(report: TimingReport) -> Table:
    total, preset = report.total, report.preset
    table = Table.grid(padding=(0, 2))
    note = "cycle-exact against the RTL" if preset.verified else "not verified against hardware"
    table.add_row("preset", f"{preset.name} ({note})")
    table.add_row(
        "cycles", f"{report.cycles:,} ({report.seconds * 1e3:.3f} ms at {preset.clock_mhz:g} MHz)"
    )
    ratio = f", ratio {total.ratio:.3f}" if total.lower_bound else ""
    table.add_row("lower bound", f"{total.lower_bound:,} ({total.bound_by}{ratio})")
    table.add_row(
        "GEMM utilisation", f"{total.gemm_utilisation:.1%} ({total.gemm_micro_ops:,} micro-ops)"
    )
    table.add_row("DRAM bytes", _listing(total.nbytes))
    return table


def _listing(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count) or "none"


def _modules(account: Account) -> Table:
    """One row per cause, one column per module, also in percent of all cycles."""
    table = Table(
        title="cycles of each module", title_justify="left", box=box.SIMPLE, padding=(0, 1, 0, 0)
    )
    table.add_column("cause", no_wrap=True)
    for module in account.modules:
        table.add_column(module.name, justify="right", no_wrap=True)
    for work in (True, False):
        for cause in Cause:
            counts = [account.modules[module].get(cause, 0) for module in account.modules]
            if cause.work == work and any(counts):
                cells = [_share(count, account.cycles) for count in counts]
                table.add_row(cause.value, *cells, style="bold" if work else "")
        if work:
            table.add_section()
    return table


def _share(count: int, total: int) -> str:
    return f"{count:,} {count / total:5.1%}" if count else ""


def _regions(regions: Iterable[Account]) -> Table:
    table = Table(title="regions", title_justify="left", box=box.SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("label", overflow="fold")
    for column in ("cycles", "bound", "by", "ratio", "GEMM", "waiting", "DRAM bytes"):
        table.add_column(column, justify="right", no_wrap=True)
    for region in regions:
        loading = region.modules[region.computes].get(Cause.MICRO_OPS, 0)
        waiting = region.cycles - region.busy(region.computes) - loading
        table.add_row(
            Text(region.label or "(none)"),
            f"{region.cycles:,}",
            f"{region.lower_bound:,}",
            region.bound_by,
            f"{region.ratio:.3f}" if region.lower_bound else "",
            f"{region.gemm_utilisation:.1%}",
            f"{waiting:,}",
            f"{sum(region.nbytes.values()):,}",
        )
    return table


def _waits(regions: Sequence[Account]) -> Table:
    """What the compute module waited for: one row per label, one column per cause."""
    table = Table(
        title="cycles in which compute waited",
        title_justify="left",
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
    )
    waits = [region.modules[region.computes] for region in regions]
    causes = [c for c in Cause if not c.work and any(c in found for found in waits)]
    table.add_column("label", overflow="fold")
    for cause in causes:
        table.add_column(cause.value, justify="right")
    for region, found in zip(regions, waits, strict=True):
        cells = [f"{found[c]:,}" if c in found else "" for c in causes]
        table.add_row(Text(region.label or "(none)"), *cells)
    return table
