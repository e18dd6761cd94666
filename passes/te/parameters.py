"""Constants that a rewrite adds to a kernel: a parameter, and what each call passes for it."""

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Block, SSAValue

from vtac.dialects.context import Array, constant_attr, tensor_type
from vtac.dialects.te import CallOp, ConstantOp, KernelOp


def add_constant_parameter(
    ctx: Context, module: ModuleOp, kernel: KernelOp, array: Array, hint: str
) -> SSAValue:
    """A new last parameter of the kernel; every call in the module passes ``array`` for it.

    Functions that already have the constant pass that one.
    """
    block, type = kernel.body.block, tensor_type(array)
    argument = block.insert_arg(type, len(block.args))
    argument.name_hint = hint
    kernel.properties["function_type"] = FunctionType.from_lists(
        block.arg_types, kernel.function_type.outputs.data
    )
    attr = constant_attr(ctx, array, hint)
    for call in module.walk():
        if isinstance(call, CallOp) and call.callee.root_reference.data == kernel.sym_name.data:
            body = call.parent
            assert isinstance(body, Block)
            constant = shared_constant(body, ConstantOp(attr, type))
            call.operands = (*call.operands, constant.result)
    return argument


def shared_constant(body: Block, wanted: ConstantOp) -> ConstantOp:
    """The equal constant of a block, moved to its front, or ``wanted``, now there."""
    for op in body.ops:
        if isinstance(op, ConstantOp) and _are_equal(op, wanted):
            body.detach_op(op)
            wanted = op
            break
    first = body.first_op
    if first is None:
        body.add_op(wanted)
    else:
        body.insert_op_before(wanted, first)
    return wanted


def _are_equal(a: ConstantOp, b: ConstantOp) -> bool:
    return a.value == b.value and a.result.type == b.result.type
