"""Ops with ONNX's meaning, normalised at import: pads explicit, defaults written out.

Each works on float tensors as ONNX says. ``conv``, ``gemm``, ``add`` and ``max_pool`` also work on
integers, exactly: a product of int8 tensors is an int32 tensor of accumulators, as in ConvInteger.
Tensors are [N, C, spatial...]; ``pads`` are ONNX's, all begins and then all ends.
"""

from abc import ABC
from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BoolAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    f64,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph.padding import pad_property, verify_pad_value
from vtac.dialects.graph.traits import (
    AxisAttributes,
    Contracts,
    ElementWise,
    Linear,
    MovesElements,
    OnnxOperator,
    Pools,
    SelectsElements,
    WeightedOp,
)

I64Array = DenseArrayBase[IntegerType]


def integers(values: Sequence[int]) -> I64Array:
    """An ``array<i64: ...>``."""
    return DenseArrayBase.from_list(i64, values)


def shape_of(value: SSAValue) -> tuple[int, ...] | None:
    """The shape of a tensor value, DYNAMIC_INDEX where unknown; None for anything else."""
    return value.type.get_shape() if isinstance(value.type, TensorType) else None


def is_static(value: SSAValue) -> bool:
    """Whether the value is a tensor all of whose dimensions are known."""
    shape = shape_of(value)
    return shape is not None and DYNAMIC_INDEX not in shape


def known_extents(value: SSAValue) -> list[int]:
    """The extents of a tensor, where one that is not known counts as 1."""
    return [1 if extent == DYNAMIC_INDEX else extent for extent in shape_of(value) or ()]


def window_extent(size: int, kernel: int, stride: int, pad: int, dilation: int) -> int:
    """Number of windows along one dimension; ``pad`` is the sum of both ends."""
    return (size + pad - dilation * (kernel - 1) - 1) // stride + 1


def verify_shape(value: SSAValue, expected: Sequence[int]) -> None:
    """Raise unless the value's known dimensions agree with the expected known ones."""
    actual = shape_of(value) or ()
    if len(actual) != len(expected) or any(
        DYNAMIC_INDEX not in pair and pair[0] != pair[1]
        for pair in zip(actual, expected, strict=True)
    ):
        raise VerifyException(f"result has shape {list(actual)}, expected {list(expected)}")


def broadcast(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """The shape of two broadcast shapes, DYNAMIC_INDEX where it is not known."""
    rank = max(len(a), len(b))
    result = []
    for p, q in zip([1] * (rank - len(a)) + list(a), [1] * (rank - len(b)) + list(b), strict=True):
        if p == 1 or q == 1:
            result.append(q if p == 1 else p)
        elif DYNAMIC_INDEX in (p, q):
            result.append(max(p, q))
        elif p == q:
            result.append(p)
        else:
            raise VerifyException(f"shapes {list(a)} and {list(b)} do not broadcast")
    return result


class UnaryOp(IRDLOperation, ABC):
    """An op of one tensor, whose result has the same shape unless the op says otherwise."""

    x = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` functional-type(operands, results)"

    def __init__(self, x: SSAValue, result_type: Attribute, **properties: Attribute):
        super().__init__(operands=[x], result_types=[result_type], properties=properties)

    def verify_(self) -> None:
        """Shapes are equal."""
        verify_shape(self.result, shape_of(self.x) or ())


class BinaryOp(IRDLOperation, ABC):
    """An op of two tensors with one result."""

    a = operand_def(TensorType)
    b = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$a `,` $b attr-dict `:` functional-type(operands, results)"

    def __init__(self, a: SSAValue, b: SSAValue, result_type: Attribute):
        super().__init__(operands=[a, b], result_types=[result_type])


class ArithmeticOp(BinaryOp):
    """Two tensors, element by element, with broadcasting; floats, or int32 accumulators."""

    def verify_(self) -> None:
        """The result has the broadcast shape."""
        verify_shape(self.result, broadcast(shape_of(self.a) or (), shape_of(self.b) or ()))


class WindowOp(IRDLOperation, ABC):
    """An op with a window that moves over the spatial dimensions: convolution or pooling.

    With a negative pad the windows start, or end, inside the operand.
    """

    x = operand_def(TensorType)
    strides = prop_def(I64Array.constr(i64))
    pads = prop_def(I64Array.constr(i64))
    dilations = prop_def(I64Array.constr(i64))
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def kernel_shape(self) -> tuple[int, ...]:
        """Spatial extents of the window."""
        raise AssertionError("a window op defines kernel_shape")

    def result_channels(self) -> int:
        """Channels of the result; DYNAMIC_INDEX if unknown."""
        return self.x.type.get_shape()[1]  # type: ignore[attr-defined,no-any-return]

    def verify_(self) -> None:
        """Ranks agree, extents and pads are possible, and the result has the shape that follows."""
        kernel = self.kernel_shape()
        rank = len(kernel)
        strides, pads = self.strides.get_values(), self.pads.get_values()
        dilations = self.dilations.get_values()
        shape = shape_of(self.x) or ()
        if len(shape) != rank + 2:
            raise VerifyException(f"a {rank}-D window needs an operand of rank {rank + 2}")
        if len(strides) != rank or len(dilations) != rank or len(pads) != 2 * rank:
            raise VerifyException(
                f"a {rank}-D window needs {rank} strides, {rank} dilations and {2 * rank} pads"
            )
        if min((*strides, *dilations, *kernel), default=1) < 1:
            raise VerifyException("kernel, strides and dilations must be positive")
        expected = [shape[0], self.result_channels()]
        for i in range(rank):
            pad = pads[i] + pads[rank + i]
            expected.append(
                DYNAMIC_INDEX
                if shape[2 + i] == DYNAMIC_INDEX
                else window_extent(shape[2 + i], kernel[i], strides[i], pad, dilations[i])
            )
        verify_shape(self.result, expected)


@irdl_op_definition
class ConvOp(WindowOp, WeightedOp):
    """Convolution (ONNX Conv; ConvInteger without zero points on int8): w is [O, C/group, k...].

    pad_value: what int8 windows read in the padding, 0 if it is not given.
    """

    name = "graph.conv"
    traits = traits_def(Contracts(), Linear())

    # IRDL lists a class's own operands before inherited ones: x is declared again to come first.
    x = operand_def(TensorType)
    w = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    group = prop_def(IntegerAttr[IntegerType])
    pad_value = opt_prop_def(IntegerAttr[IntegerType])

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x `,` $w (`bias` $bias^)? attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        x: SSAValue,
        w: SSAValue,
        bias: SSAValue | None,
        result_type: Attribute,
        *,
        strides: Sequence[int],
        pads: Sequence[int],
        dilations: Sequence[int],
        group: int = 1,
        pad_value: int = 0,
    ):
        super().__init__(
            operands=[x, w, bias],
            result_types=[result_type],
            properties={
                "strides": integers(strides),
                "pads": integers(pads),
                "dilations": integers(dilations),
                "group": IntegerAttr(group, i64),
                **pad_property(pad_value),
            },
        )

    @property
    def data(self) -> SSAValue:
        """The activations."""
        return self.x

    @property
    def weights(self) -> SSAValue:
        """[O, C/group, kernel...]."""
        return self.w

    @property
    def addend(self) -> SSAValue | None:
        """The bias."""
        return self.bias

    @property
    def groups(self) -> int:
        """The attribute ``group``."""
        return self.group.value.data

    def products(self) -> int:
        """The number of products per element of the result: the weights of an output channel."""
        return prod(known_extents(self.w)[1:])

    def kernel_shape(self) -> tuple[int, ...]:
        """Spatial extents of the weights."""
        return (shape_of(self.w) or ())[2:]

    def result_channels(self) -> int:
        """First extent of the weights."""
        return (shape_of(self.w) or (DYNAMIC_INDEX,))[0]

    def verify_(self) -> None:
        """Channels of input, weights and group agree."""
        super().verify_()
        verify_pad_value(self, self.x)
        x, w, group = shape_of(self.x) or (), shape_of(self.w) or (), self.group.value.data
        if x[1] != DYNAMIC_INDEX and w[1] != DYNAMIC_INDEX and x[1] != w[1] * group:
            raise VerifyException(
                f"input has {x[1]} channels, weights take {w[1]} in each of {group} groups"
            )
        if w[0] != DYNAMIC_INDEX and w[0] % group:
            raise VerifyException(f"{w[0]} output channels do not divide into {group} groups")


class PoolOp(WindowOp, ABC):
    """A pooling: the kernel is an attribute."""

    kernel = prop_def(I64Array.constr(i64))
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        x: SSAValue,
        result_type: Attribute,
        *,
        kernel: Sequence[int],
        strides: Sequence[int],
        pads: Sequence[int],
        dilations: Sequence[int],
        **more: Attribute,
    ):
        super().__init__(
            operands=[x],
            result_types=[result_type],
            properties={
                "kernel": integers(kernel),
                "strides": integers(strides),
                "pads": integers(pads),
                "dilations": integers(dilations),
                **more,
            },
        )

    def kernel_shape(self) -> tuple[int, ...]:
        """The attribute."""
        return self.kernel.get_values()


@irdl_op_definition
class MaxPoolOp(PoolOp):
    """Maximum over each window; a pad never wins (ONNX MaxPool with one output)."""

    name = "graph.max_pool"
    traits = traits_def(SelectsElements())


@irdl_op_definition
class AveragePoolOp(PoolOp):
    """Mean over each window (ONNX AveragePool); pads count only with ``count_include_pad``."""

    name = "graph.average_pool"
    traits = traits_def(Pools(), Linear())
    count_include_pad = prop_def(BoolAttr)


@irdl_op_definition
class SumPoolOp(PoolOp):
    """Sum over each window, of int8 as int32 accumulators: an average pooling without the division.

    pad_value: what windows read in the padding, 0 if it is not given.
    """

    name = "graph.sum_pool"
    traits = traits_def(Pools(), Linear())
    pad_value = opt_prop_def(IntegerAttr[IntegerType])

    def verify_(self) -> None:
        """As every window op; the pad value is an int8."""
        super().verify_()
        verify_pad_value(self, self.x)


@irdl_op_definition
class GlobalAveragePoolOp(UnaryOp):
    """Mean over all spatial dimensions, which stay as extents of 1."""

    name = "graph.global_average_pool"
    traits = traits_def(Pools(), Linear())

    def verify_(self) -> None:
        """[N, C, 1...]."""
        shape = shape_of(self.x) or ()
        verify_shape(self.result, [*shape[:2], *(1 for _ in shape[2:])])


@irdl_op_definition
class AddOp(ArithmeticOp):
    """Elementwise sum with broadcasting (ONNX Add); on int32 the sum of accumulators."""

    name = "graph.add"
    traits = traits_def(ElementWise(), Linear(), OnnxOperator("Add"))


@irdl_op_definition
class ReluOp(UnaryOp):
    """``max(x, 0)``."""

    name = "graph.relu"
    traits = traits_def(ElementWise(), OnnxOperator("Relu"))


@irdl_op_definition
class ClipOp(UnaryOp):
    """``min(max(x, min), max)`` with constant bounds, either of which may be absent."""

    name = "graph.clip"
    traits = traits_def(ElementWise())
    min = opt_prop_def(FloatAttr[AnyFloat])
    max = opt_prop_def(FloatAttr[AnyFloat])


@irdl_op_definition
class ReshapeOp(UnaryOp):
    """The same elements in row-major order under another static or partly known shape."""

    name = "graph.reshape"
    traits = traits_def(MovesElements(), SelectsElements(), Linear())

    def verify_(self) -> None:
        """The result has as many elements as the operand."""
        before, after = shape_of(self.x) or (), shape_of(self.result) or ()
        if DYNAMIC_INDEX not in before and DYNAMIC_INDEX not in after:
            count: Any = [1, 1]
            for i, shape in enumerate((before, after)):
                for extent in shape:
                    count[i] *= extent
            if count[0] != count[1]:
                raise VerifyException(f"cannot reshape {list(before)} to {list(after)}")


@irdl_op_definition
class BatchNormOp(IRDLOperation):
    """``scale * (x - mean) / sqrt(variance + epsilon) + bias`` per channel (ONNX, inference)."""

    name = "graph.batch_norm"
    x = operand_def(TensorType)
    scale = operand_def(TensorType)
    bias = operand_def(TensorType)
    mean = operand_def(TensorType)
    variance = operand_def(TensorType)
    epsilon = prop_def(FloatAttr[AnyFloat])
    result = result_def(TensorType)
    traits = traits_def(
        Pure(),
        ElementWise(),
        Linear(),
        AxisAttributes(channels=("scale", "bias", "mean", "variance")),
    )
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$x `,` $scale `,` $bias `,` $mean `,` $variance attr-dict `:`"
        " functional-type(operands, results)"
    )

    def __init__(self, operands: Sequence[SSAValue], epsilon: float, result_type: Attribute):
        super().__init__(
            operands=list(operands),
            result_types=[result_type],
            properties={"epsilon": FloatAttr(epsilon, f64)},
        )

    def verify_(self) -> None:
        """The result has the shape of x."""
        verify_shape(self.result, shape_of(self.x) or ())
