"""A max pooling in the kernel of its layer: exact, and epilogues are done for its results alone."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from integer_groups import LOOPS, REWRITES, IntegerFunction
from random_groups import SMALL, TARGETS, RandomGroup
from te_functions import evaluate, kernels, rank_of
from vta_runner import run_loops

from vtac.dialects import graph
from vtac.dialects.target import Target
from vtac.lowering.codegens.vta_cycles import is_worth_joining
from vtac.lowering.graph_to_te import GraphToTePass
from vtac.passes.te.extremes_first import ExtremesFirstPass

BEFORE = (GraphToTePass, *REWRITES, *LOOPS[: LOOPS.index(ExtremesFirstPass)])
AFTER = LOOPS[LOOPS.index(ExtremesFirstPass) + 1 :]
MACHINES = TARGETS | {f"small {name}": target for name, target in SMALL.items()}


@settings(max_examples=25)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(MACHINES)))
def test_layers_with_pooling_are_exact(random: Random, target: str) -> None:
    """Convolutions, residual sums, means; any window, padding on each side, batches."""
    group = RandomGroup(random, MACHINES[target], largest=8, channels=20)
    f, kind = group.function, random.choice(["conv", "residual", "sum_pool", "depthwise"])
    pooled = group.max_pool(group.requantize(group.accumulators(kind)))
    module = f.finish(*f.fuse(pooled))
    f.apply(module, [*BEFORE, ExtremesFirstPass])
    f.check(module, lambda m, inputs: evaluate(f.ctx, m, inputs), rank_of(f, module))
    f.apply(module, AFTER)
    f.check(module, lambda m, inputs: run_loops(f.ctx, m, inputs), rank_of(f, module))


@pytest.mark.parametrize("shift", ["one", "block", "channel"])
def test_shifts_and_clips_follow_the_pooling(shift: str) -> None:
    f = IntegerFunction(TARGETS["chisel"])
    acc = f.conv(f.input(1, 20, 8, 8), 40, (3, 3), pads=(1, 1, 1, 1))
    pooled = f.max_pool(f.requantize(acc, shift=shift), (2, 2), strides=(2, 2))
    module = f.finish(*f.fuse(pooled))
    f.apply(module, [*BEFORE, ExtremesFirstPass])
    (kernel,) = kernels(module)
    labels = [compute.label.data for compute in kernel.computes]
    assert labels.index("max_pool") < labels.index("requantize_wide_shrsi")
    f.apply(module, AFTER)
    f.check(module, lambda m, inputs: run_loops(f.ctx, m, inputs), 2)


@pytest.mark.parametrize(
    ("channels", "side", "kernel", "stride", "joined"),
    [(16, 112, 3, 2, True), (512, 14, 2, 2, True), (512, 56, 3, 1, False), (512, 14, 3, 1, True)],
    ids=["large, few products", "no overlap", "overlap of many products", "one tile"],
)
def test_pooling_is_joined_where_that_pays(
    channels: int, side: int, kernel: int, stride: int, joined: bool
) -> None:
    """What tiles compute twice costs more than widening, shifts and clips, or less."""
    f = IntegerFunction(TARGETS["chisel"])
    acc = f.conv(f.input(1, channels, side, side), 16, (3, 3), pads=(1, 1, 1, 1))
    window = {"strides": [stride] * 2, "pads": [kernel // 2 * (kernel > stride)] * 4}
    pooled = f.max_pool(f.requantize(acc), (kernel, kernel), **window)
    assert isinstance(pooled.owner, graph.MaxPoolOp)
    reason = is_worth_joining(Target.named("chisel-pynq"))(pooled.owner)
    assert (reason is None) is joined
