"""The quantiser's decisions for a function: groups, scales, numbers, and reasons for the rest.

Groups are made as large as their ops allow. Where neighbours or numbers stand in the way, the
smallest thing is given up (a core no longer shares its accumulators; then an op stays float) and
all is planned anew, until nothing stands in the way. Every round gives up something, so it ends.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.ir import BlockArgument, Operation, SSAValue

from vtac.passes.graph.float_groups.contractions import Contraction
from vtac.passes.graph.float_groups.groups import (
    Group,
    Grouping,
    PassThrough,
    Sum,
    find_groups,
)
from vtac.passes.graph.float_groups.network import Network
from vtac.passes.graph.quantize.block_sharing import share_shifts
from vtac.passes.graph.quantize.curves import note
from vtac.passes.graph.quantize.equalisation import find_factors
from vtac.passes.graph.quantize.layer import Layer
from vtac.passes.graph.quantize.numbers import ShiftPolicy
from vtac.passes.graph.quantize.requantisation import number
from vtac.passes.graph.quantize.scales import Obstacle, Scale, choose_scales
from vtac.passes.graph.reasons import Reason, ReasonKind, settled_reasons

NOT_WORTH_ROUNDING = Reason(
    "its operands stay on the host, where int8 would only lose precision",
    ReasonKind.NUMBERS,
    "None needed: it follows the operations that make its operands.",
)


@dataclass(frozen=True)
class QuantisationPlan:
    """What is to become of a function; the IR has not been changed.

    groups: in order of execution. layers: the integers of each group that computes. scales: of each
    value that is int8 somewhere. reasons: of the computing ops that stay float. notes: on what was
    chosen for a sum, by its root.
    """

    network: Network
    groups: list[Group]
    layers: dict[Sum | Contraction, Layer]
    scales: dict[SSAValue, Scale]
    reasons: dict[Operation, str]
    notes: dict[Operation, str] = field(default_factory=dict)

    @cached_property
    def covered(self) -> set[Operation]:
        """The float ops that become integer."""
        return {op for group in self.groups for op in group.covered}

    def steps(self) -> Iterator[Group | Operation]:
        """The groups, each at its root, and the ops that stay float, in order of execution."""
        roots = {group.root: group for group in self.groups}
        for op in self.network.block.ops:
            if op in roots or op not in self.covered:
                yield roots.get(op, op)


def make_plan(network: Network, policy: ShiftPolicy) -> QuantisationPlan:
    """Decide how a float function with ranges computes in integers.

    Ops that the user has settled on the host stay there.
    """
    declined = settled_reasons(network.block.ops)
    apart: set[Operation] = set()
    while True:
        grouping = find_groups(network, declined, apart)
        obstacles = dict(_obstacles(network, grouping))
        if obstacles:
            declined.update(obstacles)
            continue
        network.blocks = {}
        if network.observations is not None:
            network.factors = find_factors(network, grouping.groups, network.observations)
        try:
            scales = choose_scales(network, grouping.groups)
            layers = {
                group: number(network, group, scales, policy)
                for group in grouping.groups
                if not isinstance(group, PassThrough)
            }
            sharing = share_shifts(network, grouping.groups, scales, layers, policy)
            network.blocks = {group.root: x for group, x in sharing.blocks.items()}
            network.factors = {**network.factors, **sharing.factors}
            layers |= {group: number(network, group, scales, policy) for group in sharing.blocks}
        except Obstacle as obstacle:
            group = obstacle.group
            if isinstance(group, Sum) and group.core is not None and group.shares_core:
                apart.add(group.core)
            else:
                declined[group.root] = obstacle.reason
            continue
        notes = {
            group.root: note(layer)
            for group, layer in layers.items()
            if isinstance(group, Sum) and group.join == "curve"
        }
        return QuantisationPlan(network, grouping.groups, layers, scales, grouping.reasons, notes)


def _obstacles(network: Network, grouping: Grouping) -> Iterator[tuple[Operation, str]]:
    """Groups that cannot be kept because of the values around them: (root, reason)."""
    int8 = grouping.int8_values()
    for group in grouping.groups:
        result = group.root.results[0]
        needs_range = not (isinstance(group, PassThrough) or group.leaves_int32)
        if needs_range and network.range_of(result) is None:
            yield group.root, Reason("its result has no calibrated range", ReasonKind.NUMBERS)
        elif isinstance(group, Sum) and group.only_rounds and group.inputs[0] not in int8:
            yield group.root, Reason("what it rounds is computed on the host", ReasonKind.NUMBERS)
        elif isinstance(group, Sum) and group.is_rounded and group.leaves_int32:
            what = "it rounds what the last dense layer leaves in int32"
            yield group.root, Reason(what, ReasonKind.NUMBERS)
        elif any(v not in int8 and network.range_of(v) is None for v in group.inputs):
            yield group.root, Reason("an operand has no calibrated range", ReasonKind.NUMBERS)
        elif _multiplies(group):
            continue
        elif not any(v in int8 or _is_entry(network, v) for v in group.inputs):
            yield group.root, NOT_WORTH_ROUNDING


def _is_entry(network: Network, value: SSAValue) -> bool:
    """Whether a value enters from outside, or is rounded by the network itself."""
    return isinstance(value, BlockArgument) or network.given(value) is not None


def _multiplies(group: Group) -> bool:
    """Whether a group does work worth rounding its operands for."""
    if not isinstance(group, Sum):
        return isinstance(group, Contraction)
    return any(form.multiplies for form in group.forms)
