"""The codegen ``vta``: integer groups that end in a requantisation, a pooling or byte planes."""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, i8
from xdsl.ir import Operation

from vtac.dialects.graph import (
    AddBiasOp,
    AddOp,
    ConvOp,
    GemmOp,
    MaxOp,
    MaxPoolOp,
    MinOp,
    RequantizeOp,
    ReshapeOp,
    ShiftLeftOp,
    SplitBytesOp,
    SumPoolOp,
    shape_of,
)
from vtac.dialects.target import Target
from vtac.passes.graph.codegen import Codegen, NamedPattern
from vtac.passes.graph.patterns import OpPattern, Recursive, constant, op, wildcard


def _static(operation: Operation) -> str | None:
    for value in (*operation.operands, *operation.results):
        shape = shape_of(value)
        if shape is not None and DYNAMIC_INDEX in shape:
            return f"shape {list(shape)} is not known; fix it with --shape"
        if shape is not None and 0 in shape:
            return f"shape {list(shape)} has no elements"
    return None


def _int8_input(operation: Operation) -> str | None:
    type = operation.operands[0].type
    if isinstance(type, TensorType) and type.get_element_type() != i8:
        return f"it computes with {type.get_element_type()}, the accelerator takes int8"
    return None


def _transposed_weights(operation: Operation) -> str | None:
    assert isinstance(operation, GemmOp)
    if operation.trans_a.value.data or not operation.trans_b.value.data:
        return "only products with constant weights [out, in] are supported"
    return None


def _same_shape(operation: Operation) -> str | None:
    assert isinstance(operation, AddOp)
    a, b = shape_of(operation.a), shape_of(operation.b)
    return None if a == b else f"addition of shapes {list(a or ())} and {list(b or ())}"


def _void_in_the_layout(operation: Operation) -> str | None:
    assert isinstance(operation, ReshapeOp)
    before, after = list(shape_of(operation.x) or ()), list(shape_of(operation.result) or ())
    if len(before) < 2 or len(after) < 2 or before[:2] != after[:2]:
        return f"reshape from {before} to {after} moves elements between channels"
    if set(before[2:]) - {1} or set(after[2:]) - {1}:
        return f"reshape from {before} to {after} is not void in the accelerator's layout"
    return None


class VtaCodegen(Codegen):
    """Everything that the GEMM core and the ALU can do on int8 tensors."""

    name: ClassVar[str] = "vta"

    def patterns(self, target: Target | None) -> Sequence[NamedPattern]:
        """Accumulators and what ends them, max pooling, reshapes that the layout makes void."""
        acc = self._accumulators()
        planes = op(AddBiasOp, acc, constant()).where(_static)
        return [
            NamedPattern(
                "accumulate_requantize",
                op(RequantizeOp, acc, constant(), constant()).where(_static),
            ),
            NamedPattern("accumulate_split", op(SplitBytesOp, planes).where(_static)),
            NamedPattern("max_pool", op(MaxPoolOp, wildcard()).where(_static, _int8_input)),
            NamedPattern(
                "reshape",
                op(ReshapeOp, wildcard()).where(_static, _int8_input, _void_in_the_layout),
                free=True,
            ),
        ]

    @staticmethod
    def _accumulators() -> Recursive:
        """int32 sums: products, sum pooling, shifted addends, sums and extremes of these."""
        acc = Recursive("accumulators")
        sources: list[OpPattern] = [
            op(ConvOp, wildcard(), constant()).where(_int8_input),
            op(GemmOp, wildcard(), constant()).where(_transposed_weights, _int8_input),
            op(SumPoolOp, wildcard()).where(_int8_input),
            op(ShiftLeftOp, wildcard(), constant()).where(_int8_input),
        ]
        sums = op(AddOp, acc, acc).where(_same_shape) | op(AddBiasOp, acc, constant())
        extremes = op(MaxOp, acc, acc) | op(MinOp, acc, acc)
        acc.define(sources[0] | sources[1] | sources[2] | sources[3] | sums | extremes)
        return acc
