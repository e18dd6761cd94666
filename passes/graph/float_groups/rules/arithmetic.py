"""Rules of arithmetic: sums, products, normalisation by constants."""

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
from xdsl.ir import SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import AddOp, BatchNormOp, DivOp, MulOp, NegOp, SubOp
from vtac.passes.graph.evaluate import batch_norm_affine
from vtac.passes.graph.float_groups.forms import spread
from vtac.passes.graph.float_groups.network import Network, channels_of, is_channel_vector
from vtac.passes.graph.float_groups.rules.rule import (
    ErrorContext,
    Joined,
    JoinRule,
    LinearRule,
    Rules,
    Terms,
    known_shape,
    largest,
    magnitude,
)
from vtac.passes.graph.reasons import Reason, ReasonKind

SumT = TypeVar("SumT", AddOp, SubOp)
ScalingT = TypeVar("ScalingT", MulOp, DivOp)


class _Addition(LinearRule[SumT], Generic[SumT]):
    """``a + b`` or ``a - b``."""

    sign = 1

    def why_not(self, op: SumT, network: Network) -> str | None:
        """An integer form needs equal shapes, or a constant with one number per channel."""
        a, b = known_shape(op.a), known_shape(op.b)
        if a == b or _constant_a_channel(op, network) is not None:
            return None
        kind = "addition" if isinstance(op, AddOp) else "subtraction"
        return Reason(f"broadcasting {kind} of shapes {list(a)} and {list(b)}", ReasonKind.SHAPE)

    def enter(self, op: SumT, factor: Array, terms: Terms) -> None:
        """Add both operands."""
        terms.read(op.a, factor)
        terms.read(op.b, self.sign * factor)

    def error(self, op: SumT, errors: Sequence[Array], around: ErrorContext) -> Array | None:
        """The sum of both errors; where shapes differ, channels may not correspond."""
        if known_shape(op.a) != known_shape(op.b):
            errors = [largest(error) for error in errors]
        return around.model.total(errors)


class Add(_Addition[AddOp]):
    """``a + b``: any sum may contain it."""

    selects = False


class Sub(_Addition[SubOp]):
    """``a - b``."""

    sign = -1


class Neg(LinearRule[NegOp]):
    """``-x``."""

    def enter(self, op: NegOp, factor: Array, terms: Terms) -> None:
        """Add the operand with the other sign."""
        terms.read(op.x, -factor)

    def error(self, op: NegOp, errors: Sequence[Array], around: ErrorContext) -> Array | None:
        """The error of the operand."""
        return largest(errors[0])


class BatchNorm(LinearRule[BatchNormOp]):
    """A factor and an offset for each channel."""

    def why_not(self, op: BatchNormOp, network: Network) -> str | None:
        """There is an integer form if the statistics are constants."""
        if any(network.constant(value) is None for value in op.operands[1:]):
            return Reason("its statistics are not constant", ReasonKind.ATTRIBUTE)
        return None

    def enter(self, op: BatchNormOp, factor: Array, terms: Terms) -> None:
        """Add ``scale * x + offset``."""
        channels = channels_of(op.result)
        vectors = [terms.network.channel_vector(v, channels) for v in op.operands[1:]]
        scale, offset = batch_norm_affine(op, *vectors)
        terms.bias += factor * offset
        terms.read(op.x, factor * scale)


class _Scaling(LinearRule[ScalingT], Generic[ScalingT]):
    """A product or quotient with a constant that has one number per channel."""

    def why_not(self, op: ScalingT, network: Network) -> str | None:
        """There is an integer form if one operand is a constant with one finite number per
        channel; in a quotient it is the divisor, and not zero."""
        found = _constant_a_channel(op, network)
        divides = isinstance(op, DivOp)
        if found is None or (divides and found[0] is not op.a):
            shapes = f"shapes {list(known_shape(op.a))} and {list(known_shape(op.b))}"
            what = "divides" if divides else "multiplies"
            return Reason(
                f"it {what} tensors of {shapes}: one must be a constant with one number a channel",
                ReasonKind.SHAPE,
            )
        numbers = network.channel_vector(found[1], channels_of(op.result))
        if not np.isfinite(numbers).all() or (divides and not numbers.all()):
            return Reason("its constant has infinite factors", ReasonKind.NUMBERS)
        return None

    def enter(self, op: ScalingT, factor: Array, terms: Terms) -> None:
        """Add the operand, scaled."""
        found = _constant_a_channel(op, terms.network)
        assert found is not None, "eligible products have a constant operand"
        numbers = terms.network.channel_vector(found[1], channels_of(op.result))
        terms.read(found[0], factor * (1 / numbers if isinstance(op, DivOp) else numbers))


class Div(_Scaling[DivOp]):
    """``a / b``."""


class Mul(_Scaling[MulOp], JoinRule[MulOp]):
    """``a * b``, where one factor is a constant per channel, or both factors are computed."""

    def why_not(self, op: MulOp, network: Network) -> str | None:
        """There is an integer form of a product of computed tensors if both have the same batch,
        and the result has the shape of one of them."""
        if not _is_product(op, network):
            return super().why_not(op, network)
        a, b, result = (known_shape(value) for value in (op.a, op.b, op.result))
        if len(a) != len(b) or a[0] != b[0] or result not in (a, b):
            return Reason(
                f"broadcasting product of shapes {list(a)} and {list(b)}", ReasonKind.SHAPE
            )
        return None

    def joined(self, op: MulOp, network: Network, result: SSAValue) -> Joined | None:
        """Both factors; the one with all channels comes first."""
        if not _is_product(op, network):
            return None
        forms = [spread(op, value, result, np.ones(1)) for value in (op.a, op.b)]
        return Joined(sorted(forms, key=lambda form: form.group == 1), "mul")

    def error(self, op: MulOp, errors: Sequence[Array], around: ErrorContext) -> Array | None:
        """Each factor's error times the other factor, and the product of both errors."""
        a, b = (largest(error) for error in errors)
        of_a, of_b = (magnitude(around.network.range_of(value)) for value in (op.a, op.b))
        if not np.isfinite([of_a, of_b]).all():
            return None
        return around.model.total([a * of_b, b * of_a, a * b])


def _is_product(op: MulOp, network: Network) -> bool:
    """Whether neither factor is a constant."""
    return all(network.constant(value) is None for value in (op.a, op.b))


def _constant_a_channel(
    op: AddOp | SubOp | MulOp | DivOp, network: Network
) -> tuple[SSAValue, SSAValue] | None:
    """The operand of an op and its constant with one number per channel, if it has such
    operands."""
    result = known_shape(op.result)
    for vector, other in ((op.b, op.a), (op.a, op.b)):
        if (
            network.constant(vector) is not None
            and known_shape(other) == result
            and is_channel_vector(known_shape(vector), result)
        ):
            return other, vector
    return None


RULES: Rules = {
    AddOp: Add(),
    BatchNormOp: BatchNorm(),
    DivOp: Div(),
    MulOp: Mul(),
    NegOp: Neg(),
    SubOp: Sub(),
}
"""The rules of this module."""
