"""The methods of calibration: how the range of a value follows from what was observed of it."""

from typing import Literal, get_args

Method = Literal["minmax", "percentile", "entropy"]

METHODS: tuple[Method, ...] = get_args(Method)

PERCENT = 99.99
"""Default share of magnitudes that the percentile method keeps."""
