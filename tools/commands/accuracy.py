"""How ``vta-compile`` and ``vta-run`` judge a model: progress bars and output."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from vtac.dialects.errors import CompileError, Problem
from vtac.runtime.atomic import read_whole
from vtac.tools.commands.presentation import evaluation_table, layer_errors_table
from vtac.tools.reports.evaluation import Evaluation, evaluate
from vtac.tools.reports.evaluation import Progress as Told

if TYPE_CHECKING:
    from vtac.lowering.onnx_to_graph import ModelSource
    from vtac.runtime.executor import Module
    from vtac.tools.reports.layer_errors import LayerError


def evaluated(
    module: "Module",
    data: str,
    reference: "ModelSource | None",
    limit: int | None,
    *,
    quiet: bool = False,
) -> Evaluation:
    """`evaluate`, with a progress bar on a terminal unless it is to be quiet."""
    with progress_bar("evaluate", quiet=quiet) as told:
        return evaluate(module, data, reference, limit=limit, progress=told)


@contextmanager
def progress_bar(what: str, *, quiet: bool = False) -> Iterator[Told]:
    """A callback that shows progress: on a terminal a bar on standard error, elsewhere nothing."""
    columns = TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=quiet or not console.is_terminal
    ) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def print_accuracy(
    found: Evaluation | None, errors: "Iterable[LayerError] | None", as_json: bool
) -> None:
    """Print the evaluation and the errors of layers, if any, as tables or as one JSON object."""
    if as_json:
        print_json(accuracy_values(found, errors))
        return
    console = Console(highlight=False)
    if errors is not None:
        console.print(layer_errors_table(errors))
    if found is not None:
        console.print(evaluation_table(found))
        for note in found.notes:
            console.print(f"note: {note}")


def accuracy_values(
    found: Evaluation | None, errors: "Iterable[LayerError] | None"
) -> dict[str, Any]:
    """Evaluation and layer errors, if any, as plain values; null means no noise."""
    parts: dict[str, Any] = {}
    if found is not None:
        parts["evaluation"] = found.as_dict()
    if errors is not None:
        parts["layer_errors"] = [_plain(error) for error in errors]
    return parts


def print_json(values: Mapping[str, Any]) -> None:
    """Print one JSON object."""
    sys.stdout.write(json.dumps(values, indent=2, allow_nan=False) + "\n")


def read_layer_errors(path: str) -> "tuple[LayerError, ...]":
    """The errors of layers in a file that holds what `accuracy_values` returns, as JSON.

    Raises `CompileError` if it holds none.
    """
    from vtac.tools.reports.layer_errors import LayerError

    try:
        listed = json.loads(read_whole(path))["layer_errors"]
        return tuple(
            LayerError(
                str(each["node"]),
                tuple(map(str, each["ops"])),
                _decibels(each["snr_db"]),
                _decibels(each["own_snr_db"]),
                str(each["host"]),
            )
            for each in listed
        )
    except (KeyError, TypeError, ValueError, RecursionError):
        hint = "Write it by vta-compile --layer-errors --json."
        raise CompileError(Problem(path, "holds no errors of layers", hint)) from None


def _decibels(number: Any) -> float:
    return inf if number is None else float(number)


def _plain(error: "LayerError") -> dict[str, Any]:
    total, own = (value if isfinite(value) else None for value in (error.total, error.own))
    ops = list(error.ops)
    return {
        "node": error.node,
        "ops": ops,
        "snr_db": total,
        "own_snr_db": own,
        "host": error.reason,
    }
