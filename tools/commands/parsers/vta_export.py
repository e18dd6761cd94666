"""The arguments of ``vta-export``, and what is wrong with them."""

import argparse

from vtac.tools.commands.arguments import verify_paths
from vtac.tools.commands.parsers.argument_parser import (
    ArgumentParser,
    add_quiet_argument,
    add_verbose_argument,
)

_EPILOG = """\
example:
  vta-export digits.vtapkg --c digits_c
  make -C digits_c
  digits_c/model --help
  digits_c/model input.bin output.bin

What has no C is told node by node, with the way out, and nothing is written then. docs/export.md
lists the operators that are exported and shows how to port the project to a board.
"""


def argument_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = ArgumentParser(
        prog="vta-export",
        usage="%(prog)s PACKAGE --c DIR [options]",
        description="Write a compiled package as a C99 project without dependencies, and print the"
        " plan of its memory.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("package", metavar="PACKAGE", help="what vta-compile wrote (.vtapkg)")
    add(
        "--c",
        metavar="DIR",
        required=True,
        help="the folder of the project; made if it is missing, else files of the same names are"
        " replaced",
    )
    add("--json", action="store_true", help="print the plan of the memory as JSON")
    add_quiet_argument(parser)
    add_verbose_argument(parser)
    return parser


def verify(args: argparse.Namespace) -> None:
    """Raise `CompileError` on paths that cannot be used."""
    verify_paths([args.package], [], [args.c])
