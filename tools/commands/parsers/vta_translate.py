"""The arguments of ``vta-translate``, and what is wrong with them."""

import argparse

from vtac.tools.commands.arguments import file_of, verify_paths, verify_used
from vtac.tools.commands.parsers.argument_parser import ArgumentParser, add_quiet_argument
from vtac.tools.commands.parsers.shapes import add_shape_argument


def argument_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = ArgumentParser(
        prog="vta-translate",
        description="Translate between ONNX, IR and encoded programs.",
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--import-onnx",
        dest="action",
        action="store_const",
        const="import",
        help="ONNX to graph IR",
    )
    what.add_argument(
        "--encode",
        dest="action",
        action="store_const",
        const="encode",
        help="a vta.program of IR to a program file (.npz with buffers, .bin bare words)",
    )
    what.add_argument(
        "--decode",
        dest="action",
        action="store_const",
        const="decode",
        help="a program file, or one program of a package, to IR",
    )
    what.add_argument(
        "--disassemble",
        dest="action",
        action="store_const",
        const="disassemble",
        help="a program file, or one program of a package, to a listing",
    )
    parser.add_argument("input", help="the file to translate")
    parser.add_argument("-o", "--output", help="where to write; standard output if absent")
    parser.add_argument("--target", help="the machine of a .bin: a preset or a vta_config.json")
    parser.add_argument("--function", help="which program, where there are several")
    add_shape_argument(parser)
    parser.add_argument("--json", action="store_true", help="print the listing as JSON")
    parser.add_argument("-v", "--verbose", action="store_true", help="say what is read and written")
    add_quiet_argument(parser)
    return parser


def verify(args: argparse.Namespace) -> None:
    """Raise `CompileError` on paths that cannot be used and on options that would be ignored."""
    verify_paths((args.input, file_of(args.target)), [args.output])
    reads_program = args.action in ("decode", "disassemble")
    verify_used(
        (
            ("--shape", None if args.action == "import" else args.shape, "--import-onnx"),
            ("--target", None if reads_program else args.target, "--decode and --disassemble"),
            ("--function", args.function if args.action == "import" else None, "programs"),
            (
                "--json",
                None if args.action == "disassemble" else args.json or None,
                "--disassemble",
            ),
        )
    )
