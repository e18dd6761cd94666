"""Gives memory back to the system.

The C library keeps what is freed for later, scattered over its heap. After a step that held all
weights of a network, such as a session of onnxruntime, that would be as much again as they need.
"""

import ctypes
import sys
from collections.abc import Callable
from functools import cache


@cache
def _trim() -> Callable[[int], object] | None:
    """``malloc_trim`` of the GNU C library; None where there is no such function."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None


def give_back_memory() -> None:
    """Return what is free on the heap of the C library to the system, where it can be asked to."""
    trim = _trim()
    if trim is not None:
        trim(0)
