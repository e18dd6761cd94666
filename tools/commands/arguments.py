"""What is wrong with the arguments of a command, all at once.

Paths are looked at before anything is computed, so that all missing files are reported at once, and
before the rest of a command is imported: this module imports little.
"""

import argparse
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from vtac.dialects.errors import CompileError, Problem
from vtac.runtime.atomic import is_file

MACHINE_SUFFIXES = (".json", ".toml")
"""Extensions of files that describe a machine (`vtac.dialects.target.entries.SUFFIXES`), whose
package takes long to import."""

PICTURE_SUFFIXES = (".png", ".svg", ".pdf")
"""Extensions of the pictures that commands draw."""


def verify_paths(
    read: Iterable[str | None],
    written: Iterable[str | None],
    folders: Iterable[str | None] = (),
    rewritten: Iterable[str | None] = (),
) -> None:
    """Raise `CompileError` with all paths that cannot be read or written; None is no path.

    No file is both read and written, or written twice, under whatever names. folders: those of the
    paths to write that are, or will become, folders. rewritten: files to read whose place the
    output may take.
    """
    inputs, outputs = [*filter(None, read)], [*filter(None, written)]
    problems = [*filter(None, map(_unreadable, [*filter(None, rewritten), *inputs]))]
    problems += filter(None, map(_unwritable, outputs))
    problems += _overwritten(inputs, outputs)
    problems += filter(None, map(_no_folder, filter(None, folders)))
    if problems:
        raise CompileError(problems)


def file_of(spec: str | None) -> str | None:
    """The argument of ``--target`` or ``--preset`` if it is the path of a file, else None."""
    return spec if spec is not None and spec.endswith(MACHINE_SUFFIXES) else None


def _unreadable(path: str) -> Problem | None:
    try:
        if os.path.isdir(path):
            return Problem(path, "cannot read it: it is a folder")
        os.stat(path)
    except (OSError, ValueError) as error:
        return Problem(path, f"cannot read it: {getattr(error, 'strerror', None) or error}")
    return None if os.access(path, os.R_OK) else Problem(path, "cannot read it: Permission denied")


def _unwritable(path: str) -> Problem | None:
    try:
        folder = Path(os.path.realpath(path)).parent
        if is_file(path) and not folder.is_dir():
            return Problem(path, f"cannot write it: there is no folder {folder}")
    except CompileError as error:
        return error.problems[0]
    except ValueError as error:
        return Problem(path, f"cannot write it: {error}")
    return None


def _overwritten(inputs: Sequence[str], outputs: Sequence[str]) -> Iterator[Problem]:
    """Outputs that are inputs, or other outputs, behind links too. Devices and pipes may be."""
    seen = {_place(path): f"would overwrite {path}, which is read" for path in inputs}
    for path in outputs:
        place = _place(path)
        if place in seen and (not os.path.exists(path) or os.path.isfile(path)):
            yield Problem(path, seen[place], "Name another file to write.")
        seen[place] = "is named for two outputs"


def _place(path: str) -> object:
    """What is the same for all names of a file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return os.path.abspath(path)
    return status.st_dev, status.st_ino


def _no_folder(path: str) -> Problem | None:
    if os.path.exists(path) and not os.path.isdir(path):
        return Problem(path, "is a file", "Name a folder to write to.")
    return None


def verify_used(options: Iterable[tuple[str, object, str]]) -> None:
    """Raise `CompileError` with all options that would be ignored.

    options: the name of each, its value if the rest of the command makes no use of it (else None),
    and what it is for.
    """
    problems = [
        Problem(name, f"is for {purpose}")
        for name, value, purpose in options
        if value is not None and value is not False and value != []
    ]
    if problems:
        raise CompileError(problems)


def verify_picture_names(args: argparse.Namespace) -> None:
    """Raise `CompileError` early if a picture is to be written under an unknown extension."""
    for path in (args.timeline, args.roofline):
        verify_picture_name(path)


def verify_picture_name(path: str | None) -> None:
    """Raise `CompileError` on a path whose extension is not that of a picture; None is no path."""
    if path is not None and Path(path).suffix not in PICTURE_SUFFIXES:
        raise CompileError(Problem(path, f"a picture is one of {', '.join(PICTURE_SUFFIXES)}"))
