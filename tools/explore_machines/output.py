"""What an exploration shows: a table, and plain values for CSV and JSON.

Nothing here depends on time or on the number of processes: the same exploration gives the same
bytes.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table

from vtac.dialects.target import Target
from vtac.tools.explore_machines.exploration import Exploration, ExploredMachine, most_frequent
from vtac.tools.explore_machines.figures import figures_of
from vtac.tools.explore_machines.space import FieldValue

SIZES = ("area", "sram_bytes", "multipliers")
"""Figures of every machine in CSV and JSON, besides cycles, cost and fields."""

_LOG2 = {"log_block": "block", "log_batch": "batch"}


def title_of(field: str) -> str:
    """How tables call a field whose values they show by `shown`."""
    if field.endswith("_buff_size"):
        return f"{field.removeprefix('log_').removesuffix('_buff_size')} KiB"
    return _LOG2.get(field, field)


def shown(field: str, value: FieldValue) -> str:
    """A value as tables show it: log2 sizes as sizes, those of memories in KiB."""
    if isinstance(value, int) and field.endswith("_buff_size"):
        return f"{2**value / 1024:g}"
    if isinstance(value, int) and field in _LOG2:
        return f"{2**value}"
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def cost_text(cost: float) -> str:
    """A cost as tables show it."""
    return f"{cost:,.0f}" if cost >= 1000 else f"{cost:g}"


def table_of(found: Exploration) -> Group:
    """The front, the base beside it, what the fields do on it, and how many machines there were."""
    title = f"{found.network}: machines that no other beats; cost: {found.space.cost.text}"
    front = Table(title=title, title_justify="left")
    titles = ("", "cycles", "cost", "of base", *map(title_of, found.space.names))
    for name in titles:
        front.add_column(name, justify="right")
    for number, row in enumerate(found.front, start=1):
        values = (shown(name, value) for name, value in row.values.items())
        cost = cost_text(row.candidate.cost)
        front.add_row(str(number), f"{row.cycles:,}", cost, _ratio(found, row), *values)
    front.add_section()
    front.add_row("base", *_base_cells(found))
    return Group(front, "", fields_table(found), "", *summary(found))


def _ratio(found: Exploration, row: ExploredMachine) -> str:
    return f"{row.cycles / found.base.cycles:.3f}" if found.base.cycles else ""


def _base_cells(found: Exploration) -> list[str]:
    cycles, cost = found.base.cycles, found.space.cost_of(found.space.base)
    data = found.space.base.fields()
    return [
        "none" if cycles is None else f"{cycles:,}",
        "" if cost is None else cost_text(cost),
        "" if cycles is None else "1.000",
        *(shown(name, _plain(data[name])) for name in found.space.names),
    ]


def _plain(value: object) -> FieldValue:
    assert value is None or isinstance(value, int | float | bool | str)
    return value


def fields_table(found: Exploration) -> Table:
    """For each field its values, each with the machines on the front and those tried."""
    table = Table(title="what tells the front apart", title_justify="left")
    table.add_column("field")
    table.add_column("value: on the front / tried", overflow="fold")
    table.add_column("along the front")
    for field in found.fields:
        counts = ", ".join(
            f"{shown(field.name, value)}: {field.front.get(value, 0)}/{tried}"
            for value, tried in field.tried.items()
        )
        table.add_row(title_of(field.name), counts, field.trend)
    return table


def summary(found: Exploration) -> list[str]:
    """How many machines were looked at, and what was left out, one line each."""
    space = found.space
    count = f"{len(found.rows):,} machines, {len(found.front)} of them on the front"
    rest = "all that there are" if found.is_whole else f"of {space.size:,} points"
    lines = [f"{count}; {rest}"]
    if found.refused:
        refused = f"{sum(found.refused.values()):,} points are no machines that are asked for"
        lines.append(f"{refused}; most often: {most_frequent(found.refused)}")
    if found.incomplete:
        lines.append(
            f"{len(found.incomplete):,} machines leave layers to the host that others compute, and"
            " are not compared"
        )
    nodes = [row.outcome.host_nodes for row in found.front]
    if nodes and min(nodes) != max(nodes):
        lines.append(
            f"machines on the front leave {min(nodes)} to {max(nodes)} nodes to the host (JSON and"
            " CSV have the numbers)"
        )
    if found.failed:
        why = [row.outcome.why for row in found.failed]
        reasons = {reason: why.count(reason) for reason in why}
        lines.append(
            f"for {len(found.failed):,} machines there is no program; most often:"
            f" {most_frequent(reasons)}"
        )
    return lines


def csv_of(found: Exploration) -> str:
    """A line for each machine, in the order in which they were asked for."""
    names = found.space.names
    on_front = set(map(id, found.front))
    compared = set(map(id, found.compared))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        ["number", "front", "compared", "cycles", "cost", *SIZES, *names, "host_nodes", "why"]
    )
    for number, row in enumerate(found.rows):
        outcome, figures = row.outcome, figures_of(row.candidate.machine)
        flags = [int(id(row) in chosen) for chosen in (on_front, compared)]
        cycles = "" if outcome.cycles is None else outcome.cycles
        sizes = [f"{figures[name]:.0f}" for name in SIZES]
        line = [number, *flags, cycles, f"{row.candidate.cost:.12g}", *sizes]
        writer.writerow([*line, *row.values.values(), outcome.host_nodes, outcome.why])
    return stream.getvalue()


def json_of(found: Exploration) -> str:
    """All of it: the space, the base, the machines, the front as numbers of machines."""
    space = found.space
    places = {id(row): number for number, row in enumerate(found.rows)}
    whole = {
        "network": found.network,
        "space": {
            "base": space.base.fields(),
            "fields": {name: list(values) for name, values in space.fields.items()},
            "cost": space.cost.text,
            "where": [formula.text for formula in space.conditions],
            "limit_cost": space.limit,
            "points": space.size,
        },
        "base": {"cost": space.cost_of(space.base), **_outcome(found.base)},
        "is_whole": found.is_whole,
        "machines": [_machine(row) for row in found.rows],
        "front": [places[id(row)] for row in found.front],
        "compared": [places[id(row)] for row in found.compared],
        "fields": [
            {
                "field": field.name,
                "trend": field.trend,
                "tried": _counts(field.tried),
                "front": _counts(field.front),
            }
            for field in found.fields
        ],
        "refused": dict(sorted(found.refused.items())),
    }
    return json.dumps(whole, indent=2)


def _machine(row: ExploredMachine) -> dict[str, Any]:
    figures = figures_of(row.candidate.machine)
    sizes = {name: int(figures[name]) for name in SIZES}
    outcome = _outcome(row.outcome)
    return {"fields": row.values, "cost": row.candidate.cost, **sizes, **outcome}


def _outcome(outcome: Any) -> dict[str, Any]:
    return {k: getattr(outcome, k) for k in ("cycles", "why", "macs", "host_nodes", "host_macs")}


def _counts(counts: Mapping[Any, int]) -> list[dict[str, Any]]:
    return [{"value": value, "machines": count} for value, count in counts.items()]


def machine_files(found: Exploration) -> dict[str, str]:
    """The machines on the front as files that ``--target`` takes, by name."""
    width = len(str(len(found.front)))
    return {
        f"machine_{number:0{width}}.json": machine_text(row.candidate.machine)
        for number, row in enumerate(found.front, start=1)
    }


def machine_text(machine: Target) -> str:
    """A machine as a file: its preset, and what differs from it."""
    return json.dumps({"base": machine.preset, **machine.data.changes()}, indent=2) + "\n"


def machine_line(fields: Sequence[tuple[str, FieldValue]]) -> str:
    """A machine in a few words: what its varying fields are."""
    return ", ".join(f"{title_of(name)} {shown(name, value)}" for name, value in fields)
