"""``--tuning`` and ``--no-tuning``: which recorded schedules a command uses."""

import argparse
import os
from typing import Any, Literal

TUNING_VARIABLE = "VTAC_TUNING"
"""The environment variable with files of recorded schedules."""


def add_tuning_arguments(parser: Any) -> None:
    """Add both options to a parser or a group of one."""
    parser.add_argument(
        "--tuning",
        metavar="FILE",
        action="append",
        default=[],
        help="recorded schedules that vta-tune found, a database or a file of JSON lines, looked at"
        " before those that come with vtac; may be repeated, the first counts most (default:"
        f" ${TUNING_VARIABLE}, file names separated by '{os.pathsep}')",
    )
    parser.add_argument("--no-tuning", action="store_true", help="use no recorded schedules at all")


def unused_tuning(args: argparse.Namespace) -> tuple[str, object, str]:
    """For `verify_used`: ``--tuning`` beside ``--no-tuning``."""
    return "--tuning", args.no_tuning and args.tuning, "a compilation without --no-tuning"


def tuning_files(args: argparse.Namespace) -> list[str] | Literal[False] | None:
    """The files of recorded schedules; None for those that come with vtac, False for none."""
    if args.no_tuning:
        return False
    named = os.environ.get(TUNING_VARIABLE, "").split(os.pathsep)
    return args.tuning or list(filter(None, named)) or None
