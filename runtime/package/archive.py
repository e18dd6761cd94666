"""Named files in one zip with reproducible bytes and a digest.

Entries are sorted, stored without compression, and have a fixed time, so the bytes depend on the
contents only. The comment of the zip contains the SHA-256 of everything before it, which reveals
any changed byte.
"""

import hashlib
import io
import os
import zipfile
from collections.abc import Mapping
from typing import IO

from vtac.dialects.errors import CompileError, Problem

_SEAL = b"vtapkg sha256 "
_SEAL_LENGTH = len(_SEAL) + 64
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_AT_ONCE = 1 << 20


def pack_files(files: Mapping[str, bytes]) -> bytes:
    """The zip that holds ``files``."""
    stream = io.BytesIO()
    write_files(stream, files)
    return stream.getvalue()


def write_files(stream: IO[bytes], files: Mapping[str, bytes]) -> None:
    """Write the zip that holds ``files``. stream: an empty file to write and to read."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, _LONG_AGO)
            info.create_system = 3
            info.external_attr = 0o100644 << 16
            archive.writestr(info, files[name])
        archive.comment = bytes(_SEAL_LENGTH)
    left = stream.seek(-_SEAL_LENGTH, os.SEEK_END)
    stream.seek(0)
    digest = hashlib.sha256()
    while left:
        part = stream.read(min(left, _AT_ONCE))
        digest.update(part)
        left -= len(part)
    stream.write(_SEAL + digest.hexdigest().encode())


def unpack_files(data: bytes, where: str) -> dict[str, bytes]:
    """The files of a zip of `pack_files`. Raises `CompileError` on other and on damaged files."""
    body, seal = memoryview(data)[:-_SEAL_LENGTH], data[-_SEAL_LENGTH:]
    if not seal.startswith(_SEAL):
        raise CompileError(
            Problem(where, "is not a vtac package, or its end is missing or damaged")
        )
    if hashlib.sha256(body).hexdigest().encode() != seal[len(_SEAL) :]:
        raise CompileError(
            Problem(where, "is damaged: its contents do not match its digest", "Compile it again.")
        )
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return _entries(archive, where)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, UnicodeError) as error:
        raise CompileError(Problem(where, f"is not a readable zip: {error}")) from None


def _entries(archive: zipfile.ZipFile, where: str) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for info in archive.infolist():
        if (
            info.compress_type != zipfile.ZIP_STORED
            or info.file_size != info.compress_size
            or info.flag_bits & 1
            or info.is_dir()
            or info.filename in files
        ):
            raise CompileError(
                Problem(where, f"entry {info.filename!r} is not a plain stored file")
            )
        files[info.filename] = archive.read(info)
    return files
