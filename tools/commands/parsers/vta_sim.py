"""The arguments of ``vta-sim``, and what is wrong with them."""

import argparse
from pathlib import Path

from vtac.dialects.errors import CompileError, Problem
from vtac.tools.commands.arguments import file_of, verify_paths, verify_picture_names
from vtac.tools.commands.parsers.argument_parser import (
    ArgumentParser,
    add_quiet_argument,
    add_verbose_argument,
)
from vtac.tools.commands.parsers.clock import PRESET_HELP, add_clock_arguments, add_report_arguments

TARGETS = ("sim", "pynq", "de10nano", "ultra96", "chisel-pynq", "chisel-de10")
"""The names of machines (`vtac.dialects.target.PRESETS`), whose module takes long to import."""


def argument_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = ArgumentParser(
        prog="vta-sim",
        description="Time a program on a machine, and say where its cycles go.",
        epilog=f"Targets: {', '.join(TARGETS)}. {PRESET_HELP}",
    )
    parser.add_argument(
        "program",
        nargs="?",
        help="an .npz or .bin of words, vta IR (.mlir), a .vtapkg, or a folder of streams",
    )
    parser.add_argument("--function", help="which program, where there are several")
    parser.add_argument(
        "--target", help="the machine, where the file does not say: a preset or a vta_config.json"
    )
    clock = parser.add_argument_group("clock")
    add_clock_arguments(clock)
    clock.add_argument(
        "--list-presets", action="store_true", help="print every value of every preset, and stop"
    )
    output = parser.add_argument_group("output")
    add_report_arguments(output)
    output.add_argument(
        "--check", action="store_true", help="look for hazards too; exit with 1 if there are any"
    )
    add_quiet_argument(parser)
    add_verbose_argument(parser)
    return parser


def verify(args: argparse.Namespace) -> None:
    """Raise `CompileError` without a program, and on paths that cannot be used."""
    if args.list_presets:
        return
    if args.program is None:
        raise CompileError(Problem("", "say which program to time", "See vta-sim --help."))
    verify_picture_names(args)
    program = None if Path(args.program).is_dir() else args.program
    verify_paths(
        (program, file_of(args.target), file_of(args.preset)),
        (args.trace, args.timeline, args.roofline),
    )
