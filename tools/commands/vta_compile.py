"""``vta-compile``: compiles an ONNX model to a package."""

import argparse
import json
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import changed_machine, machine_of
from vtac.dialects.wording import counted
from vtac.passes.graph.quantise_options import QuantiseOptions
from vtac.passes.pipeline import Pipeline
from vtac.runtime.atomic import write_whole
from vtac.runtime.calibration_methods import PERCENT
from vtac.runtime.executor import Module
from vtac.tools.commands.accuracy import accuracy_values, evaluated, print_accuracy, print_json
from vtac.tools.commands.diagnostics import run_command
from vtac.tools.commands.explain_order import Order
from vtac.tools.commands.explanation import by_cost, hosted_table, node_cycles, tuning_line
from vtac.tools.commands.parsers.shapes import parse_shapes
from vtac.tools.commands.parsers.tuning import tuning_files
from vtac.tools.commands.parsers.vta_compile import (
    argument_parser,
    measures_layers,
    output_of,
    verify,
)
from vtac.tools.commands.partition_arguments import chosen_names, criteria_of
from vtac.tools.commands.presentation import (
    choices_table,
    levels_table,
    placements_table,
    seconds_table,
    tried_table,
    uncut_table,
)
from vtac.tools.commands.progress import shown_steps
from vtac.tools.commands.report_json import compilation_values
from vtac.tools.commands.timing_output import changes_of
from vtac.tools.driver.compiler import compile_model
from vtac.tools.driver.discovery import chosen_codegens
from vtac.tools.driver.levels import CALIBRATED, IMPORTED, calibration, part_of, pipeline_of
from vtac.tools.driver.options import CompileOptions, Observe, Progress
from vtac.tools.driver.throughput import Throughput, compile_for_throughput
from vtac.tools.files.ir_files import note_constants
from vtac.tools.reports.cluster_plan import PlanRecorder, clusters_of, copies_table
from vtac.tools.reports.partition_report import regions_table, share_lines


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the command."""
    run_command(lambda: _compile(argument_parser().parse_args(args)), "vta-compile")


def _compile(args: argparse.Namespace) -> None:
    verify(args)
    if args.print_pipeline:
        text = str(_pipeline(args))
        print(json.dumps({"pipeline": text}) if args.json else text)
        return
    args.output = output_of(args)
    plans = PlanRecorder() if args.plan or args.plan_picture else None
    with (
        shown_steps(quiet=args.quiet, verbose=args.verbose) as progress,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # printed from the report below
        module, found = _compiled(args, progress, plans)
    warned = module.report.warnings
    if args.strict and warned:
        raise CompileError([Problem("", text, "(--strict)") for text in warned])
    size = module.save(args.output) if args.output else 0
    for note in () if args.quiet else module.report.notes:
        print(f"vta-compile: note: {note}", file=sys.stderr)
    for warning in warned:
        print(f"vta-compile: warning: {warning}", file=sys.stderr)
    if plans is not None:
        _show_plan(args, module, plans)
    if found is not None:
        Console(stderr=args.json, highlight=False).print(found.table())
    _print(args, module, size)


def _compiled(
    args: argparse.Namespace, progress: Progress, plans: PlanRecorder | None
) -> tuple[Module, Throughput | None]:
    """The module, and with ``--throughput`` the batches that were tried."""
    machine = changed_machine(machine_of(args.target), changes_of(args.set))
    options = _options(args, progress, plans)
    if args.throughput is None:
        return compile_model(args.model, machine, args.calibrate, options), None
    batches = args.throughput or None
    found = compile_for_throughput(args.model, machine, args.calibrate, batches, options)
    return found.module, found


def _show_plan(args: argparse.Namespace, module: Module, plans: PlanRecorder) -> None:
    """Print and draw the plan, as the arguments ask for."""
    found = plans.plans
    if not found:
        what = "there is none: nothing of the model runs on a cluster"
        raise CompileError(Problem("--plan", what, "Choose one with --target cluster-8."))
    if args.plan:
        console = Console(stderr=args.json, highlight=False)
        for each in found:
            console.print(each.table)
            for line in each.totals:
                console.print(line, soft_wrap=True)
        for program in clusters_of(module):
            copies = copies_table(program)
            if copies is not None:
                console.print(copies)
    if args.plan_picture:
        path = Path(args.plan_picture)
        for number, each in enumerate(found):
            name = path if len(found) == 1 else path.with_stem(f"{path.stem}.{number:03d}")
            write_whole(name, each.picture.encode())


def _print(args: argparse.Namespace, module: Module, size: int) -> None:
    """Print what was asked for, and where the package of ``size`` bytes is."""
    text = module.report.ir.get(args.emit, "") if args.emit else ""
    if args.emit:
        if not args.json:
            sys.stdout.write(text)
        named = set(re.findall(r'#vtac\.resource<"([^"]+)"', text))
        note_constants(len(named), "vta-compile", "--save-ir DIR writes them beside it")
    if args.explain:
        _explain(module, Console(stderr=args.json), args.explain_order)
    found = None
    if args.evaluate:
        found = evaluated(module, args.evaluate, args.model, args.limit, quiet=args.quiet)
    errors = module.report.layer_errors if measures_layers(args) else None
    if args.json:
        values = {**compilation_values(module, args.output), **accuracy_values(found, errors)}
        print_json({**values, "ir": text} if args.emit else values)
    else:
        print_accuracy(found, errors, as_json=False)
    if args.output and not args.quiet:
        aside = args.emit or args.json
        print(summary(module, args.output, size), file=sys.stderr if aside else sys.stdout)


def _options(
    args: argparse.Namespace, progress: Progress | None = None, observe: Observe | None = None
) -> CompileOptions:
    levels = (IMPORTED, *_pipeline(args).levels)
    if args.emit is not None and args.emit not in levels:
        what = f"there is no level '{args.emit}'"
        raise CompileError(Problem("--emit", what, f"Levels: {', '.join(levels)}."))
    return CompileOptions(
        shapes=parse_shapes(args.shape),
        batch=args.batch,
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
        tuning=tuning_files(args),
        trials=not args.no_trials,
        save_ir=args.save_ir,
        keep_ir=levels if args.keep_ir else [args.emit] if args.emit else [],
        observe=observe,
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


def _explain(module: Module, console: Console, order: Order) -> None:
    report, partition = module.report, module.report.partition
    cycles = node_cycles(partition.hosted, report.choices)
    console.print(placements_table(by_cost(report.placements, cycles, order), cycles))
    if partition.regions:
        console.print(regions_table(partition))
    hosted = hosted_table(report, order)
    if hosted.row_count:
        console.print(hosted)
    for line in share_lines(partition):
        console.print(line, highlight=False)
    console.print(f"one run: {module.crossings.text}", highlight=False)
    if module.report.choices:
        console.print(choices_table(module.report.choices))
    if line := tuning_line(report):
        console.print(line, highlight=False)
    if report.uncut:
        console.print(uncut_table(report.uncut))
    if report.tried:
        console.print(tried_table(report.tried))
    console.print(levels_table(module.report.levels))
    console.print(seconds_table(module.report))


def summary(module: Module, path: str, size: int) -> str:
    """One line: the file of ``size`` bytes, and what of the model the accelerator runs."""
    host = sum(placement.where == "host" for placement in module.explain)
    nodes = len(module.explain)
    instructions = sum(module.report.instructions.values())
    programs = len(module.package.functions)
    return (
        f"{path}: {size:,} bytes; {nodes - host} of {counted(nodes, 'node')} on the accelerator in"
        f" {counted(programs, 'program')} of {counted(instructions, 'instruction')};"
        f" {module.report.total_seconds:.1f} s"
    )
