"""Files of arrays as NumPy writes them, written under any names, read without running code."""

import zipfile
import zlib
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from vtac.dialects.errors import CompileError, Problem

Array = np.ndarray[Any, np.dtype[Any]]

_MAGIC = (b"\x93NUMPY", b"PK\x03\x04", b"PK\x05\x06")
"""How files of NumPy begin."""

_HINT = "Write one with numpy.save or numpy.savez (arrays of numbers, no objects)."


def read_arrays(stream: IO[bytes], path: str) -> Array | dict[str, Array]:
    """The array of an ``.npy``, or those of an ``.npz`` by name.

    path: what the file is called in messages. Raises `CompileError` on any other content.
    """
    start = stream.read(len(_MAGIC[0]))
    stream.seek(0)
    if not any(start.startswith(magic) for magic in _MAGIC):
        what = "cannot be read: it is neither an .npy nor an .npz file"
        raise CompileError(Problem(path, what, _HINT))
    try:
        loaded = np.load(stream, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded as archive:
            return {key: archive[key] for key in archive.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise CompileError(Problem(path, f"cannot be read: {error}", _HINT)) from error


def read_npz(stream: IO[bytes], path: str) -> dict[str, Array]:
    """The arrays of an ``.npz`` by name. Raises `CompileError` on any other content."""
    found = read_arrays(stream, path)
    if isinstance(found, dict) and all(isinstance(each, np.ndarray) for each in found.values()):
        return found
    raise CompileError(Problem(path, "is no .npz file of arrays", _HINT))


def write_npz(stream: IO[bytes], arrays: Mapping[str, Array], *, compress: bool = False) -> None:
    """Write arrays by name as ``numpy.savez`` does, which cannot take names of its own arguments.

    Raises ValueError on arrays of objects.
    """
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
