"""How the commands fail: what is wrong, on standard error, and exit status 1.

What a user caused arrives as `CompileError`, `TargetError` or one of xDSL's diagnostics. Anything
else is a fault of ours and keeps its traceback.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import TargetError

USER_ERRORS = (CompileError, TargetError, DiagnosticException, ParseError, ArgSpecParseError)
"""Exceptions that say what a user did wrong."""


class ArgumentParser(argparse.ArgumentParser):
    """argparse with our exit status and the hint to --help."""

    def error(self, message: str) -> NoReturn:
        """One line, exit status 1."""
        self.exit(1, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def problems_of(error: BaseException) -> list[Problem]:
    """What an exception of `USER_ERRORS` has to say."""
    if isinstance(error, CompileError):
        return error.problems
    if isinstance(error, ParseError):
        location = error.span.get_location()
        context = error.span.print_with_context().split("\n", 1)[1].rstrip()
        return [Problem(f"{location}", f"error: {error.msg.strip()}\n{context}")]
    return [Problem("", str(error).strip())]


def run_command(main: Callable[[], None], name: str) -> None:
    """Run a command's body; on an error of the user's print it and exit with status 1."""
    try:
        main()
        sys.stdout.flush()
    except USER_ERRORS as error:
        for problem in problems_of(error):
            print(
                problem if ": error: " in str(problem) else f"{name}: error: {problem}",
                file=sys.stderr,
            )
        sys.exit(1)
    except BrokenPipeError:
        # Whoever read our output has seen enough; what is left in the buffer has no reader.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def close_matches(word: str, choices: Sequence[str]) -> str:
    """`` (did you mean ...?)``, or nothing."""
    import difflib

    found = difflib.get_close_matches(word, choices, n=3)
    return f" (did you mean {' or '.join(found)}?)" if found else ""
