"""What goes over the wire: arrays by name in one body, and the names of paths and headers."""

import io
import zipfile
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from vtac.dialects.array_files import Array, write_npz
from vtac.dialects.errors import CompileError, Problem

_safetensors: Any = import_module("safetensors.numpy") if find_spec("safetensors") else None
"""The package; None where it is missing: arrays then go as .npz files."""

PACKAGES, HEALTH, METRICS = "/packages", "/health", "/metrics"
RUN, PROFILE = "run", "profile"

RECORD = "X-Vtac-Record"
"""The header of an answer to `RUN` that has the record of the run, as JSON."""

SECONDS = "X-Vtac-Seconds"
"""The header of a request that says how many seconds it may take at most, of those allowed."""

NPZ, SAFETENSORS, PACKAGE = (
    "application/x-npz",
    "application/x-safetensors",
    "application/x-vtapkg",
)
"""The types of bodies: arrays by name in two forms, and packages."""

_PLAIN = {np.dtype(name) for name in "?bBhHiIlLqQefd"}
"""The types of arrays that `SAFETENSORS` can hold."""

_FAULTS = (
    *(ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError),
    *((import_module("safetensors").SafetensorError, KeyError) if _safetensors else ()),
)
"""What reading raises on bytes that are not of the form that they should be of."""


def known_forms() -> tuple[str, ...]:
    """The forms of arrays that this side reads and writes, the quickest first."""
    return (NPZ,) if _safetensors is None else (SAFETENSORS, NPZ)


@dataclass(frozen=True)
class WireArrays:
    """Arrays by name as they go over the wire.

    form: `NPZ`, as ``numpy.savez`` writes them, which holds all arrays and any client can write;
    or `SAFETENSORS`, numbers only, which takes a tenth of the time. Any other is read as `NPZ`.
    """

    form: str
    data: bytes

    @staticmethod
    def of(arrays: Mapping[str, Any], forms: Collection[str] = (NPZ,)) -> "WireArrays":
        """Arrays by name, in one of some forms. Raises `CompileError` on what is no array."""
        named = {name: np.asarray(value, order="C") for name, value in arrays.items()}
        problems = [
            Problem(f"input {name!r}", "is no array of numbers or texts", "Run it here instead.")
            for name, value in named.items()
            if value.dtype.hasobject or isinstance(arrays[name], list | tuple)
        ]
        if problems:
            raise CompileError(problems)
        if _safetensors is not None and SAFETENSORS in forms and _are_plain(named):
            return WireArrays(SAFETENSORS, _safetensors.save(named))
        stream = io.BytesIO()
        write_npz(stream, named)
        return WireArrays(NPZ, stream.getvalue())

    def arrays(self, most: int) -> dict[str, Array]:
        """The arrays. most: bytes that they may have when unpacked.

        Raises `CompileError` on anything that is not such a body.
        """
        is_plain = self.form == SAFETENSORS and _safetensors is not None
        try:
            if is_plain:
                _verify_size(len(self.data), most)
                return dict(_safetensors.load(self.data))
            return _unpacked(self.data, most)
        except _FAULTS as error:
            kind = ".safetensors" if is_plain else ".npz"
            raise CompileError(Problem("body", f"is no {kind} file: {error}")) from None


def _are_plain(arrays: Mapping[str, Array]) -> bool:
    """Whether `SAFETENSORS` can hold arrays, under names that it does not use itself."""
    return "__metadata__" not in arrays and all(
        array.dtype in _PLAIN and name.isprintable() for name, array in arrays.items()
    )


def _unpacked(data: bytes, most: int) -> dict[str, Array]:
    """The arrays of a file that ``numpy.savez`` wrote."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        _verify_size(sum(member.file_size for member in members), most)
        return {
            member.filename.removesuffix(".npy"): np.lib.format.read_array(
                io.BytesIO(archive.read(member)), allow_pickle=False
            )
            for member in members
        }


def _verify_size(size: int, most: int) -> None:
    if size > most:
        raise CompileError(Problem("body", f"has {size:,} bytes, at most {most:,} may be"))
