"""The times of launches on a device behind a wire, as a table."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from vtac.dialects.wording import counted


def remote_profile_table(profile: Mapping[str, Any]) -> Table:
    """One row per launch, and one for all, of what `RemoteModule.remote_profile` returns."""
    table = Table(title="launches", title_justify="left", box=box.SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("function", overflow="fold")
    for column in ("cycles", "ms", "lower bound", "ratio"):
        table.add_column(column, justify="right", no_wrap=True)
    bounds = [_lower_bound(launch) for launch in profile["launches"]]
    for launch, bound in zip(profile["launches"], bounds, strict=True):
        table.add_row(Text(launch["function"]), *_cells(launch, bound))
    if len(bounds) > 1:
        table.add_section()
        table.add_row(counted(len(bounds), "launch", "launches"), *_cells(profile, sum(bounds)))
    return table


def _lower_bound(launch: Mapping[str, Any]) -> int:
    """In cycles: of the program of one core, or the largest of those of a cluster."""
    if "program" in launch:
        return int(launch["program"]["lower_bound"])
    return int(max(launch["bounds"].values(), default=0))


def _cells(timed: Mapping[str, Any], bound: int) -> tuple[str, str, str, str]:
    ratio = f"{timed['cycles'] / bound:.3f}" if bound else ""
    return f"{timed['cycles']:,}", f"{timed['seconds'] * 1e3:.3f}", f"{bound:,}", ratio
