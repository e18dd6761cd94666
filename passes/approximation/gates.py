"""Functions that gate their operand, such as Gelu, on machines that multiply.

``f(x) = a (x + |x| g(|x|))`` with a g that rises to 1: an error function for Gelu. (For SiLU it is
a hyperbolic tangent, which rises too slowly on some ranges; there lines remain, `lines`.) I-BERT
(Kim et al., "I-BERT: Integer-only BERT Quantization", section 3.3) takes a parabola for g up to its
vertex, and 1 behind it. A cube is nearer, and one product more::

    K f(x) / a = K x + |x| (K - (h - min(|x|, h))^3)

where x is the stored int8. h and K are fitted to the function itself over all 256 integers, so g
need not be 0 at 0. K also carries the change of scale: for each shift there is one K with which the
accumulators, shifted, are the result. With ``n = -|x|``, the smaller of x and -x, they are
``K x + n ((max(n, -h) + h)^3 - K)``. For Gelu this is a sixth to a half of a step of int8 off (the
parabola: half a step), and it takes half the cycles of lines (`lines`), which are a quarter off.
"""

from dataclasses import dataclass
from typing import cast

import numpy as np

from vtac.passes.approximation.integers import LARGEST_SHIFT, STORED, Array

TOLERANCE = 0.5
"""How far a gate may lie from the function, in steps of the result."""

LARGEST_HEIGHT = 200
"""The largest h. It may lie beyond int8, as on a small range; its cube times |x| fits int32."""

LARGEST_CURVATURE = 2**22
"""The largest K: ``2 |x| K`` and the rounding term fit int32, and so does the cube of h."""

PLANE_BITS = 7
"""Bits of each of the two weights that are K."""


@dataclass(frozen=True)
class Gate:
    """The integers of a gate.

    height: h. high, low, bits: ``K = (high * 2^PLANE_BITS + low) * 2^bits``.
    """

    height: int
    high: int
    low: int
    bits: int

    @property
    def curvature(self) -> int:
        """K."""
        return ((self.high << PLANE_BITS) + self.low) << self.bits

    def at(self, stored: Array) -> Array:
        """The accumulators for stored integers."""
        x = stored.astype(np.float64)
        below = -np.abs(x)
        cube = (np.maximum(below, -self.height) + self.height) ** 3
        return cast(Array, self.curvature * x + below * (cube - self.curvature))


def fitted_gate(wanted: Array, slope: float) -> tuple[Gate, int, float]:
    """The nearest gate to values in steps of the result, its shift, and its largest error.

    slope: of the odd part of the values.
    """
    best, chosen, least = Gate(1, 0, 1, 0), 0, np.inf
    for shift in range(LARGEST_SHIFT + 1):
        curvature = float(np.ldexp(slope, shift))
        if not 1 <= curvature <= LARGEST_CURVATURE:
            continue
        bits = max(0, int(curvature).bit_length() - 2 * PLANE_BITS)
        whole = min(round(curvature / 2**bits), 2 ** (2 * PLANE_BITS) - 1)
        high, low = whole >> PLANE_BITS, whole & (2**PLANE_BITS - 1)
        for height in range(1, LARGEST_HEIGHT + 1):
            gate = Gate(height, high, low, bits)
            wrong = float(np.abs(np.ldexp(gate.at(STORED), -shift) - wanted).max())
            if wrong < least:
                best, chosen, least = gate, shift, wrong
    return best, chosen, least
