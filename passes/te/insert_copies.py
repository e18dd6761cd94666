"""``te-insert-copies``: values that would have to lie in two places are copied to one of them.

Takes functions with ``codegen = "vta"`` over tensors of te. Leaves functions in which
`BufferAssignment` finds a place for every value: where it finds none (a part of two assembled
tensors, an argument in one, a result that is a window), a call of a copying kernel stands in
between. Copies of one type share a kernel. What needs no copy is not touched. Compare
``-one-shot-bufferize`` in MLIR, whose analysis inserts copies in the same way. No options.
"""

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, i8, i32
from xdsl.ir import Attribute, Block, Region
from xdsl.passes import ModulePass

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import (
    BufferAssignment,
    CallOp,
    ComputeOp,
    KernelOp,
    Read,
    Row,
    YieldOp,
    scalar_body,
    shaped,
)
from vtac.passes.te.accelerated import accelerated_functions
from vtac.passes.te.computes import fresh_name


@dataclass(frozen=True)
class InsertCopiesPass(ModulePass):
    """Copy values that cannot lie where they are needed."""

    name = "te-insert-copies"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Insert calls of copying kernels in every function with codegen "vta"."""
        kernels = _Kernels(op)
        for function in accelerated_functions(op):
            _insert(function.body.block, kernels)


def _insert(block: Block, kernels: "_Kernels") -> None:
    """Insert copies until there is no conflict: a copy made for one op may also resolve the next
    one."""
    while conflicts := BufferAssignment(block).conflicts:
        conflict = conflicts[0]
        value = conflict.op.operands[conflict.operand]
        if shaped(value).element_type != i8:
            where = value.name_hint or conflict.op.name
            hint = f"It has to be copied, and only int8 can be: {value.type}."
            raise CompileError(Problem(where, conflict.reason, hint))
        call = CallOp(kernels.copying(value.type), [value], [value.type])
        call.location = conflict.op.location
        (result,) = call.outputs
        result.name_hint = value.name_hint
        block.insert_op_before(call, conflict.op)
        conflict.op.operands[conflict.operand] = result


@dataclass
class _Kernels:
    """The copying kernels of a module, by the type of what they copy."""

    module: ModuleOp
    names: dict[Attribute, str] = field(default_factory=dict)

    def copying(self, type: Attribute) -> str:
        """The name of the kernel that copies tensors of this type."""
        if type not in self.names:
            symbols = (op.properties.get("sym_name") for op in self.module.ops)
            taken = {name.data for name in symbols if isinstance(name, StringAttr)}
            name = fresh_name("copy0", taken)  # @copy is an intrinsic
            self.module.body.block.add_op(_copying_kernel(name, type))
            self.names[type] = name
        return self.names[type]


def _copying_kernel(name: str, type: Attribute) -> KernelOp:
    """A kernel that copies int8 by way of the accumulators, since only these are stored."""
    block = Block(arg_types=[type])
    (x,) = block.args
    domain = {f"d{dim}": size for dim, size in enumerate(shaped(x).get_shape())}
    same = tuple(Row(((dim, 1),)) for dim in range(len(domain)))
    widen = scalar_body([i8], lambda value: arith.ExtSIOp(value, i32).result)
    wide = ComputeOp("copy", domain, {}, [Read(x, same)], widen, i32)
    narrow = scalar_body([i32], lambda value: arith.TruncIOp(value, i8).result)
    last = ComputeOp("narrow", domain, {}, [Read(wide.result, same)], narrow, i8)
    block.add_ops([wide, last, YieldOp(last.result)])
    return KernelOp(name, FunctionType.from_lists([type], [type]), Region(block))
