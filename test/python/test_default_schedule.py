"""The default schedule: integer ops of the graph on the simulator, exact; and what it picks."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from integer_groups import LOOPS, REWRITES, IntegerFunction
from random_groups import KINDS, SMALL, TARGETS, RandomGroup
from te_interpreter import run_loops as interpret
from vta_runner import context, lower_loops, parse, run_loops
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument

from vtac.dialects import te
from vtac.dialects.context import constant_value
from vtac.dialects.errors import CompileError
from vtac.dialects.target import Memory, Target
from vtac.lowering.graph_to_te import GraphToTePass
from vtac.passes.te.schedule.describe import ESTIMATE
from vtac.passes.te.schedule.refine import SimulatedPoint
from vtac.passes.te.schedule.search import search
from vtac.passes.te.schedule.simulated_cost import CostSimulator
from vtac.passes.te.schedule.structure import Structure, structure_of
from vtac.passes.te.schedule.tiling import tile_sizes
from vtac.sim import estimate

PYNQ = TARGETS["1x16"]
INPUTS = Path(__file__).parent / "inputs"


def rank_of(module: ModuleOp) -> int:
    (op,) = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    return max(len(type.get_shape()) for type in op.function_type.inputs) - 4


def check_on_simulator(f: IntegerFunction, module: ModuleOp) -> None:
    f.lower(module)
    f.check(module, lambda m, inputs: run_loops(f.ctx, m, inputs), rank_of(module))


@settings(max_examples=40)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(TARGETS)), st.sampled_from(KINDS))
def test_groups_are_exact_on_the_simulator(random: Random, target: str, kind: str) -> None:
    group = RandomGroup(random, TARGETS[target])
    check_on_simulator(group.function, group.build(kind, fused=random.random() < 0.5))


@settings(max_examples=25)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(SMALL)), st.sampled_from(KINDS))
def test_groups_are_exact_on_small_machines(random: Random, target: str, kind: str) -> None:
    group = RandomGroup(random, SMALL[target])
    check_on_simulator(group.function, group.build(kind, fused=random.random() < 0.5))


@settings(max_examples=10)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(SMALL)), st.sampled_from(KINDS))
def test_windows_hold_what_is_read(random: Random, target: str, kind: str) -> None:
    """The strict interpreter of loops refuses reads of what no copy has brought."""
    group = RandomGroup(random, SMALL[target], largest=5, channels=12)
    module, f = group.build(kind, fused=True), group.function
    f.lower(module)

    def run(module: ModuleOp, inputs: list[np.ndarray]) -> list[np.ndarray]:
        kernel, call = only_kernel(module), only_call(module)
        arguments = [
            inputs[te.viewed(value).index].reshape(value.type.get_shape())
            if isinstance(te.viewed(value), BlockArgument)
            else constant_value(f.ctx, value.owner.value, value.type)
            for value in call.arguments
        ]
        (last,) = [op for op in module.walk() if isinstance(op, ReturnOp)]
        results = zip(interpret(kernel, arguments), last.arguments, strict=True)
        return [result.reshape(value.type.get_shape()) for result, value in results]

    f.check(module, run, rank_of(module))


def only_kernel(module: ModuleOp) -> te.KernelOp:
    (kernel,) = [op for op in module.body.block.ops if isinstance(op, te.KernelOp)]
    return kernel


def only_call(module: ModuleOp) -> te.CallOp:
    (call,) = [op for op in module.walk() if isinstance(op, te.CallOp)]
    return call


def test_a_network_is_one_program() -> None:
    """Convolutions, a residual addition, pooling and a dense layer, one after the other."""
    for target in TARGETS.values():
        f = IntegerFunction(target)
        x = f.input(2, 5, 13, 11)
        a = f.requantize(f.conv(x, 20, (3, 3), pads=(1, 1, 1, 1)), lo=0)
        b = f.requantize(f.conv(a, 20, (3, 3), pads=(1, 1, 1, 1)), shift="one")
        acc = f.conv(b, 20, (3, 3), pads=(1, 1, 1, 1))
        c = f.requantize(f.add(acc, f.shift_left(a, [6] * 20)), lo=0)
        d = f.max_pool(c, (2, 2), strides=(2, 2))
        flat = f.reshape(f.requantize(f.sum_pool(d, f.values[d].shape[2:])), 2, 20)
        module = f.finish(*f.byte_planes(f.gemm(flat, 10)), c)
        check_on_simulator(f, module)


def structure_and_plan(
    f: IntegerFunction, module: ModuleOp, target: Target
) -> tuple[Structure, SimulatedPoint]:
    f.apply(module, [GraphToTePass, *REWRITES])
    structure = structure_of(only_kernel(module), "layer")
    return structure, search(structure, target, "layer")


LAYERS = [(56, 64, 64, 3, 1), (28, 128, 256, 3, 2), (14, 256, 512, 1, 2), (7, 512, 512, 3, 1)]
"""Of a large network: rows and columns, channels in and out, kernel, stride."""


def large_layer(
    f: IntegerFunction, size: int, channels: int, out: int, kernel: int, stride: int
) -> tuple[ModuleOp, int]:
    """A convolution, and the cycles of its micro-ops: taps inside the image, five an output."""
    x = f.input(1, channels, size, size)
    pad = kernel // 2
    acc = f.conv(x, out, (kernel,) * 2, strides=(stride,) * 2, pads=(pad,) * 4)
    outputs, taps = np.arange(acc.type.get_shape()[2]), np.arange(kernel)
    place = stride * outputs[:, None] + taps - pad
    inside = ((place >= 0) & (place < size)).sum() ** 2
    blocks = out // 16
    limit = inside * (channels // 16) * blocks + 5 * len(outputs) ** 2 * blocks
    return f.finish(f.requantize(acc, shift="one")), int(limit)


@pytest.mark.parametrize("target", ["pynq", "chisel-de10"])
@pytest.mark.parametrize("layer", LAYERS)
def test_plans_for_layers_of_a_large_network(target: str, layer: tuple[int, ...]) -> None:
    f = IntegerFunction(Target.named(target))
    module, limit = large_layer(f, *layer)
    structure, plan = structure_and_plan(f, module, f.target)
    assert min(plan.tiling.slots) >= 2
    assert CostSimulator(structure, f.target).needs.fits(plan.tiling)
    if target.startswith("chisel"):
        assert plan.cycles < (1.03 if layer[3] == 3 else 1.06) * limit


def test_a_plan_expects_what_the_clock_then_says() -> None:
    """Rows and columns left out, borders, pieces, uneven tiles: within one part in fifty."""
    for layer in ((14, 128, 256, 1, 2), (14, 64, 80, 3, 1)):
        f = IntegerFunction(Target.named("chisel-de10"))
        module, _ = large_layer(f, *layer)
        f.apply(module, [GraphToTePass, *REWRITES])
        expected = 0
        for step in LOOPS:
            step().apply(f.ctx, module)
            found = [op for op in module.body.block.ops if isinstance(op, te.ScheduleOp)]
            if found:
                expected = found[0].attributes[ESTIMATE].value.data
        (binary,) = lower_loops(f.ctx, module)
        cycles = estimate(f.target, binary.relocate(binary.place())).cycles
        assert expected == pytest.approx(cycles, rel=0.02)


def test_a_window_larger_than_the_input_buffer_is_cut() -> None:
    f = IntegerFunction(PYNQ)
    assert PYNQ.depth(Memory.INP) < 60 * 60
    module = f.finish(f.requantize(f.sum_pool(f.input(1, 3, 60, 60), (60, 60)), shift="one"))
    check_on_simulator(f, module)


def test_what_cannot_fit_is_said_with_the_layer() -> None:
    """A maximum over a large window needs all of it in the accumulators at once."""
    f = IntegerFunction(PYNQ)
    module = f.finish(f.max_pool(f.input(1, 3, 60, 60), (60, 60)))
    with pytest.raises(CompileError, match=r"layer1: even its smallest tile needs .* of ACC"):
        f.lower(module)


def test_tiles_need_not_divide() -> None:
    assert tile_sizes(7, 12) == [7, 4, 3, 2, 1]
    assert tile_sizes(1, 12) == [1]
    assert len(tile_sizes(1000, 12)) == 12
    assert tile_sizes(1000, 12)[0] == 1000
    assert tile_sizes(1000, 12)[-1] == 1


def test_axes_and_ranks_that_no_network_has() -> None:
    """Nothing below the graph knows what an axis stands for."""
    random = np.random.default_rng(0)
    a = random.integers(-128, 128, (3, 2, 4, 5, 2, 1, 16), np.int8)
    b = random.integers(-128, 128, (2, 2, 2, 2, 16, 16), np.int8)
    v = random.integers(-1000, 1000, (2, 4, 1, 16), np.int32)
    expected = np.zeros((2, 3, 4, 4, 2, 1, 16), np.int64)
    padded = np.pad(a.astype(np.int64), [(0, 0)] * 3 + [(0, 1)] + [(0, 0)] * 3)
    for fog, ash in np.ndindex(2, 2):
        start = fog - ash + 1
        part = padded[:, :, :, start : start + 4]
        expected += np.einsum("ybtmsrk,gbok->gytmsro", part, b[:, :, fog, ash].astype(np.int64))
    expected += v[:, None, :, None, None]
    ctx = context()
    module = parse(ctx, (INPUTS / "odd_axes.mlir").read_text())
    for step in LOOPS:
        step().apply(ctx, module)
    module.verify()
    (output,) = run_loops(ctx, module, [a, b, v])
    np.testing.assert_array_equal(output, expected.astype(np.int8))


def test_kernels_without_a_product() -> None:
    """Accumulators from main memory, tile by tile, and nothing for the GEMM core but resets."""
    a = np.random.default_rng(0).integers(-99, 99, (40, 60, 1, 16), np.int32)
    ctx = context()
    module = parse(ctx, (INPUTS / "no_product.mlir").read_text())
    for step in LOOPS:
        step().apply(ctx, module)
    (output,) = run_loops(ctx, module, [a])
    np.testing.assert_array_equal(output, (np.maximum(a, 3) + a).astype(np.int8))
