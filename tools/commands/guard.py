"""The guard around every command: interruptions and failing streams end it with one line.

Exit statuses of all commands:
  0    the command did what was asked;
  1    it did not; standard error says why, with a line for each thing that is wrong;
  130  it was interrupted (Ctrl-C).
No file is half written in any of these cases. A traceback is a fault of ours.

This module imports little, so the guard is in force before a command imports what it needs, which
takes most of its first second.
"""

import io
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from vtac.dialects.errors import CompileError, Problem
from vtac.tools.commands.entry import INTERRUPTED

FAILED = 1


@contextmanager
def guard(command: str) -> Iterator[None]:
    """Run the body of a command, flush standard output, and turn failures into an exit status."""
    _buffer_output()
    try:
        try:
            with _interruptions() as interrupted:
                yield
        finally:  # also where argparse exits after its help
            sys.stdout.flush()
    except KeyboardInterrupt:
        _end(INTERRUPTED)
    except (ImportError, SystemError):
        if not interrupted:
            raise
        _end(INTERRUPTED)
    except CompileError as error:
        print_problems(command, error.problems)
        _end(FAILED)
    except BrokenPipeError:  # whoever read our output has seen enough
        _end(FAILED)
    except OSError as error:
        place = error.filename if error.filename is not None else "standard output"
        _end(FAILED, f"{command}: error: {place}: {error.strerror or error}")
    except RecursionError:
        _end(FAILED, f"{command}: error: the input is nested too deeply")
    except MemoryError:
        _end(FAILED, f"{command}: error: there is not enough memory")


def print_problems(command: str, problems: Iterable[Problem]) -> None:
    """Print what is wrong on standard error, a line or more for each problem."""
    for problem in problems:
        known = ": error: " in str(problem)
        print(problem if known else f"{command}: error: {problem}", file=sys.stderr)


@contextmanager
def _interruptions() -> Iterator[list[int]]:
    """A list that is not empty once there was a Ctrl-C.

    Modules in C turn an interruption of their initialisation into an error of another type.
    """
    seen: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        raise KeyboardInterrupt

    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if not is_ours:
        yield seen
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _buffer_output() -> None:
    """Give standard output a buffer if it has none, as with PYTHONUNBUFFERED.

    Without a buffer Python loses what a full disk or a pipe does not take of a long text, and does
    not say so.
    """
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and isinstance(raw := out.buffer, io.FileIO):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(raw.fileno(), "w", closefd=False)),
            out.encoding,
            out.errors,
            line_buffering=out.isatty(),
        )


def _end(status: int, message: str = "") -> None:
    """Exit; point standard output at nothing, so that Python does not report its lost buffer."""
    if message:
        with suppress(OSError):
            print(message, file=sys.stderr)
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    raise SystemExit(status)
