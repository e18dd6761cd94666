"""Ops on each element by itself, with ONNX's meaning: arithmetic that broadcasts, activations."""

from xdsl.dialects.builtin import AnyFloat, FloatAttr, TensorType, f64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph.network import ArithmeticOp, UnaryOp, broadcast, shape_of, verify_shape
from vtac.dialects.graph.traits import ElementWise, Linear, OnnxOperator


@irdl_op_definition
class SubOp(ArithmeticOp):
    """``a - b`` (ONNX Sub)."""

    name = "graph.sub"
    traits = traits_def(ElementWise(), Linear(), OnnxOperator("Sub"))


@irdl_op_definition
class MulOp(ArithmeticOp):
    """``a * b`` (ONNX Mul)."""

    name = "graph.mul"
    traits = traits_def(ElementWise(), Linear(), OnnxOperator("Mul"))


@irdl_op_definition
class DivOp(ArithmeticOp):
    """``a / b`` (ONNX Div)."""

    name = "graph.div"
    traits = traits_def(ElementWise(), Linear(), OnnxOperator("Div"))


@irdl_op_definition
class MaxOp(ArithmeticOp):
    """The larger of ``a`` and ``b`` (ONNX Max of two)."""

    name = "graph.max"
    traits = traits_def(ElementWise())


@irdl_op_definition
class MinOp(ArithmeticOp):
    """The smaller of ``a`` and ``b`` (ONNX Min of two)."""

    name = "graph.min"
    traits = traits_def(ElementWise())


@irdl_op_definition
class NegOp(UnaryOp):
    """``-x`` (ONNX Neg)."""

    name = "graph.neg"
    traits = traits_def(ElementWise(), Linear(), OnnxOperator("Neg"))


@irdl_op_definition
class AbsOp(UnaryOp):
    """The magnitude of ``x`` (ONNX Abs)."""

    name = "graph.abs"
    traits = traits_def(ElementWise(), OnnxOperator("Abs"))


@irdl_op_definition
class LeakyReluOp(UnaryOp):
    """``x``, or ``alpha * x`` where x is negative (ONNX LeakyRelu)."""

    name = "graph.leaky_relu"
    traits = traits_def(ElementWise(), OnnxOperator("LeakyRelu", ("alpha",)))
    alpha = prop_def(FloatAttr[AnyFloat])

    def __init__(self, x: SSAValue, alpha: float, result_type: Attribute):
        super().__init__(x, result_type, alpha=FloatAttr(alpha, f64))


@irdl_op_definition
class PReluOp(IRDLOperation):
    """``x``, or ``slope * x`` where x is negative (ONNX PRelu); the slope broadcasts to x."""

    name = "graph.prelu"
    x = operand_def(TensorType)
    slope = operand_def(TensorType)
    result = result_def(TensorType)
    traits = traits_def(Pure(), ElementWise(), OnnxOperator("PRelu"))
    assembly_format = "$x `,` $slope attr-dict `:` functional-type(operands, results)"

    def __init__(self, x: SSAValue, slope: SSAValue, result_type: Attribute):
        super().__init__(operands=[x, slope], result_types=[result_type])

    def verify_(self) -> None:
        """The result has the operand's shape: the slope broadcasts to it."""
        shape = shape_of(self.x) or ()
        verify_shape(self.result, shape)
        if len(shape_of(self.slope) or ()) > len(shape):
            raise VerifyException("the slope has more dimensions than the operand")
        verify_shape(self.result, broadcast(shape, shape_of(self.slope) or ()))


@irdl_op_definition
class HardSigmoidOp(UnaryOp):
    """``clip(alpha * x + beta, 0, 1)`` (ONNX HardSigmoid)."""

    name = "graph.hard_sigmoid"
    traits = traits_def(ElementWise(), OnnxOperator("HardSigmoid", ("alpha", "beta")))
    alpha = prop_def(FloatAttr[AnyFloat])
    beta = prop_def(FloatAttr[AnyFloat])

    def __init__(self, x: SSAValue, alpha: float, beta: float, result_type: Attribute):
        super().__init__(x, result_type, alpha=FloatAttr(alpha, f64), beta=FloatAttr(beta, f64))


@irdl_op_definition
class HardSwishOp(UnaryOp):
    """``x * clip(x / 6 + 1 / 2, 0, 1)`` (ONNX HardSwish)."""

    name = "graph.hard_swish"
    traits = traits_def(ElementWise())
