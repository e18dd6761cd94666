"""How errors add up: at worst, and to be expected.

The worst case adds magnitudes: every rounding errs by half a step, all in the same direction. It is
a proof, and grows so fast with depth that it says nothing of deep networks. What is to be expected
adds powers, as if roundings were independent and even over a step (Widrow, "Statistical analysis of
amplitude-quantized sampled-data systems"): a root mean square.
"""

from collections.abc import Sequence
from math import isinf
from typing import Any, Protocol, cast

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr

from vtac.dialects.context import Array
from vtac.dialects.graph import HostOp

Range = tuple[float, float]
"""The smallest and the largest element of a value."""


class ErrorModel(Protocol):
    """One number a channel stands for the error of a value, in real units.

    rounding: the error of rounding to whole steps, in steps.
    """

    rounding: float

    def total(self, errors: Sequence[Array]) -> Array:
        """The error of a sum of values."""
        ...

    def through(self, weights: Array, error: Array, groups: int) -> Array:
        """The error of sums of products with weights [O, I, ...] of values that err."""
        ...

    def wrong(self, weights: Array, values: Range, power: float | None) -> Array:
        """The error of sums of products whose weights are off by ``weights``.

        values, power: of what they are multiplied with, the range and the mean square, if known.
        """
        ...

    def clamped(self, error: Array, values: Range | None, bounds: Range) -> Array:
        """The error of values that are clamped to bounds. values: their range before, if known."""
        ...


class WorstCase:
    """No error is ever larger, in any element."""

    rounding = 0.5

    def total(self, errors: Sequence[Array]) -> Array:
        """The sum of the magnitudes."""
        return sum(errors[1:], start=errors[0])

    def through(self, weights: Array, error: Array, groups: int) -> Array:
        """The sum of all magnitudes."""
        return _through(np.abs(weights), error, groups)

    def wrong(self, weights: Array, values: Range, power: float | None) -> Array:
        """As if every value were the largest."""
        largest = max(abs(values[0]), abs(values[1]))
        return cast(Array, np.abs(weights).reshape(len(weights), -1).sum(axis=1) * largest)

    def clamped(self, error: Array, values: Range | None, bounds: Range) -> Array:
        """Clamping moves no two values apart."""
        return error


class Expected:
    """The root mean square of errors that know nothing of each other."""

    rounding = 12**-0.5

    def total(self, errors: Sequence[Array]) -> Array:
        """The root of the sum of the powers."""
        powers: Any = sum((np.square(error) for error in errors[1:]), start=np.square(errors[0]))
        return cast(Array, np.sqrt(powers))

    def through(self, weights: Array, error: Array, groups: int) -> Array:
        """The root of the sum of all powers."""
        return cast(Array, np.sqrt(_through(np.square(weights), np.square(error), groups)))

    def wrong(self, weights: Array, values: Range, power: float | None) -> Array:
        """If nobody knows, as if values were spread evenly over their range, which few fill."""
        lo, hi = values
        if power is None:
            power = (lo * lo + lo * hi + hi * hi) / 3
        return cast(
            Array, np.sqrt(np.square(weights).reshape(len(weights), -1).sum(axis=1) * power)
        )

    def clamped(self, error: Array, values: Range | None, bounds: Range) -> Array:
        """What falls on a bound has no error any more: the share of the range that lies outside,
        but no more than half, since channels differ.

        In a network of relus this is what keeps errors in proportion to values, layer by layer.
        """
        if values is None or values[0] >= values[1]:
            return error
        (lo, hi), (least, most) = values, bounds
        inside = max(0.0, min(hi, most) - max(lo, least))
        return cast(Array, error * max(0.5, inside / (hi - lo)) ** 0.5)


def _through(weights: Array, errors: Array, groups: int) -> Array:
    """Sums of products, one an output channel, of weights [O, I, ...] and errors [groups * I]."""
    outputs, inputs = weights.shape[:2]
    sums = weights.reshape(groups, outputs // groups, inputs, -1).sum(axis=3)
    column = np.broadcast_to(errors, (groups * inputs,)).reshape(groups, inputs, 1)
    return cast(Array, (sums @ column).reshape(outputs))


def host_error(op: HostOp, error: Array, magnitude: float) -> Array | None:
    """The error behind an operator of the host, whose operand errs; None if that is not known.

    magnitude: the largest that an element of the operand can have.
    """
    largest = error.max(keepdims=True)
    match op.op_type.data:
        case "Softmax":  # p' / (1 - p') is p / (1 - p) times at most exp(2 e)
            return cast(Array, np.tanh(largest / 2))
        case "LRN":
            return cast(Array, largest * _normalisation_slope(op, magnitude))
        case _:
            return None


def _normalisation_slope(op: HostOp, magnitude: float) -> float:
    """The largest sum of the magnitudes of a result's derivatives in LRN's formula.

    y = x / B^beta with B = bias + alpha / size * (sum of size squares): dy/dx of the element itself
    is at most B^-beta, and all terms of B's derivative together are at most beta * (1 + sqrt(size))
    of that, times the share of B that is not the bias.
    """
    numbers = {
        name: float(value.value.data)
        for name, value in op.onnx_attributes.data.items()
        if isinstance(value, FloatAttr | IntegerAttr)
    }
    beta, bias, size = numbers.get("beta", 0.75), numbers.get("bias", 1.0), numbers["size"]
    squares = numbers.get("alpha", 1e-4) * magnitude**2
    share = 1.0 if isinf(squares) else squares / (bias + squares)
    return float(bias**-beta * (1 + beta * (1 + size**0.5) * share))
