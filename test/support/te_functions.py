"""Accelerator functions at te level, evaluated over tensors."""

from collections.abc import Sequence

import numpy as np
from integer_groups import IntegerFunction
from te_interpreter import kernel_named
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from vtac.dialects import te
from vtac.dialects.context import VtacContext, constant_value
from vtac.tools.tune.evaluate import evaluate_kernel


def evaluate(ctx: VtacContext, module: ModuleOp, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of the accelerator function, its kernels being computes over tensors."""
    (function,) = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    values: dict[SSAValue, np.ndarray] = dict(zip(function.body.block.args, inputs, strict=True))
    for op in function.body.block.ops:
        if isinstance(op, te.ConstantOp):
            values[op.result] = constant_value(ctx, op.value, op.result.type)
        elif isinstance(op, te.CallOp):
            kernel = kernel_named(module, op.callee.root_reference.data)
            results = evaluate_kernel(kernel, [values[argument] for argument in op.arguments])
            values |= dict(zip(op.outputs, results, strict=True))
        elif isinstance(op, te.ViewOp):
            values[op.result] = values[op.x].reshape(op.result.type.get_shape())
        elif isinstance(op, te.WindowOp):
            values[op.result] = values[op.x][_slices(op.box)]
        elif isinstance(op, te.AssembleOp):
            whole = np.zeros(op.result.type.get_shape(), values[op.parts[0]].dtype)
            for part, box in zip(op.parts, op.boxes, strict=True):
                whole[_slices(box)] = values[part]
            values[op.result] = whole
        elif isinstance(op, ReturnOp):
            return [values[value] for value in op.arguments]
    raise AssertionError("the function returns nothing")


def _slices(box: te.Box) -> tuple[slice, ...]:
    return tuple(slice(start, start + length) for start, length in box)


def rank_of(function: IntegerFunction, module: ModuleOp) -> int:
    """Spatial dimensions of the physical tensors."""
    (op,) = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    return max(len(type.get_shape()) for type in op.function_type.inputs) - 4


def kernels(module: ModuleOp) -> list[te.KernelOp]:
    """The kernels of a module."""
    return [op for op in module.body.block.ops if isinstance(op, te.KernelOp)]
