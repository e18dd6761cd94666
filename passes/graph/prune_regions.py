"""``prune-regions``: a region that is not worth a launch goes back to the host.

The cost-based step of BYOC's partitioning (section 3.1.3). A region that would compute nothing goes
back: some patterns cost nothing on the accelerator (a reshape that the layout makes void), and a
region of nothing else would only carry data there and back. So does one that the user's criteria
rule out, and one that the codegen's estimate, with a launch and the traffic across the border,
finds slower than the host. Of the last kind a part may be worth a launch still: then only the rest
goes back, and the part forms convex regions (`cut_regions`). docs/partitioning.md says what the
host is taken to be.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from vtac.dialects.graph import CompositeOp
from vtac.dialects.target import Target
from vtac.passes.graph.annotate import dissolve
from vtac.passes.graph.codegen import Codegen, codegens_of, functions_of_host, target_of_module
from vtac.passes.graph.cost import RegionCost, cost_of
from vtac.passes.graph.cut_regions import cut_of
from vtac.passes.graph.host_model import HostModel, HostRates
from vtac.passes.graph.merge_regions import APART, REGION, assign_regions, outer_values_of
from vtac.passes.graph.reasons import Reason, ReasonKind

NOTHING_COMPUTED = Reason(
    "not worth a launch: nothing around it runs on the accelerator", ReasonKind.COST
)
HINT = "Say how fast the host is with --host-model, or offload all: --host-model none."
IN_A_CYCLE = Reason(
    "not worth a launch of its own, and one function with its neighbours on the accelerator would"
    " need its own results: a path between them leads elsewhere",
    ReasonKind.CYCLE,
)


@dataclass(frozen=True)
class PruneRegionsPass(HostRates, ModulePass):
    """Give regions back to the host that compute nothing, or too little by some criterion.

    min_macs: least multiply-accumulates of a region. max_border_bytes: most bytes that enter and
    leave it. compare: whether a region that the host would finish sooner goes back.
    """

    name = "prune-regions"

    min_macs: int = 0
    max_border_bytes: int | None = None
    compare: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Dissolve the composites of every region that is not worth it."""
        target = target_of_module(op)
        codegens = {codegen.name: codegen for codegen in codegens_of(ctx)}
        for function in functions_of_host(op):
            for block in function.body.blocks:
                if self.compare:
                    self._cut(block, codegens, target)
                self._prune(block, codegens, target)

    def host_model(self, codegen: Codegen, target: Target | None) -> HostModel:
        """The model of the host with which regions of a codegen are compared."""
        return codegen.host_model(target).with_options(self)

    def _cut(self, block: Block, codegens: Mapping[str, Codegen], target: Target | None) -> None:
        """Leave parts of regions to the host, and divide what remains into regions."""
        was_cut = False
        for members in regions_of(block):
            codegen = codegens.get(members[0].codegen.data if members[0].codegen else "")
            if codegen is None:
                continue
            cut = cut_of(members, codegen, target, self.host_model(codegen, target))
            if cut is None:
                continue
            was_cut = True
            what = (
                f"its region is cut here: with {len(cut.left)} of its {len(members)} groups of ops"
                f" on the host it takes {cut.cycles:,.0f} cycles, all on the host {cut.before:,.0f}"
            )
            for member in cut.left:
                dissolve(member, Reason(what, ReasonKind.COST, HINT))
        if was_cut:
            assign_regions(block, None, outer_values_of(codegens), refine=True)

    def _prune(self, block: Block, codegens: Mapping[str, Codegen], target: Target | None) -> None:
        free = {name: found.free_patterns(target) for name, found in codegens.items()}
        for members in regions_of(block):
            name = members[0].codegen
            if name is None or name.data not in codegens:
                continue
            codegen = codegens[name.data]
            reason: Reason | None
            if all(member.pattern.data in free[name.data] for member in members):
                in_cycle = any(APART in member.attributes for member in members)
                reason = IN_A_CYCLE if in_cycle else NOTHING_COMPUTED
            else:
                host = self.host_model(codegen, target)
                reason = self._fault(cost_of(members, codegen, target, host), codegen.name)
            if reason is not None:
                for member in members:
                    dissolve(member, reason)

    def _fault(self, cost: RegionCost, codegen: str) -> Reason | None:
        """Why a region is not worth it; None if it is."""
        if cost.macs < self.min_macs:
            what = f"its region has {cost.macs:,} multiply-accumulates, fewer than the user wants"
            return Reason(what, ReasonKind.COST, f"Lower --min-macs {self.min_macs}.")
        if self.max_border_bytes is not None and cost.border > self.max_border_bytes:
            what = f"{cost.border:,} bytes cross the border of its region, more than the user wants"
            return Reason(
                what, ReasonKind.COST, f"Raise --max-border-bytes {self.max_border_bytes}."
            )
        if self.compare and cost.is_slower:
            what = (
                f"its region would take {cost.cycles:,.0f} cycles on {codegen}, with a launch and"
                f" {cost.border:,} bytes across its border; the host takes {cost.host_cycles:,.0f}"
            )
            return Reason(what, ReasonKind.COST, HINT)
        return None


def regions_of(block: Block) -> list[Sequence[CompositeOp]]:
    """The composites of each region of a block, in order."""
    regions: defaultdict[int, list[CompositeOp]] = defaultdict(list)
    for op in block.ops:
        number = op.attributes.get(REGION)
        if isinstance(op, CompositeOp) and isinstance(number, IntegerAttr):
            regions[number.value.data].append(op)
    return list(regions.values())
