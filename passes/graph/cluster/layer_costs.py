"""What a layer costs on a cluster, in cycles and bytes, for a number of parts: the analytic model.

A layer lasts as long as the busiest of what works side by side: the compute module of the core with
the largest part, its loads, its stores, and DDR, which all cores share. Between layers cores wait
for each other. `machine_work` counts the work. The clock of the simulator is more exact.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from math import ceil, prod

from xdsl.ir import Operation, SSAValue

from vtac.dialects.graph import BindingAttr, CompositeOp, ConstantOp, YieldOp, shape_of
from vtac.dialects.graph.pieces import Rectangle, bytes_in, extents, pieces_of, units_of, whole
from vtac.dialects.graph.split_rules import piece_of
from vtac.dialects.target import ClusterTarget, Target
from vtac.passes.graph.machine_work import (
    alu_cycles,
    elements,
    elements_in,
    gemm_micro_ops,
    weight_bytes,
)
from vtac.passes.te.schedule.cost import Rates

SYNCHRONISATION = 60
"""Cycles between a layer and the next one on other cores: a signal, a wait, the first load."""

STAGED_SHARE = 4
"""Constants of more than one part in so many of the global buffer are not staged."""

LOPSIDED = 1.5
"""How much larger than the least possible the largest part may be."""

Factors = tuple[int, int, int]
"""Into how many ranges n, h and c are cut."""


@dataclass(frozen=True)
class Work:
    """What one op does. A part of it does as large a share as it has of the result's elements.

    cycles: of the compute module. weights: bytes. elements: of the result in the packed layout.
    """

    cycles: int
    weights: int
    elements: int


@dataclass(frozen=True)
class PartCost:
    """The largest part of a layer.

    compute: cycles of its compute module. loads: bytes that it reads of each operand, by number.
    weights: bytes of weights that it reads. stores: elements that it writes.
    """

    compute: int
    loads: Mapping[int, int]
    weights: int
    stores: int


@dataclass(frozen=True)
class LayerTime:
    """The time of a layer, and what it is made of, in cycles."""

    compute: int
    loads: int
    stores: int
    ddr: int

    @property
    def cycles(self) -> int:
        """From the first load to the last store."""
        return max(self.on_core, self.ddr) + SYNCHRONISATION

    @property
    def on_core(self) -> int:
        """The work of the busiest module of a core. What comes from DDR may come before."""
        return max(self.compute, self.loads, self.stores)


def computing(op: Operation) -> list[Operation]:
    """The ops that compute in a layer: those of a composite's body, or the op itself."""
    if not isinstance(op, CompositeOp):
        return [op]
    return [o for o in op.body.block.ops if not isinstance(o, ConstantOp | YieldOp)]


@dataclass
class LayerCosts:
    """The costs of layers on one cluster. Those of equal layers are computed once."""

    cluster: ClusterTarget
    _parts: dict[object, PartCost | None] = field(default_factory=dict)
    _best: dict[object, LayerTime] = field(default_factory=dict)
    _works: dict[int, dict[int, Work]] = field(default_factory=dict)
    _keys: dict[Operation, int] = field(default_factory=dict)
    _numbers: dict[object, int] = field(default_factory=dict)
    _constants: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rates = Rates.of(self.cluster.core)

    @property
    def ddr_rate(self) -> float:
        """Bytes of DDR in a cycle."""
        timing = self.cluster.timing
        return timing.core.port_bytes * timing.ddr_channels / timing.ddr_beat_cycles

    def cycles(self, op: Operation) -> int:
        """Cycles of the compute module for a whole layer."""
        return sum(work.cycles for work in self._work(op).values())

    def weights(self, op: Operation) -> int:
        """Bytes of the weights of a layer."""
        return sum(work.weights for work in self._work(op).values())

    def may_stage(self, op: Operation) -> bool:
        """Whether the DMA may bring the constants of a layer (``vta-stage-weights``).

        They must leave room for tensors.
        """
        key = self._key(op)
        if key not in self._constants:
            self._constants[key] = constant_bytes(op, self.cluster.core)
        most = self.cluster.gb_bytes // STAGED_SHARE
        return self.cluster.dma and self._constants[key] <= most

    def largest_part(
        self, op: Operation, factors: Factors, region: Rectangle | None = None
    ) -> PartCost | None:
        """The largest part of a region of the results; None if it cannot be cut so."""
        key = self._key(op), factors, region
        if key not in self._parts:
            self._parts[key] = self._largest_part(op, factors, region)
        return self._parts[key]

    def best_time(
        self, op: Operation, in_ddr: set[SSAValue], *, staged: bool, region: Rectangle | None = None
    ) -> LayerTime:
        """The time of a layer, or of a region of its results, with the factors that suit it."""
        places = tuple(v in in_ddr for v in (*op.operands, *op.results))
        key = self._key(op), places, staged, region
        if key not in self._best:
            times = (
                self.time(op, factors, in_ddr, staged=staged, region=region)
                for factors in self.candidates(op, region)
            )
            found = [time for time in times if time is not None]
            self._best[key] = min(found, key=lambda time: time.cycles)
        return self._best[key]

    def time(
        self,
        op: Operation,
        factors: Factors,
        in_ddr: frozenset[SSAValue] | set[SSAValue],
        *,
        staged: bool,
        region: Rectangle | None = None,
    ) -> LayerTime | None:
        """The time of a layer whose values ``in_ddr`` lie in DDR; None if it cannot be cut so.

        staged: whether its weights come from the global buffer. region: what is computed of its
        results, all of them if it is not given.
        """
        part = self.largest_part(op, factors, region)
        if part is None:
            return None
        parts = factors[0] * factors[1] * factors[2]
        ddr = sum(size * parts for i, size in part.loads.items() if op.operands[i] in in_ddr)
        ddr += sum(bytes_in(v, region or whole(v)) for v in op.results if v in in_ddr)
        ddr += self.weights(op) if staged else part.weights * parts
        loads = (sum(part.loads.values()) + part.weights) // self.rates.beat + self.rates.load
        return LayerTime(
            part.compute,
            loads,
            part.stores * self.rates.store + self.rates.row,
            ceil(ddr / self.ddr_rate),
        )

    def candidates(self, op: Operation, region: Rectangle | None = None) -> list[Factors]:
        """Factors that give at most a part per core, outermost dimensions first.

        Those whose largest part is much larger than it could be are left out.
        """
        value, cores = op.results[0], self.cluster.cores
        units = [units_of(value, name, region) for name in ("n", "h", "c")]
        counts = [range(1, min(cores, count) + 1) for count in units]
        found = [(n, h, c) for n, h, c in product(*counts) if n * h * c <= cores]

        def largest(factors: Factors) -> int:
            return prod(-(-u // f) for u, f in zip(units, factors, strict=True))

        least = min(map(largest, found))
        chosen = [f for f in found if largest(f) <= LOPSIDED * least or f == (1, 1, 1)]
        return sorted(chosen, key=lambda f: (-f[0], -f[1], -f[2]))

    def _largest_part(
        self, op: Operation, factors: Factors, region: Rectangle | None
    ) -> PartCost | None:
        if len({shape_of(result) for result in op.results}) > 1 and factors != (1, 1, 1):
            return None
        named = dict(zip(("n", "h", "c"), factors, strict=True))
        rectangles = pieces_of(op.results[0], named, region)
        found = [self._part(op, r) for r in _extreme(rectangles)]
        if None in found:
            return None
        return max(
            (f for f in found if f is not None), key=lambda f: f.compute + sum(f.loads.values())
        )

    def _part(self, op: Operation, rectangle: Rectangle) -> PartCost | None:
        piece = piece_of(op, rectangle)
        if piece is None:
            return None
        loads: dict[int, int] = {}
        seen = dict[SSAValue, None]()
        for number, (operand, r) in enumerate(zip(op.operands, piece.operands, strict=True)):
            if r is not None and operand not in seen and not isinstance(operand.owner, ConstantOp):
                seen[operand] = None
                loads[number] = bytes_in(operand, r)
        compute = weights = 0
        parts = piece.inner if isinstance(op, CompositeOp) else {op: piece}
        for number, inner in enumerate(computing(op)):
            if inner in parts:
                work, made = self._work(op)[number], extents(parts[inner].made)
                share = elements_in(made, self.cluster.core) / max(work.elements, 1)
                compute += ceil(work.cycles * share)
                weights += ceil(work.weights * made[1] / _channels(inner)) if work.weights else 0
        size = self.cluster.core.batch * self.cluster.core.block
        stores = sum(bytes_in(v, piece.made) for v in op.results) // size
        if len({shape_of(result) for result in op.results}) > 1:
            stores = sum(bytes_in(v, whole(v)) for v in op.results) // size
        return PartCost(compute, loads, weights, stores)

    def _work(self, op: Operation) -> dict[int, Work]:
        key = self._key(op)
        if key not in self._works:
            core, rates = self.cluster.core, self.rates
            works = {}
            for number, inner in enumerate(computing(op)):
                products = gemm_micro_ops(inner, core) * core.timing.gemm_cycles
                cycles = products + alu_cycles(inner, core, rates)
                size = elements(inner.results[0], core)
                works[number] = Work(cycles, weight_bytes(inner, core), size)
            self._works[key] = works
        return self._works[key]

    def _key(self, op: Operation) -> int:
        """A number for what costs depend on: kinds, types and properties, without constants."""
        if op not in self._keys:
            described = tuple(
                (
                    inner.name,
                    tuple(v.type for v in inner.operands),
                    tuple(v.type for v in inner.results),
                    tuple(sorted((n, p) for n, p in inner.properties.items() if n in _GEOMETRY)),
                )
                for inner in (op, *computing(op))
            )
            self._keys[op] = self._numbers.setdefault(described, len(self._numbers))
        return self._keys[op]


_GEOMETRY = ("strides", "pads", "dilations", "kernel", "group", "batch", "axis", "starts", "steps")
"""The properties on which the work of an op depends."""


def _channels(op: Operation) -> int:
    shape = shape_of(op.results[0]) or ()
    return shape[1] if len(shape) > 1 else 1


def _extreme(rectangles: list[Rectangle]) -> list[Rectangle]:
    """The rectangles that may be the largest part: of equal ranges the last one is the longest, and
    one in the middle has a halo on both sides.
    """
    return list(dict.fromkeys([rectangles[len(rectangles) // 2], rectangles[-1]]))


def constant_bytes(op: Operation, core: Target) -> int:
    """Bytes of all constants of a layer as the machine loads them: weights and vectors."""
    total = sum(weight_bytes(inner, core) for inner in computing(op))
    for inner in computing(op):
        for operand in inner.operands:
            shape = shape_of(operand) or ()
            if isinstance(operand.owner, ConstantOp) and len(shape) == 1:
                blocks = -(-shape[0] // core.block)
                total += blocks * core.element_bytes(core.system.accumulators)
    return total


def factors_of(binding: BindingAttr) -> Factors:
    """The factors of a binding in the order n, h, c."""
    return binding.n.data, binding.h.data, binding.c.data
