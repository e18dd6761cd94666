"""``vta-strip-names``: reduces the text to what the binary alone determines.

Buffers become ``@b0``, ``@b1``, ... in their order, kernels ``@u0``, ... in the order of the
micro-op buffer, equal ones merged; both stand before the instructions; locations are forgotten.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, SymbolRefAttr, UnknownLoc
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from vtac.dialects.vta import BufferOp, ComputeOp, KernelOp, MicroOps, ProgramOp, TransferOp


@dataclass(frozen=True)
class StripNamesPass(ModulePass):
    """Number the names of every vta.program, and forget its locations."""

    name = "vta-strip-names"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """See the module's docstring."""
        for program in op.body.block.ops:
            if isinstance(program, ProgramOp):
                strip_names(program)


def strip_names(program: ProgramOp) -> None:
    """Number the names of a program, and forget its locations."""
    buffers = program.buffers()
    kernels = program.kernels()
    buffer_names = {old: SymbolRefAttr(f"b{i}") for i, old in enumerate(buffers)}
    listed = [name for buffer in buffers.values() for name in buffer.kernel_names()]
    numbers: dict[MicroOps, int] = {}
    for name in (*listed, *kernels):
        numbers.setdefault(kernels[name].micro_ops, len(numbers))
    kernel_names = {
        name: SymbolRefAttr(f"u{numbers[kernel.micro_ops]}") for name, kernel in kernels.items()
    }
    program.location = UnknownLoc()
    for op in program.body.block.ops:
        op.location = UnknownLoc()
        if isinstance(op, BufferOp):
            op.properties["sym_name"] = StringAttr(_text(buffer_names[op.sym_name.data]))
            if op.kernels is not None:
                names = [kernel_names[name] for name in op.kernel_names()]
                op.properties["kernels"] = ArrayAttr(names)
        elif isinstance(op, TransferOp) and op.buffer_name is not None:
            op.properties["buffer"] = buffer_names[op.buffer_name]
        elif isinstance(op, ComputeOp) and op.kernel is not None:
            op.properties["kernel"] = kernel_names[op.kernel.root_reference.data]
    _declare_first(program, numbers)


def _text(reference: SymbolRefAttr) -> str:
    return reference.root_reference.data


def _declare_first(program: ProgramOp, numbers: dict[MicroOps, int]) -> None:
    block = program.body.block
    declarations: list[Operation] = list(program.buffers().values())
    for op in declarations:
        block.detach_op(op)
    for kernel in program.kernels().values():
        Rewriter.erase_op(kernel)
    declarations += [KernelOp(f"u{number}", kernel) for kernel, number in numbers.items()]
    Rewriter.insert_op(declarations, InsertPoint.at_start(block))
