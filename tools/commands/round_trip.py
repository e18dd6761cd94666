"""Checks that a module is the same after printing and parsing (``vta-opt --verify-roundtrip``).

As in ``mlir-opt``, this must hold for both forms of the text, custom and generic. Two modules are
the same if their generic forms are equal, locations included.
"""

import io

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError

from vtac.dialects.errors import CompileError, Problem
from vtac.tools.commands.diagnostics import problems_of
from vtac.tools.commands.positions import Positions, parse_module


def verify_round_trip(module: ModuleOp, ctx: Context, file: str) -> None:
    """Raise `CompileError` with a diff for each form that is not read as the same module."""
    wanted = _printed(module, generic=True)
    problems: list[Problem] = []
    for form in ("custom", "generic"):
        text = wanted if form == "generic" else _printed(module, generic=False)
        place = f"{file} (its {form} form)"
        try:
            again = parse_module(ctx, text, Positions(place))
        except (ParseError, CompileError) as error:
            problems += problems_of(error)
            continue
        found = _printed(again, generic=True)
        if found != wanted:
            import difflib

            lines = wanted.splitlines(), found.splitlines()
            diff = "\n  ".join(difflib.unified_diff(*lines, "printed", "parsed again", lineterm=""))
            problems.append(Problem(place, "error: it is another module when parsed again", diff))
    if problems:
        raise CompileError(problems)


def _printed(module: ModuleOp, *, generic: bool) -> str:
    stream = io.StringIO()
    Printer(stream, print_generic_format=generic, print_debuginfo=True).print_op(module)
    return stream.getvalue()
