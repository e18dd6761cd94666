"""Files that appear whole or not at all: written beside their place, then renamed into it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vtac.dialects.errors import CompileError, Problem


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path, which is renamed to ``path`` at the end, or removed after an error.

    Raises `CompileError` if the folder cannot be written.
    """
    final = Path(path)
    temporary = final.with_name(f".{final.name}.{os.getpid()}.part")
    try:
        yield temporary
        os.replace(temporary, final)
    except OSError as error:
        raise CompileError(
            Problem(str(final), f"cannot write it: {error.strerror or error}")
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file, whole or not at all. Raises `CompileError` if the folder cannot be written."""
    with whole_file(path) as temporary:
        temporary.write_bytes(data)


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a file. Raises `CompileError` if there is none or it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CompileError(
            Problem(str(path), f"cannot read it: {error.strerror or error}")
        ) from None
