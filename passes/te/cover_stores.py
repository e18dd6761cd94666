"""``te-cover-stores``: every element that is stored has been written by the GEMM core or the ALU.

The machine stores what these units have left in its output buffer; a reset leaves nothing there.
Where all taps of some outputs fall outside their operands (a window that lies in the padding), the
GEMM core has nothing to do, and if no stage of the ALU stands between such a product and its store,
the store would find nothing. There, two stages of the ALU are inserted: plus 1, then minus 1.

Takes and leaves kernels of tensors, lanes or not. Other products are left as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from vtac.dialects.te import (
    ComputeOp,
    KernelOp,
    Read,
    Row,
    combiner,
    identity_map,
    rows_of,
    scalar_body,
    shaped,
    yielded,
)
from vtac.passes.te.computes import fresh_label


@dataclass(frozen=True)
class CoverStoresPass(ModulePass):
    """Let the ALU write the stored elements that no tap reaches."""

    name = "te-cover-stores"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Look at every store of every kernel of tensors."""
        for kernel in op.ops:
            if isinstance(kernel, KernelOp) and not kernel.is_lowered:
                for sum_ in kernel.computes:
                    if _is_sum_from_zero(sum_) and _is_stored(sum_) and _misses_outputs(sum_):
                        _cover(kernel, sum_)


def _is_sum_from_zero(compute: ComputeOp) -> bool:
    if not len(compute.reduce) or combiner(compute.body) is not arith.AddiOp:
        return False
    return compute.identity is not None and compute.identity.value.data == 0


def _is_stored(compute: ComputeOp) -> bool:
    """Whether a stage that only narrows reads a compute's result."""
    for use in compute.result.uses:
        reader = use.operation
        if isinstance(reader, ComputeOp) and not len(reader.reduce):
            last = yielded(reader.body).owner
            if isinstance(last, arith.TruncIOp) and last.input in reader.body.block.args:
                return True
    return False


def _misses_outputs(compute: ComputeOp) -> bool:
    """Whether some output has no tap for which all reads are inside their tensors."""
    borders = [
        (row, size)
        for read in compute.reads
        if read.outside is not None
        for row, size in zip(read.rows, shaped(read.value).get_shape(), strict=True)
        if row.interval(compute.extents)[0] < 0 or row.interval(compute.extents)[1] >= size
    ]
    return not all(_covers(compute, part) for part in _connected(borders))


Border = tuple[Row, int]
"""A subscript that may leave its dimension, and the dimension's size."""


def _connected(borders: Sequence[Border]) -> list[list[Border]]:
    """Borders in groups that share no variable: each group can be looked at alone."""
    groups: list[tuple[set[int], list[Border]]] = []
    for border in borders:
        variables, members = {v for v, _ in border[0].terms}, [border]
        apart = []
        for known, others in groups:
            if known & variables:
                variables, members = variables | known, members + others
            else:
                apart.append((known, others))
        groups = [*apart, (variables, members)]
    return [members for _, members in groups]


def _covers(compute: ComputeOp, borders: Sequence[Border]) -> bool:
    """Whether each output has a tap at which all of these subscripts are inside."""
    variables = sorted({v for row, _ in borders for v, _ in row.terms})
    grid = dict(
        zip(variables, np.ogrid[[slice(compute.extents[v]) for v in variables]], strict=True)
    )
    inside = np.ones([compute.extents[v] for v in variables], bool)
    for row, size in borders:
        at, rest = np.divmod(row.constant + sum(c * grid[v] for v, c in row.terms), row.divisor)
        inside &= (at >= 0) & (at < size) & (rest == 0)
    taps = tuple(n for n, v in enumerate(variables) if v >= len(compute.spatial))
    return bool(inside.any(axis=taps).all())


def _cover(kernel: KernelOp, compute: ComputeOp) -> None:
    """Two stages of the ALU that together change nothing, before all readers."""
    block, value, last = kernel.body.block, compute.result, compute
    uses = list(value.uses)
    for amount in (1, -1):

        def body(x: SSAValue, amount: int = amount) -> SSAValue:
            return arith.AddiOp(x, arith.ConstantOp(IntegerAttr(amount, i32)).result).result

        read = Read(value, rows_of(identity_map(len(compute.spatial))))
        label = fresh_label(kernel, f"{compute.label.data}_written")
        stage = ComputeOp(label, compute.spatial, {}, [read], scalar_body([i32], body), i32)
        stage.location = compute.location
        stage.result.name_hint = label
        block.insert_op_after(stage, last)
        value, last = stage.result, stage
    for use in uses:
        use.operation.operands[use.index] = value
