"""The report of a partition: the costs of its regions, and why ops stay on the host.

``vta-compile --explain`` prints it, ``module.report.partition`` holds it. The costs of a region are
those by which `prune-regions` decided.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation

from vtac.dialects.graph import CompositeOp, ConstantOp, MovesElements, YieldOp
from vtac.dialects.locations import layer_of
from vtac.passes.graph.annotate import needs_reason, operator_of
from vtac.passes.graph.codegen import CODEGEN, Codegen, target_of_module
from vtac.passes.graph.cost import RegionCost, bytes_of, host_cycles
from vtac.passes.graph.host_model import HostModel
from vtac.passes.graph.merge_regions import APART
from vtac.passes.graph.prune_regions import PruneRegionsPass
from vtac.passes.graph.reasons import HostReason, ReasonKind, host_reason
from vtac.runtime.package import Placement
from vtac.tools.driver.placements import HOST, UNKNOWN, type_text
from vtac.tools.driver.planner import main_function

NAMED = 8
"""The most nodes of unknown size that are named."""


@dataclass(frozen=True)
class RegionReport:
    """A function of a codegen. ops: how many there are of each kind.

    is_apart: whether it stays apart from a neighbour of the same codegen because one region of both
    would be part of a cycle.
    """

    function: str
    codegen: str
    ops: Counter[str]
    cost: RegionCost
    is_apart: bool


@dataclass(frozen=True)
class HostedOp:
    """An op that stayed on the host.

    types: its operand and result types, as text. cycles: what the host is taken to need for it, in
    cycles of the codegen's clock. moves: whether it only moves elements.
    """

    node: str
    op: str
    types: str
    reason: HostReason
    cycles: float = 0.0
    moves: bool = False


@dataclass(frozen=True)
class PartitionReport:
    """All regions, all ops on the host, and the share of the network that is in regions.

    nodes, macs: the number in the whole network, and the number in regions. A node that is computed
    in parts counts where its products are computed. uncounted: the nodes whose multiply-accumulates
    are not known; ``macs`` has what is known of them.
    """

    regions: tuple[RegionReport, ...] = ()
    hosted: tuple[HostedOp, ...] = ()
    nodes: tuple[int, int] = (0, 0)
    macs: tuple[int, int] = (0, 0)
    uncounted: tuple[str, ...] = ()


def partition_report(
    module: ModuleOp,
    codegens: Iterable[Codegen],
    pruning: PruneRegionsPass,
    placements: Sequence[Placement],
) -> PartitionReport:
    """The report of a partitioned module."""
    by_name = {codegen.name: codegen for codegen in codegens}
    regions = []
    for function in module.ops:
        if isinstance(function, FuncOp) and isinstance(
            name := function.attributes.get(CODEGEN), StringAttr
        ):
            regions.append(_region(function, by_name[name.data], pruning, module))
    unknown = HostReason(UNKNOWN, ReasonKind.OTHER)
    host = _host_model(by_name.values(), pruning, module)
    hosted = tuple(
        HostedOp(
            layer_of(op),
            operator_of(op),
            _types(op),
            host_reason(op) or unknown,
            host_cycles(op, host),
            op.has_trait(MovesElements),
        )
        for op in main_function(module).body.block.ops
        if not isinstance(op, CompositeOp) and needs_reason(type(op))
    )
    off = [placement for placement in placements if placement.where != HOST]
    return PartitionReport(
        tuple(regions),
        hosted,
        (len(placements), len(off)),
        (sum(each.macs for each in placements), sum(each.macs for each in off)),
        tuple(each.node for each in placements if not each.macs_known),
    )


def _host_model(
    codegens: Iterable[Codegen], pruning: PruneRegionsPass, module: ModuleOp
) -> HostModel:
    """The host as the first codegen sees it."""
    target = target_of_module(module)
    return next((pruning.host_model(codegen, target) for codegen in codegens), HostModel())


def _region(
    function: FuncOp, codegen: Codegen, pruning: PruneRegionsPass, module: ModuleOp
) -> RegionReport:
    target = target_of_module(module)
    host = pruning.host_model(codegen, target)
    ops = [
        op
        for op in function.body.walk()
        if not isinstance(op, CompositeOp | ConstantOp | YieldOp | ReturnOp)
    ]
    composites = [op for op in function.body.walk() if isinstance(op, CompositeOp)]
    last = function.body.block.last_op
    assert isinstance(last, ReturnOp)
    border = bytes_of(function.args) + bytes_of(last.operands)
    own = codegen.cycles(composites, target) if composites else None
    return RegionReport(
        function.sym_name.data,
        codegen.name,
        Counter(map(operator_of, ops)),
        RegionCost.of(ops, border, own, host),
        APART in function.attributes,
    )


def _types(op: Operation) -> str:
    operands = ", ".join(map(type_text, op.operands))
    return f"{operands} -> {', '.join(map(type_text, op.results))}"


def share_lines(report: PartitionReport) -> list[str]:
    """Sentences that say how much of the network is in regions."""
    (nodes, off), (macs, there) = report.nodes, report.macs
    share = f" ({off / nodes:.1%})" if nodes else ""
    lines = [f"{off:,} of {nodes:,} nodes offloaded{share}"]
    least, most = ("at least ", "at most ") if report.uncounted else ("", "")
    share = f" ({most}{there / macs:.1%})" if macs else ""
    lines.append(f"{there:,} of {least}{macs:,} multiply-accumulates offloaded{share}")
    if count := len(report.uncounted):
        named = ", ".join((*report.uncounted[:NAMED], *(["..."] if count > NAMED else [])))
        nodes_of = "a node" if count == 1 else f"{count} nodes"
        lines.append(f"multiply-accumulates of {nodes_of} are not known: {named}")
    return lines


def regions_table(report: PartitionReport) -> Table:
    """Each region with its ops and its costs, on the accelerator and on the host."""
    table = Table(title="regions", title_justify="left")
    table.add_column("function")
    table.add_column("ops", overflow="fold")
    for column in ("MACs", "border bytes", "cycles", "on the host"):
        table.add_column(column, justify="right")
    if any(region.is_apart for region in report.regions):
        table.caption = "* another region is beside it, and one of both would make a cycle"
        table.caption_justify = "left"
    for region in report.regions:
        kinds = ", ".join(f"{count} {kind}" for kind, count in region.ops.most_common())
        cost = region.cost
        cycles = "unknown" if cost.cycles is None else f"{cost.cycles:,.0f}"
        numbers = f"{cost.macs:,}", f"{cost.border:,}", cycles, f"{cost.host_cycles:,.0f}"
        name = f"{region.function} *" if region.is_apart else region.function
        table.add_row(name, f"{region.ops.total()}: {kinds}", *numbers)
    return table
