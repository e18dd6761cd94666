"""``codegen-passes``: the passes that a codegen registers run on its functions.

Accelerator-specific processing (BYOC, section 3.2): each function is taken out of the network, so
that any pass may be registered, and put back. Its name and its type stay.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from vtac.dialects.errors import CompileError, Problem
from vtac.passes.graph.codegen import CODEGEN, Codegen, codegens_named


@dataclass(frozen=True)
class CodegenPassesPass(ModulePass):
    """Run the passes of codegens, each on its own functions alone.

    codegen: run the passes of this codegen only.
    """

    name = "codegen-passes"

    codegen: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run them, the codegens by falling priority."""
        for codegen in codegens_named(ctx, self.codegen):
            if not codegen.passes():
                continue
            for function in list(op.body.block.ops):
                if isinstance(function, FuncOp) and function.attributes.get(CODEGEN) == StringAttr(
                    codegen.name
                ):
                    _run_alone(codegen, function, op, ctx)


def _run_alone(codegen: Codegen, function: FuncOp, module: ModuleOp, ctx: Context) -> None:
    name, type = function.sym_name, function.function_type
    behind = function.next_op
    module.body.block.detach_op(function)
    alone = ModuleOp([function], dict(module.attributes))
    for found in codegen.passes():
        found.apply(ctx, alone)
    alone.verify()
    after = [f for f in alone.ops if isinstance(f, FuncOp) and f.sym_name == name]
    if len(after) != 1 or after[0].function_type != type:
        what = f"the passes of codegen '{codegen.name}' changed its name or its type"
        raise CompileError(Problem(f"function @{name.data}", what, "A layout hook may."))
    for op in list(alone.ops):
        alone.body.block.detach_op(op)
        if behind is None:
            module.body.block.add_op(op)
        else:
            module.body.block.insert_op_before(op, behind)
