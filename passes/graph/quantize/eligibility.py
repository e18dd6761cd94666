"""Which float ops have an integer form at all, and why the others have none.

What depends on one op alone. What depends on its neighbours (its operands stay on the host, scales
that cannot be tied, sums that overflow) is found where groups, scales and numbers are made.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation

from vtac.dialects.graph import (
    AddOp,
    AveragePoolOp,
    BatchNormOp,
    ClipOp,
    ConvOp,
    GemmOp,
    GlobalAveragePoolOp,
    MatMulOp,
    MaxPoolOp,
    ReluOp,
    is_static,
    shape_of,
)
from vtac.passes.graph.quantize.network import (
    Network,
    is_channel_vector,
    is_float32,
    window_counts,
)

SUMS = (AddOp, AveragePoolOp, ClipOp, ConvOp, GemmOp, GlobalAveragePoolOp, ReluOp)
"""Ops that can be part of a sum that ends in one requantisation."""

COMPUTING = (*SUMS, BatchNormOp, MatMulOp, MaxPoolOp)
"""Graph ops that compute: those whose staying on the host needs a reason."""


def why_not(op: Operation, network: Network) -> str | None:
    """Why an op of ``COMPUTING`` has no integer form; None if it has one."""
    for value in (*op.operands, *op.results):
        shape = shape_of(value) or ()
        if not is_static(value):
            known = ("?" if extent == DYNAMIC_INDEX else str(extent) for extent in shape)
            return f"shape [{', '.join(known)}] is not known when compiling"
        if 0 in shape:
            return f"shape {list(shape)} has no elements"
        if not is_float32(value):
            return f"it computes with {value.type}, only f32 is quantised"
    if len(shape_of(op.results[0]) or ()) < 2:
        return "its result has no channels: rank below 2"
    match op:
        case ConvOp():
            return _conv(op, network)
        case GemmOp():
            return _gemm(op, network)
        case AddOp():
            return _add(op, network)
        case AveragePoolOp():
            return _average_pool(op)
        case MaxPoolOp():
            counts = window_counts(op, shape_of(op.x) or (), op.kernel.get_values())
            return None if counts.all() else "a window lies wholly in the padding"
        case BatchNormOp():
            return "batch normalisation that no convolution could take in"
        case MatMulOp():
            return "matrix product without a constant [in, out] matrix on its right"
        case _:
            return None


def _conv(op: ConvOp, network: Network) -> str | None:
    if network.constant(op.w) is None:
        return "its weights are not constant"
    if op.bias is not None and network.constant(op.bias) is None:
        return "its bias is not constant"
    return None


def _gemm(op: GemmOp, network: Network) -> str | None:
    if network.constant(op.b) is None:
        return "its weights are not constant"
    if op.trans_a.value.data:
        return "its activations are transposed"
    if op.c is not None:
        if network.constant(op.c) is None:
            return "its bias is not constant"
        if not is_channel_vector(shape_of(op.c) or (), shape_of(op.result) or ()):
            return "its bias differs between rows"
    return None


def _add(op: AddOp, network: Network) -> str | None:
    a, b = shape_of(op.a) or (), shape_of(op.b) or ()
    if a == b or _constant_a_channel(op, network):
        return None
    return f"broadcasting addition of shapes {list(a)} and {list(b)}"


def _constant_a_channel(op: AddOp, network: Network) -> bool:
    """Whether one addend is a constant with one number a channel of the other."""
    result: Sequence[int] = shape_of(op.result) or ()
    return any(
        network.constant(vector) is not None
        and shape_of(other) == result
        and is_channel_vector(shape_of(vector) or (), result)
        for vector, other in ((op.a, op.b), (op.b, op.a))
    )


def _average_pool(op: AveragePoolOp) -> str | None:
    if op.count_include_pad.value.data:
        return None
    counts = window_counts(op, shape_of(op.x) or (), op.kernel.get_values())
    if counts.min() != counts.max():
        return f"its windows average {counts.min()} to {counts.max()} elements: no single divisor"
    return None if counts.all() else "a window lies wholly in the padding"
