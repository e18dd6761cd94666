"""``vta-run``: runs a package on the simulator on any number of samples, and times it.

    vta-run model.vtapkg --input samples.npz -o outputs.npz
    vta-run model.vtapkg --evaluate data.npz --reference model.onnx
    vta-run model.vtapkg --profile --preset chisel-pynq --roofline roofline.png

Cycles do not depend on data: a profile needs no samples.
"""

import argparse
import io
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track

from vtac.dialects.array_files import write_npz
from vtac.runtime.atomic import write_whole
from vtac.runtime.device import total
from vtac.runtime.executor import Module, RunRecord, load
from vtac.runtime.joining import join_batches
from vtac.runtime.samples import Samples, load_samples
from vtac.tools.commands.accuracy import evaluated, print_accuracy, print_json
from vtac.tools.commands.diagnostics import run_command
from vtac.tools.commands.parsers.vta_run import argument_parser, profiles, verify
from vtac.tools.commands.presentation import evaluation_table, time_table, work_table
from vtac.tools.commands.progress import shown_steps
from vtac.tools.commands.remote import device_at
from vtac.tools.commands.remote_profile import remote_profile_table
from vtac.tools.commands.timing_output import (
    chosen_preset,
    write_report_files,
)
from vtac.tools.reports.evaluation import Judge, Original, module_specs, told_of

Array = np.ndarray[Any, np.dtype[Any]]
Outputs = dict[str, Array]


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the command."""
    run_command(lambda: _run(argument_parser().parse_args(args)), "vta-run")


def _run(args: argparse.Namespace) -> None:
    verify(args)
    with shown_steps(quiet=args.quiet, verbose=args.verbose) as step:
        step(f"open {args.package}")
        module = _opened(args)
    if args.input is not None:
        _run_samples(args, module)
    if args.evaluate is not None:
        found = evaluated(module, args.evaluate, args.reference, args.limit, quiet=args.quiet)
        print_accuracy(found, None, args.json)
    if profiles(args):
        _profile(args, module)


def _opened(args: argparse.Namespace) -> Module:
    """The package, to be run here or at the place that the arguments name."""
    if args.remote is None:
        return load(args.package, allow_native=args.allow_native)
    return device_at(args.remote, args.remote_certificates).load(args.package)


def _profile(args: argparse.Namespace, module: Module) -> None:
    if args.remote is not None:
        from vtac.runtime.remote.client import RemoteModule

        assert isinstance(module, RemoteModule)
        with shown_steps(quiet=args.quiet, verbose=args.verbose) as step:
            step(f"time the launches at {args.remote}")
            found = module.remote_profile(args.preset)
        if args.json:
            print_json(found)
        elif found["launches"]:
            Console(highlight=False).print(remote_profile_table(found))
        else:
            print("no profile: everything runs on the host")
        return
    if module.target is None:
        print("no profile: nothing runs on a VTA")
        return
    with shown_steps(quiet=args.quiet, verbose=args.verbose) as step:
        step("time the launches")
        profile = module.profile(chosen_preset(args, module.target))
        write_report_files(args, [(launch.function, launch.timing) for launch in profile.launches])
    if args.json:
        sys.stdout.write(profile.json())
    elif args.csv:
        sys.stdout.write(profile.csv())
    elif profile.launches:
        Console(highlight=False).print(profile.table())
    else:
        print("no profile: everything runs on the host")


def _run_samples(args: argparse.Namespace, module: Module) -> None:
    samples = _samples(module, args.input)
    count = len(samples) if args.limit is None else min(len(samples), args.limit)
    console = Console(stderr=args.json or args.csv)
    told, errors = Console(stderr=console.stderr, quiet=args.quiet), Console(stderr=True)
    records: list[RunRecord] = []
    results: list[Outputs] = []
    batches = [batch for batch, _ in zip(samples, range(count), strict=False)]
    for number, batch in enumerate(_tracked(batches, "accelerator", errors, args)):
        dump = args.dump_programs if number == 0 else None
        results.append(module.run(batch, order_seed=args.order_seed, dump=dump))
        records.append(module.last_run)
    rows = min(samples.sample_count, len(batches) * samples.batch_size)
    outputs = join_batches(results, samples.batch_size, rows)
    if args.reference:
        original, judge = Original(args.reference, module), Judge(samples)
        pairs = list(zip(batches, results, strict=True))
        for batch, found in _tracked(pairs, "onnxruntime", errors, args):
            judge.add(found, original.run(batch))
        console.print(evaluation_table(judge.verdict()))
    if module.package.functions:
        told.print(work_table(total(record.counters for record in records), max(1, count)))
    told.print(time_table(records))
    if args.output:
        stream = io.BytesIO()
        write_npz(stream, outputs)
        write_whole(args.output, stream.getvalue())
        told.print(f"{args.output}: {', '.join(outputs)}", highlight=False, soft_wrap=True)


def _samples(module: Module, path: str) -> Samples:
    specs = module_specs(module)
    with told_of(path):
        return load_samples(path, specs)


def _tracked(
    batches: Sequence[Any], what: str, console: Console, args: argparse.Namespace
) -> Iterator[Any]:
    """The batches, with a progress bar on a terminal, or a line each where it is to be verbose."""
    shown = console.is_terminal and len(batches) > 1 and not (args.quiet or args.verbose)
    for number, batch in enumerate(track(batches, what, console=console, disable=not shown), 1):
        if args.verbose:
            console.print(f"{what}: batch {number} of {len(batches)}", highlight=False)
        yield batch
