"""Functions of one number that are no straight lines: one op, which names the ONNX operator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import erf, pi, sqrt
from typing import Any

import numpy as np
from xdsl.dialects.builtin import AnyFloat, FloatAttr, StringAttr, TensorType, f64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException

from vtac.dialects.graph.network import UnaryOp
from vtac.dialects.graph.traits import ElementWise

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Activation:
    """An operator of ONNX.

    function: its meaning, of an array of float64 and the attributes by name. slope: by what an
    error of the operand grows at most, of the attributes. attributes: floats, with their defaults.
    opset: the first one that has it in this form.
    """

    function: Callable[..., Array]
    slope: Callable[..., float]
    attributes: Mapping[str, float] = field(default_factory=dict)
    opset: int = 6


def _sigmoid(x: Array) -> Array:
    return np.asarray((1 + np.tanh(x / 2)) / 2)


def _elu(x: Array, alpha: float) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


ACTIVATIONS: Mapping[str, Activation] = {
    "Elu": Activation(_elu, lambda alpha: max(1.0, abs(alpha)), {"alpha": 1.0}),
    "Erf": Activation(np.vectorize(erf, [np.float64]), lambda: 2 / sqrt(pi), opset=9),
    "Selu": Activation(
        lambda x, alpha, gamma: gamma * _elu(x, alpha),
        lambda alpha, gamma: abs(gamma) * max(1.0, abs(alpha)),
        {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
    ),
    "Sigmoid": Activation(_sigmoid, lambda: 0.25),
    "Softplus": Activation(lambda x: np.logaddexp(0, x), lambda: 1.0),
    "Softsign": Activation(lambda x: x / (1 + np.abs(x)), lambda: 1.0),
    "Tanh": Activation(np.tanh, lambda: 1.0),
}
"""By operator of the default domain."""


@irdl_op_definition
class ActivationOp(UnaryOp):
    """An operator of `ACTIVATIONS`, with ONNX's meaning and attributes."""

    name = "graph.activation"
    traits = traits_def(ElementWise())
    operator = prop_def(StringAttr)
    alpha = opt_prop_def(FloatAttr[AnyFloat])
    gamma = opt_prop_def(FloatAttr[AnyFloat])

    def __init__(self, x: SSAValue, operator: str, result_type: Attribute, **attributes: float):
        """attributes: those that differ from ONNX's defaults."""
        known = {**ACTIVATIONS[operator].attributes, **attributes}
        super().__init__(
            x,
            result_type,
            operator=StringAttr(operator),
            **{name: FloatAttr(value, f64) for name, value in known.items()},
        )

    @property
    def attributes_by_name(self) -> dict[str, float]:
        """The attributes of the operator."""
        found = {"alpha": self.alpha, "gamma": self.gamma}
        return {name: value.value.data for name, value in found.items() if value is not None}

    @property
    def slope(self) -> float:
        """By what an error of the operand grows at most."""
        return ACTIVATIONS[self.operator.data].slope(**self.attributes_by_name)

    def __call__(self, x: Array) -> Array:
        """The function of an array, computed in float64."""
        function = ACTIVATIONS[self.operator.data].function
        return np.asarray(function(x.astype(np.float64), **self.attributes_by_name))

    def verify_(self) -> None:
        """The operator is known, has its attributes and no others, and computes with floats."""
        super().verify_()
        known = ACTIVATIONS.get(self.operator.data)
        if known is None:
            raise VerifyException(f"there is no activation '{self.operator.data}'")
        if set(self.attributes_by_name) != set(known.attributes):
            names = ", ".join(known.attributes) or "none"
            raise VerifyException(f"the attributes of {self.operator.data} are {names}")
        element = self.x.type.get_element_type() if isinstance(self.x.type, TensorType) else None
        if not isinstance(element, AnyFloat):
            raise VerifyException("an activation is a function of floats")
