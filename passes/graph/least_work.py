"""The least that one core needs for a network: a bound that holds for every program.

It counts the products that a network needs: those of weights that are not 0, where the window does
not lie in padding. No program has fewer, whatever its tiles, its layout or the forms of its
kernels; and the GEMM core makes at most BATCH x BLOCK x BLOCK of them in a micro-op.
"""

from itertools import product
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array, constant_value
from vtac.dialects.graph import ConstantOp, ConvOp, GemmOp, shape_of
from vtac.passes.te.accelerated import accelerated_functions, target_of


def least_cycles(module: ModuleOp, ctx: Context) -> int:
    """Cycles below which no program of one core computes the accelerator functions of a module."""
    total = 0
    for function in accelerated_functions(module):
        core = target_of(function)
        products = sum(least_products(op, ctx) for op in function.walk())
        total += products * core.timing.gemm_cycles // (core.batch * core.block * core.block)
    return total


def least_products(op: Operation, ctx: Context) -> int:
    """The products of an op by constant weights, without those by 0 and those in padding."""
    match op:
        case ConvOp():
            weights = _constant(op.w, ctx)
            return 0 if weights is None else _convolution(op, weights)
        case GemmOp():
            weights = _constant(op.b, ctx)
            rows = (shape_of(op.a) or (0,))[0]
            return 0 if weights is None else rows * int(np.count_nonzero(weights))
    return 0


def _constant(value: SSAValue, ctx: Context) -> Array | None:
    owner = value.owner
    return constant_value(ctx, owner.value, value.type) if isinstance(owner, ConstantOp) else None


def _convolution(op: ConvOp, weights: Array) -> int:
    """Weights that are not 0, each as often as its tap lies in the input."""
    data, made = shape_of(op.x) or (), shape_of(op.result) or ()
    if min((*data, *made), default=-1) < 0:  # an extent is unknown
        return 0
    rank = len(data) - 2
    strides, pads = op.strides.get_values(), op.pads.get_values()
    inside = [
        [
            sum(
                0 <= y * strides[d] - pads[d] + tap * dilation < data[2 + d]
                for y in range(made[2 + d])
            )
            for tap in range(op.kernel_shape()[d])
        ]
        for d, dilation in zip(range(rank), op.dilations.get_values(), strict=True)
    ]
    nonzero = np.count_nonzero(weights, axis=(0, 1)).reshape(-1)
    counts = map(prod, product(*inside))
    return made[0] * sum(int(n) * c for n, c in zip(nonzero, counts, strict=True))
