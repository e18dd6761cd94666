"""``te-declare-intrinsics``: puts the declarations of the target's intrinsics into the module.

Reads the module's target; existing declarations are kept. No options.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects import te
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import TARGET_ATTRIBUTE, target_at


@dataclass(frozen=True)
class TeDeclareIntrinsics(ModulePass):
    """Declare the intrinsics of the module's target."""

    name = "te-declare-intrinsics"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Add the declarations that the module lacks, at its end.

        Raises `CompileError` where the module has no target.
        """
        target = target_at(op)
        if target is None:
            raise CompileError(
                Problem("module", f"it has no {TARGET_ATTRIBUTE}", "choose one with --target")
            )
        names = {inner.get_attr_or_prop("sym_name") for inner in op.ops}
        for intrinsic in te.standard_intrinsics(target):
            if intrinsic.sym_name not in names:
                Rewriter.insert_op(intrinsic, InsertPoint.at_end(op.body.block))
