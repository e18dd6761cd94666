"""Which arrays are taken for an input of another element type: those whose values keep their sense.

Numbers of any type become floats, integers and booleans become integers that can hold them. Floats
do not become integers, nothing becomes booleans, and strings stay strings.
"""

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def cast_fault(array: Array, dtype: np.dtype[Any]) -> str:
    """Why an array cannot become one of ``dtype``; empty if it can."""
    source = array.dtype
    if source == dtype:
        return ""
    if dtype.kind == "U":
        strings = source.kind == "O" and all(isinstance(item, str) for item in array.flat)
        return "" if strings or source.kind == "U" else f"is of {source}"
    to_float = dtype.kind == "f" and source.kind in "biuf"
    if not to_float and not (dtype.kind in "iu" and source.kind in "biu"):
        return f"is of {source}"
    if not array.size:
        return ""
    lowest, highest = array.min(), array.max()
    limits: Any = np.finfo(dtype) if to_float else np.iinfo(dtype)
    finite = bool(np.isfinite(lowest) and np.isfinite(highest))
    # As numbers of Python: NumPy 2.5 does not compare a boolean with what an int64 cannot hold.
    least, most = (float(limits.min), float(limits.max)) if to_float else (limits.min, limits.max)
    if finite and (lowest.item() < least or highest.item() > most):
        return f"has values from {lowest} to {highest}"
    return ""
