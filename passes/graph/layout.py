"""``layout``: activations of accelerator functions take the layout the machine loads.

Every activation inside a function of the vta codegen gets the encoding ``#graph.packed``; packing
and unpacking stand only at the borders, in the caller. Shapes stay logical.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import ConstantOp, PackedAttr, PackOp, UnpackOp, packing
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.passes.graph.codegen import CODEGEN


def _packed(type: Attribute, layout: PackedAttr) -> Attribute:
    if isinstance(type, TensorType) and type.get_num_dims() >= 2:
        return TensorType(type.element_type, type.shape.data, layout)
    return type


def _pack_function(function: FuncOp) -> None:
    target = function.attributes.get(TARGET_ATTRIBUTE)
    if not isinstance(target, Target):
        raise CompileError(
            Problem(
                f"function @{function.sym_name.data}",
                "it has no target, so its layout is unknown",
                "Give one with --target before partitioning.",
            )
        )
    layout = PackedAttr(target.batch, target.block)
    for block in function.body.blocks:
        for argument in block.args:
            Rewriter.replace_value_with_new_type(argument, _packed(argument.type, layout))
    for op in function.body.walk():
        if isinstance(op, ConstantOp):
            continue
        for result in op.results:
            Rewriter.replace_value_with_new_type(result, _packed(result.type, layout))
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    Rewriter.replace_value_with_new_type(argument, _packed(argument.type, layout))
    function.function_type = FunctionType.from_lists(
        [_packed(t, layout) for t in function.function_type.inputs],
        [_packed(t, layout) for t in function.function_type.outputs],
    )


def _pack_call(call: CallOp, type: FunctionType) -> None:
    """Pack the operands and unpack the results of a call, in the caller."""
    block = call.parent
    assert block is not None
    for i, (operand, packed) in enumerate(zip(call.operands, type.inputs, strict=True)):
        if operand.type != packed:
            call.operands[i] = _pack_value(operand, packed, call)
    for old, packed in zip(call.results, type.outputs, strict=True):
        if old.type == packed:
            continue
        plain = old.type
        result = Rewriter.replace_value_with_new_type(old, packed)
        unpack = UnpackOp(result, plain)
        unpack.location = call.location
        unpack.result.name_hint = result.name_hint
        result.replace_uses_with_if(unpack.result, lambda use: use.operation is not call)
        unpack.operands[0] = result
        block.insert_op_after(unpack, call)


def _pack_value(value: SSAValue, packed: Attribute, call: CallOp) -> SSAValue:
    """The packed form of a value; what was packed before is taken as it was."""
    owner = value.owner
    if isinstance(owner, UnpackOp) and owner.x.type == packed:
        return owner.x
    for use in value.uses:
        if isinstance(use.operation, PackOp) and use.operation.result.type == packed:
            return use.operation.result
    pack = PackOp(value, packed)
    pack.location = call.location
    assert call.parent is not None
    if isinstance(owner, ConstantOp) or not hasattr(owner, "results"):
        call.parent.insert_op_before(pack, call.parent.first_op or call)
        if isinstance(owner, ConstantOp):
            call.parent.detach_op(owner)
            call.parent.insert_op_before(owner, pack)
    else:
        call.parent.insert_op_after(pack, owner)  # type: ignore[arg-type]
    return pack.result


@dataclass(frozen=True)
class LayoutPass(ModulePass):
    """Give activations of accelerator functions the packed layout, with packing at the borders."""

    name = "layout"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Pack every function of codegen vta, then the calls to them."""
        types: dict[str, FunctionType] = {}
        for function in op.walk():
            if isinstance(function, FuncOp) and function.attributes.get(CODEGEN) == StringAttr(
                "vta"
            ):
                if not any(packing(t) is not None for t in function.function_type.inputs):
                    _pack_function(function)
                types[function.sym_name.data] = function.function_type
        for call in list(op.walk()):
            if isinstance(call, CallOp) and call.callee.root_reference.data in types:
                _pack_call(call, types[call.callee.root_reference.data])
        for unpack in list(op.walk()):
            if isinstance(unpack, UnpackOp) and not unpack.result.uses:
                Rewriter.erase_op(unpack)
