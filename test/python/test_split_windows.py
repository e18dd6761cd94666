"""te-split-windows: windows reduced dimension by dimension, and from a tap, give the same."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from integer_groups import LOOPS, REWRITES, IntegerFunction
from random_groups import SMALL, TARGETS, RandomGroup
from te_functions import evaluate, kernels, rank_of
from te_interpreter import kernel_named
from vta_runner import run_loops
from xdsl.dialects import arith
from xdsl.dialects.builtin import FunctionType, ModuleOp, TensorType, i32
from xdsl.ir import Block, Region

from vtac.dialects import te
from vtac.dialects.context import VtacContext
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.lowering.graph_to_te import GraphToTePass
from vtac.passes.te.split_windows import SplitWindowsPass
from vtac.tools.tune.evaluate import evaluate_kernel

BEFORE = (GraphToTePass, *REWRITES, *LOOPS[: LOOPS.index(SplitWindowsPass)])
AFTER = LOOPS[LOOPS.index(SplitWindowsPass) + 1 :]
MACHINES = TARGETS | {f"small {name}": target for name, target in SMALL.items()}


@settings(max_examples=25)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(MACHINES)))
def test_pooling_on_the_simulator(random: Random, target: str) -> None:
    """Windows of one to three dimensions: strides, padding on each side, batches."""
    group = RandomGroup(random, MACHINES[target], largest=9, channels=20)
    f, kernel = group.function, group.kernel(4)
    module = f.finish(f.max_pool(group.image(kernel), kernel, **group.window(kernel)))
    f.apply(module, [*BEFORE, SplitWindowsPass])
    f.check(module, lambda m, inputs: evaluate(f.ctx, m, inputs), rank_of(f, module))
    f.apply(module, AFTER)
    f.check(module, lambda m, inputs: run_loops(f.ctx, m, inputs), rank_of(f, module))


OPERATIONS = {
    "max": (arith.MaxSIOp, [-128, 0, -(1 << 31)]),
    "min": (arith.MinSIOp, [127, -5, (1 << 31) - 1]),
    "add": (arith.AddiOp, [0, 7]),
}


@settings(max_examples=60)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(OPERATIONS)))
def test_any_reduction_of_accumulators(random: Random, name: str) -> None:
    """Windows with dilations and steps, whatever the reduction starts from and lies outside."""
    operation, starts = OPERATIONS[name]
    identity, rank = random.choice(starts), random.randint(1, 3)
    outputs = [random.randint(1, 4) for _ in range(rank)]
    taps = [random.randint(1, 4) for _ in range(rank)]
    rows, shape = [], []
    for axis, (count, extent) in enumerate(zip(outputs, taps, strict=True)):
        stride, dilation = random.randint(1, 3), random.randint(1, 2)
        first = random.randint(-2, 1)
        rows.append(te.Row.of([(axis, stride), (rank + 2 + axis, dilation)], first))
        reach = first + stride * (count - 1) + dilation * (extent - 1) + 1
        shape.append(max(reach - random.randint(0, 2), 1))
    rows += [te.Row.of([(rank, 1)]), te.Row.of([(rank + 1, 1)])]
    block = Block(arg_types=[TensorType(i32, [*shape, 1, 2])])
    outside = random.choice([None, identity, 0, 0 if name == "add" else starts[-1]])
    spatial = {f"d{n}": count for n, count in enumerate([*outputs, 1, 2])}
    reduce = {f"k{n}": extent for n, extent in enumerate(taps)}
    read = te.Read(block.args[0], tuple(rows), outside).bordered(
        (*spatial.values(), *reduce.values()), starts[0]
    )
    body = te.scalar_body([i32, i32], lambda acc, x: operation(acc, x).result)
    compute = te.ComputeOp("y", spatial, reduce, [read], body, i32, identity=identity)
    block.add_ops([compute, te.YieldOp(compute.result)])
    type = FunctionType.from_lists(block.arg_types, [compute.result.type])
    target = Target.named(random.choice(["chisel-pynq", "pynq"]))
    module = ModuleOp([te.KernelOp("k", type, Region(block))], {TARGET_ATTRIBUTE: target})
    module.verify()
    generator = np.random.default_rng(random.randrange(1 << 30))
    inputs = [generator.integers(-300, 300, (*shape, 1, 2))]
    (expected,) = evaluate_kernel(kernel_named(module, "k"), inputs)
    SplitWindowsPass().apply(VtacContext(), module)
    module.verify()
    (found,) = evaluate_kernel(kernel_named(module, "k"), inputs)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("kernel", "stride", "form"),
    [
        (3, 2, "from a tap: kh, then kw"),
        (3, 1, "from a tap: kh, then kw"),
        (2, 2, "from a tap: kh and kw"),
        (3, 3, "from a tap: kh and kw"),
        (5, 1, "from a tap: kh, then kw"),
    ],
)
def test_the_form_follows_the_overlap(kernel: int, stride: int, form: str) -> None:
    """Where windows overlap much, rows first; where they do not, all taps at once."""
    f = IntegerFunction(TARGETS["chisel"])
    pads = (kernel - stride + 1) // 2
    window = {"strides": [stride] * 2, "pads": [pads] * 4}
    module = f.finish(f.max_pool(f.input(1, 32, 30, 30), (kernel, kernel), **window))
    f.apply(module, [*BEFORE, SplitWindowsPass])
    (pool,) = kernels(module)
    assert form in str(pool.attributes["te.choices"])
    assert pool.attributes["te.choices"].data[0].data.startswith(f"max_pool: {form},")
