"""Requantisation by a fixed-point multiplier, where the target multiplies (RESCALE in TOSA)."""

from collections.abc import Sequence

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
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph.network import shape_of, verify_shape
from vtac.dialects.graph.quantised import verify_channel_vector

LARGEST_SHIFT = 31

VECTORS = ("bias", "least", "most", "multiplier", "offset")
"""Operands with one number a channel, in order."""


@irdl_op_definition
class RescaleOp(IRDLOperation):
    """``clamp((clamp(acc + bias, least, most) * multiplier + offset) >> shift, lo, hi)``.

    bias, least, most, multiplier, offset: int32 [C], constants. least and most keep the product in
    int32; offset holds the rounding term and the zero point. scale, zero_point: what the stored
    result means; they do not enter the arithmetic.
    """

    name = "graph.rescale"
    acc = operand_def(TensorType)
    bias = operand_def(TensorType)
    least = operand_def(TensorType)
    most = operand_def(TensorType)
    multiplier = operand_def(TensorType)
    offset = operand_def(TensorType)
    shift = prop_def(IntegerAttr[IntegerType])
    lo = prop_def(IntegerAttr[IntegerType])
    hi = prop_def(IntegerAttr[IntegerType])
    scale = prop_def(FloatAttr[AnyFloat])
    zero_point = prop_def(IntegerAttr[IntegerType])
    result = result_def(TensorType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$acc `bias` $bias `within` $least `,` $most `times` $multiplier `plus` $offset attr-dict"
        " `:` functional-type(operands, results)"
    )

    def __init__(
        self,
        acc: SSAValue,
        vectors: Sequence[SSAValue],
        result_type: Attribute,
        *,
        shift: int,
        lo: int,
        hi: int,
        scale: float,
        zero_point: int = 0,
    ):
        super().__init__(
            operands=[acc, *vectors],
            result_types=[result_type],
            properties={
                "shift": IntegerAttr(shift, i64),
                "lo": IntegerAttr(lo, i64),
                "hi": IntegerAttr(hi, i64),
                "scale": FloatAttr(scale, f64),
                "zero_point": IntegerAttr(zero_point, i64),
            },
        )

    def vectors(self) -> dict[str, SSAValue]:
        """The constants with one number a channel, by name."""
        return {name: getattr(self, name) for name in VECTORS}

    def verify_(self) -> None:
        """int32 in, int8 out, vectors a channel, bounds that int8 holds."""
        verify_shape(self.result, shape_of(self.acc) or ())
        for what, vector in self.vectors().items():
            verify_channel_vector(vector, self.acc, what)
        acc, result = self.acc.type, self.result.type
        assert isinstance(acc, TensorType) and isinstance(result, TensorType)
        if acc.element_type != i32 or result.element_type != i8:
            raise VerifyException("rescale takes int32 accumulators to int8")
        if not 0 <= self.shift.value.data <= LARGEST_SHIFT:
            raise VerifyException(f"the shift must lie in 0..{LARGEST_SHIFT}")
        if not -128 <= self.lo.value.data <= self.hi.value.data <= 127:
            raise VerifyException("bounds must satisfy -128 <= lo <= hi <= 127")
