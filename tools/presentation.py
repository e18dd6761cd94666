"""Tables for people: what the compiler did and what a run cost. Plain data in, rich tables out."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from vtac.runtime.executor import RunRecord
from vtac.runtime.package import Placement
from vtac.sim import Counters
from vtac.tools.report import Choice, CompileReport, Level

Array = np.ndarray[Any, np.dtype[Any]]

_SHOWN_KINDS = 6
_BYTE_CLASSES = {
    "inp": "activations",
    "wgt": "weights",
    "acc": "accumulators",
    "uop": "micro-ops",
    "out": "results",
}


def levels_table(levels: Iterable[Level]) -> Table:
    """Each level with the number of its ops, and the most frequent ones."""
    table = Table(title="levels", title_justify="left")
    table.add_column("level")
    table.add_column("ops", justify="right")
    table.add_column("of which")
    for level in levels:
        common = level.ops.most_common(_SHOWN_KINDS)
        table.add_row(level.name, f"{level.total:,}", ", ".join(f"{n} {k}" for k, n in common))
    return table


def placements_table(placements: Iterable[Placement]) -> Table:
    """Where each node runs, and why."""
    table = Table(title="what runs where", title_justify="left")
    for column in ("node", "op", "where", "why"):
        table.add_column(column, overflow="fold")
    for placement in placements:
        table.add_row(placement.node, placement.op, placement.where, placement.reason)
    return table


def choices_table(choices: Iterable[Choice]) -> Table:
    """What was chosen by cost for the stages of kernels, and what the alternatives would cost."""
    table = Table(title="chosen by cost", title_justify="left")
    for column in ("layers", "stage", "choice"):
        table.add_column(column, overflow="fold")
    for choice in choices:
        table.add_row(", ".join(choice.layers), choice.stage, choice.chosen)
    return table


def seconds_table(report: CompileReport) -> Table:
    """The seconds of each step, longest first, those that matter."""
    table = Table(title="compile time", title_justify="left")
    table.add_column("step")
    table.add_column("seconds", justify="right")
    longest = sorted(report.seconds.items(), key=lambda item: -item[1])
    for step, seconds in longest[:_SHOWN_KINDS]:
        table.add_row(step, f"{seconds:.2f}")
    rest = sum(seconds for _, seconds in longest[_SHOWN_KINDS:])
    table.add_row("everything else", f"{rest:.2f}")
    table.add_row("all", f"{report.total_seconds:.2f}", style="bold")
    return table


def work_table(counters: Counters, batches: int = 1) -> Table:
    """Micro-ops and bytes moved, a batch."""
    title = "on the accelerator" + (", mean of a batch" if batches > 1 else "")
    table = Table(title=title, title_justify="left")
    table.add_column("what")
    table.add_column("count", justify="right")
    rows = {
        "instructions": counters.instructions,
        "GEMM micro-ops": counters.gemm_micro_ops,
        "reset micro-ops": counters.reset_micro_ops,
        "ALU micro-ops": counters.alu_micro_ops,
    }
    for memory, amount in counters.bytes_moved.items():
        rows[f"bytes of {_BYTE_CLASSES.get(memory, memory)}"] = amount
    for what, amount in rows.items():
        table.add_row(what, f"{amount // batches:,}")
    return table


def time_table(records: Sequence[RunRecord]) -> Table:
    """Seconds on this machine, by function and for the host."""
    table = Table(title="time here, all batches", title_justify="left")
    table.add_column("part")
    table.add_column("launches", justify="right")
    table.add_column("seconds", justify="right")
    launches = [launch for record in records for launch in record.launches]
    for function in dict.fromkeys(launch.function for launch in launches):
        mine = [launch.seconds for launch in launches if launch.function == function]
        table.add_row(f"{function} (simulated)", str(len(mine)), f"{sum(mine):.2f}")
    table.add_row("host parts", "", f"{sum(record.host_seconds for record in records):.2f}")
    return table


def agreement_table(ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> Table:
    """How far our outputs are from onnxruntime's, and how often the largest class is the same."""
    table = Table(title="against onnxruntime", title_justify="left")
    table.add_column("output")
    for column in ("largest", "mean difference", "largest difference", "same top-1"):
        table.add_column(column, justify="right")
    for name, array in ours.items():
        other = np.asarray(theirs[name])
        if other.dtype.kind not in "biuf" or other.size == 0:
            table.add_row(name, "", "", "", "")
            continue
        difference = np.abs(array.astype(np.float64) - other.astype(np.float64))
        same = ""
        if other.ndim >= 2 and other.shape[-1] > 1 and other.dtype.kind == "f":
            same = f"{(array.argmax(-1) == other.argmax(-1)).mean():.2%}"
        table.add_row(
            name,
            f"{np.abs(other).max():.4g}",
            f"{difference.mean():.4g}",
            f"{difference.max():.4g}",
            same,
        )
    return table
