"""``te-block-immediates``: a vector that is the same in all lanes becomes a table of immediates.

An ALU operation with a second operand takes the constants of 16 channels from the accumulators; on
the Chisel design it costs twice what an immediate does, and the vector must be loaded. Where the 16
agree, one immediate serves the block, and the table ``%shift[c]`` says which. Blocks may differ:
te-to-vta cuts the instruction where the amount changes. (docs/vta.md, section 6.)

Takes kernels of tensors whose stages are single operations. A stage keeps its vector where lanes
differ, where values are no immediates, or where the instructions cut cost more than they save.
Calls of a kernel whose constants want different things get kernels of their own. A left shift by a
vector is always rewritten (there is no other instruction for it).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import BlockArgument, Operation, Region
from xdsl.passes import ModulePass

from vtac.dialects.context import Array
from vtac.dialects.target import Memory, target_at
from vtac.dialects.te import LANES, CallOp, ComputeOp, KernelOp, Read, scalar_body, shaped, yielded
from vtac.dialects.te.standard import IMMEDIATE, SHIFT
from vtac.passes.te.computes import replace_compute
from vtac.passes.te.epilogue_costs import EpilogueCosts, choose
from vtac.passes.te.parameters import (
    append_parameter,
    drop_parameter,
    kernels_with_calls,
    passed_constant,
)

TABLE, VECTOR = "immediates", "vector"
"""The names of the two forms in recorded choices."""


@dataclass(frozen=True)
class BlockImmediatesPass(ModulePass):
    """Vectors that agree in all lanes become tables of immediates."""

    name = "te-block-immediates"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite every kernel of tensors, if the module has a target."""
        target = target_at(op)
        if target is None:
            return
        rewriter = _Rewriter(ctx, op, EpilogueCosts(target))
        for kernel, calls in kernels_with_calls(op):
            rewriter.rewrite(kernel, calls)


@dataclass(frozen=True)
class _Rewriter:
    ctx: Context
    module: ModuleOp
    costs: EpilogueCosts

    def rewrite(self, kernel: KernelOp, calls: list[CallOp]) -> None:
        """Rewrite the stages one after the other; calls that need different forms get copies of the
        kernel."""
        for compute in kernel.computes:
            number = _vector_of(compute)
            if number is None or not calls:
                continue
            options = partial(self._options, compute, number)
            calls, wish = choose(self.module, kernel, calls, compute, options, self.rewrite)
            if wish == TABLE:
                self._use_table(kernel, calls, compute, number)

    def _options(self, compute: ComputeOp, number: int, call: CallOp) -> dict[str, int]:
        """The forms that are possible for a call, and their costs."""
        elements = int(np.prod(compute.spatial.extents[:-LANES]))
        size = int(np.prod(shaped(compute.inputs[number]).get_shape()[:-LANES]))
        cost = self.costs.register(elements) + self.costs.load(Memory.ACC, size)
        options = {VECTOR: cost}
        vector = passed_constant(self.ctx, call, compute.inputs[number])
        if vector is None or np.any(vector != vector[..., :1, :1]):
            return options
        table = _amounts(compute, vector)
        low, high = SHIFT if isinstance(_operation(compute.body), SHIFTS) else IMMEDIATE
        if table.min() < low or table.max() > high:
            return options
        runs = 1 + int(np.count_nonzero(np.diff(table.ravel())))
        cost = self.costs.immediate(elements) + self.costs.instructions(elements, runs)
        if isinstance(_operation(compute.body), arith.ShLIOp):
            return {TABLE: cost}
        return {TABLE: cost, **options}

    def _use_table(
        self, kernel: KernelOp, calls: list[CallOp], compute: ComputeOp, number: int
    ) -> None:
        vector = compute.inputs[number]
        assert isinstance(vector, BlockArgument)
        arrays = []
        for call in calls:
            array = passed_constant(self.ctx, call, vector)
            assert array is not None
            arrays.append(_amounts(compute, array))
        table = append_parameter(
            self.ctx, kernel, calls, arrays, f"{vector.name_hint or 'vector'}_table"
        )
        reads = list(compute.reads)
        reads[number] = Read(table, reads[number].rows[:-LANES])
        new = ComputeOp(
            compute.label.data, compute.spatial, {}, reads, _right_shift(compute.body), i32
        )
        new.attributes |= compute.attributes
        replace_compute(compute, new)
        if not vector.uses:
            drop_parameter(kernel, calls, vector)


def _vector_of(compute: ComputeOp) -> int | None:
    """The number of a single operation's operand that is a parameter with one value per lane."""
    if len(compute.reduce) or compute.element_type != i32 or len(compute.inputs) != 2:
        return None
    operation, scalars = _operation(compute.body), list(compute.body.block.args)
    if operation is None or set(operation.operands) != set(scalars):
        return None
    lanes = [len(compute.spatial) - LANES, len(compute.spatial) - 1]
    for number, read in enumerate(compute.reads):
        is_vector = [row.variable for row in read.rows[-LANES:]] == lanes
        if not is_vector or not isinstance(read.value, BlockArgument) or read.outside is not None:
            continue
        if not isinstance(operation, SHIFTS) or operation.operands[1] is scalars[number]:
            return number
    return None


SHIFTS = arith.ShRSIOp, arith.ShLIOp
OPERATIONS = arith.AddiOp, arith.MaxSIOp, arith.MinSIOp, arith.MuliOp, *SHIFTS


def _operation(body: Region) -> Operation | None:
    """The operation that yields a body's value, if the ALU has an instruction for it."""
    owner = yielded(body).owner
    return owner if isinstance(owner, OPERATIONS) else None


def _amounts(compute: ComputeOp, vector: Array) -> Array:
    """The immediates behind a vector that agrees in all lanes; left shifts are negative."""
    table = np.ascontiguousarray(vector[..., 0, 0])
    return -table if isinstance(_operation(compute.body), arith.ShLIOp) else table


def _right_shift(body: Region) -> Region:
    """The body with a right shift in the place of a left shift."""
    operation = _operation(body)
    if not isinstance(operation, arith.ShLIOp):
        return body.clone()
    x, amount = (body.block.args.index(operand) for operand in operation.operands)
    return scalar_body([i32, i32], lambda *args: arith.ShRSIOp(args[x], args[amount]).result)
