"""Files that appear whole or not at all: written beside their place, then renamed into it.

What is there already keeps its place: a symbolic link is followed, and a device or a named pipe is
written to and not replaced. What was in a file stays if the new content cannot be written.
"""

import errno
import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path

from vtac.dialects.errors import CompileError, Problem

_NUMBERS = count()

_STAYS = (errno.EBUSY, errno.EXDEV)
"""Errors that say that a file cannot be replaced, but written to, such as one that is mounted."""


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path, whose content becomes that of ``path`` unless there is an error.

    Raises `CompileError` if ``path`` is a folder or cannot be written.
    """
    text = os.fspath(path)
    try:
        if is_file(path):
            with _beside(text) as temporary:
                yield temporary
        else:
            with tempfile.TemporaryDirectory() as folder:
                yield (temporary := Path(folder) / "content")
                with temporary.open("rb") as source, open(text, "wb") as stream:
                    shutil.copyfileobj(source, stream)
    except OSError as error:
        raise CompileError(Problem(text, f"cannot write it: {error.strerror or error}")) from None


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether a path is, or may become, a regular file; devices and pipes are none.

    Raises `CompileError` on a folder.
    """
    text = os.fspath(path)
    try:
        mode = os.stat(text).st_mode
    except OSError as error:  # there is nothing, or a link to nothing
        if error.errno == errno.ELOOP:
            raise CompileError(Problem(text, f"cannot write it: {error.strerror}")) from None
        mode = stat.S_IFREG
    if stat.S_ISDIR(mode) or text.endswith(os.sep) or Path(text).name in ("", ".."):
        raise CompileError(Problem(text, "is a folder", "Name a file to write."))
    return stat.S_ISREG(mode)


@contextmanager
def _beside(path: str) -> Iterator[Path]:
    """A temporary path in the folder of a regular file, renamed to the file at the end."""
    final = Path(os.path.realpath(path))
    temporary = final.with_name(f".{os.getpid()}.{next(_NUMBERS)}.part")
    try:
        if final.exists() and not os.access(final, os.W_OK):
            raise PermissionError(None, "it is read-only")
        yield temporary
        if final.exists():
            _keep_owner_and_mode(final, temporary)
        try:
            os.replace(temporary, final)
        except OSError as error:
            if error.errno not in _STAYS:
                raise
            shutil.copyfile(temporary, final)
    finally:
        temporary.unlink(missing_ok=True)


def _keep_owner_and_mode(old: Path, new: Path) -> None:
    shutil.copymode(old, new)
    status = old.stat()
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(OSError):  # only the administrator may
            os.chown(new, status.st_uid, status.st_gid)


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file, whole or not at all. Raises `CompileError` as `whole_file` does."""
    with whole_file(path) as temporary:
        temporary.write_bytes(data)


def write_together(folder: str | os.PathLike[str], files: Mapping[str, bytes]) -> None:
    """Write the files of a folder, all or none; the folder is made if it is missing.

    Only when all contents lie beside their places are they renamed into them, one right after the
    other and not interrupted by Ctrl-C. Raises `CompileError` as `whole_file` does.
    """
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CompileError(Problem(str(path), f"cannot make it: {error.strerror}")) from None
    with ExitStack() as opened:
        for name, data in files.items():
            opened.enter_context(whole_file(path / name)).write_bytes(data)
        with _undisturbed():
            opened.close()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Put off an interruption until the body has ended. Only the main thread is interrupted."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    seen: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if seen:
            signal.raise_signal(signal.SIGINT)


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a file. Raises `CompileError` if there is none or it cannot be read."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CompileError(
            Problem(str(path), f"cannot read it: {error.strerror or error}")
        ) from None
