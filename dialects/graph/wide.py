"""Arithmetic of int32 accumulators, and numbers of 16 bits that leave them as two int8 planes.

A number of 16 bits is ``v = 256 high + low``, where both planes are signed bytes. The machine can
store only the low byte of an accumulator, so it stores that of v, which is the low plane, and that
of ``(v + 128) >> 8``, which is the high plane.
"""

from xdsl.dialects.builtin import (
    AnyFloat,
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
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph.network import shape_of, verify_shape
from vtac.dialects.graph.quantised import verify_channel_vector
from vtac.dialects.graph.traits import AxisAttributes, ElementWise

LEAST_FINE, MOST_FINE = -(1 << 15), (1 << 15) - 129
"""The numbers ``256 high + low`` whose ``(v + 128) >> 8`` is an int8."""


def _verify_elements(op: IRDLOperation, element: IntegerType) -> None:
    """Raise unless every result has the shape of the first operand and this element type."""
    for result in op.results:
        verify_shape(result, shape_of(op.operands[0]) or ())
        assert isinstance(result.type, TensorType)
        if result.type.get_element_type() != element:
            raise VerifyException(f"{op.name} leaves {element}")


@irdl_op_definition
class MultiplyShiftOp(IRDLOperation):
    """``(acc * multiplier + offset) >> shift`` in int32, the same numbers for all elements."""

    name = "graph.multiply_shift"
    acc = operand_def(TensorType)
    multiplier = prop_def(IntegerAttr[IntegerType])
    offset = prop_def(IntegerAttr[IntegerType])
    shift = prop_def(IntegerAttr[IntegerType])
    result = result_def(TensorType)
    traits = traits_def(Pure(), ElementWise())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$acc attr-dict `:` functional-type(operands, results)"

    def __init__(self, acc: SSAValue, multiplier: int = 1, offset: int = 0, shift: int = 0):
        numbers = {"multiplier": multiplier, "offset": offset, "shift": shift}
        super().__init__(
            operands=[acc],
            result_types=[acc.type],
            properties={name: IntegerAttr(number, i64) for name, number in numbers.items()},
        )

    def verify_(self) -> None:
        """The multiplier fits an immediate, the offset int32, the shift 0 to 31."""
        _verify_elements(self, i32)
        if not -(1 << 15) <= self.multiplier.value.data < 1 << 15:
            raise VerifyException("the multiplier must fit 16 bits")
        if not -(1 << 31) <= self.offset.value.data < 1 << 31:
            raise VerifyException("the offset must fit int32")
        if not 0 <= self.shift.value.data <= 31:
            raise VerifyException("the shift must be 0 to 31")


@irdl_op_definition
class ShiftRightByOp(IRDLOperation):
    """``acc >> amount`` in int32, element by element; amounts are 0 to 31."""

    name = "graph.shift_right_by"
    acc = operand_def(TensorType)
    amount = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure(), ElementWise())
    assembly_format = "$acc `,` $amount attr-dict `:` functional-type(operands, results)"

    def __init__(self, acc: SSAValue, amount: SSAValue):
        super().__init__(operands=[acc, amount], result_types=[acc.type])

    def verify_(self) -> None:
        """Operands and result are int32 of one shape."""
        _verify_elements(self, i32)
        if self.acc.type != self.amount.type:
            raise VerifyException("shift_right_by has one amount for each element")


@irdl_op_definition
class RequantizePlanesOp(IRDLOperation):
    """``v = clamp((acc + bias) >> shift, -bound, bound)`` as planes: ``v = 256 high + low``.

    bias, shift: int32 [C], constants. bound: at most `MOST_FINE`; without it, whoever makes the op
    knows that v lies between `LEAST_FINE` and `MOST_FINE`. scale: the real value of one step of v;
    it does not enter the arithmetic.
    """

    name = "graph.requantize_planes"
    acc = operand_def(TensorType)
    bias = operand_def(TensorType)
    shift = operand_def(TensorType)
    bound = opt_prop_def(IntegerAttr[IntegerType])
    scale = prop_def(FloatAttr[AnyFloat])
    high = result_def(TensorType)
    low = result_def(TensorType)
    traits = traits_def(Pure(), ElementWise(), AxisAttributes(channels=("bias", "shift")))
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$acc `bias` $bias `shift` $shift attr-dict `:` functional-type(operands, results)"
    )

    def __init__(
        self,
        acc: SSAValue,
        bias: SSAValue,
        shift: SSAValue,
        plane: Attribute,
        scale: float,
        bound: int | None = None,
    ):
        super().__init__(
            operands=[acc, bias, shift],
            result_types=[plane, plane],
            properties={
                "scale": FloatAttr(scale, f64),
                "bound": None if bound is None else IntegerAttr(bound, i64),
            },
        )

    def verify_(self) -> None:
        """It takes int32 to int8; vectors have one entry per channel."""
        _verify_elements(self, i8)
        for what, vector in (("bias", self.bias), ("shift", self.shift)):
            verify_channel_vector(vector, self.acc, what)
        if self.bound is not None and not 0 < self.bound.value.data <= MOST_FINE:
            raise VerifyException(f"the bound must be 1 to {MOST_FINE}")
