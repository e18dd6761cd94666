"""What the arguments of `vtac.tools.commands.parsers.partition` mean."""

import argparse
from collections.abc import Mapping

from vtac.dialects.errors import CompileError, Problem
from vtac.tools.commands.parsers.partition import HOST_FIELDS, NO_HOST
from vtac.tools.driver.levels import Criteria


def chosen_names(args: argparse.Namespace) -> list[str] | None:
    """The names of the chosen codegens; None if the user chose none."""
    if args.codegen is None:
        return None
    return [name.strip() for name in args.codegen.split(",") if name.strip()]


def criteria_of(args: argparse.Namespace) -> Criteria:
    """The criteria of the arguments. Raises `CompileError` on a malformed host model."""
    text: str = args.host_model or ""
    compare = text.strip() != NO_HOST
    return Criteria(
        args.max_ops,
        args.min_macs,
        args.max_border_bytes,
        compare,
        _host(text) if compare else {},
    )


def _host(text: str) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, number = part.partition("=")
        try:
            found[name] = float(number)
        except ValueError:
            found[name] = -1.0
        least = 0.0 if name.startswith("cycles") else 1e-9
        if name not in HOST_FIELDS or not least <= found[name] < float("inf"):
            hint = f"Its names: {', '.join(HOST_FIELDS)}; rates are above 0. Or '{NO_HOST}'."
            raise CompileError(Problem(f"--host-model {part}", "is not NAME=NUMBER", hint))
    return found
