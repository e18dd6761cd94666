"""Calls cut into parts for the cores of a cluster: exact, covering, with shared kernels."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from integer_groups import REWRITES, IntegerFunction
from moving_functions import Moves, check_places
from random_groups import KINDS, TARGETS, RandomGroup
from te_functions import evaluate, kernels, rank_of
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from vtac.dialects import te, vta
from vtac.dialects.target import TARGET_ATTRIBUTE, ClusterTarget, Target
from vtac.lowering.graph_to_te import GraphToTePass
from vtac.passes.te.cut_calls import UNCUT_ATTRIBUTE, CutCallsPass, parts_for
from vtac.passes.te.fill_lanes import FillLanesPass
from vtac.passes.te.insert_copies import InsertCopiesPass
from vtac.passes.te.kernel_regions import boxes_of_parts
from vtac.passes.te.schedule.search import search
from vtac.passes.te.schedule.structure import READERS_ATTRIBUTE, structure_of

PYNQ = TARGETS["1x16"]


def cluster(core: Target, cores: int) -> ClusterTarget:
    return ClusterTarget.named("cluster-8").replace(core=core, cores=cores)


def calls(module: ModuleOp) -> list[te.CallOp]:
    (function,) = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    return [op for op in function.body.block.ops if isinstance(op, te.CallOp)]


def cut(f: IntegerFunction, module: ModuleOp, cores: int) -> None:
    """Choose lanes for a core, then cut for a cluster."""
    f.apply(module, [GraphToTePass, FillLanesPass])
    module.attributes[TARGET_ATTRIBUTE] = cluster(f.target, cores)
    f.apply(module, [CutCallsPass])


@settings(max_examples=60)
@given(
    st.randoms(use_true_random=False),
    st.sampled_from(sorted(TARGETS)),
    st.sampled_from(KINDS),
    st.sampled_from([2, 3, 4, 8]),
)
def test_parts_make_the_whole(random: Random, target: str, kind: str, cores: int) -> None:
    """Whatever the layer: its parts, evaluated alone, assemble to its result."""
    group = RandomGroup(random, TARGETS[target], largest=9, channels=40)
    module, f = group.build(kind, fused=random.random() < 0.5), group.function
    cut(f, module, cores)
    f.check(module, lambda m, inputs: evaluate(f.ctx, m, inputs), rank_of(f, module))
    assert all(call.unit < cores and call.parts is None for call in calls(module))


@settings(max_examples=40)
@given(
    st.randoms(use_true_random=False),
    st.sampled_from(sorted(TARGETS)),
    st.sampled_from([2, 3, 4, 8]),
)
def test_networks_of_parts(random: Random, target: str, cores: int) -> None:
    """Layers, joins, slices and reshapes: exact, and every value still has one place."""
    moves = Moves(random, TARGETS[target])
    module, f = moves.build(random.randint(1, 9)), moves.f
    cut(f, module, cores)
    f.check(module, lambda m, inputs: evaluate(f.ctx, m, inputs), 2)
    f.apply(module, [InsertCopiesPass])
    check_places(module)


def convolution(height: int = 12, channels: int = 40) -> tuple[IntegerFunction, ModuleOp]:
    f = IntegerFunction(PYNQ)
    x = f.input(1, 20, height, 6)
    return f, f.finish(f.requantize(f.conv(x, channels, (3, 3), pads=(1, 1, 1, 1)), shift="one"))


def test_rows_that_look_alike_share_a_kernel() -> None:
    """The first and the last part have a border; those between them are equal."""
    f, module = convolution()
    cut(f, module, 4)
    first, *middle, last = [call.callee.root_reference.data for call in calls(module)]
    assert len({first, *middle, last}) == 3 and len(set(middle)) == 1
    assert len(kernels(module)) == 3
    assert [call.unit for call in calls(module)] == [0, 1, 2, 3]


def test_parts_read_their_rows_and_a_border() -> None:
    f, module = convolution()
    cut(f, module, 4)
    windows = [op for op in module.walk() if isinstance(op, te.WindowOp)]
    assert [op.box[2] for op in windows] == [(0, 4), (2, 5), (5, 5), (8, 4)]


def test_blocks_of_channels_read_their_weights_alone() -> None:
    f, module = convolution()
    f.apply(module, [GraphToTePass])
    (call,) = calls(module)
    rank = len(te.shaped(call.outputs[0]).get_shape())
    module.attributes[TARGET_ATTRIBUTE] = cluster(PYNQ, 4)
    call.properties["parts"] = vta.integers(1, 3, *[1] * (rank - 2))
    f.apply(module, [CutCallsPass])
    made = calls(module)
    assert len(made) == 3 and not any(isinstance(op, te.WindowOp) for op in module.walk())
    constants = [te.shaped(value).get_shape() for value in made[0].arguments[1:]]
    assert all(shape[0] == 1 for shape in constants)
    f.check(module, lambda m, inputs: evaluate(f.ctx, m, inputs), 2)


def test_what_cannot_be_cut_stays_and_says_why() -> None:
    f, module = convolution(height=1, channels=5)
    cut(f, module, 4)
    (call,) = calls(module)
    assert "one image, row and block" in call.attributes[UNCUT_ATTRIBUTE].data
    assert call.unit == 0


def test_one_core_changes_nothing() -> None:
    f, module = convolution()
    f.apply(module, [GraphToTePass])
    before = str(module)
    f.apply(module, [CutCallsPass])
    assert str(module) == before


@pytest.mark.parametrize(
    ("shape", "cores", "parts"),
    [
        ((8, 4, 56, 56, 1, 16), 8, (8, 1, 1, 1, 1, 1)),
        ((1, 4, 56, 56, 1, 16), 8, (1, 1, 8, 1, 1, 1)),
        ((1, 32, 7, 7, 1, 16), 8, (1, 8, 1, 1, 1, 1)),
        ((1, 16, 14, 14, 1, 16), 4, (1, 2, 2, 1, 1, 1)),
        ((3, 2, 1, 1, 1, 16), 8, (3, 2, 1, 1, 1, 1)),
        ((1, 1, 1, 1, 1, 16), 8, (1, 1, 1, 1, 1, 1)),
    ],
)
def test_the_default_has_the_smallest_largest_part(
    shape: tuple[int, ...], cores: int, parts: tuple[int, ...]
) -> None:
    assert parts_for(shape, cores) == parts


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.lists(st.integers(1, 5), min_size=4, max_size=4),
)
def test_boxes_cover_once(shape: list[int], parts: list[int]) -> None:
    seen = np.zeros(shape, int)
    for box in boxes_of_parts(shape, parts[: len(shape)]):
        seen[tuple(slice(start, start + n) for start, n in box)] += 1
    assert (seen == 1).all()


def test_tiles_mind_that_cores_share_a_memory() -> None:
    """The expected cycles of a kernel count what share of DDR a core gets."""
    target = Target.named("chisel-pynq")
    f = IntegerFunction(target)
    x = f.input(1, 128, 28, 28)
    acc = f.conv(x, 128, (3, 3), pads=(1, 1, 1, 1))
    module = f.finish(f.requantize(acc, shift="one"))
    f.apply(module, [GraphToTePass, *REWRITES])
    (kernel,) = kernels(module)
    loaded = []
    for readers in (1, 8):
        kernel.attributes[READERS_ATTRIBUTE] = vta.integers(1, readers)
        candidate = search(structure_of(kernel, "layer"), target, "layer")
        loaded.append(candidate.cycles)
    assert loaded[0] < loaded[1]
