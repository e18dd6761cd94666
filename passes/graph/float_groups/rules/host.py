"""How errors pass through operators that only the host computes."""

from math import isinf

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr

from vtac.dialects.context import Array
from vtac.dialects.graph import HostOp
from vtac.passes.approximation.error_models import ErrorModel


def host_error(
    op: HostOp, error: Array, magnitude: float, power: float | None, model: ErrorModel
) -> Array | None:
    """The error of an operator's result on the host, from that of its operand; None if it is not
    known.

    magnitude: the largest that an element of the operand can have. power: the mean square of the
    result, if known.
    """
    largest = float(error.max())
    match op.op_type.data:
        case "Softmax":
            return np.full(1, model.softmax(largest, power))
        case "LRN":
            return np.full(1, largest * _normalisation_slope(op, magnitude, model))
        case _:
            return None


def _normalisation_slope(op: HostOp, magnitude: float, model: ErrorModel) -> float:
    """By how much an error grows in LRN's formula, at most.

    y = x / B^beta with B = bias + alpha / size * (sum of size squares).
    """
    numbers = {
        name: float(value.value.data)
        for name, value in op.onnx_attributes.data.items()
        if isinstance(value, FloatAttr | IntegerAttr)
    }
    beta, bias, size = numbers.get("beta", 0.75), numbers.get("bias", 1.0), numbers["size"]
    squares = numbers.get("alpha", 1e-4) * magnitude**2
    share = 1.0 if isinf(squares) else squares / (bias + squares)
    return float(bias**-beta * model.normalised(beta, size, share))
