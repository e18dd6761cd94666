"""``annotate``: each composite gets its codegen, each op that stays its reason.

The second step of BYOC's partitioning. A composite belongs to the codegen whose name starts its
pattern's; everything else stays on the host, and an op that computes says why.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from vtac.dialects.graph import (
    CompositeOp,
    ConstantOp,
    DequantizeOp,
    HostOp,
    JoinBytesOp,
    PackOp,
    QuantizeOp,
    UnfoldOp,
    UnpackOp,
)
from vtac.passes.graph.codegen import codegens_of
from vtac.passes.graph.match_patterns import CODEGEN, HOST_REASON

BORDER = (
    ConstantOp,
    DequantizeOp,
    JoinBytesOp,
    PackOp,
    QuantizeOp,
    UnfoldOp,
    UnpackOp,
    CallOp,
    ReturnOp,
)
"""Ops that belong to the border between host and accelerator: they need no reason."""


@dataclass(frozen=True)
class AnnotatePass(ModulePass):
    """Give composites their codegen, and ops that stay on the host a reason."""

    name = "annotate"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Annotate the ops of every function that no codegen has taken."""
        names = {codegen.name for codegen in codegens_of(ctx)}
        for function in op.walk():
            if not isinstance(function, FuncOp) or CODEGEN in function.attributes:
                continue
            for block in function.body.blocks:
                for inner in block.ops:
                    if isinstance(inner, CompositeOp):
                        codegen = inner.pattern.data.partition(".")[0]
                        if codegen in names:
                            inner.codegen = StringAttr(codegen)
                    elif not isinstance(inner, BORDER) and HOST_REASON not in inner.attributes:
                        inner.attributes[HOST_REASON] = StringAttr(_reason(inner))


def _reason(op: Operation) -> str:
    if isinstance(op, HostOp):
        return f"operator {op.op_type.data} is not supported on the accelerator"
    return "it computes with real numbers: nothing calibrated its quantisation"
