"""What goes over the wire: arrays by name in one body, and the names of paths and headers."""

import io
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from vtac.dialects.array_files import Array, write_npz
from vtac.dialects.errors import CompileError, Problem

PACKAGES, HEALTH, METRICS = "/packages", "/health", "/metrics"
RUN, PROFILE = "run", "profile"

RECORD = "X-Vtac-Record"
"""The header of an answer to `RUN` that has the record of the run, as JSON."""

SECONDS = "X-Vtac-Seconds"
"""The header of a request that says how many seconds it may take at most, of those allowed."""

ARRAYS, PACKAGE = "application/x-npz", "application/x-vtapkg"
"""The types of bodies: arrays by name as ``numpy.savez`` writes them, and packages."""


_FAULTS = (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError)
"""What reading raises on bytes that are no .npz file of arrays."""


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
    write_npz(stream, named)
    return stream.getvalue()


def from_bytes(data: bytes, most: int) -> dict[str, Array]:
    """The arrays in a body. most: bytes that they may have when unpacked.

    Raises `CompileError` on anything that is not such a body.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            size = sum(member.file_size for member in members)
            if size > most:
                raise CompileError(Problem("body", f"has {size:,} bytes, at most {most:,} may be"))
            return {
                member.filename.removesuffix(".npy"): np.lib.format.read_array(
                    io.BytesIO(archive.read(member)), allow_pickle=False
                )
                for member in members
            }
    except _FAULTS as error:
        raise CompileError(Problem("body", f"is no .npz file: {error}")) from None
