"""A planned function step by step, with the analytic time and traffic of each layer."""

from dataclasses import dataclass
from math import ceil

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, OpResult, SSAValue

from vtac.dialects.graph import BINDING, PLACES, BindingAttr, InstanceOp
from vtac.dialects.graph.pieces import bytes_in, whole
from vtac.dialects.target import ClusterTarget
from vtac.passes.graph.cluster.buffers import FunctionBuffers
from vtac.passes.graph.cluster.layer_costs import LayerCosts, LayerTime, factors_of
from vtac.passes.graph.cluster.layers import activations, layers_of


@dataclass(frozen=True)
class PlannedLayer:
    """A layer of a planned function. number: its place in the order, from 0."""

    number: int
    layer: Operation

    @property
    def binding(self) -> BindingAttr:
        """Its parts and their cores; one core if nothing is said."""
        binding = self.layer.attributes.get(BINDING)
        return binding if isinstance(binding, BindingAttr) else BindingAttr()

    @property
    def instance(self) -> InstanceOp | None:
        """The instance it belongs to, if any."""
        around = self.layer.parent_op()
        return around if isinstance(around, InstanceOp) else None


class PlanSteps:
    """The steps of a function, its buffers, and what each step costs."""

    def __init__(self, function: FuncOp, cluster: ClusterTarget):
        self.function, self.cluster = function, cluster
        self.costs, self.buffers = LayerCosts(cluster), FunctionBuffers.of(function)
        self.steps = [
            PlannedLayer(number, layer) for number, layer in enumerate(layers_of(function))
        ]

    def offset(self, value: SSAValue) -> int | None:
        """Where the buffer of a value begins in the global buffer; None: it lies in DDR."""
        root = self.buffers.root(value)
        if self.buffers.by_root[root].outside or not isinstance(root, OpResult):
            return None
        places = root.owner.attributes.get(PLACES)
        return None if places is None else places.data[root.index].offset  # type: ignore[attr-defined]

    def in_ddr(self, layer: Operation) -> set[SSAValue]:
        """The values of a layer that lie in DDR."""
        return {v for v in (*activations(layer), *layer.results) if self.offset(v) is None}

    def time(self, step: PlannedLayer) -> LayerTime:
        """The time of a step. Weights that the DMA may bring are read from DDR once."""
        layer, staged = step.layer, self.costs.may_stage(step.layer)
        time = self.costs.time(layer, factors_of(step.binding), self.in_ddr(layer), staged=staged)
        assert time is not None, "bindings are verified"
        return time

    def ddr_bytes(self, step: PlannedLayer) -> int:
        """Bytes that a step moves from and to DDR, with its constants."""
        return int(self.time(step).ddr * self.costs.ddr_rate)

    def bounds(self) -> tuple[int, int]:
        """Cycles below which no plan gets: compute over all cores, and compulsory traffic.

        Compulsory are the weights, once, and the arguments and results of the function.
        """
        compute = sum(self.costs.cycles(step.layer) for step in self.steps)
        first = [s for s in self.steps if s.instance is None or s.instance.part.value.data == 0]
        weights = sum(self.costs.weights(step.layer) for step in first)
        outside = sum(b.size for b in self.buffers.by_root.values() if b.outside)
        return ceil(compute / self.cluster.cores), ceil((weights + outside) / self.costs.ddr_rate)

    def result_bytes(self, step: PlannedLayer) -> int:
        """Bytes of the results of a step."""
        return sum(bytes_in(v, whole(v)) for v in step.layer.results)
