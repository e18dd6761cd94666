"""Arguments that choose codegens and the criteria of a partition, and how they are read."""

import argparse
import dataclasses
from collections.abc import Mapping

from vtac.dialects.errors import CompileError, Problem
from vtac.passes.graph.codegen import HostModel
from vtac.tools.arguments import at_least
from vtac.tools.levels import Criteria

_HOST_FIELDS = tuple(field.name for field in dataclasses.fields(HostModel))
_NO_HOST = "none"


def add_partition_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--codegen`` and the criteria of a partition, in a group of their own."""
    add = parser.add_argument_group("partitioning").add_argument
    add(
        "--codegen",
        metavar="NAME,...",
        help="who may take parts of the network, by falling priority (default: vta); other packages"
        " offer codegens by entry points, such as examples/codegens",
    )
    add(
        "--keep-float",
        action="append",
        default=[],
        metavar="NODE",
        help="leave a node on the host, in floating point; may be given several times",
    )
    add("--max-ops", type=at_least(1), metavar="N", help="ops that a region may hold")
    add(
        "--min-macs",
        type=at_least(0),
        default=0,
        metavar="N",
        help="multiply-accumulates that a region must have (default: %(default)s)",
    )
    add(
        "--max-border-bytes",
        type=at_least(0),
        metavar="N",
        help="bytes that may cross a region's border",
    )
    defaults = HostModel()
    add(
        "--host-model",
        metavar="NAME=NUMBER,...",
        help="how fast the host is, in cycles of the accelerator: a region that it would finish"
        " sooner stays there; "
        + ", ".join(f"{name}={getattr(defaults, name):g}" for name in _HOST_FIELDS)
        + f" unless given; '{_NO_HOST}' offloads whatever can be",
    )


def chosen_names(args: argparse.Namespace) -> list[str] | None:
    """The names of the chosen codegens; None if the user chose none."""
    if args.codegen is None:
        return None
    return [name.strip() for name in args.codegen.split(",") if name.strip()]


def criteria_of(args: argparse.Namespace) -> Criteria:
    """The criteria of the arguments. Raises `CompileError` on a malformed host model."""
    text: str = args.host_model or ""
    compare = text.strip() != _NO_HOST
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
        if name not in _HOST_FIELDS or not least <= found[name] < float("inf"):
            hint = f"Its names: {', '.join(_HOST_FIELDS)}; rates are above 0. Or '{_NO_HOST}'."
            raise CompileError(Problem(f"--host-model {part}", "is not NAME=NUMBER", hint))
    return found
