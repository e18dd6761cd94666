"""A pad folded into the window that reads it."""

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from vtac.dialects.graph import (
    AveragePoolOp,
    ClipOp,
    ConvOp,
    MaxPoolOp,
    PadOp,
    ReluOp,
    integers,
    shape_of,
)

LOWEST_FLOAT32 = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class Padding:
    """What a Pad does: the value padded, its spatial pads (begins, then ends), the constant."""

    x: SSAValue
    pads: list[int]
    value: float


def padding_of(value: SSAValue) -> Padding | None:
    """The pad that computes ``value``, if it pads spatial dimensions only."""
    op = value.owner
    if not isinstance(op, PadOp):
        return None
    pads, rank = op.pads.get_values(), len(shape_of(op.x) or ())
    begins, ends = pads[:rank], pads[rank:]
    if any((*begins[:2], *ends[:2])) or rank < 3:
        return None
    return Padding(op.x, [*begins[2:], *ends[2:]], op.value.value.data)


@dataclass
class PadIntoWindow(RewritePattern):
    """``conv(Pad(x))`` and poolings of a Pad have the pads themselves.

    Zeros belong to a convolution and to a mean that counts its pads. For a maximum they are minus
    infinity (or the lowest float32), or zeros where no number is negative and every window meets at
    least one number.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: ConvOp | MaxPoolOp | AveragePoolOp, rewriter: PatternRewriter
    ) -> None:
        """Match a window whose operand is a Pad; other readers of the Pad keep it."""
        padding = padding_of(op.x)
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
        if padding.value <= LOWEST_FLOAT32:
            return True
        plain = set(op.dilations.get_values()) == {1}
        return padding.value == 0 and plain and _not_negative(padding.x)


def _not_negative(value: SSAValue) -> bool:
    while isinstance(value.owner, MaxPoolOp):
        value = value.owner.x
    owner = value.owner
    if isinstance(owner, ClipOp):
        return owner.min is not None and owner.min.value.data >= 0
    return isinstance(owner, ReluOp)
