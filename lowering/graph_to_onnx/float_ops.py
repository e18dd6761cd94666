"""Graph ops with ONNX's meaning back as ONNX nodes; on integers as the Integer operators."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, FloatAttr, TensorType
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array, element_dtype
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.graph import (
    ACTIVATIONS,
    ActivationOp,
    AveragePoolOp,
    BatchNormOp,
    ClipOp,
    ConvOp,
    GemmOp,
    Graph,
    MatMulOp,
    MaxPoolOp,
    OnnxOperator,
    PoolOp,
    ReshapeOp,
    SumPoolOp,
    WindowOp,
    pad_value_of,
    shape_of,
)
from vtac.lowering.graph_to_onnx.builder import OnnxBuilder, place_of


def is_float(value: SSAValue) -> bool:
    """Whether a value is a float tensor."""
    return isinstance(value.type, TensorType) and isinstance(value.type.element_type, AnyFloat)


def same(operator: str, attributes: Sequence[str] = ()) -> Callable[[OnnxBuilder, Operation], None]:
    """Converts to an operator with the op's operands. attributes: names of float properties."""

    def convert(b: OnnxBuilder, op: Operation) -> None:
        (result,) = op.results
        operands = [b.name(operand) for operand in op.operands]
        numbers = {}
        for name in attributes:
            number = op.properties[name]
            assert isinstance(number, FloatAttr)
            numbers[name] = number.value.data
        b.define(result, b.add(operator, operands, b.name_for(result), **numbers))

    return convert


def named_operators() -> dict[type[Operation], Callable[[OnnxBuilder, Operation], None]]:
    """Converters of all ops that say which ONNX operator they are."""
    named = [(op, op.get_trait(OnnxOperator)) for op in Graph.operations]
    return {op: same(trait.operator, trait.attributes) for op, trait in named if trait is not None}


def activation(b: OnnxBuilder, op: ActivationOp) -> None:
    """The operator that it names."""
    operator, result = op.operator.data, b.name_for(op.result)
    b.require(op, ACTIVATIONS[operator].opset)
    b.define(op.result, b.add(operator, [b.name(op.x)], result, **op.attributes_by_name))


def _window(op: WindowOp) -> dict[str, list[int]]:
    return {
        "kernel_shape": list(op.kernel_shape()),
        "strides": list(op.strides.get_values()),
        "pads": [max(pad, 0) for pad in op.pads.get_values()],
        **_dilations(op),
    }


def _dilations(op: WindowOp) -> dict[str, list[int]]:
    """The attribute for dilations other than 1: poolings have it in later opsets only."""
    dilations = list(op.dilations.get_values())
    return {"dilations": dilations} if set(dilations) - {1} else {}


def _cut(b: OnnxBuilder, op: WindowOp) -> str:
    """The operand without what negative pads leave out: ONNX's windows have no such pads."""
    pads, rank = op.pads.get_values(), len(op.kernel_shape())
    axes = [axis for axis in range(rank) if min(pads[axis], pads[rank + axis]) < 0]
    if not axes:
        return b.name(op.x)
    extents = (shape_of(op.x) or ())[2:]
    starts = [max(-pads[axis], 0) for axis in axes]
    ends = [extents[axis] - max(-pads[rank + axis], 0) for axis in axes]
    return b.slice(b.name(op.x), starts, ends, [2 + axis for axis in axes])


def conv(b: OnnxBuilder, op: ConvOp) -> None:
    """Conv, or ConvInteger of int8 tensors."""
    if not op.kernel_shape():
        _without_space(b, op)
        return
    operands = [_cut(b, op), b.name(op.w)]
    attributes = {**_window(op), "group": op.group.value.data}
    output = b.name_for(op.result)
    if is_float(op.x):
        operands += [b.name(op.bias)] if op.bias is not None else []
        b.add("Conv", operands, output, **attributes)
    else:
        b.require(op, 10)
        biased = op.bias is not None
        sums = _conv_integer(
            b, op, operands, b.constant(op.w), "" if biased else output, attributes
        )
        if op.bias is not None:
            shape = [1, -1] + [1] * len(op.kernel_shape())
            b.add("Add", [sums, b.reshape(b.name(op.bias), shape)], output)
    b.define(op.result, output)


def _without_space(b: OnnxBuilder, op: ConvOp) -> None:
    """[N, C] in groups of channels, as a convolution over one position."""
    x, w = shape_of(op.x) or (), shape_of(op.w) or ()
    operands = [b.reshape(b.name(op.x), (*x, 1)), b.reshape(b.name(op.w), (*w, 1))]
    operands += [b.name(op.bias)] if op.bias is not None else []
    kind = "Conv" if is_float(op.x) else "ConvInteger"
    sums = b.add(kind, operands, group=op.group.value.data)
    result = shape_of(op.result) or ()
    b.define(op.result, b.reshape(sums, result, b.name_for(op.result)))


def _conv_integer(
    b: OnnxBuilder,
    op: ConvOp | SumPoolOp,
    operands: list[str],
    weights: Array | None,
    output: str,
    attributes: Mapping[str, Any],
) -> str:
    """ConvInteger, whose padding is its zero point.

    So a pad value becomes the zero point, and the zero point's share of the products is added again
    afterwards, one number per channel.
    """
    value = pad_value_of(op)
    if not value:
        return b.add("ConvInteger", operands, output, **attributes)
    if weights is None:
        raise CompileError(Problem(place_of(op), "with a pad value its weights must be constant"))
    zero = b.weight(np.array(value, np.int8), "zero_point")
    sums = b.add("ConvInteger", [*operands, zero], **attributes)
    share = value * weights.reshape(len(weights), -1).sum(axis=1, dtype=np.int32)
    shaped = share.reshape(1, -1, *(1 for _ in op.kernel_shape()))
    return b.add("Add", [sums, b.weight(shaped, "share")], output)


def gemm(b: OnnxBuilder, op: GemmOp) -> None:
    """Gemm, or MatMulInteger of int8 tensors."""
    operands = [b.name(op.a), b.name(op.b)]
    output = b.name_for(op.result)
    transposed = bool(op.trans_a.value.data), bool(op.trans_b.value.data)
    alpha, beta = op.alpha.value.data, op.beta.value.data
    if is_float(op.a):
        if op.c is not None:
            operands.append(b.name(op.c))
        elif b.opset < 11:
            assert isinstance(op.a.type, TensorType)
            operands.append(b.weight(np.zeros(1, element_dtype(op.a.type.element_type)), "zero"))
        b.add(
            "Gemm",
            operands,
            output,
            alpha=alpha,
            beta=beta,
            transA=int(transposed[0]),
            transB=int(transposed[1]),
        )
    else:
        b.require(op, 10)
        if alpha != 1 or (op.c is not None and beta != 1):
            raise CompileError(Problem(place_of(op), "alpha and beta of integers must be 1"))
        for i in range(2):
            if transposed[i]:
                operands[i] = b.add("Transpose", [operands[i]], perm=[1, 0])
        sums = b.add("MatMulInteger", operands, "" if op.c is not None else output)
        if op.c is not None:
            b.add("Add", [sums, b.name(op.c)], output)
    b.define(op.result, output)


def matmul(b: OnnxBuilder, op: MatMulOp) -> None:
    """MatMul, or MatMulInteger of int8 tensors."""
    if not is_float(op.a):
        b.require(op, 10)
    same("MatMul" if is_float(op.a) else "MatMulInteger")(b, op)


def clip(b: OnnxBuilder, op: ClipOp) -> None:
    """Clip with attributes before opset 11, with inputs since."""
    output = b.name_for(op.result)
    bounds = {
        name: bound.value.data
        for name, bound in (("min", op.min), ("max", op.max))
        if bound is not None
    }
    if b.opset < 11:
        b.add("Clip", [b.name(op.x)], output, **bounds)
    else:
        assert isinstance(op.x.type, TensorType)
        dtype = element_dtype(op.x.type.element_type)
        inputs = [
            b.weight(np.array(bounds[name], dtype), name) if name in bounds else ""
            for name in ("min", "max")
        ]
        b.add("Clip", [b.name(op.x), *inputs], output)
    b.define(op.result, output)


def _pool(b: OnnxBuilder, kind: str, op: PoolOp, **attributes: int) -> None:
    output = b.name_for(op.result)
    b.add(kind, [_cut(b, op)], output, **_window(op), **attributes)
    b.define(op.result, output)


def max_pool(b: OnnxBuilder, op: MaxPoolOp) -> None:
    """MaxPool."""
    b.require(op, 7 if is_float(op.x) and not _dilations(op) else 12)
    _pool(b, "MaxPool", op)


def average_pool(b: OnnxBuilder, op: AveragePoolOp) -> None:
    """AveragePool."""
    if _dilations(op):
        b.require(op, 19)
    _pool(b, "AveragePool", op, count_include_pad=int(op.count_include_pad.value.data))


def sum_pool(b: OnnxBuilder, op: SumPoolOp) -> None:
    """A depthwise ConvInteger by ones; of floats ReduceSum, or a depthwise Conv by ones."""
    if is_float(op.x):
        _float_sums(b, op)
        return
    b.require(op, 10)
    channels = (shape_of(op.x) or (1, 1))[1]
    ones = np.ones((channels, 1, *op.kernel_shape()), np.int8)
    output = b.name_for(op.result)
    operands = [_cut(b, op), b.weight(ones, "ones")]
    _conv_integer(b, op, operands, ones, output, {**_window(op), "group": channels})
    b.define(op.result, output)


def _float_sums(b: OnnxBuilder, op: SumPoolOp) -> None:
    """ReduceSum where each axis has one window over all of it, or one over each element."""
    shape, kernel = shape_of(op.x) or (), op.kernel_shape()
    output = b.name_for(op.result)
    spatial = list(zip(shape[2:], kernel, op.strides.get_values(), strict=True))
    axes = [axis for axis, (extent, taps, _) in enumerate(spatial, start=2) if taps == extent]
    left = [(taps, stride) for extent, taps, stride in spatial if taps != extent]
    if not axes or any(op.pads.get_values()) or set(left) - {(1, 1)}:
        assert isinstance(op.x.type, TensorType)
        ones = np.ones((shape[1], 1, *kernel), element_dtype(op.x.type.element_type))
        operands = [_cut(b, op), b.weight(ones, "ones")]
        b.add("Conv", operands, output, **_window(op), group=shape[1])
    elif b.opset < 13:
        b.add("ReduceSum", [b.name(op.x)], output, axes=axes, keepdims=1)
    else:
        names = [b.name(op.x), b.weight(np.array(axes, np.int64), "axes")]
        b.add("ReduceSum", names, output, keepdims=1)
    b.define(op.result, output)


def reshape(b: OnnxBuilder, op: ReshapeOp) -> None:
    """A Reshape, whose result may have one unknown dimension."""
    b.define(op.result, b.reshape(b.name(op.x), shape_of(op.result) or (), b.name_for(op.result)))


def batch_norm(b: OnnxBuilder, op: BatchNormOp) -> None:
    """BatchNormalization in inference."""
    output = b.name_for(op.result)
    operands = [b.name(operand) for operand in op.operands]
    b.add("BatchNormalization", operands, output, epsilon=op.epsilon.value.data)
    b.define(op.result, output)
