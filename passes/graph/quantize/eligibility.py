"""Which float ops have an integer form at all, and why the others have none.

What depends on one op alone. What depends on its neighbours (its operands stay on the host, scales
that cannot be tied, sums that overflow) is found where groups, scales and numbers are made.
"""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    AddOp,
    AveragePoolOp,
    BatchNormOp,
    ClipOp,
    ConcatOp,
    ConvOp,
    DivOp,
    FakeQuantizeOp,
    GemmOp,
    GlobalAveragePoolOp,
    HardSigmoidOp,
    HardSwishOp,
    LeakyReluOp,
    MatMulOp,
    MaxPoolOp,
    MulOp,
    NegOp,
    PadOp,
    PReluOp,
    ReluOp,
    SliceOp,
    SubOp,
    SumPoolOp,
    TakeChannelsOp,
    TransposeOp,
    UpsampleOp,
    is_static,
    shape_of,
)
from vtac.passes.graph.evaluate import batch_norm_affine
from vtac.passes.graph.quantize.averages import MOST_FORMS, forms_needed, window_counts
from vtac.passes.graph.quantize.contractions import is_contraction
from vtac.passes.graph.quantize.network import (
    Network,
    channels_of,
    is_channel_vector,
    is_float32,
)
from vtac.passes.graph.reasons import Kind, Reason

SELECTIONS = (BatchNormOp, ConcatOp, DivOp, MulOp, NegOp, PadOp, SliceOp, SubOp, TakeChannelsOp)
"""Ops that select or scale elements: sums of linear forms, see ``forms``."""

SUMS = (
    AddOp,
    AveragePoolOp,
    ClipOp,
    ConvOp,
    GemmOp,
    GlobalAveragePoolOp,
    HardSigmoidOp,
    HardSwishOp,
    LeakyReluOp,
    PReluOp,
    ReluOp,
    SumPoolOp,
    *SELECTIONS,
)
"""Ops that can be part of a sum that ends in one requantisation."""

COMPUTING = (*SUMS, FakeQuantizeOp, MatMulOp, MaxPoolOp, TransposeOp, UpsampleOp)
"""Graph ops that compute: those whose staying on the host needs a reason."""


LARGEST_FLOAT32 = float(np.finfo(np.float32).max)

NO_PRODUCTS = Reason(
    "it multiplies two tensors, and the ALU of the target does not multiply (sim's does)",
    Kind.OPERATOR,
    "Compile for a target that multiplies (alu_mul).",
)


def why_not(op: Operation, network: Network) -> str | None:
    """Why an op of ``COMPUTING`` has no integer form; None if it has one."""
    for value in (*op.operands, *op.results):
        shape = shape_of(value) or ()
        if not is_static(value):
            known = ("?" if extent == DYNAMIC_INDEX else str(extent) for extent in shape)
            return Reason(
                f"shape [{', '.join(known)}] is not known when compiling",
                Kind.SHAPE,
                "Fix it: --shape.",
            )
        if 0 in shape:
            return Reason(f"shape {list(shape)} has no elements", Kind.SHAPE)
        if not is_float32(value):
            return Reason(f"it computes with {value.type}, only f32 is quantised", Kind.TYPE)
    if len(shape_of(op.results[0]) or ()) < 2:
        return Reason("its result has no channels: rank below 2", Kind.SHAPE)
    match op:
        case ConvOp():
            return _conv(op, network)
        case GemmOp():
            return _gemm(op, network)
        case AddOp() | SubOp():
            return _addition(op, network)
        case HardSwishOp() if not network.multiplies:
            return NO_PRODUCTS
        case MulOp() if is_product(op, network):
            return _product(op, network)
        case MulOp() | DivOp():
            return _scaling(op, network)
        case LeakyReluOp() | PReluOp():
            return _slopes(op, network)
        case ConcatOp() | SliceOp() | PadOp():
            return _selection(op, network)
        case AveragePoolOp():
            return _average_pool(op)
        case SumPoolOp() if any(op.pads.get_values()):
            return Reason("sums with pads", Kind.ATTRIBUTE)
        case MaxPoolOp():
            counts = window_counts(op)
            return (
                None
                if counts.all()
                else Reason("a window lies wholly in the padding", Kind.ATTRIBUTE)
            )
        case TransposeOp() if tuple(op.permutation.get_values()[:2]) != (0, 1):
            order = list(op.permutation.get_values())
            return Reason(f"transpose {order} moves channels or the batch", Kind.ATTRIBUTE)
        case UpsampleOp() if max(op.factors.get_values()[:2]) > 1:
            return Reason(
                "it repeats the batch or channels: only space can be repeated", Kind.ATTRIBUTE
            )
        case BatchNormOp() if any(network.constant(value) is None for value in op.operands[1:]):
            return Reason("its statistics are not constant", Kind.ATTRIBUTE)
        case _:
            return None


def _conv(op: ConvOp, network: Network) -> str | None:
    if network.constant(op.w) is None:
        return Reason("its weights are not constant", Kind.ATTRIBUTE)
    if op.bias is not None and network.constant(op.bias) is None:
        return Reason("its bias is not constant", Kind.ATTRIBUTE)
    return None


def _gemm(op: GemmOp, network: Network) -> str | None:
    alpha = op.alpha.value.data
    if is_contraction(op, network) and not 0 < alpha < np.inf:
        return Reason(f"its factor alpha is {alpha:g}, not above 0", Kind.ATTRIBUTE)
    if op.c is not None:
        if network.constant(op.c) is None:
            return Reason("its bias is not constant", Kind.ATTRIBUTE)
        if not is_channel_vector(shape_of(op.c) or (), shape_of(op.result) or ()):
            return Reason("its bias differs between rows", Kind.SHAPE)
    return None


def _addition(op: AddOp | SubOp, network: Network) -> str | None:
    a, b = shape_of(op.a) or (), shape_of(op.b) or ()
    if a == b or _constant_a_channel(op, network) is not None:
        return None
    kind = "addition" if isinstance(op, AddOp) else "subtraction"
    return Reason(f"broadcasting {kind} of shapes {list(a)} and {list(b)}", Kind.SHAPE)


def _constant_a_channel(
    op: AddOp | SubOp | MulOp | DivOp, network: Network
) -> tuple[SSAValue, SSAValue] | None:
    """The operand and the constant with one number a channel of it, if that is what it has."""
    result: Sequence[int] = shape_of(op.result) or ()
    for vector, other in ((op.b, op.a), (op.a, op.b)):
        if (
            network.constant(vector) is not None
            and shape_of(other) == result
            and is_channel_vector(shape_of(vector) or (), result)
        ):
            return other, vector
    return None


def scaling_of(op: MulOp | DivOp, network: Network) -> tuple[SSAValue, Array]:
    """The operand of a product with a constant, and the constant: float64, one number a channel."""
    found = _constant_a_channel(op, network)
    assert found is not None, "eligible products have a constant operand"
    value, vector = found
    numbers = network.channel_vector(vector, channels_of(op.result))
    return value, 1 / numbers if isinstance(op, DivOp) else numbers


def is_product(op: MulOp, network: Network) -> bool:
    """Whether both factors are tensors that are not known."""
    return all(network.constant(value) is None for value in (op.a, op.b))


def _product(op: MulOp, network: Network) -> str | None:
    if not network.multiplies:
        return NO_PRODUCTS
    a, b, result = (shape_of(value) or () for value in (op.a, op.b, op.result))
    if len(a) != len(b) or a[0] != b[0] or result not in (a, b):
        return Reason(f"broadcasting product of shapes {list(a)} and {list(b)}", Kind.SHAPE)
    return None


def _scaling(op: MulOp | DivOp, network: Network) -> str | None:
    found = _constant_a_channel(op, network)
    divides = isinstance(op, DivOp)
    if found is None or (divides and found[0] is not op.a):
        shapes = f"shapes {list(shape_of(op.a) or ())} and {list(shape_of(op.b) or ())}"
        what = "divides" if divides else "multiplies"
        return Reason(
            f"it {what} tensors of {shapes}: one must be a constant with one number a channel",
            Kind.SHAPE,
        )
    numbers = network.channel_vector(found[1], channels_of(op.result))
    if not np.isfinite(numbers).all() or (divides and not numbers.all()):
        return Reason("its constant has infinite factors", Kind.NUMBERS)
    return None


def normalisation_of(op: BatchNormOp, network: Network) -> tuple[Array, Array]:
    """Factor and offset of a batch normalisation: float64, one number a channel."""
    vectors = [network.channel_vector(v, channels_of(op.result)) for v in op.operands[1:]]
    return batch_norm_affine(op, *vectors)


def slope_of(op: LeakyReluOp | PReluOp, network: Network) -> Array:
    """By what negative elements are multiplied: float64, one number a channel."""
    channels = channels_of(op.result)
    if isinstance(op, LeakyReluOp):
        return np.full(channels, op.alpha.value.data)
    return network.channel_vector(op.slope, channels)


def _slopes(op: LeakyReluOp | PReluOp, network: Network) -> str | None:
    if isinstance(op, PReluOp):
        if network.constant(op.slope) is None:
            return Reason("its slopes are not constant", Kind.ATTRIBUTE)
        if not is_channel_vector(shape_of(op.slope) or (), shape_of(op.result) or ()):
            return Reason("its slopes differ within a channel", Kind.SHAPE)
    slope = slope_of(op, network)
    if not np.isfinite(slope).all():
        return Reason("its slopes are not finite", Kind.NUMBERS)
    if (slope < 1).any() and (slope > 1).any():
        return Reason(
            "some of its slopes are below 1 and some above: neither a maximum nor a minimum",
            Kind.NUMBERS,
        )
    return None


def _selection(op: ConcatOp | SliceOp | PadOp, network: Network) -> str | None:
    result = shape_of(op.result) or ()
    operands = op.inputs if isinstance(op, ConcatOp) else [op.x]
    if any((shape_of(operand) or ())[0] != result[0] for operand in operands):
        return Reason(
            "it changes the batch: only channels and space can be joined, cut and padded",
            Kind.ATTRIBUTE,
        )
    if isinstance(op, PadOp) and any(_spatial_pads(op)):
        value, given = op.value.value.data, network.given(op.x)
        lo, hi = (-LARGEST_FLOAT32, LARGEST_FLOAT32) if given is None else given.range
        if not lo <= value <= hi:
            what = f"it pads space with {value:g}, out of the range of its operand"
            return Reason(what, Kind.NUMBERS)
    return None


def _spatial_pads(op: PadOp) -> list[int]:
    pads = op.pads.get_values()
    return [*pads[2 : len(pads) // 2], *pads[len(pads) // 2 + 2 :]]


def _average_pool(op: AveragePoolOp) -> str | None:
    if op.count_include_pad.value.data:
        return None
    counts = window_counts(op)
    if counts.all() and forms_needed(op) > MOST_FORMS:
        return Reason(
            f"its windows average {counts.min()} to {counts.max()} elements: too many divisors",
            Kind.ATTRIBUTE,
        )
    return None if counts.all() else Reason("a window lies wholly in the padding", Kind.ATTRIBUTE)
