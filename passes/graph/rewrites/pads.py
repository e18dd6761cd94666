"""ONNX Pad folded into the window that reads it."""

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, FloatAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from vtac.dialects.graph import (
    AveragePoolOp,
    ClipOp,
    ConvOp,
    HostOp,
    MaxPoolOp,
    ReluOp,
    integers,
    shape_of,
)
from vtac.passes.graph.constants import constant_of


@dataclass(frozen=True)
class Padding:
    """What a Pad does: the value padded, its spatial pads (begins, then ends), the constant."""

    x: SSAValue
    pads: list[int]
    value: float


def padding_of(ctx: Context, value: SSAValue) -> Padding | None:
    """The Pad that computes ``value``, if it pads spatial dimensions only, by known amounts."""
    op = value.owner
    if not isinstance(op, HostOp) or op.op_type.data != "Pad" or op.domain.data or op.captured:
        return None
    attributes = op.onnx_attributes.data
    mode = attributes.get("mode", StringAttr("constant"))
    x, rank = op.inputs[0], len(shape_of(op.inputs[0]) or ())
    pads = _pads(ctx, op, rank)
    constant = _constant(ctx, op)
    if mode != StringAttr("constant") or pads is None or constant is None or rank < 3:
        return None
    begins, ends = pads[:rank], pads[rank:]
    if any(begins[:2] + ends[:2]) or min(pads) < 0:
        return None
    return Padding(x, begins[2:] + ends[2:], constant)


def _inputs(op: HostOp) -> list[SSAValue | None]:
    """The inputs in ONNX's order, None for those left out."""
    values: list[SSAValue | None] = list(op.inputs)
    if isinstance(op.absent, DenseArrayBase):
        for position in op.absent.get_values():
            values.insert(position, None)
    return values + [None] * (4 - len(values))


def _pads(ctx: Context, op: HostOp, rank: int) -> list[int] | None:
    """All begins and then all ends, over all dimensions."""
    attribute, inputs = op.onnx_attributes.data.get("pads"), _inputs(op)
    if isinstance(attribute, DenseArrayBase):
        return list(attribute.get_values())
    given = constant_of(ctx, inputs[1])
    if given is None:
        return None
    axes = constant_of(ctx, inputs[3])
    if axes is None:
        return given.tolist() if inputs[3] is None and given.size == 2 * rank else None
    pads = [0] * (2 * rank)
    for i, axis in enumerate(axes.tolist()):
        pads[axis % rank] = int(given[i])
        pads[rank + axis % rank] = int(given[len(axes) + i])
    return pads


def _constant(ctx: Context, op: HostOp) -> float | None:
    attribute, value = op.onnx_attributes.data.get("value"), _inputs(op)[2]
    if isinstance(attribute, FloatAttr):
        return float(attribute.value.data)
    if value is None:
        return 0.0
    array = constant_of(ctx, value)
    return None if array is None or array.size != 1 else float(np.ravel(array)[0])


@dataclass
class PadIntoWindow(RewritePattern):
    """``conv(Pad(x))`` and poolings of a Pad have the pads themselves.

    Zeros belong to a convolution and to a mean that counts its pads. For a maximum they are minus
    infinity, or zeros where no number is negative and every window meets at least one number.
    """

    ctx: Context

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: ConvOp | MaxPoolOp | AveragePoolOp, rewriter: PatternRewriter
    ) -> None:
        """Match a window whose operand is a Pad; other readers of the Pad keep it."""
        padding = padding_of(self.ctx, op.x)
        if padding is None or not self._fits(op, padding):
            return
        own = op.pads.get_values()
        if isinstance(op, AveragePoolOp) and any(padding.pads):
            op.count_include_pad = BoolAttr.from_bool(True)
        op.properties["pads"] = integers([a + b for a, b in zip(own, padding.pads, strict=True)])
        op.operands[0] = padding.x
        rewriter.notify_op_modified(op)

    def _fits(self, op: ConvOp | MaxPoolOp | AveragePoolOp, padding: Padding) -> bool:
        if isinstance(op, ConvOp):
            return padding.value == 0
        own, kernel = op.pads.get_values(), op.kernel_shape()
        sums = [pad + more for pad, more in zip(own, padding.pads, strict=True)]
        if any(pad >= kernel[i % len(kernel)] for i, pad in enumerate(sums)):
            return False  # onnxruntime has no pooling with windows of nothing but pads
        if isinstance(op, AveragePoolOp):
            counted = bool(op.count_include_pad.value.data)
            return padding.value == 0 and (counted or not any(own))
        if padding.value == float("-inf"):
            return True
        plain = set(op.dilations.get_values()) == {1}
        return padding.value == 0 and plain and _not_negative(padding.x)


def _not_negative(value: SSAValue) -> bool:
    owner = value.owner
    if isinstance(owner, ClipOp):
        return owner.min is not None and owner.min.value.data >= 0
    if isinstance(owner, MaxPoolOp):
        return _not_negative(owner.x)
    return isinstance(owner, ReluOp)
