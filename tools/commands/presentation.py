"""Tables that show what the compiler did and what a run cost, made of plain data.

What the data is made by is imported for type checkers alone: a run needs no compiler.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

from rich.table import Table

from vtac.dialects.graph import MacCount

if TYPE_CHECKING:
    from vtac.runtime.executor import RunRecord
    from vtac.runtime.package import Placement
    from vtac.sim import Counters
    from vtac.tools.reports.clock_choice import ClockChoice
    from vtac.tools.reports.evaluation import Evaluation
    from vtac.tools.reports.layer_errors import LayerError
    from vtac.tools.reports.report import Choice, CompileReport, LevelOps

_SHOWN_KINDS = 6
_BYTE_CLASSES = {
    "inp": "activations",
    "wgt": "weights",
    "acc": "accumulators",
    "uop": "micro-ops",
    "out": "results",
}


def levels_table(levels: "Iterable[LevelOps]") -> Table:
    """Each level with the number of its ops, and the most frequent ones."""
    table = Table(title="levels", title_justify="left")
    table.add_column("level")
    table.add_column("ops", justify="right")
    table.add_column("of which")
    for level in levels:
        common = level.ops.most_common(_SHOWN_KINDS)
        table.add_row(level.name, f"{level.total:,}", ", ".join(f"{n} {k}" for k, n in common))
    return table


def placements_table(
    placements: "Iterable[Placement]", cycles: Mapping[str, float] | None = None
) -> Table:
    """Where each node runs, its multiply-accumulates if it has any, and why it runs there.

    cycles: what each node is expected to take, where that is known.
    """
    table = Table(title="what runs where", title_justify="left")
    for column in ("node", "op", "where"):
        table.add_column(column, overflow="fold")
    if cycles is not None:
        table.add_column("cycles", justify="right")
    table.add_column("MACs", justify="right")
    table.add_column("why", overflow="fold")
    for each in placements:
        macs = str(MacCount(each.macs, each.macs_known))
        cells = [each.node, each.op, each.where]
        if cycles is not None:
            cells.append(f"{cycles[each.node]:,.0f}" if each.node in cycles else "")
        table.add_row(*cells, "" if macs == "0" else macs, each.reason)
    return table


def choices_table(choices: "Iterable[Choice]") -> Table:
    """What was chosen by cost for the stages of kernels, and what the alternatives would cost."""
    table = Table(title="chosen by cost", title_justify="left")
    for column in ("layers", "stage", "choice"):
        table.add_column(column, overflow="fold")
    for choice in choices:
        table.add_row(", ".join(choice.layers), choice.stage, choice.chosen)
    return table


def uncut_table(uncut: Mapping[str, str]) -> Table:
    """The layers that one core of a cluster computes alone, by reason. uncut: layer to reason."""
    table = Table(title="not cut into parts", title_justify="left")
    table.add_column("why", overflow="fold")
    table.add_column("layers", overflow="fold")
    layers: dict[str, list[str]] = {}
    for layer, why in uncut.items():
        layers.setdefault(why, []).append(layer)
    for why, names in layers.items():
        table.add_row(why, ", ".join(names))
    return table


def tried_table(tried: "Iterable[ClockChoice]") -> Table:
    """What the clock of a cluster tried, in that order, and the cycles of each."""
    table = Table(title="tried by the clock", title_justify="left")
    table.add_column("choice")
    table.add_column("tried", overflow="fold")
    table.add_column("cycles", justify="right")
    for choice in tried:
        for name, cycles in choice.cycles.items():
            style = "bold" if name == choice.chosen else None
            table.add_row(choice.what, name, f"{cycles:,}", style=style)
    return table


def seconds_table(report: "CompileReport") -> Table:
    """The seconds of each step that takes notable time, longest first."""
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


def work_table(counters: "Counters", batches: int = 1) -> Table:
    """Micro-ops and bytes moved, per batch."""
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


def time_table(records: "Sequence[RunRecord]") -> Table:
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


def evaluation_table(found: "Evaluation") -> Table:
    """How far each output is from onnxruntime's, and the shares of right and of equal labels."""
    against = "onnxruntime" if found.compared else "labels"
    title = f"against {against}, {found.samples:,} samples"
    table = Table(title=title, title_justify="left")
    table.add_column("output")
    for output in found.outputs:
        table.add_column(output.name, justify="right", overflow="fold")
    for figure, texts in _figures(found).items():
        if any(texts):
            table.add_row(figure, *texts)
    return table


def _figures(found: "Evaluation") -> dict[str, list[str]]:
    """The rows of an evaluation, those of labels first: for each figure a text per output."""

    def texts(name: str, form: str) -> list[str]:
        values = [getattr(output, name) for output in found.outputs]
        return ["" if value is None else format(value, form) for value in values]

    snr = ["exact" if o.largest_difference == 0 else _decibels(o.snr_db) for o in found.outputs]
    return {
        "top-1 of onnxruntime": texts("top1_original", ".2%"),
        "top-1 compiled": texts("top1", ".2%"),
        "equal labels": texts("equal_labels", ".2%"),
        "mean error of onnxruntime": texts("mean_error_original", ".4g"),
        "mean error compiled": texts("mean_error", ".4g"),
        "largest value": texts("largest", ".4g"),
        "mean difference": texts("mean_difference", ".3g"),
        "largest difference": texts("largest_difference", ".3g"),
        "signal to noise": snr,
        "cosine": texts("cosine", ".6f"),
        "finite in one only": [f"{o.odd:,}" if o.odd else "" for o in found.outputs],
    }


def _decibels(value: float | None) -> str:
    if value is None:
        return ""
    return "exact" if value == inf else f"{value:.1f} dB"


def layer_errors_table(errors: "Iterable[LayerError]") -> Table:
    """The signal to quantisation noise of each layer, worst first."""
    table = Table(title="signal to quantisation noise of each layer", title_justify="left")
    table.add_column("layer", overflow="fold")
    table.add_column("computes", overflow="fold")
    table.add_column("in the network", justify="right")
    table.add_column("alone", justify="right")
    listed = list(errors)
    reasons = any(error.reason for error in listed)
    if reasons:
        table.add_column("left on the host", overflow="fold")
    for error in listed:
        cells = (error.node, ", ".join(error.ops), _decibels(error.total), _decibels(error.own))
        table.add_row(*cells, *([error.reason] if reasons else []))
    return table
