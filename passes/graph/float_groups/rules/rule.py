"""The interface of rules: a rule holds all that the quantiser knows about one kind of op.

Each kind of op that computes has one rule, registered in ``rules``. A rule says whether an op has
an integer form at all (``why_not``), how it takes part in groups of ops that round once, and how
errors pass through it where it stays float. A rule describes its ops by linear forms (`Form`),
bounds and constants, so that scales, numbers and emission do not depend on kinds of ops.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from xdsl.ir import Operation, SSAValue

from vtac.dialects.context import Array
from vtac.dialects.graph import shape_of
from vtac.passes.approximation.error_models import ErrorModel, Range, free_of_zero
from vtac.passes.graph.float_groups.forms import Form, diagonal
from vtac.passes.graph.float_groups.network import Network, channels_of

OpT = TypeVar("OpT", bound=Operation)

Join = Literal["add", "max", "min", "mul", "curve"]
"""How the accumulators of several forms are combined; ``curve``: a function of one (``curves``)."""


@dataclass
class Terms:
    """The addends of a sum while it is collected from its root upwards.

    root: the op that ends the sum. maker: the op that makes a value, if it may disappear into this
    sum. bias: constant addends, float64 [C]. covered: ops that the sum replaces. cores: ops that
    sum products or windows, each with its factor. forms: the other addends. pending: values still
    to be looked at, with their factors.
    """

    network: Network
    root: Operation
    maker: Callable[[SSAValue], Operation | None]
    bias: Array
    covered: dict[Operation, None]
    cores: list[tuple[Operation, Array]] = field(default_factory=list)
    forms: list[Form] = field(default_factory=list)
    pending: list[tuple[SSAValue, Array]] = field(default_factory=list)

    @property
    def result(self) -> SSAValue:
        """The value that the sum computes."""
        return self.root.results[0]

    def read(self, value: SSAValue, factor: Array) -> None:
        """Add ``factor`` times a value that an op of the sum reads."""
        self.pending.append((value, factor))

    def read_stored(self, value: SSAValue, factor: Array) -> None:
        """Add ``factor`` times a value that the sum reads as int8, also where its maker could join
        the sum."""
        form = diagonal(self.root, value, self.root.results[0], factor)
        self.forms.append(replace(form, plain=bool((factor == 1).all())))


@dataclass(frozen=True)
class ErrorContext:
    """The values that a rule needs to propagate errors."""

    model: ErrorModel
    network: Network

    def free(self, value: SSAValue, lo: float) -> Array | None:
        """The share of each channel above a lower bound of 0, as far as it has been observed."""
        observed = self.network.observations
        if lo != 0 or observed is None:
            return None
        mean, power = observed.mean(value), observed.power(value)
        return None if mean is None or power is None else free_of_zero(mean, power)


class Rule(Generic[OpT]):
    """The rule of a kind of op. By this base class the ops stay float, for a reason."""

    computes: ClassVar[bool] = True
    """Whether an op that stays on the host needs a reason."""

    def why_not(self, op: OpT, network: Network) -> str | None:
        """Why an op has no integer form, from the op alone; None if it has one."""
        return None

    def error(self, op: OpT, errors: Sequence[Array], around: ErrorContext) -> Array | None:
        """The error of the result of a float op: one number a channel, or one for all.

        errors: of its operands, all known and not all 0. None where the error is unknown.
        """
        return None


Rules = Mapping[type[Operation], Rule[Any]]
"""Rules by the kind of op. Each module of rules has one such table, ``RULES``."""


class PassingRule(Rule[OpT]):
    """Ops whose int8 results have the scale of their operand."""

    def keeps_channels(self, op: OpT) -> bool:
        """Whether channels of the result are those of the operand."""
        return True

    def error(self, op: OpT, errors: Sequence[Array], around: ErrorContext) -> Array | None:
        """Errors stay as they are; where channels mix, the largest holds for all."""
        return errors[0] if self.keeps_channels(op) else largest(errors[0])


class SumRule(Rule[OpT]):
    """Ops that can be part of a sum, which ends in one requantisation."""

    interior: ClassVar[bool] = True
    """Whether other ops of the sum may follow it."""


class LinearRule(SumRule[OpT]):
    """Ops whose result is a sum of linear forms of their operands and a constant."""

    selects: ClassVar[bool] = True
    """Whether it selects or scales elements: no sum has both such ops and convolutions."""

    @abstractmethod
    def enter(self, op: OpT, factor: Array, terms: Terms) -> None:
        """Add ``factor`` times the result of an op to a sum."""


class CoreRule(LinearRule[OpT]):
    """Ops that sum many products or elements into each accumulator. A sum has at most one."""

    selects: ClassVar[bool] = False

    def enter(self, op: OpT, factor: Array, terms: Terms) -> None:
        """Make the op the core of a sum, or let it be requantised on its own."""
        terms.cores.append((op, factor))

    def shares(self, op: OpT, factor: Array) -> bool:
        """Whether other addends may enter its accumulators, multiplied by ``factor``."""
        return True

    @abstractmethod
    def width(self, op: OpT) -> int:
        """How many products or elements it sums into each accumulator."""

    @abstractmethod
    def form(self, op: OpT, result: SSAValue, factor: Array) -> Form:
        """``factor`` times its sums, without a bias."""

    def bias(self, op: OpT, network: Network) -> Array:
        """The constant that is added to its sums: float64, one number per channel."""
        return np.zeros(channels_of(op.results[0]))


class ClampRule(SumRule[OpT]):
    """Ops that clamp each element, which requantisation does anyway."""

    @abstractmethod
    def bounds(self, op: OpT) -> Range:
        """The real bounds between which elements are clamped."""

    def error(self, op: OpT, errors: Sequence[Array], around: ErrorContext) -> Array | None:
        """As the operand's, or smaller: clamping moves no two values apart."""
        before, (lo, hi) = around.network.range_of(op.operands[0]), self.bounds(op)
        free = around.free(op.results[0], lo)
        return around.model.clamped(errors[0], before, (lo, hi), free)


@dataclass(frozen=True)
class Joined:
    """Two forms whose accumulators are compared or multiplied.

    gate: slope and offset of the second factor, if that is a hard sigmoid.
    """

    forms: Sequence[Form]
    join: Join
    gate: tuple[float, float] | None = None


class JoinRule(SumRule[OpT]):
    """Ops whose result is the larger, the smaller or the product of two sums."""

    @abstractmethod
    def joined(self, op: OpT, network: Network, result: SSAValue) -> Joined | None:
        """The forms; None where an op of this kind is linear."""


def largest(*errors: Array) -> Array:
    """A single number that holds for all channels: the largest."""
    return np.full(1, max(error.max() for error in errors))


def magnitude(values: Range | None) -> float:
    """The largest magnitude within a range."""
    return inf if values is None else max(abs(values[0]), abs(values[1]))


def known_shape(value: SSAValue) -> tuple[int, ...]:
    """The shape of a value, which is known to be a tensor."""
    return shape_of(value) or ()
