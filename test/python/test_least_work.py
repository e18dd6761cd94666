"""The least that one core needs, against products counted one by one, and against the clock."""

from itertools import product
from random import Random

import numpy as np
import pytest
from cluster_cases import cluster_network
from xdsl.dialects.builtin import TensorType, i8, i32
from xdsl.dialects.test import TestOp

import vtac
from vtac.dialects.context import VtacContext, constant_attr, tensor_type
from vtac.dialects.graph import ConstantOp, ConvOp, GemmOp
from vtac.passes.graph.least_work import least_cycles, least_products


def constant(ctx: VtacContext, array: np.ndarray) -> ConstantOp:
    return ConstantOp(constant_attr(ctx, array, "w"), tensor_type(array))


def sparse(random: Random, shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(random.randrange(1 << 30))
    array = rng.integers(-3, 4, shape).astype(np.int8)
    array[rng.random(shape) < random.choice([0.0, 0.5])] = 0
    return array


@pytest.mark.parametrize("seed", range(20))
def test_products_of_a_convolution_are_those_that_meet_data(seed: int) -> None:
    random, ctx = Random(seed), VtacContext()
    group = random.choice([1, 1, 2, 3])
    n, extents = random.randint(1, 2), [random.randint(3, 7) for _ in range(2)]
    kernel, strides = ([random.randint(1, 3) for _ in range(2)] for _ in range(2))
    dilations, pads = [random.randint(1, 2), 1], [random.randint(0, 2) for _ in range(4)]
    w = sparse(random, (2 * group, 2, *kernel))
    made = [
        (extents[d] + pads[d] + pads[2 + d] - (kernel[d] - 1) * dilations[d] - 1) // strides[d] + 1
        for d in range(2)
    ]
    if min(made) < 1:
        pytest.skip("the window is larger than the input")
    x = TestOp(result_types=[TensorType(i8, [n, 2 * group, *extents])]).res[0]
    op = ConvOp(
        x,
        constant(ctx, w).result,
        None,
        TensorType(i32, [n, 2 * group, *made]),
        strides=strides,
        pads=pads,
        dilations=dilations,
        group=group,
    )
    counted = 0
    for o, y0, y1, c, k0, k1 in product(*map(range, (2 * group, *made, 2, *kernel))):
        at = y0 * strides[0] + k0 * dilations[0] - pads[0], y1 * strides[1] + k1 - pads[1]
        inside = 0 <= at[0] < extents[0] and 0 <= at[1] < extents[1]
        counted += n * int(inside and w[o, c, k0, k1] != 0)
    assert least_products(op, ctx) == counted


@pytest.mark.parametrize("seed", range(5))
def test_products_of_a_matrix_are_those_by_weights_that_are_not_0(seed: int) -> None:
    random, ctx = Random(seed), VtacContext()
    rows, inner, out = (random.randint(1, 6) for _ in range(3))
    b = sparse(random, (out, inner))
    a = TestOp(result_types=[TensorType(i8, [rows, inner])]).res[0]
    op = GemmOp(a, constant(ctx, b).result, None, TensorType(i32, [rows, out]))
    assert least_products(op, ctx) == rows * sum(int(v != 0) for v in b.flat)
    assert least_products(op.a.owner, ctx) == 0


@pytest.mark.parametrize("seed", [1, 4, 6])
def test_no_program_of_one_core_takes_fewer_cycles(seed: int) -> None:
    net, model = cluster_network(seed)
    found = list[int]()

    def observe(name: str, module, ctx) -> None:
        if name == "graph":
            found.append(least_cycles(module, ctx))

    samples = {"x": np.random.default_rng(seed).normal(size=net.shapes["x"]).astype(np.float32)}
    criteria = vtac.Criteria(compare=False)
    module = vtac.compile(model, "chisel-pynq", samples, criteria=criteria, observe=observe)
    assert 0 < found[-1] < module.profile().cycles
