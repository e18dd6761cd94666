"""What rewrites of computes share: names that are still free, and replacement in place."""

from collections.abc import Sequence

from xdsl.rewriter import Rewriter

from vtac.dialects.te import ComputeOp, KernelOp


def fresh_label(kernel: KernelOp, wanted: str) -> str:
    """``wanted``, or that with the first free number."""
    return _free(wanted, {compute.label.data for compute in kernel.computes})


def fresh_names(compute: ComputeOp, wanted: Sequence[str]) -> list[str]:
    """Names for new axes of a compute, like those wanted."""
    taken = {*compute.spatial.names, *compute.reduce.names}
    names: list[str] = []
    for name in wanted:
        names.append(_free(name, taken))
        taken.add(names[-1])
    return names


def _free(wanted: str, taken: set[str]) -> str:
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
