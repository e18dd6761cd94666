"""Small float networks as graph IR, built op by op, with ranges taken from sample inputs.

For tests of the quantiser: no importer and no onnxruntime, floats are evaluated by the NumPy
reference (which is tested against onnxruntime on its own).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from graph_reference import run_reference
from xdsl.dialects.builtin import ArrayAttr, FloatAttr, ModuleOp, StringAttr, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from vtac.dialects import graph
from vtac.dialects.context import VtacContext, constant_attr, tensor_type
from vtac.dialects.graph.ranges import set_range
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.passes.graph.quantize import QuantizePass

Array = np.ndarray[Any, np.dtype[Any]]


class Network:
    """A function ``main`` under construction; methods add an op and return its value."""

    def __init__(self, *shapes: Sequence[int], target: str = "pynq"):
        self.ctx = VtacContext()
        self.block = Block(arg_types=[TensorType(f32, shape) for shape in shapes])
        self.inputs = list(self.block.args)
        self.target = target

    def add_op(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def constant(self, array: Array) -> SSAValue:
        array = np.asarray(array, np.float32)
        return self.add_op(graph.ConstantOp(constant_attr(self.ctx, array), tensor_type(array)))

    def conv(
        self,
        x: SSAValue,
        w: Array,
        bias: Array | None = None,
        *,
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        dilations: Sequence[int] | None = None,
        group: int = 1,
    ) -> SSAValue:
        rank = w.ndim - 2
        strides, dilations = strides or [1] * rank, dilations or [1] * rank
        pads = pads or [0] * 2 * rank
        shape = [x.type.get_shape()[0], w.shape[0]]
        shape += windows(x.type.get_shape()[2:], w.shape[2:], strides, pads, dilations)
        c = None if bias is None else self.constant(bias)
        numbers = {"strides": strides, "pads": pads, "dilations": dilations, "group": group}
        return self.add_op(graph.ConvOp(x, self.constant(w), c, TensorType(f32, shape), **numbers))

    def gemm(self, x: SSAValue, w: Array, bias: Array | None = None) -> SSAValue:
        type = TensorType(f32, [x.type.get_shape()[0], w.shape[0]])
        c = None if bias is None else self.constant(bias)
        return self.add_op(graph.GemmOp(x, self.constant(w), c, type, trans_b=True))

    def pool(
        self,
        kind: type[graph.MaxPoolOp] | type[graph.AveragePoolOp],
        x: SSAValue,
        kernel: Sequence[int],
        strides: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        **more: Any,
    ) -> SSAValue:
        rank = len(kernel)
        strides, ones, pads = strides or [1] * rank, [1] * rank, pads or [0] * 2 * rank
        n, c, *spatial = x.type.get_shape()
        type = TensorType(f32, [n, c, *windows(spatial, kernel, strides, pads, ones)])
        return self.add_op(
            kind(x, type, kernel=kernel, strides=strides, pads=pads, dilations=ones, **more)
        )

    def global_average_pool(self, x: SSAValue) -> SSAValue:
        n, c, *spatial = x.type.get_shape()
        return self.add_op(
            graph.GlobalAveragePoolOp(x, TensorType(f32, [n, c, *[1] * len(spatial)]))
        )

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.add_op(graph.AddOp(a, b, a.type))

    def relu(self, x: SSAValue) -> SSAValue:
        return self.add_op(graph.ReluOp(x, x.type))

    def clip(self, x: SSAValue, lo: float | None, hi: float | None) -> SSAValue:
        bounds = {"min": lo, "max": hi}
        given = {k: FloatAttr(v, f32) for k, v in bounds.items() if v is not None}
        return self.add_op(graph.ClipOp(x, x.type, **given))

    def reshape(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        return self.add_op(graph.ReshapeOp(x, TensorType(f32, shape)))

    def module(self, *outputs: SSAValue) -> ModuleOp:
        """Finish: a module with ``main``, verified."""
        self.block.add_op(ReturnOp(*outputs))
        types = [a.type for a in self.inputs], [v.type for v in outputs]
        function = FuncOp("main", types, Region(self.block))
        names = [StringAttr(f"x{i}") for i in range(len(self.inputs))]
        function.attributes["graph.inputs"] = ArrayAttr(names)
        function.attributes["graph.outputs"] = ArrayAttr(
            StringAttr(f"y{i}") for i in range(len(outputs))
        )
        module = ModuleOp([function])
        module.attributes[TARGET_ATTRIBUTE] = Target.named(self.target)
        module.verify()
        return module


def windows(
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    rank = len(kernel)
    return [
        graph.window_extent(spatial[i], kernel[i], strides[i], pads[i] + pads[rank + i], d)
        for i, d in enumerate(dilations)
    ]


def main_of(module: ModuleOp) -> FuncOp:
    (function,) = (op for op in module.body.block.ops if isinstance(op, FuncOp))
    return function


def ops_of(module: ModuleOp) -> list[str]:
    """Names of the ops of ``main``, without constants and the dialect's prefix."""
    names = [op.name.removeprefix("graph.") for op in main_of(module).body.block.ops]
    return [name for name in names if name not in ("constant", "func.return")]


def find(module: ModuleOp, kind: type[Any]) -> list[Any]:
    """All ops of a class in ``main``."""
    return [op for op in main_of(module).body.block.ops if isinstance(op, kind)]


def quantised(net: Network, module: ModuleOp, shift: Any = "channel") -> ModuleOp:
    """A copy of a float module, quantised and verified."""
    copy = module.clone()
    QuantizePass(shift).apply(net.ctx, copy)
    copy.verify()
    return copy


def reasons(module: ModuleOp) -> dict[str, str]:
    return {
        op.name.removeprefix("graph."): reason.data
        for op in main_of(module).body.block.ops
        if isinstance(reason := op.attributes.get("graph.host_reason"), StringAttr)
    }


def run(
    module: ModuleOp, ctx: VtacContext, inputs: Mapping[str, Array] | Sequence[Array]
) -> list[Array]:
    """Results of the reference, in order."""
    if not isinstance(inputs, Mapping):
        inputs = {f"x{i}": array for i, array in enumerate(inputs)}
    return list(run_reference(module, inputs, ctx.resources).values())


def set_ranges_from(
    module: ModuleOp, ctx: VtacContext, samples: Sequence[Sequence[Array]], whole: bool = False
) -> None:
    """Ranges that cover all float values on these samples.

    whole: int8 on the finest grid of powers of two that covers the values, as for values that lie
    on a grid, instead of the exact range.
    """
    seen: dict[SSAValue, tuple[float, float]] = {}

    def observe(value: SSAValue, array: Array) -> None:
        lo, hi = seen.get(value, (np.inf, -np.inf))
        seen[value] = min(lo, float(array.min())), max(hi, float(array.max()))

    for arrays in samples:
        inputs = {f"x{i}": array for i, array in enumerate(arrays)}
        run_reference(module, inputs, ctx.resources, observe)
        for argument, array in zip(main_of(module).args, arrays, strict=True):
            observe(argument, array)
    for value, (lo, hi) in seen.items():
        if whole:
            need = max(-lo / 128, hi / 127)
            step = 2.0 ** np.ceil(np.log2(need)) if need > 0 else 1.0
            lo, hi = -128 * step, 127 * step
        set_range(value, lo, hi)
