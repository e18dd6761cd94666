"""What goes over the wire: arrays by name in one body, and the names of paths and headers."""

import io
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from vtac.dialects.errors import CompileError, Problem

Array = np.ndarray[Any, np.dtype[Any]]

PACKAGES, HEALTH, METRICS = "/packages", "/health", "/metrics"
RUN, PROFILE = "run", "profile"

RECORD = "X-Vtac-Record"
"""The header of an answer to `RUN` that has the record of the run, as JSON."""

ARRAYS, PACKAGE = "application/x-npz", "application/x-vtapkg"
"""The types of bodies: arrays by name as ``numpy.savez`` writes them, and packages."""


def to_bytes(arrays: Mapping[str, Any]) -> bytes:
    """Arrays by name as ``numpy.savez`` writes them. Raises `CompileError` on what is no array."""
    named = {name: np.asarray(value) for name, value in arrays.items()}
    problems = [
        Problem(f"input {name!r}", "is no array of numbers or texts", "Run it here instead.")
        for name, value in named.items()
        if value.dtype.hasobject or isinstance(arrays[name], list | tuple)
    ]
    if problems:
        raise CompileError(problems)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:  # numpy.savez has names of its own for arguments
        for name, value in named.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, value, allow_pickle=False)
    return stream.getvalue()


def from_bytes(data: bytes, most: int) -> dict[str, Array]:
    """The arrays in a body. most: bytes that they may have when unpacked.

    Raises `CompileError` on anything that is not such a body.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(info.file_size for info in archive.infolist())
            if size > most:
                raise CompileError(Problem("body", f"has {size:,} bytes, at most {most:,} may be"))
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (
        zipfile.BadZipFile,
        ValueError,
        OSError,
        EOFError,
        KeyError,
        NotImplementedError,
    ) as error:
        raise CompileError(Problem("body", f"is no .npz file: {error}")) from None
