"""The quantiser: which ops compute in integers, with which scales, shifts, weights and biases.

``quantize`` is the pass. It plans (``plan``: groups of ops, then scales, then numbers, each an
analysis that leaves the IR alone), bounds the error (``bounds``) and rewrites (``emit``). A
correction of biases belongs between plan and emit: it would replace the biases of ``plan.layers``.
"""

from vtac.passes.graph.quantize.quantize import (
    ERROR_BOUNDS_ATTRIBUTE,
    QuantizePass,
    error_bounds,
)

__all__ = ["ERROR_BOUNDS_ATTRIBUTE", "QuantizePass", "error_bounds"]
