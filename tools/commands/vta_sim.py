"""``vta-sim``: time a program on a machine, and say where its cycles go.

    vta-sim program.npz --target chisel-pynq
    vta-sim program.bin --target chisel-de10 --set latency=32 --set read_channels=2
    vta-sim model.vtapkg --timeline timeline.png --roofline roofline.png --trace trace.json

A cluster's program is a folder of streams, one file per unit (``core0.bin``, ..., ``dma.bin``).
The clock needs no data; ``--check`` also looks for hazards in the same program.
"""

import argparse
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from vtac.dialects.array_files import read_npz
from vtac.dialects.context import VtacContext
from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import TIMING_FIELDS, TIMING_PRESETS, Machine, Target, machine_of
from vtac.dialects.vta import ClusterOp, ProgramOp
from vtac.dialects.vta.cluster_program import BinaryCluster
from vtac.dialects.vta.encoding import EncodingError
from vtac.dialects.vta.program import BinaryProgram
from vtac.lowering.vta_to_binary import encode_cluster, encode_program
from vtac.runtime.atomic import read_whole
from vtac.runtime.hazards import image_of
from vtac.sim import SimulationError, TimingReport, check, estimate
from vtac.sim.timing.render import as_csv, as_json, as_table
from vtac.tools.commands.diagnostics import run_command
from vtac.tools.commands.parsers.vta_sim import argument_parser, verify
from vtac.tools.commands.positions import Positions, parse_module, verify_module
from vtac.tools.commands.progress import shown_steps
from vtac.tools.commands.timing_output import (
    chosen_preset,
    write_report_files,
)
from vtac.tools.driver.discovery import load_dialects
from vtac.tools.files.ir_files import load_resources_beside
from vtac.tools.files.program_files import read_any_program, verify_machine

Image = NDArray[np.uint8]


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the command."""
    run_command(lambda: _simulate(argument_parser().parse_args(args)), "vta-sim")


def _simulate(args: argparse.Namespace) -> None:
    verify(args)
    if args.list_presets:
        _print_presets(as_json=args.json)
        return
    machine = machine_of(args.target) if args.target else None
    if Path(args.program).is_dir():
        from vtac.tools.commands.cluster_simulation import simulate_cluster, streams_of_folder

        simulate_cluster(args, streams_of_folder(args.program, machine))
        return
    with shown_steps(quiet=args.quiet, verbose=args.verbose) as step:
        step(f"read {args.program}")
        program, resources = _read(args.program, machine, args.function)
    if isinstance(program, BinaryCluster):
        from vtac.tools.commands.cluster_simulation import simulate_cluster, streams_of_program

        simulate_cluster(args, streams_of_program(program, resources))
        return
    preset = chosen_preset(args, program.target)
    with shown_steps(quiet=args.quiet, verbose=args.verbose) as step:
        step("time the program")
        try:
            addresses = program.place()
            words = program.relocate(addresses)
            layers = program.names.layers if program.names is not None else ()
            labels = layers if len(layers) == len(words) else None
            report = estimate(program.target, words, preset, labels)
        except (SimulationError, EncodingError) as error:
            raise CompileError(Problem(args.program, str(error))) from None
        write_report_files(args, [(program.name, report)])
    _print_report(args, report)
    if args.check:
        image = _image(args.program, program, resources, addresses)
        _check(args, program.target, words, image)


def _read(
    path: str, target: Machine | None, function: str | None
) -> tuple[BinaryProgram | BinaryCluster, dict[str, NDArray[Any]]]:
    if Path(path).suffix != ".mlir":
        return read_any_program(path, target, function)
    ctx = VtacContext()
    load_dialects(ctx)
    load_resources_beside(ctx, path)
    positions = Positions(path)
    try:
        text = read_whole(path).decode()
    except UnicodeDecodeError:
        raise CompileError(Problem(path, "is not text in UTF-8")) from None
    module = parse_module(ctx, text, positions)
    verify_module(module, positions)
    kinds = ProgramOp | ClusterOp
    programs = {op.sym_name.data: op for op in module.walk() if isinstance(op, kinds)}
    name = function or next(iter(programs), "")
    if name not in programs or (function is None and len(programs) > 1):
        known = ", ".join(programs) or "none"
        raise CompileError(Problem(path, f"its programs are: {known}", "Choose with --function."))
    found = programs[name]
    program = encode_cluster(found) if isinstance(found, ClusterOp) else encode_program(found)
    verify_machine(path, program.target, target)
    return program, dict(ctx.resources)


def _print_report(args: argparse.Namespace, report: TimingReport) -> None:
    if args.json:
        sys.stdout.write(as_json(report))
    elif args.csv:
        sys.stdout.write(as_csv(report))
    elif not args.quiet:
        Console(highlight=False).print(as_table(report))


def _image(
    path: str,
    program: BinaryProgram,
    resources: dict[str, NDArray[Any]],
    addresses: dict[str, int],
) -> Image | None:
    """DRAM before launch, as far as known: the file's image, or its constants in their places."""
    if Path(path).suffix == ".npz":
        arrays = read_npz(io.BytesIO(read_whole(path)), path)
        if "dram_in" in arrays:
            return np.ascontiguousarray(arrays["dram_in"], np.uint8)
    return image_of(program, addresses, resources) if addresses else None


def _check(
    args: argparse.Namespace, target: Target, words: NDArray[np.uint64], image: Image | None
) -> None:
    with shown_steps(quiet=args.quiet, verbose=args.verbose) as step:
        step("look for hazards")
        report = check(target, words, image)
    if not report.ok:
        problems = [Problem(args.program, str(hazard)) for hazard in report.hazards]
        raise CompileError(problems)
    for warning in report.warnings:
        print(f"vta-sim: warning: {warning}", file=sys.stderr)
    if not (args.quiet or args.json or args.csv):
        print("no hazards" + ("" if report.exact else " (micro-ops unknown, taken for all)"))


def _print_presets(*, as_json: bool) -> None:
    """Print one row per value and one column per preset, or an object of values for each preset."""
    if as_json:
        fields = {"verified", *TIMING_FIELDS} - {"name"}
        found = {n: {f: getattr(p, f) for f in sorted(fields)} for n, p in TIMING_PRESETS.items()}
        print(json.dumps(found, indent=2))
        return
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("value")
    for name in TIMING_PRESETS:
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("verified", *TIMING_FIELDS):
        if name != "name":
            values = [getattr(preset, name) for preset in TIMING_PRESETS.values()]
            table.add_row(name, *(_value_text(value) for value in values))
    width = None if sys.stdout.isatty() else 120
    Console(highlight=False, width=width).print(table)


def _value_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else f"{value:g}"
