"""Tensors of the C program: where each lies in memory, and the C type of its elements."""

from dataclasses import dataclass
from math import isfinite, isnan, prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
DType = np.dtype[Any]

_BITS = (8, 16, 32, 64)

IN_PYTHON = "Run the package with vta-run or vtac.load, which have every operator of ONNX."
"""The way out that there always is."""

C_TYPES: dict[DType, str] = {
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
    np.dtype(np.bool_): "uint8_t",
    **{np.dtype(f"{sign}int{bits}"): f"{sign}int{bits}_t" for sign in ("", "u") for bits in _BITS},
}
"""Element types that the C program knows, with their names there."""


class NotExportedError(Exception):
    """A node that has no C, with the reason, and the way out."""

    def __init__(self, reason: str, hint: str = IN_PYTHON):
        super().__init__(reason)
        self.reason, self.hint = reason, hint


@dataclass(frozen=True)
class ProgramTensor:
    """A tensor of the C program.

    pointer: an expression of its first element. value: the name of its memory in the plan; None for
    constants. array: the elements of a constant.
    """

    pointer: str
    dtype: DType
    shape: tuple[int, ...]
    value: str | None = None
    array: Array | None = None

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def c_type(self) -> str:
        """The type of an element in C."""
        return C_TYPES[self.dtype]

    def describe(self) -> str:
        """Type and shape: ``int8[1, 28, 28, 1]``."""
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def literal(value: Any, dtype: DType) -> str:
    """A number as C writes it, with all its bits."""
    if dtype.kind == "f":
        number = float(value)
        if isnan(number):
            return "NAN"
        if not isfinite(number):
            return "INFINITY" if number > 0 else "-INFINITY"
        digits = f"{number:.9g}" if dtype == np.float32 else f"{number:.17g}"
        digits = digits if set(digits) & {".", "e"} else digits + ".0"
        return digits + "f" if dtype == np.float32 else digits
    number = int(value)
    if dtype == np.uint64:
        return f"UINT64_C({number})"
    if dtype == np.int64 and abs(number) >= 2**31:
        return "INT64_MIN" if number == -(2**63) else f"INT64_C({number})"
    if dtype == np.uint32:
        return f"{number}u"
    return "INT32_MIN" if number == -(2**31) else str(number)


def identifier(text: str) -> str:
    """A text as (part of) a name in C."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in text)[:40]
