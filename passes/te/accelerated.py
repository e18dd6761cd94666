"""The functions of a module that run on the accelerator, and the machine that each is for."""

from collections.abc import Sequence
from typing import TypeGuard

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import TARGET_ATTRIBUTE, Target, target_at

CODEGEN = "vta"
"""Functions with this ``codegen`` run on the accelerator."""


def accelerated_functions(module: ModuleOp) -> Sequence[FuncOp]:
    """The functions of a module that run on the accelerator, in order."""
    return [op for op in module.ops if is_accelerated(op)]


def is_accelerated(op: Operation | None) -> TypeGuard[FuncOp]:
    """Whether an operation is a function that runs on the accelerator."""
    return isinstance(op, FuncOp) and op.attributes.get("codegen") == StringAttr(CODEGEN)


def target_of(function: FuncOp) -> Target:
    """The target of a function, or of the closest operation around it that has one.

    Raises `CompileError` if there is none.
    """
    target = target_at(function)
    if target is not None:
        return target
    where, what = f"function @{function.sym_name.data}", f"there is no {TARGET_ATTRIBUTE}"
    raise CompileError(Problem(where, what, "Give a target: vta-opt --target NAME."))
