"""The integer that windows read in the padding: the one that stands for the real number 0.

With a zero point Z the real number 0 is stored as Z, so a window over integers reads Z where it
leaves its operand. Ops that sum such windows have an optional property ``pad_value``; without it
padding is 0, as in ONNX.
"""

from collections.abc import Mapping

from xdsl.dialects.builtin import IntegerAttr, IntegerType, TensorType, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

PAD_VALUE = "pad_value"
"""Name of the property."""

_INT8 = IntegerType(8)


def pad_property(value: int) -> Mapping[str, Attribute]:
    """The property for a pad value; none for 0."""
    return {PAD_VALUE: IntegerAttr(value, i64)} if value else {}


def pad_value_of(op: Operation) -> int:
    """The integer that an op reads in its padding."""
    attr = op.properties.get(PAD_VALUE)
    return attr.value.data if isinstance(attr, IntegerAttr) else 0


def verify_pad_value(op: Operation, x: SSAValue) -> None:
    """Raise unless an op's pad value, if it has one, is an int8 beside int8 elements."""
    if PAD_VALUE not in op.properties:
        return
    if not isinstance(x.type, TensorType) or x.type.element_type != _INT8:
        raise VerifyException("only windows over int8 have a pad_value; floats are padded with 0")
    if not -128 <= pad_value_of(op) <= 127:
        raise VerifyException(f"the pad_value {pad_value_of(op)} is no int8")
