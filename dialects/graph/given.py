"""Scales that a model gives: of values that it rounds itself, and of constants on a grid.

A quantised model is a float model whose scales are given. A pair QuantizeLinear, DequantizeLinear
is one float op, ``graph.fake_quantize`` (the name TensorFlow and PyTorch have for it); the
dequantised integers of a constant are a float constant that remembers its steps (``graph.grid``).
So every pass on float networks works on quantised ones too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    Float64Type,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
    f64,
    i8,
    i64,
)
from xdsl.ir import Attribute, Operation, OpResult, ParametrizedAttribute, SSAValue
from xdsl.irdl import irdl_attr_definition, irdl_op_definition, prop_def, traits_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph.network import UnaryOp
from vtac.dialects.graph.quantised import DequantizeOp
from vtac.dialects.graph.structure import ConstantOp
from vtac.dialects.graph.traits import ElementWise

_LEAST = {i8: -128, IntegerType(8, Signedness.UNSIGNED): 0}

GRID_ATTRIBUTE = "graph.grid"
"""Name of the attribute of a constant that says on which grid its elements lie."""


@irdl_op_definition
class FakeQuantizeOp(UnaryOp):
    """``scale * (clamp(round_half_even(x / scale) + zero_point, low, high) - zero_point)``.

    The float value of x after QuantizeLinear and DequantizeLinear. low, high: the bounds of the
    integers, those of int8 or of uint8.
    """

    name = "graph.fake_quantize"
    traits = traits_def(ElementWise())
    scale = prop_def(FloatAttr[AnyFloat])
    zero_point = prop_def(IntegerAttr[IntegerType])
    low = prop_def(IntegerAttr[IntegerType])
    high = prop_def(IntegerAttr[IntegerType])

    def __init__(
        self, x: SSAValue, scale: float, zero_point: int, result_type: Attribute, *, low: int = -128
    ):
        super().__init__(
            x,
            result_type,
            scale=FloatAttr(scale, f64),
            zero_point=IntegerAttr(zero_point, i64),
            low=IntegerAttr(low, i64),
            high=IntegerAttr(low + 255, i64),
        )

    def verify_(self) -> None:
        """The bounds are those of int8 or uint8, and hold the zero point; the scale is positive."""
        super().verify_()
        low, high = self.low.value.data, self.high.value.data
        if (low, high) not in ((-128, 127), (0, 255)):
            raise VerifyException(f"bounds must be those of int8 or uint8, not [{low}, {high}]")
        if not low <= self.zero_point.value.data <= high:
            raise VerifyException(f"zero point {self.zero_point.value.data} is out of bounds")
        if not 0 < self.scale.value.data < float("inf"):
            raise VerifyException("the scale must be positive")


@irdl_attr_definition
class GridAttr(ParametrizedAttribute):
    """``#graph.grid<0, [0.5, 0.25]>``: element i along axis 0 is a whole multiple of step i.

    A single step holds for all elements. The constant has this property up to float32's rounding;
    the multiples lie in [-255, 255] for dequantised 8-bit weights.
    """

    name = "graph.grid"

    axis: IntAttr
    steps: DenseArrayBase[Float64Type]

    def __init__(self, axis: int | IntAttr, steps: Sequence[float] | DenseArrayBase[Float64Type]):
        super().__init__(
            axis if isinstance(axis, IntAttr) else IntAttr(axis),
            steps if isinstance(steps, DenseArrayBase) else DenseArrayBase.from_list(f64, steps),
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse ``<axis, [steps]>``."""
        with parser.in_angle_brackets():
            axis = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_punctuation(",")
            steps = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: float(parser.parse_number())
            )
        return IntAttr(axis), DenseArrayBase.from_list(f64, steps)

    def print_parameters(self, printer: Printer) -> None:
        """Print ``<axis, [steps]>``."""
        with printer.in_angle_brackets():
            printer.print_string(f"{self.axis.data}, [")
            printer.print_list(self.steps.get_values(), lambda step: printer.print_float(step, f64))
            printer.print_string("]")

    def verify(self) -> None:
        """There are steps, all positive."""
        steps = self.steps.get_values()
        if not steps or not all(0 < step < float("inf") for step in steps):
            raise VerifyException("the steps of a grid are positive, and there is at least one")


@dataclass(frozen=True)
class Given:
    """The scale and zero point of a value that its model rounds, converted to storage as int8."""

    scale: float
    zero_point: int

    @property
    def range(self) -> tuple[float, float]:
        """The reals that int8 holds at this scale."""
        return (-128 - self.zero_point) * self.scale, (127 - self.zero_point) * self.scale


def given_by(op: Operation | None) -> Given | None:
    """The scale that an op which rounds, or which dequantises 8-bit integers, gives its result.

    A zero point of uint8 is lowered by 128, to that of int8. None where there is no single scale.
    """
    if isinstance(op, FakeQuantizeOp):
        return Given(op.scale.value.data, op.zero_point.value.data - 128 - op.low.value.data)
    if not isinstance(op, DequantizeOp) or len(op.scales) != 1:
        return None
    low = least_byte(op.x.type)
    if low is None:
        return None
    return Given(op.scales.get_values()[0], op.zero_point.value.data - 128 - low)


def least_byte(type: Attribute) -> int | None:
    """The least element of a tensor of int8 or uint8; None for any other type."""
    element = type.get_element_type() if isinstance(type, TensorType) else None
    return _LEAST.get(element) if isinstance(element, IntegerType) else None


def grid_of(value: SSAValue | None) -> GridAttr | None:
    """The quantisation grid of a constant; None for other values, and for constants without."""
    if not isinstance(value, OpResult) or not isinstance(value.op, ConstantOp):
        return None
    found = value.op.attributes.get(GRID_ATTRIBUTE)
    return found if isinstance(found, GridAttr) else None


def row_steps(value: SSAValue, rows: int) -> list[float] | None:
    """The step of each row (axis 0) of a constant on a grid; None unless each row has one step."""
    grid = grid_of(value)
    if grid is None:
        return None
    steps = list(grid.steps.get_values())
    if len(steps) == 1:
        return steps * rows
    return steps if grid.axis.data == 0 and len(steps) == rows else None


def set_grid(constant: ConstantOp, grid: GridAttr | None, transposed: bool = False) -> ConstantOp:
    """Give a constant the grid (if any) of another one with the same elements; returns the
    constant. transposed: whether axes 0 and 1 have changed places.
    """
    if grid is not None:
        if transposed and len(grid.steps) > 1:
            grid = GridAttr({0: 1, 1: 0}.get(grid.axis.data, grid.axis.data), grid.steps)
        constant.attributes[GRID_ATTRIBUTE] = grid
    return constant
