"""``te-pack-constants``: constants lie in DRAM in the order in which loads visit them.

The schedule, not the graph, determines the order of weights. A parameter of a lowered kernel for
which every call passes a `te.constant`, and which is only loaded into scratchpads, becomes a packed
buffer (`te.PackedAttr`): the boxes that its loads visit, in their order, each box once. A load is
then one run, and successive loads follow each other. Each call's constant is re-ordered accordingly
into a new, one-dimensional constant; equal ones are shared. Subscripts and windows do not change.

A parameter stays as it is where its loads are runs in order already, or overlap without being
equal: an element would be stored twice. It has no options. Run it when loops are final.
"""

import functools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, MemRefType, ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from vtac.dialects import te
from vtac.dialects.context import Array, constant_attr, constant_value, tensor_type
from vtac.dialects.vtac import ResourceAttr

from .parameters import shared_constant
from .visits import visited_boxes


@dataclass(frozen=True)
class TePackConstants(ModulePass):
    """Store constants in the order in which the schedule loads them."""

    name = "te-pack-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Pack what can be packed of each lowered kernel's parameters."""
        calls: dict[str, list[te.CallOp]] = defaultdict(list)
        for call in op.walk():
            if isinstance(call, te.CallOp):
                calls[call.callee.root_reference.data].append(call)
        for kernel in op.body.block.ops:
            if isinstance(kernel, te.KernelOp) and kernel.is_lowered:
                _pack_kernel(ctx, kernel, calls[kernel.sym_name.data])


def _pack_kernel(ctx: Context, kernel: te.KernelOp, calls: Sequence[te.CallOp]) -> None:
    numbers = [n for n in range(len(kernel.body.block.args)) if _is_constant(n, calls)]
    for number, boxes in pack_parameters(kernel, numbers).items():
        for call in calls:
            _pass_packed(ctx, call, number, boxes)


def pack_parameters(kernel: te.KernelOp, numbers: Sequence[int]) -> dict[int, Sequence[te.Box]]:
    """Give packed layouts to those of the numbered parameters for which that helps.

    The calls of the kernel are left as they are. Returns, for each parameter that is packed now,
    the boxes of its tensor in the order in which a caller must pass them.
    """
    parameters = kernel.body.block.args
    loads = [load for number in numbers for load in _loads_of(parameters[number])]
    visited = visited_boxes(kernel, loads)
    packed: dict[int, Sequence[te.Box]] = {}
    for number in numbers:
        parameter = parameters[number]
        boxes, shape = visited.get(parameter, []), te.shaped(parameter).get_shape()
        layout = _layout(tuple(boxes), tuple(shape))
        if layout is not None:
            _set_layout(parameter, layout)
            packed[number] = layout.boxes(shape)
    kernel.function_type = FunctionType.from_lists(kernel.body.block.arg_types, [])
    return packed


@functools.lru_cache(maxsize=256)
def _layout(boxes: tuple[te.Box, ...], shape: tuple[int, ...]) -> te.PackedAttr | None:
    """The layout of a tensor whose boxes are loaded in this order; None where packing is no help.

    It is kept, since most schedules that a search tries load constants as another one did.
    """
    if _are_runs_in_order(boxes, shape) or _overlap(boxes, shape):
        return None
    return te.PackedAttr.of(boxes, shape)


def _is_constant(number: int, calls: Sequence[te.CallOp]) -> bool:
    """Whether there are calls, and all pass a constant for this parameter."""
    return bool(calls) and all(
        number < len(call.arguments) and isinstance(call.arguments[number].owner, te.ConstantOp)
        for call in calls
    )


def _loads_of(parameter: SSAValue) -> list[te.CopyOp]:
    """All uses of a parameter, if they are loads into scratchpads and it is not packed yet."""
    users = [use.operation for use in parameter.uses]
    loads = [user for user in users if isinstance(user, te.CopyOp) and _is_load(user, parameter)]
    return loads if len(loads) == len(users) and te.packing_of(parameter) is None else []


def _is_load(copy: te.CopyOp, parameter: SSAValue) -> bool:
    into_scratchpad = te.scope_of(copy.target) is not te.Scope.DRAM
    return copy.source is parameter and into_scratchpad and copy.pads is None


def _are_runs_in_order(boxes: Sequence[te.Box], shape: Sequence[int]) -> bool:
    """Whether each box is one run of the row-major tensor, and none lies before an earlier one."""
    strides = [math.prod(shape[dim + 1 :]) for dim in range(len(shape))]
    starts = [
        sum(start * stride for (start, _), stride in zip(box, strides, strict=True))
        for box in boxes
    ]
    return starts == sorted(starts) and all(_is_run(box, shape) for box in boxes)


def _is_run(box: te.Box, shape: Sequence[int]) -> bool:
    """Whether all dimensions are whole after the first in which the box is longer than 1."""
    lengths = [length for _, length in box]
    first = next((dim for dim, length in enumerate(lengths) if length > 1), len(lengths))
    return lengths[first + 1 :] == list(shape[first + 1 :])


def _overlap(boxes: Sequence[te.Box], shape: Sequence[int]) -> bool:
    seen = np.zeros(shape, np.bool_)
    for box in boxes:
        part = seen[_slices(box)]
        if part.any():
            return True
        part[...] = True
    return False


def _slices(box: te.Box) -> tuple[slice, ...]:
    return tuple(slice(start, start + length) for start, length in box)


def _set_layout(parameter: SSAValue, layout: te.PackedAttr) -> None:
    type = parameter.type
    assert isinstance(type, MemRefType)
    packed = MemRefType(type.element_type, type.shape, layout, type.memory_space)
    Rewriter.replace_value_with_new_type(parameter, packed)


def _pass_packed(ctx: Context, call: te.CallOp, number: int, boxes: Sequence[te.Box]) -> None:
    """Let a call pass its constant for a parameter as these boxes of it."""
    constant = call.arguments[number].owner
    assert isinstance(constant, te.ConstantOp)
    call.operands[number] = _packed_constant(ctx, constant, boxes).result
    if not constant.result.uses:
        Rewriter.erase_op(constant)


def _packed_constant(
    ctx: Context, constant: te.ConstantOp, boxes: Sequence[te.Box]
) -> te.ConstantOp:
    """The constant, of one dimension: these boxes of it one after the other."""
    array = constant_value(ctx, constant.value, constant.result.type)
    ordered: Array = np.concatenate([array[_slices(box)].reshape(-1) for box in boxes])
    name = constant.value.key.data if isinstance(constant.value, ResourceAttr) else "constant"
    wanted = te.ConstantOp(constant_attr(ctx, ordered, f"{name}_packed"), tensor_type(ordered))
    wanted.location = constant.location
    wanted.result.name_hint = constant.result.name_hint
    block = constant.parent
    assert block is not None
    return shared_constant(block, wanted)
