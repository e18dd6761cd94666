"""``layout``: activations of accelerator functions take the layout the machine loads.

Every activation inside a function of the vta codegen gets the encoding ``#graph.packed``; packing
and unpacking stand only at the borders, in the caller. Shapes stay logical.

What a batched product reads as weights is packed as weights are (``#graph.packed<.., weights>``):
an argument that is read both ways is passed twice. No function makes such a layout, so what is read
as weights comes from outside.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import (
    CompositeOp,
    ConstantOp,
    PackedAttr,
    PackOp,
    UnpackOp,
    lies_as_weights,
    packing,
    reads_weights,
    weights_of,
)
from vtac.dialects.target import Target, target_at
from vtac.passes.graph.codegen import CODEGEN


def _packed(type: Attribute, layout: PackedAttr) -> Attribute:
    if isinstance(type, TensorType) and type.get_num_dims() >= 2:
        return TensorType(type.element_type, type.shape.data, layout)
    return type


def _split_arguments(block: Block) -> list[int]:
    """Give each argument that is read as weights and also otherwise a second argument for the
    weights.

    The second arguments come last. Returns the positions of the first ones, in the same order.
    """
    shared = []
    for argument in list(block.args):
        as_weights = {use for use in argument.uses if reads_weights(use)}
        if as_weights and len(as_weights) < argument.uses.get_length():
            shared.append(argument.index)
            second = block.insert_arg(argument.type, len(block.args))
            second.name_hint = argument.name_hint
            argument.replace_uses_with_if(second, lambda use, found=as_weights: use in found)  # type: ignore[misc]
    return shared


def _repeat_operands(op: CompositeOp | CallOp, places: Sequence[int]) -> None:
    op.operands = [*op.operands, *(op.operands[place] for place in places)]


def _pack_arguments(block: Block, layout: PackedAttr) -> None:
    """Types of a block's arguments in the layout in which they are read."""
    weights = PackedAttr.weights(layout.block.data)
    for argument in block.args:
        as_weights = any(map(reads_weights, argument.uses))
        type = _packed(argument.type, weights if as_weights else layout)
        Rewriter.replace_value_with_new_type(argument, type)


def _check_weights(function: FuncOp, target: Target) -> None:
    """Weights enter a function from outside, where their layout can be made, or lie as weights
    anyway."""
    for op in function.body.block.ops:
        for value in weights_of(op):
            if lies_as_weights(value, target.batch, target.block):
                continue
            if isinstance(value.owner, Operation) and not isinstance(value.owner, ConstantOp):
                what = "it reads as weights what it computes itself"
                hint = "Keep both in functions of their own, as merge-regions does."
                raise CompileError(Problem(f"function @{function.sym_name.data}", what, hint))


def _pack_function(function: FuncOp) -> list[int]:
    """The positions of arguments that calls pass once more, as weights."""
    target = target_at(function)
    if target is None:
        raise CompileError(
            Problem(
                f"function @{function.sym_name.data}",
                "it has no target, so its layout is unknown",
                "Give one with --target before partitioning.",
            )
        )
    layout = PackedAttr(target.batch, target.block)
    _check_weights(function, target)
    for op in function.body.block.ops:
        if isinstance(op, CompositeOp):
            _repeat_operands(op, _split_arguments(op.body.block))
    repeated = _split_arguments(function.body.block)
    _pack_arguments(function.body.block, layout)
    for op in function.body.walk():
        if isinstance(op, ConstantOp):
            continue
        for result in op.results:
            Rewriter.replace_value_with_new_type(result, _packed(result.type, layout))
        for region in op.regions:
            for block in region.blocks:
                _pack_arguments(block, layout)
    function.function_type = FunctionType.from_lists(
        [argument.type for argument in function.body.block.args],
        [_packed(t, layout) for t in function.function_type.outputs],
    )
    return repeated


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
        repeated: dict[str, Sequence[int]] = {}
        for function in op.walk():
            if isinstance(function, FuncOp) and function.attributes.get(CODEGEN) == StringAttr(
                "vta"
            ):
                if not any(packing(t) is not None for t in function.function_type.inputs):
                    repeated[function.sym_name.data] = _pack_function(function)
                types[function.sym_name.data] = function.function_type
        for call in list(op.walk()):
            if isinstance(call, CallOp) and call.callee.root_reference.data in types:
                callee = call.callee.root_reference.data
                _repeat_operands(call, repeated.get(callee, ()))
                _pack_call(call, types[callee])
        for unpack in list(op.walk()):
            if isinstance(unpack, UnpackOp) and not unpack.result.uses:
                Rewriter.erase_op(unpack)
