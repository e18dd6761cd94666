"""Reshapes between kernels: the next kernel reads the buffer under another shape."""

from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .attributes import shaped
from .operation import TeOperation


@irdl_op_definition
class ViewOp(TeOperation):
    """A tensor's elements, in row-major order, under another shape, in the same buffer."""

    name = "te.view"

    x = operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = "$x attr-dict `:` type($x) `to` type($result)"

    def __init__(self, x: SSAValue, type: Attribute):
        super().__init__(operands=[x], result_types=[type])

    def verify_(self) -> None:
        """Both types have the same number of elements, of the same type."""
        before, after = shaped(self.x), shaped(self.result)
        if before.element_type != after.element_type:
            raise VerifyException("a view keeps the element type")
        if prod(before.get_shape()) != prod(after.get_shape()):
            raise VerifyException("a view keeps the number of elements")


def viewed(value: SSAValue) -> SSAValue:
    """The value behind all views: the one whose elements per value is."""
    while isinstance(value.owner, ViewOp):
        value = value.owner.x
    return value
