"""``graph.unfold``: the windows of a tensor laid out as channels, as im2col does.

A convolution whose windows are unfolded is a matrix product (Chellapilla et al., "High Performance
Convolutional Neural Networks for Document Processing", 2006). Here an axis may be left alone, so
that the convolution keeps its kernel there.
"""

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, IntegerType, TensorType, i64
from xdsl.irdl import (
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
)
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph.network import I64Array, PoolOp, shape_of
from vtac.dialects.graph.padding import verify_pad_value
from vtac.dialects.graph.traits import ServesOthers


@irdl_op_definition
class UnfoldOp(PoolOp):
    """Each window's elements as channels: [N, C, spatial...] to [N, taps * C + constants, ...].

    Channel ``tap * C + c`` is channel c at that tap, taps in row-major order; a tap in the padding
    reads ``pad_value``, 0 if that is not given. constants: the values of further channels, each the
    same everywhere (int8). On the host.
    """

    name = "graph.unfold"
    traits = traits_def(ServesOthers())
    constants = prop_def(I64Array.constr(i64))
    pad_value = opt_prop_def(IntegerAttr[IntegerType])

    def result_channels(self) -> int:
        """The number of channels of all taps together, and of constant channels."""
        channels = (shape_of(self.x) or (0, DYNAMIC_INDEX))[1]
        if channels == DYNAMIC_INDEX:
            return DYNAMIC_INDEX
        for extent in self.kernel.get_values():
            channels *= extent
        return channels + len(self.constants)

    def verify_(self) -> None:
        """The element type stays; constants are int8."""
        super().verify_()
        verify_pad_value(self, self.x)
        x, result = self.x.type, self.result.type
        assert isinstance(x, TensorType) and isinstance(result, TensorType)
        if x.element_type != result.element_type:
            raise VerifyException("unfold moves elements and keeps their type")
        if not all(-128 <= value <= 127 for value in self.constants.get_values()):
            raise VerifyException("constant channels hold int8 values")
        if len(self.constants) and x.element_type != IntegerType(8):
            raise VerifyException("only int8 tensors have constant channels")
