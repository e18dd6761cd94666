"""Where the tensors of a cluster's plan lie, in numbers: the paper's table 3."""

from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import OpResult, SSAValue

from vtac.dialects.graph import PLACES, InstanceOp, PlaceAttr
from vtac.passes.graph.cluster.buffers import FunctionBuffers
from vtac.passes.graph.cluster.layers import layers_of, planned_functions


@dataclass(frozen=True)
class PlanSummary:
    """A plan in numbers, over all functions for a cluster.

    layers: computed layers, those of every instance counted. instances: of groups. in_buffer,
    in_ddr: tensors between layers, by where they lie; arguments and results of functions, which
    always lie in DDR, are not among them. buffer_bytes, ddr_bytes: their sizes.
    """

    layers: int = 0
    instances: int = 0
    in_buffer: int = 0
    in_ddr: int = 0
    buffer_bytes: int = 0
    ddr_bytes: int = 0

    def __add__(self, other: "PlanSummary") -> "PlanSummary":
        """Both plans together."""
        return PlanSummary(
            *(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__)
        )


def plan_summary(module: ModuleOp) -> PlanSummary:
    """The plan of a module at the level ``graph``; all zero where nothing is for a cluster."""
    total = PlanSummary()
    for function, _ in planned_functions(module):
        buffers = FunctionBuffers.of(function)
        inner = [buffer for buffer in buffers.by_root.values() if not buffer.outside]
        kept = [buffer.size for buffer in inner if _is_in_buffer(buffer.tensor)]
        total += PlanSummary(
            len(layers_of(function)),
            sum(isinstance(op, InstanceOp) for op in function.body.block.ops),
            len(kept),
            len(inner) - len(kept),
            sum(kept),
            sum(buffer.size for buffer in inner) - sum(kept),
        )
    return total


def _is_in_buffer(tensor: SSAValue) -> bool:
    """Whether the plan gives a tensor a place in the global buffer."""
    if not isinstance(tensor, OpResult):
        return False
    places = tensor.owner.attributes.get(PLACES)
    if not isinstance(places, ArrayAttr):
        return False
    place = places.data[tensor.index]
    return isinstance(place, PlaceAttr) and place.offset is not None
