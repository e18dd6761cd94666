"""``vta-compile``: compiles an ONNX model to a package."""

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

from rich.console import Console

from vtac.dialects.errors import CompileError, Problem
from vtac.passes.graph.codegen import QuantiseOptions
from vtac.passes.graph.quantize.numbers import Requantise, Sharing
from vtac.passes.pipeline import Pipeline
from vtac.runtime.calibration import METHODS, PERCENT
from vtac.runtime.executor import Module
from vtac.tools.accuracy import add_accuracy_arguments, evaluated, print_accuracy
from vtac.tools.arguments import (
    add_shape_argument,
    file_of,
    finite_number,
    parse_shapes,
    percentage,
    verify_paths,
    verify_used,
)
from vtac.tools.compiler import compile_model
from vtac.tools.diagnostics import ArgumentParser, run_command
from vtac.tools.discovery import chosen_codegens
from vtac.tools.levels import CALIBRATED, IMPORTED, calibration, part_of, pipeline_of
from vtac.tools.options import CompileOptions, Progress
from vtac.tools.partition_arguments import add_partition_arguments, chosen_names, criteria_of
from vtac.tools.partition_report import hosted_table, regions_table, share_lines
from vtac.tools.presentation import choices_table, levels_table, placements_table, seconds_table


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the command."""
    run_command(lambda: _compile(_parser().parse_args(args)), "vta-compile")


SUFFIX = ".vtapkg"
EXAMPLES = """examples:
  vta-compile model.onnx --calibrate samples.npz
  vta-compile model.onnx -o model.vtapkg --calibrate samples.npz --explain
  vta-compile model.onnx --calibrate samples.npz --evaluate test.npz --layer-errors
  vta-compile model.onnx --target my_config.json --calibrate samples.npz --emit te
"""


def _parser() -> argparse.ArgumentParser:
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
    add(
        "--target",
        default="pynq",
        help="the name of a preset, or the path of a vta_config.json (default: %(default)s)",
    )
    add_shape_argument(parser)
    _add_quantisation_arguments(parser)
    add_accuracy_arguments(parser)
    add_partition_arguments(parser)
    add = parser.add_argument_group("what to see").add_argument
    add("--explain", action="store_true", help="print what runs where and why, and the levels")
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
    return parser


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


def _compile(args: argparse.Namespace) -> None:
    measures = args.layer_errors or args.error_samples or args.min_layer_snr is not None
    if args.print_pipeline:
        print(_pipeline(args))
        return
    if args.start is not None:
        raise CompileError(Problem("--from", "chooses what --print-pipeline prints"))
    if args.model is None:
        raise CompileError(Problem("", "say which model to compile", "See vta-compile --help."))
    if not (args.output or args.emit or args.explain or args.save_ir or args.evaluate or measures):
        args.output = f"{Path(args.model).stem}{SUFFIX}"
    _verify(args, measures)
    errors = Console(stderr=True)
    with _progress(errors) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # printed from the report below
        module = compile_model(args.model, args.target, args.calibrate, _options(args, progress))
    warned = module.report.warnings
    if args.strict and warned:
        raise CompileError([Problem("", text, "(--strict)") for text in warned])
    if args.output:
        module.save(args.output)
    for note in module.report.notes:
        print(f"vta-compile: note: {note}", file=sys.stderr)
    for warning in warned:
        print(f"vta-compile: warning: {warning}", file=sys.stderr)
    if args.emit:
        sys.stdout.write(module.report.ir.get(args.emit, ""))
    if args.explain:
        _explain(module, Console(stderr=args.json))
    if args.evaluate or measures:
        found = None
        if args.evaluate:
            found = evaluated(module, args.evaluate, args.model, args.limit)
        print_accuracy(found, module.report.layer_errors if measures else None, args.json)
    if args.output:
        aside = args.emit or args.json
        print(summary(module, args.output), file=sys.stderr if aside else sys.stdout)


def _verify(args: argparse.Namespace, measures: bool) -> None:
    """Raise `CompileError` on paths that cannot be used and on options that would be ignored."""
    read = (args.model, args.calibrate, args.evaluate, args.error_samples, file_of(args.target))
    verify_paths(read, [args.output], [args.save_ir])
    if args.json and not (args.evaluate or measures):
        hint = "Say --evaluate DATA or --layer-errors."
        raise CompileError(Problem("--json", "there is nothing to print as JSON", hint))
    verify_used(
        (
            ("--limit", None if args.evaluate else args.limit, "--evaluate"),
            ("--keep-ir", not args.output and args.keep_ir, "the package: say --output"),
            (
                "--percentile",
                None if args.method == "percentile" else args.percentile,
                "--method percentile",
            ),
        )
    )


def _options(args: argparse.Namespace, progress: Progress | None = None) -> CompileOptions:
    levels = (IMPORTED, *_pipeline(args).levels)
    if args.emit is not None and args.emit not in levels:
        what = f"there is no level '{args.emit}'"
        raise CompileError(Problem("--emit", what, f"Levels: {', '.join(levels)}."))
    return CompileOptions(
        shapes=parse_shapes(args.shape),
        shift=args.shift,
        requantise=args.requantise,
        method=args.method,
        percentile=_percentile(args),
        layer_errors=args.layer_errors,
        min_layer_snr=args.min_layer_snr,
        error_samples=args.error_samples,
        codegens=chosen_names(args),
        criteria=criteria_of(args),
        keep_float=args.keep_float,
        save_ir=args.save_ir,
        keep_ir=levels if args.keep_ir else [args.emit] if args.emit else [],
        progress=progress,
    )


def _percentile(args: argparse.Namespace) -> float:
    return PERCENT if args.percentile is None else float(args.percentile)


def _pipeline(args: argparse.Namespace) -> Pipeline:
    """The pipeline that the arguments lead to, or its part after ``--from``."""
    is_calibrated = args.calibrate is not None or args.start == CALIBRATED
    options = QuantiseOptions(args.shift, args.requantise)
    calibrate = calibration(args.calibrate or "", method=args.method, percentile=_percentile(args))
    pipeline = pipeline_of(
        chosen_codegens(chosen_names(args)),
        criteria_of(args),
        options,
        calibrate if is_calibrated else None,
    )
    return part_of(pipeline, args.start, None)


@contextmanager
def _progress(console: Console) -> Iterator[Progress]:
    """A callback that shows the current step on a terminal, and nothing elsewhere."""
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("") as status:
        yield status.update


def _explain(module: Module, console: Console) -> None:
    console.print(placements_table(module.explain))
    partition = module.report.partition
    if partition.regions:
        console.print(regions_table(partition))
    if partition.hosted:
        console.print(hosted_table(partition))
    for line in share_lines(partition):
        console.print(line, highlight=False)
    if module.report.choices:
        console.print(choices_table(module.report.choices))
    console.print(levels_table(module.report.levels))
    console.print(seconds_table(module.report))


def summary(module: Module, path: str) -> str:
    """One line: the file, how many nodes the accelerator runs, how many instructions."""
    host = sum(placement.where == "host" for placement in module.explain)
    nodes = len(module.explain)
    instructions = sum(module.report.instructions.values())
    return (
        f"{path}: {Path(path).stat().st_size:,} bytes; {nodes - host} of {nodes} nodes on the"
        f" accelerator in {len(module.package.functions)} programs of {instructions:,}"
        f" instructions; {module.report.total_seconds:.1f} s"
    )
