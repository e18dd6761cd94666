"""Outputs appear whole or not at all: written beside their place, then renamed into it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vtac.dialects.errors import CompileError, Problem


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside ``path``, renamed to it at the end, removed if anything fails.

    Raises `CompileError` where the folder cannot be written.
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
    """Write a file at once."""
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
