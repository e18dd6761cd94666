"""Activations written by others, of which the accelerator forms one function of one variable.

onnx has the same bodies as functions of these operators (ONNX, Operators.md: Gelu, Mish, Swish,
Celu).
"""

from math import pi, sqrt

import numpy as np

from vtac.lowering.onnx_to_graph.expansions.site import Site

CUBIC = 0.044715
"""The factor of the cube in the approximation of Gelu by a hyperbolic tangent."""


def activation(site: Site) -> bool:
    """Celu, Gelu, Mish, Swish: Elu, Erf, Tanh, Softplus and Sigmoid with sums and products."""
    x = site.node.input[0]
    if site.float_shape(x) is None:
        return False
    _WRITERS[site.node.op_type](site, x, site.node.output[0])
    return True


def _number(site: Site, value: float) -> str:
    return site.weight(np.array(value, np.float32))


def _celu(site: Site, x: str, y: str) -> None:
    alpha = site.attributes.get("alpha", 1.0)
    bent = site.add("Elu", [site.add("Div", [x, _number(site, alpha)])])
    site.add("Mul", [bent, _number(site, alpha)], y)


def _gelu(site: Site, x: str, y: str) -> None:
    gelu(site, x, y, by_tanh=site.attributes.get("approximate", b"none") == b"tanh")


def gelu(site: Site, x: str, y: str, *, by_tanh: bool) -> None:
    """Write Gelu of a value. by_tanh: whether as the approximation by a hyperbolic tangent."""
    if by_tanh:
        square = site.add("Mul", [x, x])
        scaled = site.add("Mul", [square, _number(site, CUBIC)])
        more = site.add("Mul", [x, site.add("Add", [scaled, _number(site, 1)])])
        curve = site.add("Tanh", [site.add("Mul", [more, _number(site, sqrt(2 / pi))])])
    else:
        curve = site.add("Erf", [site.add("Mul", [x, _number(site, sqrt(1 / 2))])])
    half = site.add("Mul", [site.add("Add", [curve, _number(site, 1)]), _number(site, 0.5)])
    site.add("Mul", [x, half], y)


def _mish(site: Site, x: str, y: str) -> None:
    site.add("Mul", [x, site.add("Tanh", [site.add("Softplus", [x])])], y)


def _swish(site: Site, x: str, y: str) -> None:
    alpha = site.attributes.get("alpha", 1.0)
    scaled = x if alpha == 1 else site.add("Mul", [x, _number(site, alpha)])
    site.add("Mul", [x, site.add("Sigmoid", [scaled])], y)


_WRITERS = {"Celu": _celu, "Gelu": _gelu, "Mish": _mish, "Swish": _swish}
