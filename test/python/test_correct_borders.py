"""Padding that is not 0: windows of every kind, on tensors and on the simulator, exactly."""

from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from integer_groups import REWRITES, Array, IntegerFunction
from random_groups import SMALL, TARGETS
from te_functions import evaluate, kernels, rank_of
from vta_runner import run_loops
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from vtac.lowering.graph_to_te import GraphToTePass
from vtac.passes.te.correct_borders import CorrectBordersPass

MACHINES = TARGETS | {f"small {name}": target for name, target in SMALL.items()}


def layer(random: Random, f: IntegerFunction) -> SSAValue:
    """A window with pads up to beyond its operand, dilated, strided, and any number in the pads."""
    rank = random.choice([1, 2, 2, 3])
    kernel = [random.randint(1, 3) for _ in range(rank)]
    reach = random.choice([2, 4, 9]) if rank < 3 else 2
    numbers: dict[str, Any] = {
        "strides": [random.randint(1, 3) for _ in kernel],
        "dilations": [random.randint(1, 3) for _ in kernel],
        "pads": [random.randint(0, reach) for _ in kernel * 2],
    }
    size = []
    for axis, taps in enumerate(kernel):
        pads = numbers["pads"][axis] + numbers["pads"][rank + axis]
        window = (taps - 1) * numbers["dilations"][axis] + 1
        size.append(max(1, window - pads + random.randint(0, 5)))
    numbers["pad_value"] = random.choice([-128, 127, -1, random.randint(-128, 127)])
    channels = random.randint(1, 20)
    x = f.input(random.randint(1, 2), channels, *size)
    kind = random.choice(["dense", "depthwise", "sum"])
    if kind == "sum":
        return f.sum_pool(x, kernel, **numbers)
    group = channels if kind == "depthwise" else 1
    outputs = channels * random.randint(1, 2) if group > 1 else random.randint(1, 20)
    return f.conv(x, outputs, kernel, group=group, **numbers)


@settings(max_examples=15)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(TARGETS)))
def test_on_tensors(random: Random, target: str) -> None:
    f = IntegerFunction(TARGETS[target], random.randrange(1 << 30))
    module = f.finish(f.requantize(layer(random, f)))
    f.apply(module, [GraphToTePass, *REWRITES, CorrectBordersPass])
    assert not any(read.outside for k in kernels(module) for c in k.computes for read in c.reads)
    answers = f.answers(module, lambda m, inputs: evaluate(f.ctx, m, inputs), rank_of(f, module))
    for found, exact in answers:
        np.testing.assert_array_equal(found, exact)


@settings(max_examples=10)
@given(st.randoms(use_true_random=False), st.sampled_from(sorted(MACHINES)))
def test_on_the_simulator(random: Random, target: str) -> None:
    f = IntegerFunction(MACHINES[target], random.randrange(1 << 30))
    for found, exact in simulated(f, f.finish(f.requantize(layer(random, f)))):
        np.testing.assert_array_equal(found, exact)


def simulated(f: IntegerFunction, module: ModuleOp) -> list[tuple[Array, Array]]:
    """Each result of a function on the simulator, and what it should be."""
    f.lower(module)
    return f.answers(module, lambda m, inputs: run_loops(f.ctx, m, inputs), rank_of(f, module))


def test_readers_of_one_tensor_pad_it_as_they_like() -> None:
    """Equal layers with other weights share a kernel; others read the same tensor otherwise."""
    f, same = IntegerFunction(TARGETS["4x8"]), {"pads": (1, 1, 1, 1), "pad_value": -128}
    x = f.requantize(f.conv(f.input(1, 18, 6, 5), 18, (3, 3), **same))
    first = f.requantize(f.conv(x, 18, (3, 3), **same), shift="one")
    wide = f.requantize(f.conv(x, 18, (1, 1), pads=(0, 2, 2, 0), pad_value=77))
    plain = f.requantize(f.conv(first, 7, (3, 3), pads=(1, 0, 0, 1)))
    for found, exact in simulated(f, f.finish(x, first, wide, plain)):
        np.testing.assert_array_equal(found, exact)


def test_large_sums_take_several_elements() -> None:
    """Weights of one sign: more than the digits of one element reach."""
    f, numbers = IntegerFunction(TARGETS["chisel"]), {"pads": (1, 1, 1, 1), "pad_value": 127}
    acc = f.conv(f.input(1, 40, 4, 4), 3, (3, 3), **numbers, weights_below=-120)
    ((found, exact),) = simulated(f, f.finish(f.requantize(acc)))
    np.testing.assert_array_equal(found, exact)
