"""``te-to-loops``: each tensor expression becomes a loop nest of its own, tensors become buffers.

Takes kernels over tensors. Leaves kernels over memrefs (inputs, then outputs), in which every
compute is a nest of one loop per axis around a `te.update`, in the order of the computes; before a
reduction stands a nest that sets its start. Nothing is tiled or placed: intermediates are whole
buffers in DRAM. Schedules work on these nests.

Unlike MLIR's ``convert-linalg-to-loops`` it also bufferises: each compute gets a buffer of its own,
since sharing buffers is a decision of the schedule.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import FunctionType, IntegerAttr, ModuleOp, i32
from xdsl.ir import Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects import te
from vtac.dialects.errors import CompileError, Problem


@dataclass(frozen=True)
class TeToLoops(ModulePass):
    """Lower kernels over tensors to loop nests over buffers."""

    name = "te-to-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Lower every kernel that is still over tensors."""
        for kernel in list(op.body.block.ops):
            if isinstance(kernel, te.KernelOp) and not kernel.is_lowered:
                kernel_to_loops(kernel)


def kernel_to_loops(kernel: te.KernelOp) -> None:
    """Lower one kernel. Raises `CompileError` where a result is no compute, or is so twice."""
    block = kernel.body.block
    terminator = block.last_op
    assert isinstance(terminator, te.YieldOp)
    buffers: dict[SSAValue, SSAValue] = {}
    results = list(terminator.values)
    for number, value in enumerate(results):
        if not isinstance(value.owner, te.ComputeOp) or value in results[:number]:
            raise CompileError(
                Problem(
                    f"te.kernel @{kernel.sym_name.data}",
                    f"result {number} is not a te.compute of its own",
                    "a kernel returns each of its computes at most once, and no parameter",
                )
            )
    for compute in kernel.computes:
        if any(row.divisor > 1 for read in compute.reads for row in read.rows):
            raise CompileError(
                Problem(
                    f'te.kernel @{kernel.sym_name.data}, stage "{compute.label.data}"',
                    "a subscript is divided, which loops cannot do",
                    "Run te-split-phases first.",
                )
            )
    for argument in list(block.args):
        type = te.shaped(argument)
        new_type = te.buffer_type(type.get_shape(), type.element_type)
        Rewriter.replace_value_with_new_type(argument, new_type)
    for value in results:
        type = te.shaped(value)
        argument = block.insert_arg(
            te.buffer_type(type.get_shape(), type.element_type), len(block.args)
        )
        argument.name_hint = value.name_hint
        buffers[value] = argument
    Rewriter.erase_op(terminator)
    for compute in kernel.computes:
        _lower(compute, buffers)
    Rewriter.insert_op(te.YieldOp(), InsertPoint.at_end(block))
    for compute in reversed(kernel.computes):
        Rewriter.erase_op(compute)
    kernel.function_type = FunctionType.from_lists(block.arg_types, [])


def _lower(compute: te.ComputeOp, buffers: dict[SSAValue, SSAValue]) -> None:
    """Put the nests of a compute before it; ``buffers`` maps values to what they became."""
    new: list[Operation] = []
    if compute.result not in buffers:
        shape = compute.spatial.extents
        alloc = te.AllocOp(te.buffer_type(shape, compute.element_type))
        alloc.buffer.name_hint = compute.result.name_hint or compute.label.data
        buffers[compute.result] = alloc.buffer
        new.append(alloc)
    target = buffers[compute.result]
    label = compute.label.data
    if compute.reduce.data:
        loops = _loops(compute.spatial, is_reduce=False)
        write = _access(target, te.rows_of(te.identity_map(len(loops))), loops)
        reads = []
        if compute.init is not None:
            reads.append(te.Access(buffers.get(compute.init, compute.init), write.subscripts))
        start = te.UpdateOp(label, write, reads, _start_body(compute), is_init=True)
        start.location = compute.location
        new.append(nest(loops, [start]))
    loops = _loops(compute.spatial, is_reduce=False) + _loops(compute.reduce, is_reduce=True)
    write = _access(target, te.rows_of(te.identity_map(len(compute.spatial))), loops)
    reads = [
        te.Access.of(
            buffers.get(read.value, read.value),
            read.rows,
            [loop.index for loop in loops],
            read.outside,
        )
        for read in compute.reads
    ]
    body = compute.detach_region(compute.body)
    update = te.UpdateOp(label, write, reads, body, accumulate=bool(compute.reduce.data))
    update.location = compute.location
    new.append(nest(loops, [update]))
    for op in new:
        op.location = compute.location
    Rewriter.insert_op(new, InsertPoint.before(compute))


def _access(buffer: SSAValue, rows: Sequence[te.Row], loops: Sequence[te.ForOp]) -> te.Access:
    return te.Access.of(buffer, rows, [loop.index for loop in loops])


def _start_body(compute: te.ComputeOp) -> Region:
    """The body that sets what a reduction starts from: its init, or its identity."""
    element = compute.element_type
    if compute.init is not None:
        return te.scalar_body([element], lambda value: value)
    identity = compute.identity.value.data if compute.identity is not None else 0
    constant = IntegerAttr(identity, element if element != i32 else i32)
    return te.scalar_body([], lambda: arith.ConstantOp(constant).result)


def _loops(domain: te.DomainAttr, *, is_reduce: bool) -> list[te.ForOp]:
    return [te.ForOp(name, te.Range(0, extent), is_reduce=is_reduce) for name, extent in domain]


def nest(loops: Sequence[te.ForOp], body: Sequence[Operation]) -> Operation:
    """Put each loop into the one before it and ``body`` into the last; return the outermost."""
    inner = list(body)
    for loop in reversed(loops):
        loop.body.block.add_ops(inner)
        inner = [loop]
    return inner[0]
