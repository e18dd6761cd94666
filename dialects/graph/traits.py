"""Traits: properties of ops that passes ask for, so that no pass lists classes.

A property holds for an op whatever its attributes are and whatever its operands hold. Passes ask
with ``op.has_trait(MovesElements)``. An op that has one of these properties must say so: that is
how a new op takes part in every pass that relies on the property.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, result_def
from xdsl.traits import OpTrait

from vtac.dialects.graph.attributes import RANGES_ATTRIBUTE


class ElementWise(OpTrait):
    """Each element of the result depends only on the operands' elements at the same place.

    Operands broadcast, and a vector with one number a channel counts as broadcast.
    """


class MovesElements(OpTrait):
    """Each element of the result is an element of an operand, or a constant that the op names.

    Which one depends on its place alone, never on values. Integers that stand for real numbers can
    be moved in place of these.
    """


class SelectsElements(OpTrait):
    """Each element of the result is an element of an operand, whatever these hold.

    A function that never decreases can be applied before or after the op alike:
    ``op(f(x)) == f(op(x))``. Rounding to the steps of a scale is such a function.
    """


class Contracts(OpTrait):
    """Each element of the result is a sum of products of elements of two operands.

    The op says how many products that are: a method ``products() -> int``, where a dimension that
    is not known counts as 1.
    """


class Pools(OpTrait):
    """Each element of the result is the sum or the mean of the elements in a window.

    Windows lie within one channel.
    """


class Linear(OpTrait):
    """``op(a x + b y) == a op(x) + b op(y)``, but for a constant that is added to the result.

    x and y stand for the first operand, all others held fixed; in `ConcatOp` for all together.
    """


@dataclass(frozen=True)
class AxisAttributes(OpTrait):
    """Operands and result have the same axes, which these attributes name or have entries for.

    If all of them are transposed by one permutation, the op stays the same but for its attributes,
    which are permuted. An element-wise op without this trait has no such attributes.

    entries: properties with one number per axis. ends: properties with the begins of all axes, then
    the ends of all axes. index: the property that is the number of an axis. channels: properties
    and operands that, unless they have one entry only, have one per channel (axis 1).
    """

    entries: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    index: str | None = None
    channels: tuple[str, ...] = ()


class WeightedOp(IRDLOperation, ABC):
    """A layer with weights: common names for the operands of convolutions and dense layers."""

    result = result_def(TensorType)

    @property
    @abstractmethod
    def data(self) -> SSAValue:
        """The activations."""

    @property
    @abstractmethod
    def weights(self) -> SSAValue:
        """The weights."""

    @property
    @abstractmethod
    def addend(self) -> SSAValue | None:
        """The bias, which is added to the products."""

    @property
    @abstractmethod
    def groups(self) -> int:
        """The number of groups of channels; outputs of one group read inputs of that group only."""


class ServesOthers(OpTrait):
    """The op only supplies or converts the operands of other ops, wherever these compute.

    Constants, and conversions between the forms that values have on the host and on the
    accelerator. Such an op needs no reason to stay on the host.
    """


@dataclass(frozen=True)
class OnnxOperator(OpTrait):
    """The op is an ONNX operator over floats, with its operands in order and one result.

    operator: its name in the default domain. attributes: the op's properties, all floats, that are
    attributes of that name in ONNX. Such ops need no converters: import and export know from this
    how to write them.
    """

    operator: str
    attributes: tuple[str, ...] = ()


def moved(op: Operation, operands: Sequence[SSAValue], element: Attribute) -> Operation:
    """A copy of an op with one result for operands of the same shapes and another element type.

    It serves ops whose meaning does not depend on the element type. The copy has no calibrated
    ranges.
    """
    result = op.results[0].type
    assert isinstance(result, TensorType)
    attributes = {name: attr for name, attr in op.attributes.items() if name != RANGES_ATTRIBUTE}
    made = type(op).create(
        operands=operands,
        result_types=[TensorType(element, result.get_shape())],
        properties=op.properties.copy(),
        attributes=attributes,
    )
    made.location = op.location
    return made
