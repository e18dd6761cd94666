"""Cuts of regions are the cheapest there are, and what remains is partitioned as before.

Minimum cuts are compared with all choices tried one by one, on small random graphs.
"""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_partitions import RandomCodegen, functions_of, layers_in, networks, partition, run
from xdsl.dialects.builtin import ModuleOp

from vtac.dialects.context import VtacContext
from vtac.dialects.graph import AddOp, ClipOp, CompositeOp, MatMulOp, ReluOp
from vtac.dialects.target import Target
from vtac.passes.graph.annotate import AnnotatePass
from vtac.passes.graph.codegen import CODEGEN
from vtac.passes.graph.cut_regions import STEPS, Prices, cheapest, cut_of, prices_of
from vtac.passes.graph.host_model import HostModel
from vtac.passes.graph.match_patterns import MatchPatternsPass
from vtac.passes.graph.merge_regions import MergeRegionsPass
from vtac.passes.graph.minimum_cut import TwoWayChoice
from vtac.passes.graph.prune_regions import PruneRegionsPass, regions_of
from vtac.passes.graph.reasons import ReasonKind, host_reason

COSTS = st.none() | st.integers(0, 9)
INPUTS = [np.float32([[1.5, -2.0, 0.25, 3.0]]), np.float32([[-1.0, 0.5, 2.0, -0.125]])]
EVERYTHING = (ReluOp, ClipOp, AddOp, MatMulOp)


class Priced(RandomCodegen):
    """Takes everything, at a price for each kind of op."""

    def __init__(self, cycles: Mapping[type, float]):
        super().__init__("priced", EVERYTHING, [])
        self.by_kind = cycles

    def cycles(self, composites: Sequence[CompositeOp], target: Target | None) -> float:
        ops = [op for each in composites for op in each.body.block.ops]
        return 50.0 + sum(self.by_kind.get(type(op), 0) for op in ops)


@st.composite
def priced(draw: st.DrawFn) -> Priced:
    return Priced({kind: draw(st.integers(0, 200)) for kind in EVERYTHING})


@st.composite
def hosts(draw: st.DrawFn) -> HostModel:
    return HostModel(
        macs_a_cycle=1,
        bytes_a_cycle=draw(st.sampled_from([0.25, 1, 4])),
        cycles_an_op=draw(st.integers(0, 200)),
        cycles_a_launch=draw(st.integers(0, 100)),
    )


@given(st.data(), st.integers(1, 5))
@settings(max_examples=100)
def test_choices_cost_the_least(data: st.DataObject, nodes: int) -> None:
    chosen = [data.draw(COSTS) for _ in range(nodes)]
    left = [data.draw(st.integers(0, 9)) for _ in range(nodes)]
    pairs = data.draw(st.lists(st.tuples(*[st.integers(0, nodes - 1)] * 2, COSTS), max_size=8))
    choice = TwoWayChoice()
    for node in range(nodes):
        choice.cost_if_chosen(node, chosen[node])
        choice.cost_if_left(node, left[node])
    for a, b, cost in pairs:
        choice.cost_if_only(a, b, cost)

    def total(picked: Sequence[bool]) -> float:
        costs = [chosen[i] if is_in else left[i] for i, is_in in enumerate(picked)]
        costs += [cost for a, b, cost in pairs if picked[a] and not picked[b]]
        return sum(float("inf") if cost is None else cost for cost in costs)

    found = choice.chosen()
    best = min(total(picked) for picked in product([False, True], repeat=nodes))
    assert total([node in found for node in range(nodes)]) == best


def test_contradictions_are_errors() -> None:
    choice = TwoWayChoice()
    choice.cost_if_chosen("a", None)
    choice.cost_if_left("b", None)
    choice.cost_if_only("b", "a", None)
    with pytest.raises(ValueError, match="no choice"):
        choice.chosen()


def region_cost(members: Sequence[CompositeOp], kept: set[CompositeOp], prices: Prices) -> float:
    """What a region costs if the accelerator keeps these, in one launch."""
    cost = sum(prices.accelerator(m) if m in kept else prices.host(m) for m in members)
    crossing = set()
    for member in members:
        if member in kept:
            crossing |= {v for v in member.operands if v.owner not in kept}
        for value in member.outputs:
            readers = {use.operation for use in value.uses}
            if member in kept and any(reader not in kept for reader in readers):
                crossing.add(value)
    return cost + sum(map(prices.crossing, crossing)) + (prices.launch if kept else 0)


@given(networks(), priced(), hosts())
@settings(max_examples=60)
def test_cuts_are_the_cheapest(module: ModuleOp, codegen: Priced, host: HostModel) -> None:
    ctx = VtacContext(codegens=lambda: [codegen])
    MatchPatternsPass(codegen.name).apply(ctx, module)
    AnnotatePass().apply(ctx, module)
    MergeRegionsPass(8).apply(ctx, module)
    prices = prices_of(codegen, None, host)
    assert prices is not None
    for members in regions_of(functions_of(module)["main"].body.block):
        found = region_cost(members, cheapest(members, prices), prices)
        best = min(
            region_cost(members, {m for m, p in zip(members, picked, strict=True) if p}, prices)
            for picked in product([False, True], repeat=len(members))
        )
        assert found <= best + len(members) / STEPS * 4
        cut = cut_of(members, codegen, None, host)
        assert cut is None or (cut.cycles < cut.before and cut.left)


@given(networks(), priced(), hosts())
@settings(max_examples=60)
def test_cut_networks_mean_the_same(module: ModuleOp, codegen: Priced, host: HostModel) -> None:
    """Also: no cycle between functions, every op in one place, with a reason on the host."""
    main = functions_of(module)["main"]
    before, layers = run(main.body.block, INPUTS, {}), sorted(layers_in(main))
    pruning = PruneRegionsPass(
        macs_a_cycle=host.macs_a_cycle,
        bytes_a_cycle=host.bytes_a_cycle,
        cycles_an_op=host.cycles_an_op,
        cycles_a_launch=host.cycles_a_launch,
    )
    partition(module, [codegen], pruning=pruning)
    functions = functions_of(module)
    after = run(functions["main"].body.block, INPUTS, functions)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
    assert sorted(layer for f in functions.values() for layer in layers_in(f)) == layers
    for op in functions["main"].body.block.ops:
        if isinstance(op, EVERYTHING):
            reason = host_reason(op)
            assert reason is not None
            assert reason.kind == ReasonKind.COST
    assert all(CODEGEN in f.attributes for name, f in functions.items() if name != "main")
