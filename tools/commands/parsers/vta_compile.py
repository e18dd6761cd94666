"""The arguments of ``vta-compile``, and what is wrong with them."""

import argparse
from pathlib import Path
from typing import get_args

from vtac.dialects.errors import CompileError, Problem
from vtac.passes.graph.quantise_options import Requantise, Sharing
from vtac.runtime.calibration_methods import METHODS, PERCENT
from vtac.tools.commands.arguments import file_of, verify_paths, verify_used
from vtac.tools.commands.explain_order import Order
from vtac.tools.commands.parsers.accuracy import add_accuracy_arguments
from vtac.tools.commands.parsers.argument_parser import ArgumentParser, add_quiet_argument
from vtac.tools.commands.parsers.partition import add_partition_arguments
from vtac.tools.commands.parsers.shapes import add_shape_argument
from vtac.tools.commands.parsers.tuning import (
    add_tuning_arguments,
    tuning_files,
    unused_tuning,
)
from vtac.tools.commands.parsers.types import at_least, finite_number, percentage, whole_numbers

EXAMPLES = """examples:
  vta-compile model.onnx --calibrate samples.npz
  vta-compile model.onnx -o model.vtapkg --calibrate samples.npz --explain
  vta-compile model.onnx --calibrate samples.npz --tuning tune.db --explain
  vta-compile model.onnx --calibrate samples.npz --evaluate test.npz --layer-errors
  vta-compile model.onnx --target my_config.json --calibrate samples.npz --emit te
  vta-compile model.onnx --target cluster-8 --set gb_bytes=1048576 --calibrate samples.npz --plan
  vta-compile model.onnx --target cluster-8 --calibrate samples.npz --throughput
"""


def argument_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = ArgumentParser(
        prog="vta-compile",
        usage="%(prog)s MODEL [options]",
        description="Compile an ONNX model for a VTA: what fits it runs there, the rest on the"
        " host.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("model", metavar="MODEL", nargs="?", help="the ONNX model")
    add(
        "-o",
        "--output",
        metavar="PACKAGE",
        help="the package to write (.vtapkg); MODEL.vtapkg in this folder if nothing else is asked"
        " for",
    )
    _add_target_arguments(parser)
    add_quiet_argument(parser)
    add("-v", "--verbose", action="store_true", help="print each step as it begins (to stderr)")
    _add_tuning_arguments(parser)
    _add_quantisation_arguments(parser)
    add_accuracy_arguments(parser)
    add_partition_arguments(parser)
    _add_view_arguments(parser)
    return parser


def _add_target_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--target",
        default="pynq",
        help="the name of a preset, or the path of a file that describes a machine (default:"
        " %(default)s)",
    )
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="change one value of the target, such as gb_bytes=1048576; may be given several times",
    )
    add_shape_argument(parser)
    add(
        "--batch",
        type=at_least(1),
        metavar="N",
        help="compile for N samples per run, in place of the leading dimension of every input",
    )
    add(
        "--throughput",
        nargs="?",
        const=(),
        type=whole_numbers,
        metavar="N,N,...",
        help="compile for the number of samples per run that gives most samples per second; of"
        " these, or of 1, 2, 4, ... as far as it helps",
    )


def _add_view_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what to see").add_argument
    add("--explain", action="store_true", help="print what runs where and why, and the levels")
    add(
        "--explain-order",
        choices=get_args(Order),
        default="cost",
        help="list the nodes by falling cost, or as in the model (default: %(default)s)",
    )
    add(
        "--plan",
        action="store_true",
        help="print the plan of a cluster: groups and instances in their order, the cores and the"
        " place of each layer, bytes of DDR",
    )
    add(
        "--plan-picture",
        metavar="FILE.svg",
        help="draw the plan: cores over time, and the global buffer over time",
    )
    add(
        "--emit",
        metavar="LEVEL",
        help="print the IR of a level: imported, canonical, calibrated (with samples), quantised,"
        " graph, te, loops or vta, where the codegens are the default",
    )
    add("--strict", action="store_true", help="take warnings for errors, and write no package")
    add("--save-ir", metavar="DIR", help="write the IR of every level to a folder")
    add("--keep-ir", action="store_true", help="keep the IR of every level in the package")
    add(
        "--print-pipeline",
        action="store_true",
        help="print the passes that the other options lead to, as vta-opt -p takes them, and stop;"
        " this needs no MODEL",
    )
    add(
        "--from",
        dest="start",
        metavar="LEVEL",
        help="print the part of the pipeline that follows a level; with it vta-opt takes up what"
        " --save-ir wrote",
    )


def _add_tuning_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("schedules")
    add_tuning_arguments(group)
    add = group.add_argument
    add(
        "--no-trials",
        action="store_true",
        help="for a cluster: take the plan as estimated, without comparing others on the clock",
    )


def _add_quantisation_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("quantisation").add_argument
    add(
        "--calibrate",
        metavar="DATA",
        help="samples of the inputs, .npz by input name or .npy; the first axis is the sample",
    )
    add(
        "--method",
        choices=METHODS,
        default="minmax",
        help="how ranges follow from the samples: the extremes seen, the magnitudes of"
        " --percentile, or where int8 keeps most of the distribution (default: %(default)s)",
    )
    add(
        "--percentile",
        type=percentage,
        metavar="P",
        help="the share of magnitudes that --method percentile keeps, in percent (default:"
        f" {PERCENT})",
    )
    add(
        "--requantise",
        choices=get_args(Requantise),
        default="auto",
        help="how sums return to 8 bits: by a shift, by a multiplier where the target has one, by"
        " what is most exact, or (auto) where the model has given scales by a multiplier, or with"
        " finer weights in some layers, else by a shift (default: %(default)s)",
    )
    add(
        "--shift",
        choices=get_args(Sharing),
        default="auto",
        help="what shares one requantisation shift (default: %(default)s)",
    )
    add(
        "--min-layer-snr",
        type=finite_number,
        metavar="DB",
        help="leave layers on the host whose own signal to quantisation noise is less",
    )


SUFFIX = ".vtapkg"


def measures_layers(args: argparse.Namespace) -> bool:
    """Whether the arguments ask for the errors of layers."""
    return bool(args.layer_errors or args.error_samples or args.min_layer_snr is not None)


def output_of(args: argparse.Namespace) -> str | None:
    """The path of the package; None if there is to be none, but something to see."""
    shows = (args.emit, args.explain, args.save_ir, args.evaluate, args.plan, args.plan_picture)
    if args.output or any(shows) or measures_layers(args):
        return args.output or None
    return f"{Path(args.model).stem}{SUFFIX}"


def verify(args: argparse.Namespace) -> None:
    """Raise `CompileError` on paths that cannot be used and on options that would be ignored."""
    if args.print_pipeline:
        return
    if args.start is not None:
        raise CompileError(Problem("--from", "chooses what --print-pipeline prints"))
    if args.model is None:
        raise CompileError(Problem("", "say which model to compile", "See vta-compile --help."))
    output = output_of(args)
    read = [args.model, args.calibrate, args.evaluate, args.error_samples, file_of(args.target)]
    read += tuning_files(args) or []
    verify_paths(read, [output, args.plan_picture], [args.save_ir])
    one = "one batch, not --throughput"
    verify_used(
        (
            unused_tuning(args),
            ("--plan", args.throughput is not None and args.plan, one),
            ("--plan-picture", args.throughput is not None and args.plan_picture, one),
            ("--batch", args.throughput is not None and args.batch, one),
            ("--limit", None if args.evaluate else args.limit, "--evaluate"),
            ("--keep-ir", not output and args.keep_ir, "the package: say --output"),
            (
                "--percentile",
                None if args.method == "percentile" else args.percentile,
                "--method percentile",
            ),
        )
    )
