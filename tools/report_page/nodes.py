"""The nodes of a network with what is known of each: place, cycles, waits, bytes, errors.

Cycles are those of the profile, whose regions are nodes. What belongs to no node, such as loads of
micro-ops before the first layer, is kept apart, so that everything adds up to the profile's cycles.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vtac.runtime.package import Placement
from vtac.runtime.profile import Profile
from vtac.sim import TimingReport
from vtac.sim.timing.accounts import Account
from vtac.tools.driver.placements import HOST, whole_of

if TYPE_CHECKING:
    from vtac.tools.reports.layer_errors import LayerError


@dataclass
class Cost:
    """What the accelerator spends on something, summed over launches and over cores.

    modules: cycles of each module by cause; those of the compute modules add up to ``cycles``.
    work: the causes that are work. bounds: lower bounds by resource. products: the
    multiply-accumulates that the GEMM core did, also for lanes that are not used. cores: the
    numbers of the cores that work on it.
    """

    cycles: int = 0
    instructions: int = 0
    modules: dict[str, Counter[str]] = field(default_factory=dict)
    bounds: Counter[str] = field(default_factory=Counter)
    nbytes: Counter[str] = field(default_factory=Counter)
    products: int = 0
    alu_micro_ops: int = 0
    work: int = 0
    cores: set[int] = field(default_factory=set)

    def add(self, account: Account, core: int = 0) -> None:
        """Add the account of one core in one launch."""
        self.cores |= {core} if account.instructions else set()
        self.cycles += account.cycles
        self.instructions += account.instructions
        for module, causes in account.modules.items():
            counter = self.modules.setdefault(module.name.lower(), Counter())
            counter.update({cause.value: cycles for cause, cycles in causes.items()})
        self.bounds.update(account.bounds)
        self.nbytes.update(account.nbytes)
        self.products += account.macs
        self.alu_micro_ops += account.alu_micro_ops
        self.work += account.busy(account.computes)

    @property
    def intensity(self) -> float:
        """Multiply-accumulates per byte read from DRAM."""
        return self.products / max(1, self.nbytes.total() - self.nbytes["out"])

    @property
    def rate(self) -> float:
        """Multiply-accumulates per cycle of all cores that work on it, taken to work together."""
        return len(self.cores) * self.products / self.cycles if self.cycles else 0.0

    @property
    def waits(self) -> int:
        """Cycles in which the compute module did not work."""
        return self.cycles - self.work

    @property
    def lower_bound(self) -> int:
        """The largest bound; no schedule of these instructions is faster."""
        return max(self.bounds.values(), default=0)

    @property
    def bound_by(self) -> str:
        """The resource with the largest bound; empty where there is nothing to do."""
        if not self.lower_bound:
            return ""
        return max(self.bounds, key=lambda name: self.bounds[name])


@dataclass(frozen=True)
class NodeCost:
    """One node of the network: where it runs, and its share of the cost.

    part_of: the node whose kernel computes it, empty if it has one of its own. cost: None where the
    node has no instructions of its own. error: the layer's error, if it was measured.
    """

    placement: Placement
    part_of: str
    cost: Cost | None
    error: "LayerError | None"

    @property
    def name(self) -> str:
        """The node's name, which no other node has."""
        return self.placement.node

    @property
    def operator(self) -> str:
        """The name of the node's operator, without the prefix of our dialect."""
        return self.placement.op.removeprefix("graph.")

    @property
    def is_hosted(self) -> bool:
        """Whether the node runs on the host."""
        return self.placement.where == HOST

    @property
    def cycles(self) -> int:
        """Cycles of the accelerator."""
        return self.cost.cycles if self.cost is not None else 0


def nodes_of(
    placements: Sequence[Placement], profile: Profile, errors: "Iterable[LayerError]"
) -> tuple[tuple[NodeCost, ...], Cost]:
    """Each node of a network, and the cost of what belongs to none."""
    costs = _costs(profile)
    measured = {error.node: error for error in errors}
    names = {placement.node for placement in placements}
    rest = Cost()
    for core, report in _cores(profile):
        for account in report.regions or (report.total,):
            if account.label not in names:
                rest.add(account, core)
    nodes = []
    for placement in placements:
        whole = whole_of(placement)
        part_of = whole if whole != placement.node else ""
        name = placement.node
        nodes.append(NodeCost(placement, part_of, costs.get(name), measured.get(name)))
    return tuple(nodes), rest


def _costs(profile: Profile) -> Mapping[str, Cost]:
    costs: dict[str, Cost] = {}
    for core, report in _cores(profile):
        for account in report.regions:
            costs.setdefault(account.label, Cost()).add(account, core)
    return costs


def _cores(profile: Profile) -> Iterator[tuple[int, TimingReport]]:
    """The numbers and reports of all cores in all launches."""
    for launch in profile.launches:
        yield from enumerate(launch.cores)
