"""Constants as arrays, and arrays as constants, for passes on graphs."""

from xdsl.context import Context
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array, constant_attr, constant_value, tensor_type
from vtac.dialects.graph import ConstantOp


def constant_of(ctx: Context, value: SSAValue | None) -> Array | None:
    """The array of a value that ``graph.constant`` defines; None for any other."""
    if value is None or not isinstance(value.owner, ConstantOp):
        return None
    return constant_value(ctx, value.owner.value, value.type)


def new_constant(ctx: Context, array: Array, hint: str | None, source: Operation) -> ConstantOp:
    """A constant made from others, located where ``source`` is."""
    op = ConstantOp(constant_attr(ctx, array, hint or "constant"), tensor_type(array))
    op.result.name_hint = hint
    op.location = source.location
    return op


def channel_vector(array: Array, shape: tuple[int, ...], channels: int) -> Array | None:
    """``array`` as one number per channel, if it varies along axis 1 only when broadcast.

    shape: [N, C, ...], what it is broadcast against. The result has shape [C].
    """
    if array.ndim > len(shape):
        return None
    aligned = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
    if any(extent != 1 for axis, extent in enumerate(aligned.shape) if axis != 1):
        return None
    if aligned.shape[1] not in (1, channels):
        return None
    return aligned.reshape(-1).repeat(channels // aligned.size)
