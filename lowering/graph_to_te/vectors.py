"""Constants with one number per channel in the bodies of element-wise stages."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from vtac.lowering.graph_to_te.kernel import KernelBuilder, immediate

IMMEDIATES = range(-(1 << 15), 1 << 15)
"""The immediates of ALU instructions."""


def channel_constant(
    kernel: KernelBuilder, value: SSAValue, what: str, layer: str, allowed: range
) -> int | SSAValue:
    """The number of all channels if they agree on one in ``allowed``, else a parameter."""
    vector = kernel.constant(value, what)
    if np.all(vector == vector[0]) and int(vector[0]) in allowed:
        return int(vector[0])
    return kernel.parameter(vector.astype(np.int32), f"{layer}.{what}")


def applied(
    operation: Callable[..., Any],
    value: SSAValue,
    constant: int | SSAValue,
    vectors: Iterator[SSAValue],
) -> SSAValue:
    """Apply a binary op with an immediate (no op for 0) or with the next vector's scalar."""
    if isinstance(constant, SSAValue):
        return operation(value, next(vectors)).result  # type: ignore[no-any-return]
    if constant == 0:
        return value
    return operation(value, immediate(constant)).result  # type: ignore[no-any-return]
