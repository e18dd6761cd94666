"""The arguments of ``vta-report``, and what is wrong with them."""

import argparse
from pathlib import Path

from vtac.tools.commands.arguments import verify_paths
from vtac.tools.commands.parsers.argument_parser import (
    ArgumentParser,
    add_quiet_argument,
    add_verbose_argument,
)
from vtac.tools.commands.parsers.clock import PRESET_HELP, add_clock_arguments


def argument_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = ArgumentParser(
        prog="vta-report",
        usage="%(prog)s PACKAGE [options]",
        description="Write a page that shows a compiled network: where each layer runs and why,"
        " cycles, waits, schedules, IR, memory, accuracy, and what would help.",
        epilog=PRESET_HELP,
    )
    add = parser.add_argument
    add("package", metavar="PACKAGE", help="what vta-compile wrote (.vtapkg)")
    add("-o", "--output", metavar="OUT.html", help="the page (default: PACKAGE.html, here)")
    add("--title", help="a name for the network (default: that of the package's file)")
    add(
        "--layer-errors",
        metavar="FILE.json",
        help="the errors of layers, as vta-compile --layer-errors --json prints them",
    )
    add(
        "--allow-native",
        action="store_true",
        help="open packages with code for this machine (codegen c); only if you trust them",
    )
    add(
        "--json",
        action="store_true",
        help="print as JSON: the page, its bytes, nodes, cycles, and what would help",
    )
    add_quiet_argument(parser)
    add_verbose_argument(parser)
    add_clock_arguments(parser.add_argument_group("clock"))
    return parser


def output_of(args: argparse.Namespace) -> str:
    """The path of the page."""
    return args.output if args.output is not None else f"{Path(args.package).stem}.html"


def verify(args: argparse.Namespace) -> None:
    """Raise `CompileError` on paths that cannot be used."""
    verify_paths([args.package, args.layer_errors], [output_of(args)])
