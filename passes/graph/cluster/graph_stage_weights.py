"""``graph-stage-weights``: which layers read their constants from the global buffer.

Takes a bound and placed function for a cluster with a copy engine; leaves ``graph.staged`` on the
layers whose weights the DMA brings. Such weights are read from DDR once for all cores, and early:
while the layers before still compute. They take room that tensors leave free, from the step behind
which the copy begins to the layer's own. For each layer, in order, the beginning is chosen with
which the layer waits least, of equal ones the latest; if cores that read DDR themselves would be
done sooner, the layer stays without, and so does one whose constants would take too much room.

Verified afterwards: staged constants lie in the global buffer, apart from tensors that are live
and from each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph import STAGED, StagedAttr
from vtac.dialects.graph.plan_attributes import PLACE_ALIGNMENT
from vtac.dialects.target import ClusterTarget
from vtac.passes.graph.cluster.layer_costs import constant_bytes
from vtac.passes.graph.cluster.layers import layers_of, planned_functions
from vtac.passes.graph.cluster.plan_steps import PlanSteps, Step

AHEAD = 12
"""How many steps before its layer a copy may begin."""


@dataclass(frozen=True)
class Taken:
    """Bytes of the global buffer from one step to another, both included."""

    start: int
    end: int
    first: int
    last: int

    def meets(self, other: "Taken") -> bool:
        """Whether both hold a byte in one step."""
        is_alive = self.first <= other.last and other.first <= self.last
        return is_alive and self.start < other.end and other.start < self.end


@dataclass(frozen=True)
class GraphStageWeightsPass(ModulePass):
    """Let the DMA bring weights to the global buffer."""

    name = "graph-stage-weights"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Stage the weights of every function for a cluster with a DMA."""
        for function, cluster in planned_functions(op):
            if cluster.dma and cluster.gb_bytes:
                stage(function, cluster)
                verify_staged(function, cluster)


def stage(function: FuncOp, cluster: ClusterTarget) -> None:
    """Choose for each layer whether and when its constants are copied."""
    for layer in layers_of(function):
        layer.attributes.pop(STAGED, None)
    plan = PlanSteps(function, cluster)
    taken = placed(plan)
    begins = [0.0]
    busy = 0.0
    for step in plan.steps:
        size = constant_bytes(step.layer, cluster.core)
        begin = begins[-1]
        direct = float(plan.time(step, staged=False).cycles)
        best = direct
        if size and plan.costs.may_stage(step.layer):
            found = _best_copy(plan, step, size, taken, begins, busy)
            if found is not None:
                wait, end, region = found
                staged = wait + plan.time(step, staged=True, without_weights=True).cycles
                if staged <= direct:
                    best, busy = staged, end
                    taken.append(region)
                    attr = StagedAttr(region.start, size, region.first - 1)
                    step.layer.attributes[STAGED] = attr
        begins.append(begin + best)


def _best_copy(
    plan: PlanSteps,
    step: Step,
    size: int,
    taken: Sequence[Taken],
    begins: Sequence[float],
    busy: float,
) -> tuple[float, float, Taken] | None:
    """The copy for which a layer waits least: its wait, its end, and the room that it takes."""
    best: tuple[float, float, Taken] | None = None
    for first in range(step.number, max(step.number - AHEAD, 0) - 1, -1):
        region = _free(size, first, step.number, taken, plan.cluster.gb_bytes)
        if region is None:
            continue
        end = max(begins[first], busy) + size / plan.costs.ddr_rate
        wait = max(end - begins[-1], 0.0)
        if best is None or wait < best[0]:
            best = wait, end, region
        if wait == 0:
            break
    return best


def _free(size: int, first: int, last: int, taken: Sequence[Taken], room: int) -> Taken | None:
    """The lowest room that is free in all steps from first to last."""
    at = 0
    alive = [t for t in taken if t.first <= last and first <= t.last]
    for other in sorted(alive, key=lambda t: t.start):
        if other.start - at >= size:
            break
        at = max(at, -(-other.end // PLACE_ALIGNMENT) * PLACE_ALIGNMENT)
    return Taken(at, at + size, first, last) if at + size <= room else None


def placed(plan: PlanSteps) -> list[Taken]:
    """What tensors take of the global buffer."""
    found = []
    for root, buffer in plan.buffers.by_root.items():
        offset = None if buffer.outside else plan.offset(root)
        if offset is not None:
            found.append(Taken(offset, offset + buffer.size, buffer.first, buffer.last))
    return found


def staged_of(layer: Operation) -> StagedAttr | None:
    """How the constants of a layer are staged, if they are."""
    staged = layer.attributes.get(STAGED)
    return staged if isinstance(staged, StagedAttr) else None


def verify_staged(function: FuncOp, cluster: ClusterTarget) -> None:
    """Raise `VerifyException` unless staged constants lie apart from all else that is live."""
    plan = PlanSteps(function, cluster)
    taken = placed(plan)
    for step in plan.steps:
        staged = staged_of(step.layer)
        if staged is None:
            continue
        start, size = staged.offset.data, staged.bytes.data
        own = Taken(start, start + size, staged.after.data + 1, step.number)
        if own.first > step.number or own.end > cluster.gb_bytes:
            raise VerifyException(f"{staged} does not fit before step {step.number}")
        if any(own.meets(other) for other in taken):
            raise VerifyException(
                f"{staged} overwrites what step {step.number} or one before needs"
            )
        taken.append(own)
