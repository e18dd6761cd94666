"""Graph IR, evaluated in plain NumPy: docs/quantisation.md as code, and the oracle of the tests.

Integers are exact, and every sum is checked to fit int32, as the quantiser promised. Float ops are
here too, so that any module made of graph ops runs. Each op is one short function; nothing is
shared with import, tensor expressions or the simulator, so a mistake there cannot hide here.

The model is the definition in code that ONNX's reference evaluator is for ONNX.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import erf
from typing import Any, cast

import numpy as np
from integer_reference import (
    add_bias,
    by_channel,
    check_fits,
    dequantize,
    join_bytes,
    multiply_shift,
    quantize,
    requantize,
    requantize_planes,
    rescale,
    shift_left,
    shift_right_by,
    split_bytes,
)
from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from vtac.dialects import graph
from vtac.dialects.context import (
    Array,
    Resources,
    VtacContext,
    constant_value,
    element_dtype,
)
from vtac.dialects.errors import CompileError, Problem

Observer = Callable[[SSAValue, Array], None]
"""Called with every value as it is computed."""

_ENTRY = "main"


def run_reference(
    code: ModuleOp | FuncOp,
    inputs: Mapping[str, Array],
    resources: Resources,
    observe: Observer | None = None,
) -> dict[str, Array]:
    """Evaluate a network of graph ops; arrays by input name in, arrays by output name out.

    code: a module, whose function ``main`` is run, or a function; functions it calls are looked up
    in the module around it. Names are those of the attributes ``graph.inputs`` and
    ``graph.outputs``, or ``input_0``, ``output_0``, ... where these are absent.
    Raises CompileError for wrong inputs and for ops that have no meaning here (``graph.host``), and
    OverflowError where an integer leaves int32, which the quantiser had to exclude.
    """
    function = _entry(code) if isinstance(code, ModuleOp) else code
    names = _names(function, "graph.inputs", "input", len(function.args))
    arguments = _checked_inputs(function, names, inputs)
    results = _Evaluator(function, resources, observe).call(function, arguments)
    return dict(
        zip(_names(function, "graph.outputs", "output", len(results)), results, strict=True)
    )


def _entry(module: ModuleOp) -> FuncOp:
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    for function in functions:
        if function.sym_name.data == _ENTRY or len(functions) == 1:
            return function
    raise CompileError(Problem("", f"the module has no function '{_ENTRY}' to run"))


def _names(function: FuncOp, attribute: str, prefix: str, count: int) -> list[str]:
    given = function.attributes.get(attribute)
    if isinstance(given, ArrayAttr):
        return [name.data for name in given.data if isinstance(name, StringAttr)]
    return [f"{prefix}_{i}" for i in range(count)]


def _checked_inputs(
    function: FuncOp, names: Sequence[str], inputs: Mapping[str, Array]
) -> list[Array]:
    """The arguments in order; all problems of missing, unknown and ill-shaped inputs at once."""
    problems = [
        Problem(f"input '{name}'", "the network has no such input", f"Its inputs: {names}")
        for name in inputs
        if name not in names
    ]
    for name, argument in zip(names, function.args, strict=True):
        if name not in inputs:
            problems.append(Problem(f"input '{name}'", "it is missing"))
            continue
        array, type = inputs[name], cast(TensorType[Any], argument.type)
        dtype, shape = element_dtype(type.element_type), type.get_shape()
        if array.dtype != dtype or not _fits_shape(array.shape, shape):
            what = f"it is {array.dtype}{list(array.shape)}, expected {dtype}{list(shape)}"
            problems.append(Problem(f"input '{name}'", what))
    if problems:
        raise CompileError(problems)
    return [inputs[name] for name in names]


def _fits_shape(shape: Sequence[int], expected: Sequence[int]) -> bool:
    return len(shape) == len(expected) and all(
        e in (DYNAMIC_INDEX, s) for s, e in zip(shape, expected, strict=True)
    )


class _Evaluator:
    """Runs functions and blocks; each op's meaning is in ``_MEANING``."""

    def __init__(self, function: FuncOp, resources: Resources, observe: Observer | None):
        self.context = VtacContext(resources=resources)
        self.observe = observe
        outermost: Operation = function
        while (parent := outermost.parent_op()) is not None:
            outermost = parent
        self.functions = {op.sym_name.data: op for op in outermost.walk() if isinstance(op, FuncOp)}

    def call(self, function: FuncOp, arguments: Sequence[Array]) -> list[Array]:
        """The results of a function."""
        if function.is_declaration:
            raise _refusal(function, f"function '{function.sym_name.data}' has no body")
        return self.run_block(function.body.block, arguments)

    def run_block(self, block: Block, arguments: Sequence[Array]) -> list[Array]:
        """The operands of the terminator, once all ops before it are evaluated."""
        values: dict[SSAValue, Array] = dict(zip(block.args, arguments, strict=True))
        for op in block.ops:
            operands = [values[operand] for operand in op.operands]
            if isinstance(op, ReturnOp | graph.YieldOp):
                return operands
            for result, array in zip(op.results, self.run_op(op, operands), strict=True):
                values[result] = array
                if self.observe is not None:
                    self.observe(result, array)
        raise _refusal(block.parent_op(), "a block ends without saying what it returns")

    def run_op(self, op: Operation, operands: list[Array]) -> list[Array]:
        """The results of one op, in the element types the IR says."""
        if isinstance(op, graph.ConstantOp):
            return [constant_value(self.context, op.value, op.result.type)]
        if isinstance(op, graph.CompositeOp | graph.LayersOp):
            return self.run_block(op.body.block, operands)
        if isinstance(op, CallOp):
            name = op.callee.root_reference.data
            callee = self.functions.get(name)
            if callee is None:
                raise _refusal(op, f"there is no function '{name}'")
            return self.call(callee, operands)
        if isinstance(op, graph.SplitBytesOp):
            return split_bytes(operands[0])
        if isinstance(op, graph.RequantizePlanesOp):
            return requantize_planes(op, *operands)
        if isinstance(op, graph.HostOp):
            what = f"ONNX operator {op.op_type.data} is not a graph op: only onnxruntime runs it"
            raise _refusal(op, what)
        meaning = _MEANING.get(type(op))
        if meaning is None:
            raise _refusal(op, f"'{op.name}' has no meaning in the graph reference")
        type_ = cast(TensorType[Any], op.results[0].type)
        return [_as_dtype(meaning(op, *operands), element_dtype(type_.element_type), op)]


def _refusal(op: Operation | None, what: str) -> CompileError:
    place = "" if op is None else str(op.get_attr_or_prop("sym_name") or op.name)
    return CompileError(Problem(place, what))


def _as_dtype(array: Array, dtype: np.dtype[Any], op: Operation) -> Array:
    """The array in its element type; integers must fit, floats are rounded."""
    if dtype.kind in "iu":
        check_fits(array, dtype, op.name)
    return np.ascontiguousarray(array).astype(dtype).reshape(array.shape)


def convolution(x: Array, w: Array, bias: Array | None, op: graph.WindowOp, group: int) -> Array:
    """Sum over kernel taps of products; x [N, C, spatial...], w [O, C / group, kernel...].

    A tap in the padding reads the op's pad value. In float64 throughout, which holds sums of int8
    products exactly (below 2^53).
    """
    n, c, o = x.shape[0], x.shape[1], w.shape[0]
    kernel = w.shape[2:]
    grouped = w.astype(np.float64).reshape(group, o // group, c // group, *kernel)
    matrices: Array = np.moveaxis(grouped, (0, 1, 2), (-3, -2, -1))
    total: Any = 0.0
    for tap, window in _taps(x.astype(np.float64), op, kernel, graph.pad_value_of(op)):
        total = total + matrices[tap] @ window.reshape(n, group, c // group, -1)
        spatial = window.shape[2:]
    total = total.reshape(n, o, *spatial)
    return cast(Array, total if bias is None else total + by_channel(bias, x.ndim))


def _taps(
    x: Array, op: graph.WindowOp, kernel: Sequence[int], outside: float
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """For each kernel position, the elements under it: its index and a [N, C, outputs...] view."""
    strides, dilations = op.strides.get_values(), op.dilations.get_values()
    rank, pads = len(kernel), op.pads.get_values()
    margins = [(0, 0), (0, 0)] + [(pads[i], pads[rank + i]) for i in range(rank)]
    padded = np.pad(x, np.maximum(margins, 0), constant_values=outside)
    padded = padded[tuple(slice(max(-a, 0), -max(-b, 0) or None) for a, b in margins)]
    for tap in product(*map(range, kernel)):
        index: list[slice] = [slice(None), slice(None)]
        for i in range(rank):
            extent = graph.window_extent(
                padded.shape[2 + i], kernel[i], strides[i], 0, dilations[i]
            )
            first = tap[i] * dilations[i]
            index.append(slice(first, first + (extent - 1) * strides[i] + 1, strides[i]))
        yield tap, padded[tuple(index)]


def window_sum(x: Array, op: graph.PoolOp) -> Array:
    """Sum over each window, pads at their value. In float64, exact for int8."""
    pad = graph.pad_value_of(op)
    taps = _taps(x.astype(np.float64), op, op.kernel.get_values(), outside=pad)
    return cast(Array, sum((window for _, window in taps), start=np.float64(0.0)))


def unfold(x: Array, op: graph.UnfoldOp) -> Array:
    """The elements of each window as channels, tap by tap, and then the constant channels."""
    pad = graph.pad_value_of(op)
    taps = [window for _, window in _taps(x, op, op.kernel.get_values(), outside=pad)]
    n, _, *spatial = taps[0].shape
    constants = [np.full((n, 1, *spatial), value, x.dtype) for value in op.constants.get_values()]
    return np.concatenate([*taps, *constants], axis=1)


def max_pool(x: Array, op: graph.MaxPoolOp) -> Array:
    """Largest element of each window; a pad never wins."""
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    taps = _taps(x, op, op.kernel.get_values(), outside=lowest)
    return cast(Array, np.maximum.reduce([window for _, window in taps]))


# Floats: ONNX's meaning, evaluated in float64.


def average_pool(x: Array, op: graph.AveragePoolOp) -> Array:
    """Mean of each window; pads count only with ``count_include_pad``."""
    if op.count_include_pad.value.data:
        return window_sum(x, op) / np.prod(op.kernel.get_values())
    return cast(Array, window_sum(x, op) / window_sum(np.ones_like(x), op))


def gemm(op: graph.GemmOp, a: Array, b: Array, c: Array | None = None) -> Array:
    """``alpha * A B + beta * C``, in float64, which is exact for int8 operands."""
    left = a.astype(np.float64).T if op.trans_a.value.data else a.astype(np.float64)
    right = b.astype(np.float64).T if op.trans_b.value.data else b.astype(np.float64)
    total = op.alpha.value.data * (left @ right)
    return total if c is None else total + op.beta.value.data * c


def batch_matmul(op: graph.BatchMatMulOp, a: Array, b: Array) -> Array:
    """Each entry of a times the first rows of that of b; in float64, as ``gemm``."""
    batch, columns = op.entries, op.result.type.get_shape()[1]
    left = a.astype(np.float64).reshape(batch, -1, a.shape[1])
    right = b.astype(np.float64).reshape(batch, -1, b.shape[1])[:, :columns]
    return (left @ right.swapaxes(1, 2)).reshape(len(a), columns)


def _wide(x: Array) -> Array:
    """Integers as int64, so that a result can be checked against its type; floats as they are."""
    return x.astype(np.int64) if x.dtype.kind == "i" else x


def clip(op: graph.ClipOp, x: Array) -> Array:
    """Bounds that are there apply, the lower one first."""
    if op.min is not None:
        x = np.maximum(x, x.dtype.type(op.min.value.data))
    return x if op.max is None else np.minimum(x, x.dtype.type(op.max.value.data))


def batch_norm(op: graph.BatchNormOp, x: Array, *vectors: Array) -> Array:
    """``scale * (x - mean) / sqrt(variance + epsilon) + bias``."""
    scale, bias, mean, variance = (by_channel(v.astype(np.float64), x.ndim) for v in vectors)
    return cast(Array, scale * (x - mean) / np.sqrt(variance + op.epsilon.value.data) + bias)


def concat(op: graph.ConcatOp, *inputs: Array) -> Array:
    """Side by side along the axis."""
    return np.concatenate(inputs, axis=op.axis.value.data)


def window(op: graph.TensorWindowOp, x: Array) -> Array:
    """The rectangle."""
    return x[tuple(slice(start, end) for start, end in op.rectangle)]


def assemble(op: graph.TensorAssembleOp, *pieces: Array) -> Array:
    """Each piece at its place; the verifier knows that they cover the tensor."""
    result = np.zeros(op.result.type.get_shape(), pieces[0].dtype)
    for piece, rectangle in zip(pieces, op.rectangles, strict=True):
        result[tuple(slice(start, end) for start, end in rectangle)] = piece
    return result


def slice_(op: graph.SliceOp, x: Array) -> Array:
    """As many elements from the starts on as the result has, at the distance of the steps."""
    starts, steps = op.starts.get_values(), op.steps.get_values()
    for axis, count in enumerate(op.result.type.get_shape()):
        x = x.take(starts[axis] + steps[axis] * np.arange(count), axis=axis)
    return x


def pad(op: graph.PadOp, x: Array) -> Array:
    """The constant around x: all begins, then all ends."""
    pads = np.reshape(op.pads.get_values(), (2, -1)).T
    return np.pad(x, pads, constant_values=op.value.value.data)


def depth_to_space(op: graph.DepthToSpaceOp, x: Array) -> Array:
    """Place by place: every element of a place lies as far into its block as the place does."""
    result = np.zeros(op.result.type.get_shape(), x.dtype)
    blocks, channels = op.blocks.get_values(), result.shape[1]
    for number, place in enumerate(np.ndindex(*blocks)):
        steps = tuple(slice(p, None, b) for p, b in zip(place, blocks, strict=True))
        result[:, :, *steps] = x[:, number * channels : (number + 1) * channels]
    return result


def upsample(op: graph.UpsampleOp, x: Array) -> Array:
    """Each element as often as its dimension's factor says."""
    for axis, factor in enumerate(op.factors.get_values()):
        x = x.repeat(factor, axis=axis)
    return x


def activation(operator: str, x: Array, op: Any) -> Array:
    """ONNX's formulas, as they stand there."""
    x = x.astype(np.float64)
    match operator:
        case "Sigmoid":
            return 1 / (1 + np.exp(-x))
        case "Tanh":
            return np.tanh(x)
        case "Erf":
            return np.array([erf(number) for number in x.flat]).reshape(x.shape)
        case "Softplus":
            return np.log(np.exp(x) + 1)
        case "Softsign":
            return x / (1 + np.abs(x))
        case _:
            alpha = op.alpha.value.data
            gamma = op.gamma.value.data if operator == "Selu" else 1.0
            return np.where(x < 0, gamma * alpha * (np.exp(x) - 1), gamma * x)


def leaky_relu(x: Array, slope: Array | float) -> Array:
    """``x``, or ``slope * x`` where x is negative."""
    return cast(Array, np.where(x < 0, slope * x, x))


def hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    """``clip(alpha * x + beta, 0, 1)``."""
    return np.clip(alpha * x.astype(np.float64) + beta, 0, 1)


def _conv(op: graph.ConvOp, x: Array, w: Array, bias: Array | None = None) -> Array:
    return convolution(x, w, bias, op, op.group.value.data)


def _reshape(op: graph.ReshapeOp, x: Array) -> Array:
    return x.reshape(op.result.type.get_shape())


def _quantize(op: graph.QuantizeOp, x: Array) -> Array:
    element = op.result.type.get_element_type()
    low = int(np.iinfo(element_dtype(element)).min)
    return quantize(x, op.scale.value.data, op.zero_point.value.data, low)


def fake_quantize(op: graph.FakeQuantizeOp, x: Array) -> Array:
    """QuantizeLinear, then DequantizeLinear."""
    scale, zero_point = op.scale.value.data, op.zero_point.value.data
    return dequantize(quantize(x, scale, zero_point, op.low.value.data), [scale], zero_point)


def _rescale(op: graph.RescaleOp, acc: Array, *vectors: Array) -> Array:
    bounds = op.lo.value.data, op.hi.value.data
    return rescale(acc, vectors, op.shift.value.data, bounds)


def _requantize(op: graph.RequantizeOp, acc: Array, bias: Array, shift: Array) -> Array:
    return requantize(acc, bias, shift, op.lo.value.data, op.hi.value.data)


_MEANING: Mapping[type[Operation], Callable[..., Array]] = {
    graph.AbsOp: lambda op, x: np.abs(x),
    graph.AddBiasOp: lambda op, acc, bias: add_bias(acc, bias),
    graph.AddOp: lambda op, a, b: _wide(a) + _wide(b),
    graph.ActivationOp: lambda op, x: activation(op.operator.data, x, op),
    graph.AveragePoolOp: lambda op, x: average_pool(x, op),
    graph.BatchMatMulOp: batch_matmul,
    graph.BatchNormOp: batch_norm,
    graph.ClipOp: clip,
    graph.ConcatOp: concat,
    graph.ConvOp: _conv,
    graph.DepthToSpaceOp: depth_to_space,
    graph.DequantizeOp: lambda op, x: dequantize(
        x, op.scales.get_values(), op.zero_point.value.data
    ),
    graph.DivOp: lambda op, a, b: a / b,
    graph.FakeQuantizeOp: fake_quantize,
    graph.GemmOp: gemm,
    graph.GlobalAveragePoolOp: lambda op, x: x.astype(np.float64).mean(
        axis=tuple(range(2, x.ndim)), keepdims=True
    ),
    graph.HardSigmoidOp: lambda op, x: hard_sigmoid(x, op.alpha.value.data, op.beta.value.data),
    graph.HardSwishOp: lambda op, x: x * hard_sigmoid(x, 1 / 6, 0.5),
    graph.JoinBytesOp: lambda op, *planes: join_bytes(planes),
    graph.LeakyReluOp: lambda op, x: leaky_relu(x, op.alpha.value.data),
    graph.MatMulOp: lambda op, a, b: a.astype(np.float64) @ b.astype(np.float64),
    graph.MaxOp: lambda op, a, b: np.maximum(a, b),
    graph.MaxPoolOp: lambda op, x: max_pool(x, op),
    graph.MinOp: lambda op, a, b: np.minimum(a, b),
    graph.MulOp: lambda op, a, b: _wide(a) * _wide(b),
    graph.MultiplyShiftOp: multiply_shift,
    graph.ShiftRightByOp: shift_right_by,
    graph.NegOp: lambda op, x: -_wide(x),
    graph.PReluOp: lambda op, x, slope: leaky_relu(x, slope),
    graph.PackOp: lambda op, x: x,
    graph.PadOp: pad,
    graph.QuantizeOp: _quantize,
    graph.ReluOp: lambda op, x: np.maximum(x, 0),
    graph.RequantizeOp: _requantize,
    graph.RescaleOp: _rescale,
    graph.ReshapeOp: _reshape,
    graph.ShiftLeftOp: lambda op, x, amount: shift_left(x, amount),
    graph.SliceOp: slice_,
    graph.SubOp: lambda op, a, b: _wide(a) - _wide(b),
    graph.SumPoolOp: lambda op, x: window_sum(x, op),
    graph.TensorAssembleOp: assemble,
    graph.TensorWindowOp: window,
    graph.TakeChannelsOp: lambda op, x: x.take(op.indices.get_values(), axis=1),
    graph.TransposeOp: lambda op, x: x.transpose(op.permutation.get_values()),
    graph.UnfoldOp: lambda op, x: unfold(x, op),
    graph.UnpackOp: lambda op, x: x,
    graph.UpsampleOp: upsample,
}
