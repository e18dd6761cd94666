"""te-share-tiles: equal tiles of weights are stored once, and results stay exact."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from integer_groups import LOOPS, REWRITES, IntegerFunction
from random_groups import TARGETS, RandomGroup
from te_functions import evaluate, kernels, rank_of
from vta_runner import run_loops
from xdsl.dialects.builtin import ModuleOp

from vtac.dialects import te
from vtac.lowering.graph_to_te import GraphToTePass
from vtac.passes.te.share_tiles import ShareTilesPass

BEFORE = (GraphToTePass, *REWRITES, *LOOPS[: LOOPS.index(ShareTilesPass)])
AFTER = LOOPS[LOOPS.index(ShareTilesPass) + 1 :]


def tiles(f: IntegerFunction, module: ModuleOp) -> list[int]:
    """How many weight tiles each product of the module's kernels has, by stage."""
    (kernel,) = kernels(module)
    found = []
    for compute in kernel.computes:
        if compute.reduce.data and te.combiner(compute.body) is not None:
            *outer, _, _ = te.shaped(compute.inputs[1]).get_shape()
            count = 1
            for size in outer:
                count *= size
            found.append(count)
    return found


@settings(max_examples=25)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(TARGETS)))
def test_weights_equal_along_random_dimensions(random: Random, target: str) -> None:
    """Convolutions, also depthwise ones: windows, padding of any value on each side, batches."""
    group = RandomGroup(random, TARGETS[target], largest=7, channels=40)
    f, kernel = group.function, group.kernel(4)
    x = group.image(kernel)
    channels = group.shape(x)[1]
    depthwise = random.random() < 0.5
    out = channels if depthwise else random.randint(1, 40)
    equal = [d for d in range(2 + group.rank) if random.random() < 0.6]
    window = group.padded(kernel)
    acc = f.conv(x, out, kernel, group=channels if depthwise else 1, equal_along=equal, **window)
    module = f.finish(group.requantize(acc))
    f.apply(module, BEFORE)
    before = tiles(f, module)
    f.apply(module, [ShareTilesPass])
    after = tiles(f, module)
    assert all(b >= a for b, a in zip(before, after, strict=True))
    f.check(module, lambda m, inputs: evaluate(f.ctx, m, inputs), rank_of(f, module))
    f.apply(module, AFTER)
    f.check(module, lambda m, inputs: run_loops(f.ctx, m, inputs), rank_of(f, module))


@pytest.mark.parametrize(
    ("equal", "count"),
    [((), 12), ((2,), 6), ((3,), 4), ((2, 3), 2), ((0, 2, 3), 1)],
    ids=["none", "rows", "columns", "taps", "all"],
)
def test_a_depthwise_filter_has_as_many_tiles_as_differ(equal: tuple[int, ...], count: int) -> None:
    f = IntegerFunction(TARGETS["chisel"])
    acc = f.conv(f.input(2, 32, 7, 8), 32, (2, 3), group=32, pads=(0, 1, 1, 0), equal_along=equal)
    module = f.finish(f.requantize(acc, shift="one", shifts=[9] * 32, largest_bias=5))
    f.apply(module, [*BEFORE, ShareTilesPass])
    assert tiles(f, module)[0] == count
    f.apply(module, AFTER)
    f.check(module, lambda m, inputs: run_loops(f.ctx, m, inputs), 2)
