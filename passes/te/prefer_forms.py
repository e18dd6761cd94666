"""``te-prefer-forms``: names forms that stages are to have, whatever the cost formulas say.

Several passes before te-schedule choose among forms of a stage by cost: where a bias is added
(te-place-biases), how shifts nest (te-nest-shifts), whether an immediate is a vector or a table
(te-block-immediates), how a window is reduced (te-split-windows). What they chose, and what else
was possible, stands on the kernel as ``te.choices``. This pass makes these choices knobs: it writes
the attribute ``te.forms``, which those passes follow where the form is possible; ``te.choices``
says what was taken.

Takes and leaves kernels of tensors. Options: ``forms``, the text of a point whose knobs are names
of stages (``bias=product shift1=nested``); ``kernel``, only this one.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.passes import ModulePass

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import KernelOp, Point, parse_point
from vtac.passes.te.epilogue_costs import FORMS


@dataclass(frozen=True)
class TePreferFormsPass(ModulePass):
    """Name forms of stages, which later passes take."""

    name = "te-prefer-forms"

    forms: str
    kernel: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Write the attribute on the kernels."""
        forms = DictionaryAttr({name: StringAttr(str(v)) for name, v in self._parsed().items()})
        found = [
            kernel
            for kernel in op.ops
            if isinstance(kernel, KernelOp) and self.kernel in ("", kernel.sym_name.data)
        ]
        if self.kernel and not found:
            raise CompileError(Problem(f"te.kernel @{self.kernel}", "there is no such kernel"))
        for kernel in found:
            kernel.attributes[FORMS] = forms

    def _parsed(self) -> Point:
        try:
            point = parse_point(self.forms)
        except ValueError as error:
            raise CompileError(Problem("", f"the forms cannot be read: {error}")) from error
        for name, value in point.items():
            if not isinstance(value, str):
                raise CompileError(Problem("", f"the form of stage {name!r} is a word"))
        return point
