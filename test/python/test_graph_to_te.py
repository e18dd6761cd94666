"""graph-to-te and the rewrites of te: the meaning of integer ops, before and after each pass."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from integer_groups import REWRITES, IntegerFunction
from random_groups import KINDS, TARGETS, RandomGroup
from te_functions import evaluate, kernels, rank_of
from xdsl.dialects import arith
from xdsl.dialects.builtin import i32

from vtac.dialects import te
from vtac.dialects.errors import CompileError
from vtac.dialects.graph import AddOp
from vtac.lowering.graph_to_te import GraphToTePass

PYNQ = TARGETS["1x16"]


@settings(max_examples=40)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(TARGETS)), st.sampled_from(KINDS))
def test_every_step_keeps_the_meaning(random: Random, target: str, kind: str) -> None:
    group = RandomGroup(random, TARGETS[target], largest=6, channels=20)
    module, f = group.build(kind, fused=random.random() < 0.5), group.function
    for step in (GraphToTePass, *REWRITES):
        f.apply(module, [step])
        f.check(module, lambda m, inputs: evaluate(f.ctx, m, inputs), rank_of(f, module))


def stage_names(kernel: te.KernelOp) -> list[str]:
    return [compute.label.data for compute in kernel.computes]


def test_a_residual_addition_is_accumulated() -> None:
    """Powers of two up to 2^6 are a product, and the convolution starts from it."""
    f = IntegerFunction(PYNQ)
    x, skip = f.input(1, 20, 5, 5), f.input(1, 20, 5, 5)
    acc = f.conv(x, 20, (3, 3), pads=(1, 1, 1, 1))
    both = f.add(acc, f.shift_left(skip, [n % 7 for n in range(20)]))
    module = f.finish(f.requantize(both, shift="one"))
    f.apply(module, [GraphToTePass, *REWRITES])
    (kernel,) = kernels(module)
    scale, conv, *rest = kernel.computes
    assert conv.init is scale.result
    assert all(len(compute.reduce) == 0 for compute in rest)
    f.check(module, lambda m, inputs: evaluate(f.ctx, m, inputs), 2)


@pytest.mark.parametrize(
    ("amounts", "stages"),
    [
        ([0, 6], ["scale"]),
        ([5, 11], ["scale", "shift_left"]),
        ([7, 7], ["scale", "shift_left"]),
        ([2, 9], ["shift_left_cast", "shift_left_shli", "shift_left"]),
    ],
)
def test_left_shifts(amounts: list[int], stages: list[str]) -> None:
    f = IntegerFunction(PYNQ)
    module = f.finish(f.requantize(f.shift_left(f.input(1, 2, 3), amounts), shift="one"))
    f.apply(module, [GraphToTePass, *REWRITES])
    (kernel,) = kernels(module)
    assert stage_names(kernel)[: len(stages)] == stages
    f.check(module, lambda m, inputs: evaluate(f.ctx, m, inputs), 1)


def test_equal_layers_share_a_kernel() -> None:
    f = IntegerFunction(PYNQ)
    x = f.input(1, 16, 6, 6)
    for _ in range(3):
        x = f.max_pool(x, (2, 2), pads=(1, 1, 0, 0))
    module = f.finish(x)
    f.apply(module, [GraphToTePass, *REWRITES])
    assert len(kernels(module)) == 1
    f.check(module, lambda m, inputs: evaluate(f.ctx, m, inputs), 2)


def test_a_batch_of_products_beside_a_convolution() -> None:
    """The batch is an axis of all stages of the kernel, also of those with windows."""
    f = IntegerFunction(PYNQ)
    products = f.batch_matmul(f.input(6, 20), f.weights(2 * 16, 20), batch=2, columns=16)
    sums = f.add(f.reshape(products, 6, 16, 1, 1), f.conv(f.input(6, 7, 3, 3), 16, (3, 3)))
    module = f.finish(*f.fuse(f.requantize(sums)))
    for step in (GraphToTePass, *REWRITES):
        f.apply(module, [step])
        f.check(module, lambda m, inputs: evaluate(f.ctx, m, inputs), 2)


def test_a_value_and_its_reshape_are_one_tensor() -> None:
    f = IntegerFunction(PYNQ)
    x = f.input(2, 20, 3, 4)
    pooled = f.requantize(f.sum_pool(x, (3, 4)))
    flat = f.reshape(pooled, 2, 20)
    module = f.finish(*f.byte_planes(f.gemm(flat, 7)), pooled)
    f.apply(module, [GraphToTePass, *REWRITES])
    assert len(kernels(module)) == 2
    f.check(module, lambda m, inputs: evaluate(f.ctx, m, inputs), 2)


@pytest.mark.parametrize(
    ("channels", "out", "group", "diagonal"),
    [(40, 40, 40, True), (32, 32, 2, True), (24, 6, 3, False)],
)
def test_grouped_convolutions(channels: int, out: int, group: int, diagonal: bool) -> None:
    """Block-diagonal ones have no loop over input blocks, others have zero weights."""
    f = IntegerFunction(PYNQ)
    x = f.input(1, channels, 4, 4)
    module = f.finish(f.requantize(f.conv(x, out, (2, 2), group=group)))
    f.apply(module, [GraphToTePass, *REWRITES])
    (kernel,) = kernels(module)
    assert ("ci" in kernel.computes[0].reduce.names) is not diagonal
    f.check(module, lambda m, inputs: evaluate(f.ctx, m, inputs), 2)


def test_bodies_are_single_operations() -> None:
    f = IntegerFunction(PYNQ)
    acc = f.conv(f.input(1, 3, 4, 4), 5, (1, 1))
    module = f.finish(f.requantize(acc))
    f.apply(module, [GraphToTePass, *REWRITES])
    (kernel,) = kernels(module)
    for compute in kernel.computes:
        ops = [op for op in compute.body.block.ops if not isinstance(op, arith.ConstantOp)]
        assert len(compute.reduce) or len(ops) == 2


def test_every_problem_is_reported() -> None:
    f = IntegerFunction(PYNQ)
    x = f.input(1, 4)
    unequal = f.shift_left(x, [0, 1, 2, 30])
    wide = f.requantize(unequal)
    y = f.input(1, 4)
    bad = f.block.insert_arg(f.packed((1, 4), i32), 2)
    f.inputs.append(bad)
    acc = AddOp(f.gemm(y, 4), f.gemm(y, 4), f.packed((1, 4), i32))
    f.values[acc.result] = f.values[unequal]
    f.block.add_op(acc)
    shifted = f.shift_left(acc.result, [1, 2, 3, 4])
    module = f.finish(wide, f.requantize(shifted))
    with pytest.raises(CompileError) as caught:
        f.apply(module, [GraphToTePass])
    wheres = [problem.where for problem in caught.value.problems]
    assert wheres == ["layer1", "layer5"]


def test_accumulators_stay_inside() -> None:
    f = IntegerFunction(PYNQ)
    with pytest.raises(CompileError, match="would have to leave"):
        f.apply(f.finish(f.gemm(f.input(1, 4), 4)), [GraphToTePass])
