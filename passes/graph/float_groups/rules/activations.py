"""Rules of activations: those that clamp, those with two slopes, hard swish."""

from collections.abc import Sequence
from math import inf
from typing import ClassVar, Generic, TypeVar

import numpy as np
from xdsl.ir import SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import (
    AbsOp,
    ActivationOp,
    ClipOp,
    FakeQuantizeOp,
    HardSigmoidOp,
    HardSwishOp,
    LeakyReluOp,
    PReluOp,
    ReluOp,
)
from vtac.passes.approximation.error_models import SLACK_STEPS, Range
from vtac.passes.graph.float_groups.forms import diagonal
from vtac.passes.graph.float_groups.network import Network, channels_of, is_channel_vector
from vtac.passes.graph.float_groups.rules.rule import (
    ClampRule,
    ErrorContext,
    Joined,
    JoinRule,
    LinearRule,
    Rule,
    Rules,
    Terms,
    known_shape,
)
from vtac.passes.graph.reasons import Reason, ReasonKind

HARD_SWISH = 1 / 6, 1 / 2
"""Slope and offset of the hard sigmoid in a hard swish."""


class Relu(ClampRule[ReluOp]):
    """``max(x, 0)``."""

    def bounds(self, op: ReluOp) -> Range:
        """From 0 to infinity."""
        return 0.0, inf


class Clip(ClampRule[ClipOp]):
    """``min(max(x, min), max)``."""

    def bounds(self, op: ClipOp) -> Range:
        """The attributes; where they cross, the upper bound wins, as in ONNX."""
        hi = inf if op.max is None else op.max.value.data
        return (-inf if op.min is None else min(op.min.value.data, hi)), hi


class FakeQuantize(ClampRule[FakeQuantizeOp]):
    """A rounding of the network's own, which ends a sum; the bounds are those of int8."""

    interior: ClassVar[bool] = False

    def bounds(self, op: FakeQuantizeOp) -> Range:
        """No bounds: requantisation clamps to the bounds of stored integers."""
        return -inf, inf

    def error(
        self, op: FakeQuantizeOp, errors: Sequence[Array], around: ErrorContext
    ) -> Array | None:
        """The error of the operand and of rounding: values that differ may be rounded apart."""
        step = op.scale.value.data
        slack = np.full(1, 2 * step * SLACK_STEPS)
        return around.model.both_rounded(around.model.total([errors[0], slack]), step)


class HardSigmoid(ClampRule[HardSigmoidOp], LinearRule[HardSigmoidOp]):
    """``clip(alpha * x + beta, 0, 1)``: a linear form between bounds."""

    def bounds(self, op: HardSigmoidOp) -> Range:
        """0 and 1, those of any hard sigmoid."""
        return 0.0, 1.0

    def enter(self, op: HardSigmoidOp, factor: Array, terms: Terms) -> None:
        """Add the linear form that is clamped."""
        terms.bias += factor * op.beta.value.data
        terms.read(op.x, factor * op.alpha.value.data)

    def error(
        self, op: HardSigmoidOp, errors: Sequence[Array], around: ErrorContext
    ) -> Array | None:
        """The error of the operand, multiplied by the slope."""
        return errors[0] * abs(op.alpha.value.data)


SlopedT = TypeVar("SlopedT", LeakyReluOp, PReluOp)


class _Sloped(JoinRule[SlopedT], Generic[SlopedT]):
    """``max(x, slope * x)``, or the minimum where slopes are above 1."""

    def slope(self, op: SlopedT, network: Network) -> Array:
        """The factor of negative elements: float64, one number per channel."""
        raise AssertionError("a rule of two slopes defines slope")

    def joined(self, op: SlopedT, network: Network, result: SSAValue) -> Joined | None:
        """x, and x times the slope."""
        slope = self.slope(op, network)
        forms = [diagonal(op, op.x, result, factor) for factor in (np.ones(1), slope)]
        return Joined(forms, "max" if (slope <= 1).all() else "min")


class LeakyRelu(_Sloped[LeakyReluOp]):
    """One slope."""

    def slope(self, op: LeakyReluOp, network: Network) -> Array:
        """The attribute, in each channel."""
        return np.full(channels_of(op.result), op.alpha.value.data)

    def why_not(self, op: LeakyReluOp, network: Network) -> str | None:
        """There is an integer form if the slope is a finite number."""
        return _slopes(self.slope(op, network))


class PRelu(_Sloped[PReluOp]):
    """One slope per channel."""

    def slope(self, op: PReluOp, network: Network) -> Array:
        """The constant operand."""
        return network.channel_vector(op.slope, channels_of(op.result))

    def why_not(self, op: PReluOp, network: Network) -> str | None:
        """An integer form needs constant slopes, one per channel, all on one side of 1."""
        if network.constant(op.slope) is None:
            return Reason("its slopes are not constant", ReasonKind.ATTRIBUTE)
        if not is_channel_vector(known_shape(op.slope), known_shape(op.result)):
            return Reason("its slopes differ within a channel", ReasonKind.SHAPE)
        return _slopes(self.slope(op, network))


def _slopes(slope: Array) -> str | None:
    if not np.isfinite(slope).all():
        return Reason("its slopes are not finite", ReasonKind.NUMBERS)
    if (slope < 1).any() and (slope > 1).any():
        return Reason(
            "some of its slopes are below 1 and some above: neither a maximum nor a minimum",
            ReasonKind.NUMBERS,
        )
    return None


class Abs(JoinRule[AbsOp]):
    """``max(x, -x)``."""

    def joined(self, op: AbsOp, network: Network, result: SSAValue) -> Joined | None:
        """x, and x with the other sign."""
        forms = [diagonal(op, op.x, result, np.array([sign])) for sign in (1.0, -1.0)]
        return Joined(forms, "max")

    def error(self, op: AbsOp, errors: Sequence[Array], around: ErrorContext) -> Array | None:
        """The error of the operand, since ``||a| - |b||`` is at most ``|a - b|``."""
        return errors[0]


class CurvedActivation(Rule[ActivationOp]):
    """A function that lines stand for (`one_variable`)."""

    def error(
        self, op: ActivationOp, errors: Sequence[Array], around: ErrorContext
    ) -> Array | None:
        """The error of the operand, multiplied by the steepest slope."""
        return errors[0] * op.slope


class HardSwish(JoinRule[HardSwishOp]):
    """``x`` times its hard sigmoid.

    Where the target does not multiply, lines stand for it (`one_variable`).
    """

    def joined(self, op: HardSwishOp, network: Network, result: SSAValue) -> Joined | None:
        """The two factors, both linear in ``x``: ``x`` itself, and the operand of its gate."""
        x = diagonal(op, op.x, result, np.ones(1))
        return Joined([x, x], "mul", HARD_SWISH)


RULES: Rules = {
    AbsOp: Abs(),
    ActivationOp: CurvedActivation(),
    ClipOp: Clip(),
    FakeQuantizeOp: FakeQuantize(),
    HardSigmoidOp: HardSigmoid(),
    HardSwishOp: HardSwish(),
    LeakyReluOp: LeakyRelu(),
    PReluOp: PRelu(),
    ReluOp: Relu(),
}
"""The rules of this module."""
