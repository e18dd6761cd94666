"""What would help a network most, read off the clock's accounts and the reasons of the partition.

Each piece of advice names the cycles that are at stake: what a layer takes beyond the lower bound
of its resources, or the products that it computes beyond those of the network.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vtac.sim.timing.accounts import Cause
from vtac.tools.report_page.nodes import Cost, NodeCost

MOST = 8
"""The most pieces of advice about the accelerator, and about the host."""

NOTABLE = 0.005
"""The share of a run's cycles below which nothing is said."""

_REMEDIES: Mapping[str, str] = {
    Cause.LOAD_TO_COMPUTE.value: "loads arrive too late. Larger tiles, which use each load more"
    " often, more slots for what is loaded, or a wider memory port would help.",
    Cause.DRAM.value: "memory is slow to answer. Longer rows in each transfer would help.",
    Cause.SEMAPHORE.value: "results of other cores, or copies, arrive too late. Parts of equal work"
    " on the cores, or layers that stay on theirs, would help.",
    Cause.STORE_TO_COMPUTE.value: "results leave too slowly. More slots for accumulators or smaller"
    " tiles at the end of a layer would help.",
    Cause.FETCH.value: "instructions arrive too late. Fewer, larger instructions would help:"
    " larger tiles.",
    Cause.FULL_QUEUE.value: "instructions wait before a full queue. Deeper command"
    " queues would help.",
    Cause.MICRO_OPS.value: "micro-ops are loaded. Fewer kinds of tiles or a larger micro-op buffer"
    " would help.",
    Cause.START.value: "many short instructions start. Larger tiles would help.",
}


@dataclass(frozen=True)
class Advice:
    """A sentence about a node. cycles: what is at stake; 0 where that is not known."""

    node: str
    text: str
    cycles: int


def accelerator_advice(nodes: Iterable[NodeCost], cycles: int) -> list[Advice]:
    """Advice on nodes that take longer than they have to, the most cycles first.

    cycles: those of all cores over the whole run.
    """
    found = []
    for node in nodes:
        if node.cost is not None:
            found += [*_waiting(node, node.cost), *_unused_lanes(node, node.cost)]
    worth = [advice for advice in found if advice.cycles > NOTABLE * cycles]
    return sorted(worth, key=lambda advice: -advice.cycles)[:MOST]


def host_advice(nodes: Sequence[NodeCost]) -> list[Advice]:
    """The nodes on the host with most multiply-accumulates, then those that part launches."""
    hosted = [node for node in nodes if node.is_hosted and node.placement.macs]
    hosted.sort(key=lambda node: -node.placement.macs)
    found = [_hosted(n, f"{n.placement.macs:,} multiply-accumulates") for n in hosted]
    groups: dict[tuple[str, str], list[NodeCost]] = {}
    for node in _between(nodes):
        if not node.placement.macs and not node.part_of:
            groups.setdefault((node.operator, node.placement.way_out), []).append(node)
    for (operator, _), members in sorted(groups.items(), key=lambda item: -len(item[1])):
        count = f" and {len(members) - 1:,} more" if len(members) > 1 else ""
        what = f"{operator}{count} between nodes of the accelerator, which part its launches"
        found.append(_hosted(members[0], what))
    return found[:MOST]


def _hosted(node: NodeCost, what: str) -> Advice:
    placement = node.placement
    return Advice(node.name, f"{what}: {placement.reason}. {placement.way_out}".strip(), 0)


def _between(nodes: Sequence[NodeCost]) -> list[NodeCost]:
    """The nodes on the host that need results of the accelerator, and that it needs."""
    behind: set[str] = set()
    for node in nodes:
        if any(name in behind for name in node.placement.after) or not node.is_hosted:
            behind.add(node.name)
    before: set[str] = set()
    for node in reversed(nodes):
        if node.name in before or not node.is_hosted:
            before.update(node.placement.after)
    return [n for n in nodes if n.is_hosted and n.name in behind and n.name in before]


def _waiting(node: NodeCost, cost: Cost) -> Iterable[Advice]:
    """What a layer takes beyond its bound, with the largest cause of waiting."""
    beyond = cost.cycles - cost.lower_bound
    causes = cost.modules.get("compute", Counter())
    waits = {cause.value: causes[cause.value] for cause in Cause if not cause.work}
    cause = max(waits, key=lambda name: waits[name])
    if beyond <= 0 or not waits[cause]:
        return
    remedy = _REMEDIES.get(cause, "the modules wait for each other.")
    text = (
        f"{beyond:,} cycles beyond its bound of {cost.lower_bound:,} ({cost.bound_by}). Mostly"
        f" ({waits[cause]:,} cycles: {cause}) {remedy}"
    )
    yield Advice(node.name, text, min(beyond, cost.waits))


def _unused_lanes(node: NodeCost, cost: Cost) -> Iterable[Advice]:
    """The cycles of products that are none of the layer's own."""
    macs, done = node.placement.macs, cost.products
    if not node.placement.macs_known or not macs or done <= macs:
        return
    gemm = cost.modules.get("compute", Counter())[Cause.GEMM.value]
    share = macs / done
    text = (
        f"{done:,} products are computed for the {macs:,} of the network. The others are in lanes"
        " that hold no channel or row, at borders, or add biases. Channels in multiples of the"
        " block, or a machine with smaller blocks, would help with lanes."
    )
    yield Advice(node.name, text, round(gemm * (1 - share)))
