"""Everything that the page shows, as plain values: what the template and the scripts read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any

from vtac.dialects.graph import MacCount
from vtac.dialects.target import cores_of
from vtac.runtime.executor import Module
from vtac.runtime.package import HOST, Placement
from vtac.runtime.profile import Profile
from vtac.sim import TimingPreset, TimingReport
from vtac.sim.cluster import ClusterReport
from vtac.sim.cluster.pictures import CLUSTER_KINDS
from vtac.sim.cluster.timing import cluster_rooflines
from vtac.sim.timing.accounts import Cause
from vtac.sim.timing.roofline import Roofs
from vtac.sim.timing.work import InstructionKind
from vtac.tools.report_page.advice import Advice, accelerator_advice, host_advice
from vtac.tools.report_page.excerpts import NodeIR, node_irs
from vtac.tools.report_page.lanes import LaneRow, lane_rows
from vtac.tools.report_page.nodes import Cost, NodeCost, nodes_of
from vtac.tools.report_page.timeline import (
    launch_starts,
    memory_samples,
    module_names,
    spans_of,
    tracks_of,
)

if TYPE_CHECKING:
    from vtac.tools.reports.layer_errors import LayerError

IR_BYTES = 2_000_000
"""The most bytes of IR in a page."""

OTHER = "#888888"
"""The colour of kinds of instructions that have none."""

IR_LINES = (120, 60, 30, 12, 4)
"""How many lines of an excerpt are shown: as many as the page has room for."""


@dataclass(frozen=True)
class Contents:
    """What a page shows of a compiled network.

    rest: the cost of what belongs to no node. uses_ir: whether the package keeps IR.
    """

    title: str
    module: Module
    nodes: tuple[NodeCost, ...]
    rest: Cost
    lanes: Sequence[LaneRow]
    profile: Profile
    irs: Mapping[str, NodeIR]
    uses_ir: bool
    on_accelerator: Sequence[Advice]
    on_host: Sequence[Advice]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each node."""
        return {node.name: number for number, node in enumerate(self.nodes)}

    @property
    def cores(self) -> int:
        """How many cores work at one time."""
        return max((len(launch.cores) for launch in self.profile.launches), default=1)

    @property
    def has_edges(self) -> bool:
        """Whether the package says which node reads which."""
        return any(node.placement.after for node in self.nodes)


def contents_of(
    module: Module,
    title: str,
    preset: str | TimingPreset | None = None,
    layer_errors: "Iterable[LayerError] | None" = None,
) -> Contents:
    """What the page of a module shows. Arguments as of `vtac.tools.report_page.report_html`."""
    if layer_errors is None:
        layer_errors = getattr(module.report, "layer_errors", ())
    profile = module.profile(preset) if module.target is not None else Profile(())
    nodes, rest = nodes_of(module.explain, profile, layer_errors)
    names = [node.name for node in nodes]
    ir = module.package.ir
    return Contents(
        title,
        module,
        nodes,
        rest,
        lane_rows(names, {node.name: node.placement.after for node in nodes}),
        profile,
        _irs(ir, set(names)),
        bool(ir),
        accelerator_advice(nodes, sum(core.cycles for core in _all_cores(profile))),
        host_advice(nodes),
    )


def _irs(ir: Mapping[str, str], names: set[str]) -> dict[str, NodeIR]:
    """The IR of nodes, in excerpts that are short enough for a page."""
    for lines in IR_LINES:
        found = {node: each for node, each in node_irs(ir, lines).items() if node in names}
        texts = {excerpt.text for each in found.values() for excerpt in each.excerpts}
        if sum(map(len, texts)) <= IR_BYTES:
            return found
    return {}


def page_data(contents: Contents) -> dict[str, Any]:
    """The data that the page's scripts read, which JSON holds."""
    texts: dict[str, int] = {}
    profile = contents.profile
    starts = launch_starts(profile)
    return {
        "nodes": [_node_data(node, contents, texts) for node in contents.nodes],
        "texts": list(texts),
        "hasIr": contents.uses_ir,
        "cycles": profile.cycles,
        "launches": [
            {"function": launch.function, "start": start, "cycles": launch.timing.cycles}
            for launch, start in zip(profile.launches, starts, strict=True)
        ],
        "modules": module_names(),
        "tracks": [asdict(track) for track in tracks_of(profile)],
        "causes": [cause.value for cause in Cause],
        "kinds": [CLUSTER_KINDS.get(kind, (OTHER, kind.name.lower())) for kind in InstructionKind],
        "spans": spans_of(profile, contents.numbers).as_lists(),
        "memory": memory_samples(profile, contents.module.memory_use(profile)),
        "roofline": _roofline(contents),
    }


def _node_data(node: NodeCost, contents: Contents, texts: dict[str, int]) -> dict[str, Any]:
    placement, found = node.placement, contents.irs.get(node.name, NodeIR())
    numbers = contents.numbers
    levels = [
        [e.level, texts.setdefault(e.text, len(texts)), len(e.text.splitlines()), e.total]
        for e in found.excerpts
    ]
    return {
        "name": node.name,
        "op": node.operator,
        "where": placement.where,
        "partOf": numbers.get(node.part_of, -1) if node.part_of else -1,
        "reads": [numbers[name] for name in placement.after if name in numbers],
        "reason": placement.reason,
        "wayOut": placement.way_out,
        "result": placement.result,
        "macs": macs_text(placement),
        "macsNumber": placement.macs,
        "cost": None if node.cost is None else _cost_data(node.cost),
        "error": None if node.error is None else _error_data(node.error),
        "quantisation": _quantisation(node.name, contents.module),
        "levels": levels,
        "choices": list(found.choices) or _choices(node.name, contents.module),
        "estimate": found.estimate,
    }


def _cost_data(cost: Cost) -> dict[str, Any]:
    return {
        "cycles": cost.cycles,
        "waits": cost.waits,
        "instructions": cost.instructions,
        "bound": cost.lower_bound,
        "boundBy": cost.bound_by,
        "modules": cost.modules,
        "bytes": {name: amount for name, amount in cost.nbytes.items() if amount},
        "products": cost.products,
    }


def _error_data(error: "LayerError") -> dict[str, float | None]:
    """Signal to noise in dB; None where a layer is exact."""
    return {
        "total": error.total if isfinite(error.total) else None,
        "own": error.own if isfinite(error.own) else None,
    }


def _quantisation(node: str, module: Module) -> list[str]:
    """A sentence for each conversion of a node between reals and integers."""
    lines = []
    for each in module.package.quantisation:
        if each.layer == node and each.scales:
            low, high = min(each.scales), max(each.scales)
            scales = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
            text = f"{each.op}: scale {scales}, zero point {each.zero_point}"
            if each.shifts:
                text += f", shift {min(each.shifts)} to {max(each.shifts)}"
            lines.append(text)
    return lines


def _choices(node: str, module: Module) -> list[str]:
    """What the scheduler chose, where the module was compiled in this process."""
    choices = getattr(module.report, "choices", ())
    return [
        line
        for choice in choices
        if node in choice.layers and choice.stage == "schedule"
        for line in choice.chosen.splitlines()
    ]


def _roofline(contents: Contents) -> dict[str, Any] | None:
    """The roofs, and for each node with products its intensity and its rate."""
    dots = [
        {
            "node": number,
            "intensity": node.cost.intensity,
            "rate": node.cost.rate,
            "cycles": node.cost.cycles,
        }
        for number, node in enumerate(contents.nodes)
        if node.cost is not None and node.cost.products and node.cost.cycles
    ]
    if not dots:
        return None
    roofs = _roofs(contents.profile)
    return {"peak": roofs.peak, "bandwidth": roofs.bandwidth, "dots": dots}


def _roofs(profile: Profile) -> Roofs:
    """The roofs of the machine; those of a cluster are of all cores and of its DDR."""
    report = profile.launches[0].timing
    if isinstance(report, ClusterReport):
        return next(line.roofs for line in cluster_rooflines(report) if line.name == "DDR")
    return Roofs.of(report.target, report.preset)


def _all_cores(profile: Profile) -> list[TimingReport]:
    """The reports of all cores in all launches."""
    return [core for launch in profile.launches for core in launch.cores]


def macs_text(placement: Placement) -> str:
    """The multiply-accumulates of a node; empty if it has none."""
    text = str(MacCount(placement.macs, placement.macs_known))
    return "" if text == "0" else text


def module_rows(contents: Contents) -> list[tuple[str, bool, list[int]]]:
    """For each cause of cycles: its name, whether it is work, and the cycles of each module."""
    total = Cost()
    for core in _all_cores(contents.profile):
        total.add(core.total)
    rows = []
    for cause in Cause:
        cycles = [total.modules[name][cause.value] for name in module_names() if total.modules]
        if any(cycles):
            rows.append((cause.value, cause.work, cycles))
    return rows


def figures(contents: Contents) -> list[tuple[str, str]]:
    """The figures at the head of the page: a name and a text for each."""
    nodes, profile = contents.nodes, contents.profile
    macs = sum(node.placement.macs for node in nodes)
    off = [node for node in nodes if node.placement.where != HOST]
    found = [("nodes on the accelerator", f"{len(off):,} of {len(nodes):,}")]
    if macs:
        share = sum(node.placement.macs for node in off) / macs
        at_most = "" if all(node.placement.macs_known for node in nodes) else "at most "
        found.append(("multiply-accumulates there", f"{at_most}{share:.1%} of {macs:,}"))
    if profile.launches:
        totals = [core.total for core in _all_cores(profile)]
        products = sum(total.macs for total in totals)
        peak = _roofs(profile).peak * profile.cycles
        cores = "core" if contents.cores == 1 else "cores"
        found += [
            ("cycles", f"{profile.cycles:,}"),
            ("on the accelerator", _milliseconds(profile)),
            ("launches", f"{len(profile.launches):,}"),
            ("instructions", f"{sum(total.instructions for total in totals):,}"),
            (f"of the peak of the GEMM {cores}", f"{products / peak:.1%}" if peak else "-"),
        ]
    return found


def machine_text(contents: Contents) -> str:
    """The machine and the clock, in words."""
    machine = contents.module.target
    if machine is None:
        return "compiled for no machine"
    target, cores = cores_of(machine)
    of_cores = "" if cores == 1 else f"{cores} cores of "
    text = (
        f"compiled for {of_cores}{target.preset}: products of {target.batch} x {target.block} by"
        f" {target.block} x {target.block}, scratchpads of {target.inp_depth:,} activations,"
        f" {target.wgt_depth:,} blocks of weights and {target.acc_depth:,} accumulators"
    )
    launches = contents.profile.launches
    return f"{text}; timed by {launches[0].cores[0].preset.name}" if launches else text


def _milliseconds(profile: Profile) -> str:
    clock = profile.launches[0].cores[0].preset.clock_mhz
    return f"{profile.seconds * 1e3:,.2f} ms at {clock:g} MHz"
