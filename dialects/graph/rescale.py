"""Requantisation by a fixed-point multiplier, where the target multiplies (RESCALE in TOSA)."""

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, IntegerType, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph.quantised import RequantisationOp
from vtac.dialects.graph.traits import AxisAttributes, ElementWise

LARGEST_SHIFT = 31


@irdl_op_definition
class RescaleOp(RequantisationOp):
    """``clamp((clamp(acc + bias, least, most) * multiplier + offset) >> shift, lo, hi)``.

    bias, least, most, multiplier, offset: int32 [C], constants. least and most keep the product in
    int32; offset holds the rounding term and the zero point.
    """

    name = "graph.rescale"
    traits = traits_def(
        ElementWise(), AxisAttributes(channels=("bias", "least", "most", "multiplier", "offset"))
    )
    # IRDL lists a class's own operands before inherited ones: acc is declared again to come first.
    acc = operand_def(TensorType)
    bias = operand_def(TensorType)
    least = operand_def(TensorType)
    most = operand_def(TensorType)
    multiplier = operand_def(TensorType)
    offset = operand_def(TensorType)
    shift = prop_def(IntegerAttr[IntegerType])
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
            [acc, *vectors],
            result_type,
            shift=IntegerAttr(shift, i64),
            lo=lo,
            hi=hi,
            scale=scale,
            zero_point=zero_point,
        )

    def vectors(self) -> dict[str, SSAValue]:
        """The operands with one number per channel, by name."""
        names = ("bias", "least", "most", "multiplier", "offset")
        return dict(zip(names, self.operands[1:], strict=True))

    def verify_(self) -> None:
        """Check what every requantisation must meet, and that the shift is one of an int32."""
        super().verify_()
        if not 0 <= self.shift.value.data <= LARGEST_SHIFT:
            raise VerifyException(f"the shift must lie in 0..{LARGEST_SHIFT}")
