"""Which elements of a strided window are loaded: every one that is read, or whole rows.

A convolution of kernel 1 and stride 2 reads every second column of every second row. Rows that are
not read are never loaded. Columns that are not read may be: see `Target.loads_apart`. The costs of
schedules and the lowering to instructions both ask here.
"""

from collections.abc import Sequence

from vtac.dialects.target import Memory, Target


def loaded_steps(target: Target, shape: Sequence[int], steps: Sequence[int]) -> list[int]:
    """How far apart the elements are that loads of a GEMM's inputs bring, by dimension.

    shape: of the tensor, before the lanes. steps: how far apart those are that are read.
    """
    if len(steps) < 2 or steps[-1] == 1:
        return list(steps)
    rows, count = (-(-shape[dim] // steps[dim]) for dim in (-2, -1))
    is_apart = target.loads_apart(Memory.INP, rows, count, steps[-1])
    return list(steps) if is_apart else [*steps[:-1], 1]
