"""The integers of the machine: their limits, and the type of the arrays that hold them."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

LARGEST_INT32 = 2**31 - 1
LARGEST_INT8 = 128
"""Magnitude of int8's most negative value."""

LARGEST_SHIFT = 31
"""The most bits by which int32 is shifted."""

STORED = np.arange(-128, 128)
"""All values of int8."""
