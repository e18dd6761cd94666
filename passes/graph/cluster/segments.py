"""The plan by cost: cuts of a network, images per instance, and strips of rows of least cost.

A network is cut at its *narrow points*, between which one tensor alone is alive. For each *segment*
between two cuts the plan chooses how many images an instance computes, m, which does not grow
towards the front: many instances of the large early tensors, few of the small late ones. A prefix
may also be split into strips of rows, if a single image does not fit.

The choice is a dynamic program from the last segment to the first. Its state is the segment, m, and
the bytes that are held for deeper instances: where m grows from one segment to the next, the
results of several instances are gathered, in the global buffer or in DDR. A segment costs the
larger of its compute, spread over the cores, and its traffic to DDR: weights at each visit, tensors
that do not fit, arguments. Neighbouring segments with the same m become one group.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from vtac.dialects.graph import SPLIT, ConstantOp, GroupOp, SplitAttr
from vtac.dialects.graph.pieces import Rectangle, bytes_in, units_of, whole
from vtac.dialects.graph.split_rules import Demands
from vtac.dialects.target import ClusterTarget
from vtac.passes.graph.cluster.buffers import TensorBuffer
from vtac.passes.graph.cluster.footprint import (
    PieceCache,
    asked_of,
    peak_bytes,
    shrinking_layers,
)
from vtac.passes.graph.cluster.graph_group_layers import make_groups
from vtac.passes.graph.cluster.graph_inline_instances import inline
from vtac.passes.graph.cluster.graph_place_tensors import within_peak
from vtac.passes.graph.cluster.layer_costs import LayerCosts
from vtac.passes.graph.cluster.layers import activations, is_layer, is_void

KEPT = 8
"""Partial plans that are kept for each segment and m."""

STRIPS = (2, 4, 8, 16)
"""Numbers of strips that are tried for a prefix."""

STAGE_SHARE = 8
"""One part in so many of the global buffer is left to weights on their way to the cores."""


@dataclass(frozen=True)
class SegmentSplit:
    """A run of ops that is split in one way. images: per instance. strips: of the rows."""

    ops: tuple[Operation, ...]
    images: int
    strips: int = 1


@dataclass(frozen=True)
class SegmentCost:
    """Cycles of all visits of a segment, and bytes of DDR."""

    compute: int
    ddr: int
    rate: float

    @property
    def cycles(self) -> float:
        """The longer of both: computing and DDR transfers overlap."""
        return max(self.compute, self.ddr / self.rate)


@dataclass(frozen=True)
class Variant:
    """A run of segments, split in one way.

    An instance of the run is one execution of it, for one strip or some images; instances are
    priced as the middle one. outputs: the results that ops outside the run read. visits: the number
    of instances. work: the layers of an instance, each with the region of its results that the
    instance computes, None for all. buffers: the tensors of an instance, with their lives. peak:
    bytes of the global buffer that an instance needs. costs: the costs of all instances, by the set
    of tensors that go to DDR.
    """

    choice: SegmentSplit
    outputs: Sequence[SSAValue]
    visits: int
    work: Sequence[tuple[Operation, Rectangle | None]]
    buffers: Sequence[TensorBuffer]
    peak: int
    costs: dict[frozenset[SSAValue], "SegmentCost"] = field(default_factory=dict)


@dataclass(frozen=True)
class Partial:
    """A plan of the last segments of a function.

    held: bytes of the global buffer that these segments hold while earlier segments run.
    """

    cycles: float
    held: int
    choices: tuple[SegmentSplit, ...]


def group_by_cost(function: FuncOp, cluster: ClusterTarget) -> None:
    """Group the layers of a function anew, each group with the split of least cost."""
    for group in [op for op in function.body.block.ops if isinstance(op, GroupOp)]:
        inline(group)
    planner = Planner(function, cluster)
    choices = merged(planner.best())
    members = [list(choice.ops) for choice in choices]
    by_first = {choice.ops[0]: choice for choice in choices}
    for group in make_groups(function, members):
        first = next(op for op in group.body.block.ops if op in by_first)
        group.attributes[SPLIT] = ArrayAttr(planner.splits(group, by_first[first]))


def merged(choices: Sequence[SegmentSplit]) -> list[SegmentSplit]:
    """Neighbours that are split in the same way, without strips, as one."""
    found: list[SegmentSplit] = []
    for choice in choices:
        last = found[-1] if found else None
        if last and last.images == choice.images and last.strips == choice.strips == 1:
            found[-1] = SegmentSplit(last.ops + choice.ops, choice.images)
        else:
            found.append(choice)
    return found


class Planner:
    """Plans one function whose ops stand in a topological order."""

    def __init__(self, function: FuncOp, cluster: ClusterTarget):
        self.function, self.cluster = function, cluster
        self.costs, self.cache = LayerCosts(cluster), PieceCache()
        self._runs: dict[tuple[int, int], tuple[tuple[Operation, ...], list[SSAValue]]] = {}
        self._variants: dict[tuple[int, int, int, int], Variant | None] = {}
        skipped = ConstantOp | ReturnOp
        self.ops = [op for op in function.body.block.ops if not isinstance(op, skipped)]
        self.segments = list(self._segments())
        self.room = cluster.gb_bytes - cluster.gb_bytes // STAGE_SHARE * cluster.dma
        self.outside: set[SSAValue] = set(function.body.block.args)
        last = function.body.block.last_op
        assert last is not None
        self.outside |= set(last.operands)

    def best(self) -> list[SegmentSplit]:
        """The plan of least cost."""
        count = len(self.segments)
        plans: dict[tuple[int, int], list[Partial]] = {(count, 0): [Partial(0, 0, ())]}
        for index in reversed(range(count)):
            for (behind, images), partials in list(plans.items()):
                if behind == index + 1:
                    self._extend(plans, index, index + 1, images, partials, strips=(1,))
        for end in range(1, count + 1):
            for (behind, images), partials in list(plans.items()):
                if behind == end:
                    self._extend(plans, 0, end, images, partials, strips=STRIPS)
        final = [p for (index, _), found in plans.items() if index == 0 for p in found]
        return list(min(final, key=lambda p: p.cycles).choices)

    def splits(self, group: GroupOp, choice: SegmentSplit) -> list[SplitAttr]:
        """The chosen factors of a group; none for what they do not split."""
        ops = [op for op in group.body.block.ops if op is not group.body.block.last_op]
        factors = self._factors(group.yielded, choice.images, choice.strips)
        found = []
        for name, factor in factors.items():
            count = shrinking_layers(ops, group.yielded, {name: factor}, self.cache)
            if factor > 1 and count:
                found.append(SplitAttr(name, factor, count))
        return found

    def _extend(
        self,
        plans: dict[tuple[int, int], list[Partial]],
        start: int,
        end: int,
        later: int,
        partials: Sequence[Partial],
        strips: Sequence[int],
    ) -> None:
        """Put segments start to end before plans whose first segment has ``later`` images."""
        for images in self._images(self._run(start, end)[1]):
            if later and images > later:
                continue
            for strip in strips:
                variant = self._variant(start, end, images, strip)
                if variant is None or (strip > 1 and not self._needs_strips(start, end, images)):
                    continue
                made = list(self._joined(variant, later, partials))
                known = plans.setdefault((start, images), [])
                known += made
                known.sort(key=lambda p: (p.cycles, p.held))
                del known[KEPT:]

    def _joined(
        self, variant: "Variant", later: int, partials: Sequence[Partial]
    ) -> Iterator[Partial]:
        """Plans that begin with a variant of a run of segments."""
        choice = variant.choice
        for partial in partials:
            for held, extra in self._boundaries(choice, later):
                cost = self._cost(variant, partial.held + held)
                if cost is not None:
                    cost = SegmentCost(cost.compute, cost.ddr + extra, cost.rate)
                    choices = (choice, *partial.choices)
                    yield Partial(partial.cycles + cost.cycles, partial.held + held, choices)

    def _needs_strips(self, start: int, end: int, images: int) -> bool:
        """Whether a single image does not fit."""
        variant = self._variant(start, end, images, 1)
        return images == 1 and (variant is None or variant.peak > self.room)

    def _run(self, start: int, end: int) -> tuple[tuple[Operation, ...], list[SSAValue]]:
        """The ops of some segments, and what others read of them."""
        key = start, end
        if key not in self._runs:
            ops = tuple(op for segment in self.segments[start:end] for op in segment)
            self._runs[key] = ops, self._outputs(ops)
        return self._runs[key]

    def _variant(self, start: int, end: int, images: int, strips: int) -> "Variant | None":
        """Some segments, split in one way; None if they cannot be."""
        key = start, end, images, strips
        if key not in self._variants:
            ops, outputs = self._run(start, end)
            pieces = asked_of(outputs, self._factors(outputs, images, strips))
            self._variants[key] = None
            if pieces:
                asked = pieces[len(pieces) // 2]
                demands = self.cache.demands(ops, asked)
                if isinstance(demands, Demands):
                    buffers = self._buffers(ops, asked, demands)
                    peak = peak_bytes(ops, asked, demands)
                    choice = SegmentSplit(ops, images, strips)
                    work = [
                        (op, None if piece.made == whole(op.results[0]) else piece.made)
                        for op, piece in demands.pieces.items()
                        if is_layer(op)
                    ]
                    made = Variant(choice, outputs, len(pieces), work, buffers, peak)
                    self._variants[key] = made
        return self._variants[key]

    def _boundaries(self, choice: SegmentSplit, later: int) -> Iterator[tuple[int, int]]:
        """Bytes held for the next segment and bytes of DDR, for each place of the boundary."""
        if not later or (choice.images == later and choice.strips == 1):
            yield 0, 0
            return
        inner = [v for v in self._outputs(choice.ops) if v not in self.outside]
        total = sum(bytes_in(v, whole(v)) for v in inner)
        units = max((units_of(v, "n") for v in inner), default=1)
        yield -(-total * later // units), 0
        yield 0, 2 * total

    def _cost(self, variant: "Variant", held: int) -> SegmentCost | None:
        """What all visits of a segment cost while so many bytes are held."""
        if held > self.room:
            return None
        spilled = frozenset[SSAValue]()
        if variant.peak > self.room - held:
            inside = [b for b in variant.buffers if not b.outside]
            kept = {id(b) for b in within_peak(inside, self.room - held)}
            spilled = frozenset(b.tensor for b in inside if id(b) not in kept)
        if spilled not in variant.costs:
            variant.costs[spilled] = self._cost_of_visits(variant, self.outside | spilled)
        return variant.costs[spilled]

    def _cost_of_visits(self, variant: "Variant", in_ddr: set[SSAValue]) -> SegmentCost:
        """What all visits of a segment cost whose tensors ``in_ddr`` lie there."""
        compute = ddr = 0
        for op, region in variant.work:
            staged = self.costs.may_stage(op)
            time = self.costs.best_time(op, in_ddr, staged=staged, region=region)
            compute += max(time.compute, time.loads, time.stores)
            ddr += int(time.ddr * self.costs.ddr_rate)
        return SegmentCost(compute * variant.visits, ddr * variant.visits, self.costs.ddr_rate)

    def _buffers(
        self, ops: Sequence[Operation], asked: Mapping[SSAValue, Rectangle], demands: Demands
    ) -> list[TensorBuffer]:
        """The tensors of one instance, with their lives in it."""
        made: dict[SSAValue, TensorBuffer] = {}
        for step, op in enumerate(op for op in ops if op in demands.pieces):
            for value in activations(op):
                if value not in made:
                    rectangle = demands.values.get(value, whole(value))
                    made[value] = TensorBuffer(value, bytes_in(value, rectangle), 0, 0)
                    made[value].outside = value in self.outside
                made[value].read(step)
            for value in op.results:
                size = 0 if is_void(op) else bytes_in(value, demands.pieces[op].made)
                made[value] = TensorBuffer(value, size, step, step)
                made[value].outside = value in self.outside
        for value in asked:
            made[value].last = len(ops)
        return list(made.values())

    def _factors(self, outputs: Sequence[SSAValue], images: int, strips: int) -> dict[str, int]:
        units = min(units_of(value, "n") for value in outputs)
        return {"n": max(units // images, 1), "h": strips}

    def _images(self, outputs: Sequence[SSAValue]) -> list[int]:
        """Images per instance: divisors of what all outputs have."""
        units = {units_of(value, "n") for value in outputs}
        most = max(units)
        return [m for m in range(1, most + 1) if most % m == 0] if len(units) == 1 else [most]

    def _outputs(self, ops: Sequence[Operation]) -> list[SSAValue]:
        inside = set(ops)
        made = [result for op in ops for result in op.results]
        return [v for v in made if any(u.operation not in inside for u in v.uses) or not v.uses]

    def _segments(self) -> Iterator[list[Operation]]:
        """The ops between narrow points."""
        position = {op: number for number, op in enumerate(self.ops)}
        last_use = {
            result: max((position.get(use.operation, -1) for use in result.uses), default=-1)
            for op in self.ops
            for result in op.results
        }
        segment: list[Operation] = []
        live: set[SSAValue] = set()
        for number, op in enumerate(self.ops):
            segment.append(op)
            live |= set(op.results)
            live = {value for value in live if last_use[value] > number}
            if len(live) <= 1 and any(map(is_layer, segment)):
                yield segment
                segment = []
        if segment:
            yield segment
