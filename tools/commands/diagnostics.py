"""How the commands fail: what is wrong, on standard error, and an exit status of `guard`.

What a user caused arrives as `CompileError` or as one of xDSL's diagnostics. Any other exception is
a fault of ours and keeps its traceback.
"""

import sys
from collections.abc import Callable, Sequence

from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError

from vtac.dialects.errors import CompileError, Problem
from vtac.tools.commands.guard import FAILED, guard, print_problems

USER_ERRORS = (CompileError, DiagnosticException, ParseError, ArgSpecParseError)
"""Exceptions that say what a user did wrong."""


def problems_of(error: BaseException) -> list[Problem]:
    """The problems that an exception of `USER_ERRORS` reports."""
    if isinstance(error, CompileError):
        return error.problems
    if isinstance(error, ParseError):
        location = error.span.get_location()
        context = error.span.print_with_context().split("\n", 1)[1].rstrip()
        return [Problem(f"{location}", f"error: {error.msg.strip()}\n{context}")]
    return [Problem("", str(error).strip())]


def run_command(main: Callable[[], None], name: str) -> None:
    """Run a command's body inside the guard; print a user's errors and exit with status 1."""
    with guard(name):
        try:
            main()
        except USER_ERRORS as error:
            print_problems(name, problems_of(error))
            sys.exit(FAILED)


def close_matches(word: str, choices: Sequence[str]) -> str:
    """A suffix `` (did you mean ...?)`` with similar choices; empty if there are none."""
    import difflib

    found = difflib.get_close_matches(word, choices, n=3)
    return f" (did you mean {' or '.join(found)}?)" if found else ""
