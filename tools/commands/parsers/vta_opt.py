"""The arguments of ``vta-opt``, and what is wrong with them."""

import argparse
import json
from typing import Any

from vtac.tools.commands.arguments import file_of, verify_paths, verify_used
from vtac.tools.commands.parsers.argument_parser import (
    ArgumentParser,
    add_quiet_argument,
    asks_for_json,
)
from vtac.tools.commands.parsers.tuning import add_tuning_arguments, tuning_files, unused_tuning

SEPARATOR = "// -----"
MLIR, ONNX = "mlir", "onnx"


class _ListXdslPasses(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from xdsl.transforms import get_all_passes

        names = sorted(get_all_passes())
        print(json.dumps(names, indent=2) if asks_for_json(parser) else "\n".join(names))
        parser.exit()


def argument_parser() -> argparse.ArgumentParser:
    """The parser, with xDSL's options for input and printing, and ours."""
    parser = ArgumentParser(
        prog="vta-opt",
        description="Run passes over IR, or over an ONNX model, and print the IR.",
        epilog="The passes of vtac and their options: vta-opt --list-passes.",
    )
    add = parser.add_argument
    add("input_file", nargs="?", help="a file of IR, or an ONNX model; standard input without one")
    add("-f", "--frontend", choices=(MLIR, ONNX), help="what the input is, if not as its name ends")
    add(
        "-p",
        "--passes",
        type=str,  # may be empty, as what vta-compile --print-pipeline prints
        help="passes in order: NAME,NAME{option=value},...",
    )
    add(
        "--from",
        dest="start",
        metavar="LEVEL",
        help="take up IR of a level: run the passes of"
        " the default pipeline that follow it (levels: imported, canonical, calibrated, quantised,"
        " graph, te, loops, vta); other options' pipelines: vta-compile --print-pipeline",
    )
    add("--to", dest="end", metavar="LEVEL", help="stop the default pipeline at a level")
    add("--calibrate", metavar="DATA", help="samples, for --from imported or canonical")
    add("-o", "--output-file", help="where to write; large constants go to FILE.npz")
    add("--target", help="set vtac.target: the name of a preset, or a vta_config.json")
    add_tuning_arguments(parser)
    flags = {
        "allow-unregistered-dialect": "accept ops and attributes that no dialect defines",
        "no-implicit-module": "demand the module around the ops of the input",
        "disable-verify": "let no verifier look at the module",
        "verify-roundtrip": "before all passes, print the module in both forms, parse that again,"
        " and refuse it where something has changed",
        "print-between-passes": "print the IR after each pass",
        "time-passes": "print the seconds of each pass (to stderr)",
        "split-input-file": f"take the parts between lines of '{SEPARATOR}' one by one",
        "verify-diagnostics": "print refusals of verifiers and passes, and exit with 0",
        "parsing-diagnostics": "print errors of the parser, and exit with 0",
        "print-op-generic": "print ops in their generic form",
        "print-no-properties": "print properties as attributes",
        "print-debuginfo": "print locations",
        "syntax-highlight": "print in colours",
    }
    for name, text in flags.items():
        add(f"--{name}", action="store_true", help=text)
    _add_output_arguments(parser)
    return parser


def _add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for what is printed beside the IR, or instead of it."""
    add = parser.add_argument
    add("-v", "--verbose", action="store_true", help="print each pass as it begins (to stderr)")
    add_quiet_argument(parser)
    add(
        "--list-passes",
        action="store_true",
        help="print the passes of vtac, what each does, and its options, and stop",
    )
    add(
        "--json",
        action="store_true",
        help="print the list of --list-passes or --list-xdsl-passes, or the seconds of"
        " --time-passes, as JSON",
    )
    add(
        "--list-xdsl-passes",
        action=_ListXdslPasses,
        nargs=0,
        help="print the names of xDSL's own passes, which can be used as well",
    )


def verify(args: argparse.Namespace) -> None:
    """Raise `CompileError` on paths that cannot be used."""
    read = args.calibrate, file_of(args.target), *(tuning_files(args) or [])
    verify_used([unused_tuning(args)])
    verify_paths(read, [args.output_file], rewritten=[args.input_file])
