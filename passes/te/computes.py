"""Helpers of rewrites of computes: unused names, and replacement in place."""

from collections.abc import Collection, Sequence

from xdsl.rewriter import Rewriter

from vtac.dialects.te import ComputeOp, KernelOp, Read


def fresh_label(kernel: KernelOp, wanted: str) -> str:
    """``wanted``, or that with the first free number."""
    return fresh_name(wanted, {compute.label.data for compute in kernel.computes})


def fresh_name(wanted: str, taken: Collection[str]) -> str:
    """``wanted``, or that with the first free number."""
    name, number = wanted, 0
    while name in taken:
        number += 1
        name = f"{wanted}{number}"
    return name


def replace_compute(old: ComputeOp, new: ComputeOp) -> None:
    """Put ``new`` where ``old`` is, under its name and location."""
    new.location = old.location
    new.result.name_hint = old.result.name_hint
    Rewriter.replace_op(old, new)


def with_reads(compute: ComputeOp, reads: Sequence[Read]) -> ComputeOp:
    """A copy of the compute that reads these operands instead, one for each; it is in no block
    yet."""
    return ComputeOp(
        compute.label.data,
        compute.spatial,
        compute.reduce,
        reads,
        compute.body.clone(),
        compute.element_type,
        identity=None if compute.identity is None else compute.identity.value.data,
        init=compute.init,
    )
