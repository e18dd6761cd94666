"""What ``vta-compile --explain`` shows of nodes: those of the model, most costly first.

Costs are in cycles of the accelerator: on it, those that the schedules of a layer expect; on the
host, those of its `HostModel`. What a node's conversion left as several operations is one row.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rich.table import Table

from vtac.dialects.wording import counted
from vtac.passes.graph.reasons import HostReason
from vtac.runtime.package import Placement
from vtac.tools.commands.explain_order import Order
from vtac.tools.driver.placements import HOST, whole_of
from vtac.tools.reports.partition_report import HostedOp
from vtac.tools.reports.report import Choice, CompileReport


def node_cycles(hosted: Iterable[HostedOp], choices: Iterable[Choice]) -> dict[str, float]:
    """The expected cycles of each node of which they are known."""
    found: defaultdict[str, float] = defaultdict(float)
    for op in hosted:
        found[op.node] += op.cycles
    for choice in choices:
        for layer in choice.layers:
            found[layer] += choice.cycles or 0
    return {node: cycles for node, cycles in found.items() if cycles}


def by_cost(
    placements: Sequence[Placement], cycles: Mapping[str, float], order: Order = "cost"
) -> list[Placement]:
    """Placements by falling cost; nodes that became part of another follow that one."""
    if order == "network":
        return list(placements)
    place = {placement.node: number for number, placement in enumerate(placements)}

    def rank(placement: Placement) -> tuple[float, int, bool, int]:
        whole = whole_of(placement)
        is_part = whole != placement.node
        first = place.get(whole, place[placement.node])
        return -cycles.get(whole, 0.0), first, is_part, place[placement.node]

    return sorted(placements, key=rank)


def hosted_table(report: CompileReport, order: Order = "cost") -> Table:
    """The nodes on the host, by reason, each reason with its way out.

    A node that is computed by several operations is named once, under the reason of the most costly
    one; operations that only move the elements of an accelerated node are not shown.
    """
    table = Table(title="on the host", title_justify="left", show_lines=True)
    for column in ("why", "nodes", "way out"):
        table.add_column(column, overflow="fold")
    groups: dict[HostReason, list[tuple[float, str]]] = {}
    for node, ops in _by_node(report).items():
        main = max(ops, key=lambda op: (not op.moves, op.cycles))
        cost = sum(op.cycles for op in ops)
        groups.setdefault(main.reason, []).append((cost, _named(node, ops, report)))
    rows = list(groups.items())
    if order == "cost":
        rows.sort(key=lambda row: -sum(cost for cost, _ in row[1]))
    for reason, nodes in rows:
        if order == "cost":
            nodes.sort(key=lambda item: -item[0])
        why = dict.fromkeys((reason.kind.value, reason.text))  # once where they are the same
        table.add_row(": ".join(why), "\n".join(text for _, text in nodes), reason.hint)
    return table


def _by_node(report: CompileReport) -> dict[str, list[HostedOp]]:
    """The operations on the host of each node that computes there, in the network's order."""
    on_host = {place.node for place in report.placements if place.where == HOST}
    found: defaultdict[str, list[HostedOp]] = defaultdict(list)
    for number, op in enumerate(report.partition.hosted):
        found[op.node or f"-{number}"].append(op)
    return {
        node: ops
        for node, ops in found.items()
        if node in on_host or not all(op.moves for op in ops)
    }


def _named(node: str, ops: Sequence[HostedOp], report: CompileReport) -> str:
    """A node with its operator, and the types of the one operation or the kinds of several."""
    kinds = {place.node: place.op.removeprefix("graph.") for place in report.placements}
    first = ops[0]
    if len(ops) == 1:
        return f"{first.node or '-'} ({kinds.get(node, first.op)}): {first.types}"
    listed = ", ".join(f"{n} {kind}" for kind, n in Counter(op.op for op in ops).most_common())
    return f"{first.node or '-'} ({kinds.get(node, first.op)}): {len(ops)} operations, {listed}"


def tuning_line(report: CompileReport) -> str:
    """How many kernels had a recorded schedule, and how many use it; empty without kernels."""
    schedules = report.schedules
    if not schedules:
        return ""
    found = [choice for choice in schedules if choice.record is not None]
    told = f"schedules: {counted(len(schedules), 'kernel')}, {len(found)} with a record"
    return f"{told}, {len(report.tuned)} tuned by one" if found else told
