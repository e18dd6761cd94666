"""The quantiser: which ops compute in integers, with which scales, shifts, weights and biases.

``quantize`` is the pass. It plans (``plan``: groups of ops, then scales, then numbers, each an
analysis that leaves the IR alone), corrects biases by observations if there are any
(``correction``), bounds and estimates the error (``bounds``) and rewrites (``emit``).
"""

from vtac.passes.graph.quantize.quantize import QuantizePass, error_bounds, error_estimates

__all__ = ["QuantizePass", "error_bounds", "error_estimates"]
