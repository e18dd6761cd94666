"""Which composites of a region are better left to the host, by a minimum cut.

Each composite costs cycles on the accelerator or on the host. A value that one side makes and the
other reads crosses the border, once however many read it; so does what enters or leaves the region
where the accelerator reads or makes it. If anything stays on the accelerator, it costs a launch.
The cheapest choice is a minimum cut. Stone ("Multiprocessor scheduling with the aid of network flow
algorithms", 1977) divides programs between two processors in this way.

Only regions that are slower than the host as a whole are cut: the estimates of single layers are
too rough to divide a region that is worth its launch.

The cut counts one launch. What it keeps may fall into parts with a launch each, so that the parts
are priced again before the cut is taken.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from vtac.dialects.graph import CompositeOp
from vtac.dialects.target import Target
from vtac.passes.graph.codegen import Codegen
from vtac.passes.graph.cost import bytes_of, computing_ops, cost_of, host_cycles
from vtac.passes.graph.host_model import HostModel
from vtac.passes.graph.minimum_cut import TwoWayChoice

STEPS = 1 << 10
"""Costs in a cut are whole multiples of this part of a cycle."""


@dataclass(frozen=True)
class RegionCut:
    """A division of a region between the accelerator and the host.

    left: the composites that go to the host. cycles: of the whole region with these on the host;
    before: with all of it on the host.
    """

    left: Sequence[CompositeOp]
    cycles: float
    before: float


@dataclass(frozen=True)
class Prices:
    """The costs of a region's parts in cycles.

    accelerator: price of a composite by itself, without a launch. host: price of a composite on the
    host. launch: price of a launch. crossing: price of a value that crosses the border.
    """

    accelerator: Callable[[CompositeOp], float]
    host: Callable[[CompositeOp], float]
    launch: float
    crossing: Callable[[SSAValue], float]


def prices_of(codegen: Codegen, target: Target | None, host: HostModel) -> Prices | None:
    """The prices that `RegionCost` adds up; None for a codegen that estimates no cycles."""
    empty = codegen.cycles([], target)
    if empty is None:
        return None

    def accelerator(member: CompositeOp) -> float:
        return (codegen.cycles([member], target) or 0.0) - empty

    def on_host(member: CompositeOp) -> float:
        return sum(host_cycles(op, host) for op in computing_ops(member))

    def crossing(value: SSAValue) -> float:
        return bytes_of([value]) / host.bytes_a_cycle

    return Prices(accelerator, on_host, empty + host.cycles_a_launch, crossing)


def cheapest(members: Sequence[CompositeOp], prices: Prices) -> set[CompositeOp]:
    """The composites of a region that the accelerator should keep, if they take one launch."""
    choice, inside = TwoWayChoice(), set(members)
    choice.cost_if_chosen("launch", round(STEPS * prices.launch))
    for member in members:
        choice.cost_if_chosen(member, round(STEPS * prices.accelerator(member)))
        choice.cost_if_left(member, round(STEPS * prices.host(member)))
        choice.cost_if_only(member, "launch", None)
    for value in _values(members):
        cost, maker = round(STEPS * prices.crossing(value)), value.owner
        made = isinstance(maker, CompositeOp) and maker in inside
        # A value that the other side reads crosses the border once, however many read it.
        here, there = (value, "read here"), (value, "read there")
        if made:
            choice.cost_if_only(here, maker, cost)
            choice.cost_if_only(maker, there, cost)
        else:
            choice.cost_if_chosen(here, cost)
        for use in value.uses:
            if use.operation in inside:
                choice.cost_if_only(use.operation, here, None)
                if made:
                    choice.cost_if_only(there, use.operation, None)
            elif made:
                choice.cost_if_chosen(there, None)
    chosen = choice.chosen()
    return {member for member in members if member in chosen}


def _values(members: Sequence[CompositeOp]) -> list[SSAValue]:
    values = (value for member in members for value in (*member.operands, *member.outputs))
    return list(dict.fromkeys(values))


def cut_of(
    members: Sequence[CompositeOp], codegen: Codegen, target: Target | None, host: HostModel
) -> RegionCut | None:
    """The cut that saves a part of a region that is not worth a launch as a whole.

    None if it is worth one, or if it is best on the host.
    """
    whole, prices = cost_of(members, codegen, target, host), prices_of(codegen, target, host)
    if prices is None or not whole.is_slower:
        return None
    kept = cheapest(members, prices)
    left = [member for member in members if member not in kept]
    if not kept or not left:
        return None
    cycles = sum(map(prices.host, left))
    for part in parts_of([member for member in members if member in kept]):
        cost = cost_of(part, codegen, target, host)
        cycles += min(cost.cycles or 0.0, cost.host_cycles)
    before = whole.host_cycles
    return RegionCut(left, cycles, before) if cycles < before else None


def parts_of(members: Sequence[CompositeOp]) -> list[list[CompositeOp]]:
    """Composites in program order, in groups that are joined by values from one to another."""
    group = {member: [member] for member in members}
    for member in members:
        for operand in member.operands:
            maker = operand.owner
            if not isinstance(maker, CompositeOp) or maker not in group:
                continue
            first, second = group[maker], group[member]
            if first is not second:
                first += second
                group.update(dict.fromkeys(second, first))
    return list({id(part): part for part in group.values()}.values())
