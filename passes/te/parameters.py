"""Constants of kernels: parameters for which every call passes a `te.constant`.

Rewrites add such parameters, drop them, or read the constants. Equal layers share a kernel but not
their constants; where a rewrite depends on the constants, calls that need different rewrites get
kernels of their own (`variants`).
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Block, BlockArgument, SSAValue
from xdsl.rewriter import Rewriter

from vtac.dialects.context import Array, constant_attr, constant_value, tensor_type
from vtac.dialects.te import CallOp, ConstantOp, KernelOp
from vtac.passes.te.computes import fresh_name

Wish = TypeVar("Wish", bound=Hashable)


def add_constant_parameter(
    ctx: Context, module: ModuleOp, kernel: KernelOp, array: Array, hint: str
) -> SSAValue:
    """A new last parameter of the kernel; every call in the module passes ``array`` for it.

    Functions that already have the constant pass that one.
    """
    calls = calls_of(module, kernel)
    return append_parameter(ctx, kernel, calls, [array] * len(calls), hint, array)


def append_parameter(
    ctx: Context,
    kernel: KernelOp,
    calls: Sequence[CallOp],
    arrays: Sequence[Array],
    hint: str,
    like: Array | None = None,
) -> BlockArgument:
    """A new last parameter, for which each of the kernel's calls passes an array of its own.

    like: an array of the parameter's type, where there may be no calls.
    """
    block = kernel.body.block
    argument = block.insert_arg(tensor_type(arrays[0] if like is None else like), len(block.args))
    argument.name_hint = hint
    _retype(kernel)
    for call, array in zip(calls, arrays, strict=True):
        body = call.parent
        assert isinstance(body, Block)
        wanted = ConstantOp(constant_attr(ctx, array, hint), tensor_type(array))
        call.operands = (*call.operands, shared_constant(body, wanted).result)
    return argument


def replace_constants(
    ctx: Context,
    kernel: KernelOp,
    calls: Sequence[CallOp],
    parameter: BlockArgument,
    change: Callable[[Array], Array],
) -> SSAValue:
    """Give the kernel's calls other constants for a parameter, all of one new type.

    The place of the parameter, and that of the constants in the calling functions, stay. Returns
    the parameter under its new type.
    """
    made: dict[ConstantOp, ConstantOp] = {}
    number = parameter.index
    for call in calls:
        old = call.arguments[number].owner
        assert isinstance(old, ConstantOp) and old.parent is not None
        if old not in made:
            array = change(constant_value(ctx, old.value, old.result.type))
            hint = old.result.name_hint or parameter.name_hint or "constant"
            made[old] = ConstantOp(constant_attr(ctx, array, hint), tensor_type(array))
            made[old].result.name_hint = old.result.name_hint
            old.parent.insert_op_before(made[old], old)
        call.operands[number] = made[old].result
    for old in made:
        if not old.result.uses:
            Rewriter.erase_op(old)
    (type,) = {new.result.type for new in made.values()}
    changed = Rewriter.replace_value_with_new_type(parameter, type)
    _retype(kernel)
    return changed


def drop_parameter(kernel: KernelOp, calls: Sequence[CallOp], parameter: BlockArgument) -> None:
    """Take a parameter that nothing reads from the kernel and from its calls."""
    number = parameter.index
    kernel.body.block.erase_arg(parameter)
    _retype(kernel)
    for call in calls:
        value = call.operands[number]
        call.operands = [*call.operands[:number], *call.operands[number + 1 :]]
        if isinstance(value.owner, ConstantOp) and not value.uses:
            Rewriter.erase_op(value.owner)


def _retype(kernel: KernelOp) -> None:
    kernel.properties["function_type"] = FunctionType.from_lists(
        kernel.body.block.arg_types, kernel.function_type.outputs.data
    )


def calls_of(module: ModuleOp, kernel: KernelOp) -> list[CallOp]:
    """The calls of a kernel in a module."""
    name = kernel.sym_name.data
    return [call for call in _calls(module) if call.callee.root_reference.data == name]


def kernels_with_calls(module: ModuleOp) -> list[tuple[KernelOp, list[CallOp]]]:
    """The kernels of tensors in a module, each with its calls, from one walk."""
    calls: dict[str, list[CallOp]] = {}
    for call in _calls(module):
        calls.setdefault(call.callee.root_reference.data, []).append(call)
    return [
        (kernel, calls.get(kernel.sym_name.data, []))
        for kernel in module.ops
        if isinstance(kernel, KernelOp) and not kernel.is_lowered
    ]


def _calls(module: ModuleOp) -> Iterator[CallOp]:
    """All calls of kernels. Bodies of kernels, most of a module, contain none and are skipped."""
    for outer in module.ops:
        if not isinstance(outer, KernelOp):
            yield from (op for op in outer.walk() if isinstance(op, CallOp))


def passed_constant(ctx: Context, call: CallOp, parameter: SSAValue) -> Array | None:
    """What a call passes for a parameter, if it is a constant."""
    assert isinstance(parameter, BlockArgument)
    value = call.arguments[parameter.index]
    owner = value.owner
    return constant_value(ctx, owner.value, value.type) if isinstance(owner, ConstantOp) else None


def variants(
    module: ModuleOp, kernel: KernelOp, calls: Sequence[CallOp], wishes: Sequence[Wish]
) -> list[tuple[KernelOp, list[CallOp], Wish]]:
    """One kernel for each distinct rewrite that its calls need, with these calls; all but one are
    copies."""
    found: dict[Wish, tuple[KernelOp, list[CallOp]]] = {}
    for call, wish in zip(calls, wishes, strict=True):
        if wish not in found:
            found[wish] = (_copy(module, kernel) if found else kernel), []
        own, members = found[wish]
        members.append(call)
        call.properties["callee"] = SymbolRefAttr(own.sym_name.data)
    return [(own, members, wish) for wish, (own, members) in found.items()]


def _copy(module: ModuleOp, kernel: KernelOp) -> KernelOp:
    names = [op.properties.get("sym_name") for op in module.ops]
    taken = {name.data for name in names if isinstance(name, StringAttr)}
    copy = kernel.clone()
    copy.properties["sym_name"] = StringAttr(fresh_name(f"{kernel.sym_name.data}_", taken))
    module.body.block.insert_op_after(copy, kernel)
    return copy


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
