"""Ops between real numbers and stored integers, and between accumulators and int8.

Real value = scale x (stored - zero point). The exact integer semantics are those of
docs/quantisation.md: ``q = clamp((acc + c) >> s, lo, hi)``.
"""

from abc import ABC
from collections.abc import Sequence

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    f64,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph.attributes import packing
from vtac.dialects.graph.network import UnaryOp, shape_of, verify_shape
from vtac.dialects.graph.traits import AxisAttributes, ElementWise, ServesOthers

BYTES = 4
"""Byte planes of an int32 tensor."""


def _element(value: SSAValue) -> Attribute:
    assert isinstance(value.type, TensorType)
    return value.type.get_element_type()  # type: ignore[no-any-return]


@irdl_op_definition
class QuantizeOp(UnaryOp):
    """``saturate(round_half_even(x / scale) + zero_point)`` as int8 or uint8 (QuantizeLinear)."""

    name = "graph.quantize"
    traits = traits_def(ElementWise(), ServesOthers())
    scale = prop_def(FloatAttr[AnyFloat])
    zero_point = prop_def(IntegerAttr[IntegerType])

    def __init__(self, x: SSAValue, scale: float, zero_point: int, result_type: Attribute):
        super().__init__(
            x,
            result_type,
            scale=FloatAttr(scale, f64),
            zero_point=IntegerAttr(zero_point, i64),
        )


@irdl_op_definition
class DequantizeOp(UnaryOp):
    """``scale * (x - zero_point)`` of integers; one scale, or one per channel (dimension 1)."""

    name = "graph.dequantize"
    traits = traits_def(ElementWise(), AxisAttributes(channels=("scales",)), ServesOthers())
    scales = prop_def(DenseArrayBase[Float64Type].constr(f64))
    zero_point = prop_def(IntegerAttr[IntegerType])

    def __init__(
        self, x: SSAValue, scales: Sequence[float], zero_point: int, result_type: Attribute
    ):
        super().__init__(
            x,
            result_type,
            scales=DenseArrayBase.from_list(f64, scales),
            zero_point=IntegerAttr(zero_point, i64),
        )

    def verify_(self) -> None:
        """There is one scale, or one per channel."""
        super().verify_()
        shape = shape_of(self.x) or ()
        if len(self.scales) != 1 and (len(shape) < 2 or len(self.scales) != shape[1]):
            raise VerifyException(f"{len(self.scales)} scales do not fit shape {list(shape)}")


@irdl_op_definition
class ShiftLeftOp(IRDLOperation):
    """``x << amount``: an int8 addend at the scale of accumulators; one amount per channel."""

    name = "graph.shift_left"
    x = operand_def(TensorType)
    amount = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure(), ElementWise(), AxisAttributes(channels=("amount",)))
    assembly_format = "$x `,` $amount attr-dict `:` functional-type(operands, results)"

    def __init__(self, x: SSAValue, amount: SSAValue, result_type: Attribute):
        super().__init__(operands=[x, amount], result_types=[result_type])

    def verify_(self) -> None:
        """It takes int8 (or int32) to int32; amounts are int32 [C]."""
        verify_shape(self.result, shape_of(self.x) or ())
        verify_channel_vector(self.amount, self.x, "amount")
        if _element(self.result) != i32:
            raise VerifyException("shift_left leaves int32 accumulators")


def verify_channel_vector(vector: SSAValue, x: SSAValue, what: str) -> None:
    """Raise unless ``vector`` is int32 with one entry per channel of ``x``."""
    shape = shape_of(x) or ()
    if _element(vector) != i32 or shape_of(vector) != (shape[1],):
        raise VerifyException(f"{what} must be tensor<{shape[1]}xi32>, one entry per channel")


class RequantisationOp(IRDLOperation, ABC):
    """int32 accumulators to int8 between bounds, with constants per channel.

    scale, zero_point: those of the stored result; they do not enter the arithmetic.
    """

    acc = operand_def(TensorType)
    lo = prop_def(IntegerAttr[IntegerType])
    hi = prop_def(IntegerAttr[IntegerType])
    scale = prop_def(FloatAttr[AnyFloat])
    zero_point = prop_def(IntegerAttr[IntegerType])
    result = result_def(TensorType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)

    def __init__(
        self,
        operands: Sequence[SSAValue],
        result_type: Attribute,
        *,
        lo: int,
        hi: int,
        scale: float,
        zero_point: int,
        **more: Attribute,
    ):
        super().__init__(
            operands=list(operands),
            result_types=[result_type],
            properties={
                **more,
                "lo": IntegerAttr(lo, i64),
                "hi": IntegerAttr(hi, i64),
                "scale": FloatAttr(scale, f64),
                "zero_point": IntegerAttr(zero_point, i64),
            },
        )

    def vectors(self) -> dict[str, SSAValue]:
        """The constants with one number a channel, by name."""
        raise AssertionError("an op that requantises defines its vectors")

    def verify_(self) -> None:
        """It takes int32 to int8; vectors have one entry per channel; int8 holds the bounds."""
        verify_shape(self.result, shape_of(self.acc) or ())
        for what, vector in self.vectors().items():
            verify_channel_vector(vector, self.acc, what)
        if _element(self.acc) != i32 or _element(self.result) != i8:
            raise VerifyException(f"{self.name} takes int32 accumulators to int8")
        if not -128 <= self.lo.value.data <= self.hi.value.data <= 127:
            raise VerifyException("bounds must satisfy -128 <= lo <= hi <= 127")


@irdl_op_definition
class RequantizeOp(RequantisationOp):
    """``clamp((acc + bias) >> shift, lo, hi)``: int32 accumulators to int8, rounding halves up.

    bias, shift: int32 [C], constants. The rounding term 2^(s-1) is part of the bias.
    """

    name = "graph.requantize"
    traits = traits_def(ElementWise(), AxisAttributes(channels=("bias", "shift")))
    # IRDL lists a class's own operands before inherited ones: acc is declared again to come first.
    acc = operand_def(TensorType)
    bias = operand_def(TensorType)
    shift = operand_def(TensorType)
    assembly_format = (
        "$acc `bias` $bias `shift` $shift attr-dict `:` functional-type(operands, results)"
    )

    def __init__(
        self,
        acc: SSAValue,
        bias: SSAValue,
        shift: SSAValue,
        result_type: Attribute,
        *,
        lo: int,
        hi: int,
        scale: float,
        zero_point: int = 0,
    ):
        operands = [acc, bias, shift]
        super().__init__(operands, result_type, lo=lo, hi=hi, scale=scale, zero_point=zero_point)

    def vectors(self) -> dict[str, SSAValue]:
        """bias and shift."""
        return {"bias": self.bias, "shift": self.shift}


@irdl_op_definition
class AddBiasOp(IRDLOperation):
    """``acc + bias``: int32 accumulators that are results themselves, with one bias per channel."""

    name = "graph.add_bias"
    acc = operand_def(TensorType)
    bias = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure(), ElementWise(), AxisAttributes(channels=("bias",)))
    assembly_format = "$acc `,` $bias attr-dict `:` functional-type(operands, results)"

    def __init__(self, acc: SSAValue, bias: SSAValue, result_type: Attribute):
        super().__init__(operands=[acc, bias], result_types=[result_type])

    def verify_(self) -> None:
        """Operand and result are int32."""
        verify_shape(self.result, shape_of(self.acc) or ())
        verify_channel_vector(self.bias, self.acc, "bias")


@irdl_op_definition
class SplitBytesOp(IRDLOperation):
    """The four bytes of an int32 tensor as int8 tensors, least significant first."""

    name = "graph.split_bytes"
    x = operand_def(TensorType)
    planes = var_result_def(TensorType)
    traits = traits_def(Pure())
    assembly_format = "$x attr-dict `:` functional-type(operands, results)"

    def __init__(self, x: SSAValue, plane_type: Attribute):
        super().__init__(operands=[x], result_types=[[plane_type] * BYTES])

    def verify_(self) -> None:
        """There are four planes of int8."""
        if len(self.planes) != BYTES:
            raise VerifyException(f"an int32 tensor has {BYTES} byte planes")
        for plane in self.planes:
            verify_shape(plane, shape_of(self.x) or ())


@irdl_op_definition
class JoinBytesOp(IRDLOperation):
    """Joins four byte planes, the least significant first, to an int32 tensor. Runs on the host."""

    name = "graph.join_bytes"
    low = operand_def(TensorType)
    second = operand_def(TensorType)
    third = operand_def(TensorType)
    high = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure(), ServesOthers())
    assembly_format = (
        "$low `,` $second `,` $third `,` $high attr-dict `:` functional-type(operands, results)"
    )

    def __init__(self, planes: Sequence[SSAValue], result_type: Attribute):
        super().__init__(operands=list(planes), result_types=[result_type])

    def verify_(self) -> None:
        """int8 planes of the shape of the int32 result."""
        if any(_element(plane) != i8 for plane in self.operands) or _element(self.result) != i32:
            raise VerifyException("join_bytes makes int32 of four int8 planes")
        for plane in self.operands:
            verify_shape(self.result, shape_of(plane) or ())


@irdl_op_definition
class PackOp(UnaryOp):
    """Brings an int8 tensor into the accelerator's layout (``#graph.packed``). Runs on the host."""

    name = "graph.pack"
    traits = traits_def(ServesOthers())

    def verify_(self) -> None:
        """Only the result is packed."""
        super().verify_()
        if packing(self.x.type) is not None or packing(self.result.type) is None:
            raise VerifyException("pack goes from a plain tensor to a packed one")


@irdl_op_definition
class UnpackOp(UnaryOp):
    """Brings an int8 tensor from the accelerator's layout back into plain order. Runs on the
    host."""

    name = "graph.unpack"
    traits = traits_def(ServesOthers())

    def verify_(self) -> None:
        """The operand is packed, and the result is not."""
        super().verify_()
        if packing(self.x.type) is None or packing(self.result.type) is not None:
            raise VerifyException("unpack goes from a packed tensor to a plain one")
