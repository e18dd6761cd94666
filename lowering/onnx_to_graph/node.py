"""One ONNX node as a converter sees it: operands, constants, attributes, result types."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto, helper
from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import ConstantOp, GridAttr, least_byte, shape_of
from vtac.passes.graph.reasons import ReasonKind


class StaysOnHostError(Exception):
    """This form of a node has no graph op, for the reason in the message.

    The node is kept whole.
    """

    def __init__(self, reason: str, kind: ReasonKind = ReasonKind.ATTRIBUTE):
        super().__init__(reason)
        self.kind = kind


@dataclass
class Node:
    """A node with its surroundings.

    operand, constant: by position; None where the input is absent (or is no constant).
    widened: as constant, also of number types that NumPy lacks (`types.widened`).
    is_used: whether anything reads the output at a position.
    """

    proto: NodeProto
    opset: int
    operand_of: Callable[[str], SSAValue]
    constant_of: Callable[[str], Array | None]
    widened_of: Callable[[str], Array | None]
    type_of: Callable[[str], Attribute]
    used: Callable[[str], bool]
    new_constant: Callable[[Array, str], ConstantOp]

    def __post_init__(self) -> None:
        self.attributes: Mapping[str, Any] = {
            a.name: helper.get_attribute_value(a) for a in self.proto.attribute
        }

    def has(self, index: int) -> bool:
        """Whether the input at a position is there."""
        return index < len(self.proto.input) and bool(self.proto.input[index])

    def operand(self, index: int) -> SSAValue:
        """The input at a position, which must be there."""
        if not self.has(index):
            raise StaysOnHostError(f"input {index} is absent")
        return self.operand_of(self.proto.input[index])

    def optional(self, index: int) -> SSAValue | None:
        """The input at a position, if it is there."""
        return self.operand(index) if self.has(index) else None

    def constant(self, index: int) -> Array | None:
        """The value of an input that is there and constant."""
        return self.constant_of(self.proto.input[index]) if self.has(index) else None

    def widened(self, index: int) -> Array | None:
        """The numbers of an input that is there and constant, whatever number type it has.

        4-bit integers come as 8-bit integers; bfloat16, float8 and float4 come as float32.
        """
        return self.widened_of(self.proto.input[index]) if self.has(index) else None

    def shape(self, index: int) -> tuple[int, ...] | None:
        """The shape of the input at a position; None where its rank is unknown."""
        constant = self.constant(index)
        return shape_of(self.operand(index)) if constant is None else constant.shape

    def element(self, index: int) -> Attribute:
        """The element type of the input at a position, which must be a tensor."""
        type = self.operand(index).type
        if not isinstance(type, TensorType):
            raise StaysOnHostError(f"input {index} is no tensor of known rank", ReasonKind.SHAPE)
        element: Attribute = type.get_element_type()
        return element

    def is_used(self, index: int) -> bool:
        """Whether anything reads an output. One without a name is not there."""
        name = self.proto.output[index] if index < len(self.proto.output) else ""
        return bool(name) and self.used(name)

    def result_type(self) -> TensorType[Any]:
        """The type of the first output; refuses what is no tensor of known rank."""
        found = self.type_of(self.proto.output[0])
        if not isinstance(found, TensorType):
            raise StaysOnHostError("the rank of its result is unknown", ReasonKind.SHAPE)
        return found

    def floats(self, *indices: int) -> None:
        """Refuse unless these inputs, where present, are float tensors of known rank."""
        for index in indices:
            value = self.optional(index)
            if value is not None and not (
                isinstance(value.type, TensorType) and isinstance(value.type.element_type, AnyFloat)
            ):
                raise StaysOnHostError(
                    f"input {index} is no float tensor of known rank", ReasonKind.TYPE
                )

    def moved(self, *indices: int) -> None:
        """Refuse unless these inputs are float tensors or 8-bit integers, of known rank.

        Ops that only move or compare elements also work on the integers of quantised values.
        """
        for index in indices:
            if least_byte(self.operand(index).type) is None:
                self.floats(index)

    def numbers(self, index: int, what: str) -> list[int]:
        """The whole numbers of an input, which must be constant."""
        array = self.constant(index)
        if array is None:
            raise StaysOnHostError(f"its {what} are not constant")
        return [int(number) for number in array.reshape(-1)]

    def ints(self, name: str, default: Sequence[int]) -> list[int]:
        """A list attribute."""
        return list(self.attributes.get(name, default))


@dataclass(frozen=True)
class ConstantResult:
    """A node whose result is known: the array, and the grid its elements lie on (if any)."""

    array: Array
    grid: GridAttr | None = None


Result = Operation | Sequence[Operation] | SSAValue | ConstantResult
"""What replaces a node: an op, or several of which the last ones make its outputs, one each; the
value that already is its result; or its constant result."""

Converter = Callable[[Node], Result]


def scalar(array: Array | None, what: str) -> float:
    """The number of a constant scalar."""
    if array is None or array.size != 1:
        raise StaysOnHostError(f"{what} is no constant scalar")
    value = float(np.asarray(array).reshape(-1)[0])
    if np.isnan(value):
        raise StaysOnHostError(f"{what} is not a number")
    return value


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    if not -rank <= axis < rank:
        raise StaysOnHostError(f"axis {axis} is none of its input, whose rank is {rank}")
    return axis % rank


def like(x: SSAValue, shape: Sequence[int]) -> TensorType[Any]:
    """The type of a tensor with the elements of ``x`` and another shape."""
    assert isinstance(x.type, TensorType)
    return TensorType(x.type.element_type, shape)


def known_shape(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tensor of known rank."""
    shape = shape_of(value)
    if shape is None:
        raise StaysOnHostError("the rank of an input is unknown", ReasonKind.SHAPE)
    return shape
