"""``graph-bind-cores``: each layer gets the parts into which it is cut, and their cores.

Takes functions for a cluster; leaves ``graph.binding`` on every layer. Layers are visited from the
last one backwards (Zhao et al., "GraphTurbo", OSDI 2023, Algorithm 4). By cost (the default) a
layer takes the factors of n, h and c with which it is done first, uneven parts and idle cores
allowed; within 2 % of that it takes the factors of the layer that reads it, so that cores need not
wait for all others, and else cuts the outermost dimensions. With ``mode=paper`` the plain binding
gives each dimension, outermost first, the largest of 8, 4, 2, 1 cores that divides it, and a
layer inherits the binding of its first visited consumer unless the plain one uses more cores.

A layer that cannot be cut runs on core 0, and ``graph.uncut`` says why.

Verified afterwards: every layer has a binding, to cores that exist, and every part of it can be
computed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph import BINDING, BindingAttr, shape_of
from vtac.dialects.graph.pieces import pieces_of, units_of
from vtac.dialects.graph.split_rules import piece_of
from vtac.dialects.target import ClusterTarget
from vtac.passes.graph.cluster.buffers import FunctionBuffers
from vtac.passes.graph.cluster.layer_costs import Factors, LayerCosts, LayerTime, factors_of
from vtac.passes.graph.cluster.layers import activations, layers_of, planned_functions
from vtac.passes.graph.cluster.modes import Mode, mode_named

UNCUT = "graph.uncut"
"""Name of the attribute that says why a layer stays whole."""

NEAR = 1.02
"""What inheriting a binding may cost, as a ratio of cycles."""


@dataclass(frozen=True)
class GraphBindCoresPass(ModulePass):
    """Cut layers into parts for the cores of a cluster.

    mode: ``cost`` or ``paper``. cores: the most cores that a layer may use; 0: all.
    """

    name = "graph-bind-cores"

    mode: str = "cost"
    cores: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Bind the layers of every function for a cluster."""
        mode = mode_named(self.name, self.mode)
        for function, cluster in planned_functions(op):
            used = min(self.cores or cluster.cores, cluster.cores)
            _Binder(function, cluster.replace(cores=used), mode).run()
            verify_bindings(function, cluster)


class _Binder:
    def __init__(self, function: FuncOp, cluster: ClusterTarget, mode: Mode):
        self.function, self.cluster, self.mode = function, cluster, mode
        self.costs = LayerCosts(cluster)
        self.buffers = FunctionBuffers.of(function)
        self.wanted: dict[SSAValue, Factors] = {}

    def run(self) -> None:
        for layer in reversed(layers_of(self.function)):
            factors = self._choose(layer)
            layer.attributes[BINDING] = BindingAttr(*factors)
            layer.attributes.pop(UNCUT, None)
            if factors == (1, 1, 1) and self.cluster.cores > 1:
                layer.attributes[UNCUT] = StringAttr(why_uncut(layer))
            for value in activations(layer):
                self.wanted.setdefault(self.buffers.root(value), factors)

    def _choose(self, layer: Operation) -> Factors:
        inherited = next(
            (
                self.wanted[root]
                for root in map(self.buffers.root, layer.results)
                if root in self.wanted
            ),
            None,
        )
        if self.mode is Mode.PAPER:
            return self._as_in_the_paper(layer, inherited)
        return self._by_cost(layer, inherited)

    def _by_cost(self, layer: Operation, inherited: Factors | None) -> Factors:
        in_ddr = self.buffers.outside(layer, has_buffer=self.cluster.gb_bytes > 0)
        times: dict[Factors, LayerTime] = {}
        for factors in self.costs.candidates(layer):
            time = self.costs.time(layer, factors, in_ddr, staged=False)
            if time is not None:
                times[factors] = time
        near = _near(times, {factors: time.cycles for factors, time in times.items()})
        # Of layers that wait for DDR, the one whose cores are done soonest once data are there.
        least = min(times[factors].on_core for factors in near)
        near = _near(near, {factors: times[factors].on_core for factors in near})
        if inherited in near:
            return inherited
        return min(near, key=lambda f: (times[f].on_core > least, near.index(f)))

    def _as_in_the_paper(self, layer: Operation, inherited: Factors | None) -> Factors:
        plain = self._plain(layer)
        if inherited is None or not self._fits(layer, inherited):
            return plain
        return inherited if _parts(inherited) >= _parts(plain) else plain

    def _plain(self, layer: Operation) -> Factors:
        """The largest of 8, 4, 2, 1 that divides each dimension, outermost first."""
        chosen, cores = (1, 1, 1), self.cluster.cores
        for number, name in enumerate(("n", "h", "c")):
            units = units_of(layer.results[0], name)
            for factor in (f for f in (8, 4, 2) if f <= cores and units % f == 0):
                n, h, c = (factor if i == number else f for i, f in enumerate(chosen))
                if self._fits(layer, (n, h, c)):
                    chosen, cores = (n, h, c), cores // factor
                    break
        return chosen

    def _fits(self, layer: Operation, factors: Factors) -> bool:
        units = [units_of(layer.results[0], name) for name in ("n", "h", "c")]
        return all(f <= u for f, u in zip(factors, units, strict=True)) and (
            self.costs.largest_part(layer, factors) is not None
        )


def _near(candidates: Iterable[Factors], cycles: Mapping[Factors, int]) -> list[Factors]:
    """The candidates that take hardly more cycles than the best."""
    most = NEAR * min(cycles.values())
    return [factors for factors in candidates if cycles[factors] <= most]


def _parts(factors: Factors) -> int:
    return factors[0] * factors[1] * factors[2]


def why_uncut(layer: Operation) -> str:
    """Why a layer runs on one core."""
    if len({shape_of(result) for result in layer.results}) > 1:
        return "its results have different shapes"
    named: Mapping[str, str] = {"n": "batch entries", "h": "rows", "c": "channels"}
    if all(units_of(layer.results[0], name) == 1 for name in named):
        return "its result has one element of batch, one row and one block of channels"
    for name, what in named.items():
        if units_of(layer.results[0], name) > 1:
            pieces = pieces_of(layer.results[0], {name: 2})
            if any(piece_of(layer, piece) is None for piece in pieces):
                return f"parts of its {what} cannot be computed alone"
    return "one core is done first"


def verify_bindings(function: FuncOp, cluster: ClusterTarget) -> None:
    """Raise `VerifyException` unless every layer is cut into parts that cores can compute."""
    for layer in layers_of(function):
        binding = layer.attributes.get(BINDING)
        if not isinstance(binding, BindingAttr):
            raise VerifyException(f"{layer.name} has no {BINDING}")
        if binding.cores.stop > cluster.cores:
            raise VerifyException(f"{binding} names more than {cluster.cores} cores")
        n, h, c = factors_of(binding)
        pieces = pieces_of(layer.results[0], {"n": n, "h": h, "c": c})
        if len(pieces) != binding.parts:
            raise VerifyException(
                f"{binding} cuts {layer.results[0].type} into {len(pieces)} parts"
            )
        if any(piece_of(layer, piece) is None for piece in pieces):
            raise VerifyException(f"a part of {layer.name} cannot be computed alone: {binding}")
