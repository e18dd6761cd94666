"""``vta-tune``: searches better schedules of a network's kernels, and keeps what it finds.

    vta-tune model.onnx --target chisel-pynq --calibrate samples.npz --database tune.db
    vta-compile model.onnx --target chisel-pynq --calibrate samples.npz --tuning tune.db

Subcommands look into databases and move records between them (docs/tuning.md).
"""

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from types import FrameType
from typing import Any

from rich.table import Table

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.target import Target
from vtac.tools.commands.accuracy import print_json
from vtac.tools.commands.diagnostics import run_command
from vtac.tools.commands.entry import INTERRUPTED
from vtac.tools.commands.parsers.shapes import parse_shapes
from vtac.tools.commands.parsers.vta_tune import argument_parser, is_ir, verify
from vtac.tools.commands.remote import device_at
from vtac.tools.driver.options import CompileOptions
from vtac.tools.tune.api import Tuned, TunedKernel, tune
from vtac.tools.tune.dask_pool import DaskPool
from vtac.tools.tune.measure import Measurer
from vtac.tools.tune.networks import read_kernels
from vtac.tools.tune.progress import gain_text, output, shown_progress
from vtac.tools.tune.protocol import Options
from vtac.tools.tune.remote_pool import RemotePool
from vtac.tools.tune.subcommands import run_subcommand

NAME = "vta-tune"


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the command."""
    run_command(lambda: _run(argument_parser().parse_args(args)), NAME)


def _run(args: argparse.Namespace) -> None:
    verify(args)
    if args.command is not None:
        run_subcommand(args)
        return
    target = Target.of(args.target)
    notes: list[str] = []
    with (
        _measurer(args) as measurer,
        _interruptions() as interrupted,
        shown_progress(
            args.trials, args.seconds, quiet=args.quiet, verbose=args.verbose
        ) as progress,
    ):
        found = tune(
            read_kernels(args.source) if is_ir(args) else args.source,
            target,
            args.calibrate,
            args.database,
            method=args.method,
            trials=args.trials,
            seconds=args.seconds,
            patience=args.patience,
            jobs=args.jobs,
            measurer=measurer,
            layers=args.layers,
            options=Options(
                seed=args.seed, batch=args.batch, oracle=args.oracle, screen=args.screen
            ),
            compile_options=CompileOptions(shapes=parse_shapes(args.shape)),
            fresh=args.fresh,
            select=args.select,
            prove_all=args.prove == "all",
            progress=progress,
            interrupted=interrupted,
            note=notes.append,
        )
    for note in notes:
        print(f"{NAME}: note: {note}", file=sys.stderr)
    _print(args, found)
    if found.interrupted:
        sys.stdout.flush()
        sys.exit(INTERRUPTED)
    if not found.timed:
        what = "no schedule of any kernel could be timed"
        reasons = {kernel.stopped or kernel.problem for kernel in found.kernels}
        raise CompileError(Problem("", what, "; ".join(sorted(filter(None, reasons)))))


@contextmanager
def _measurer(args: argparse.Namespace) -> Iterator[Measurer | None]:
    """The servers or workers that the arguments name, while the body runs; None if none."""
    if args.cluster:
        with closing(DaskPool(args.cluster)) as pool:
            yield pool
        return
    if not args.remote:
        yield None
        return
    with ExitStack() as opened:
        devices = [
            opened.enter_context(device_at(address, args.remote_certificates))
            for address in args.remote
        ]
        yield opened.enter_context(closing(RemotePool(devices)))


@contextmanager
def _interruptions() -> Iterator[Callable[[], bool]]:
    """Whether there was a Ctrl-C: the first one ends the search after the batches under way."""
    seen: list[int] = []
    if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):
        yield lambda: False
        return

    def note(number: int, frame: FrameType | None) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)
        # What was interrupted may be writing to sys.stderr, which cannot be entered twice.
        with suppress(OSError):
            os.write(2, f"{NAME}: the batches under way are finished and written\n".encode())

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(seen)
    finally:
        signal.signal(signal.SIGINT, before)


def _print(args: argparse.Namespace, found: Tuned) -> None:
    """The result as a table or as JSON, and the command that uses it."""
    if args.json:
        print_json(_values(found))
        return
    if args.quiet:
        return
    console = output()
    console.print(_table(found))
    if found.network is not None:
        console.print(_network_line(*found.network), soft_wrap=True)
    if found.interrupted:
        console.print("interrupted: the same command goes on from here", soft_wrap=True)
    else:
        console.print(f"to use it: {_use(args)}", soft_wrap=True)


def _table(found: Tuned) -> Table:
    """A line per kernel, and one for all calls of all of them."""
    table = Table(title=f"tuned kernels, in {found.database}", title_justify="left")
    table.add_column("layers", overflow="fold")
    table.add_column("kernel", overflow="fold")
    for name in ("calls", "trials", "default", "best", "bound", "gain"):
        table.add_column(name, justify="right")
    table.add_column("", overflow="fold")
    for each in found.kernels:
        table.add_row(
            ", ".join(each.layers) or each.name,
            each.summary,
            f"{each.calls}",
            f"{each.trials:,}",
            f"{each.default:,}",
            f"{each.cycles:,}",
            f"{each.bound:,}",
            gain_text(each.default, each.cycles),
            _state(each),
        )
    gain = gain_text(found.default, found.cycles)
    trials = sum(kernel.trials for kernel in found.kernels)
    calls = sum(kernel.calls for kernel in found.kernels)
    totals = (f"{calls}", f"{trials:,}", f"{found.default:,}", f"{found.cycles:,}", "", gain, "")
    table.add_row("all calls", "", *totals, style="bold")
    return table


def _network_line(default: int, tuned: int) -> str:
    told = (
        f"the whole network: {default:,} cycles by default, {tuned:,} with the records"
        f" ({gain_text(default, tuned)})"
    )
    if tuned <= default:
        return told
    return f"{told}; kernels overlap in it: --select FILE keeps the records that help"


def _state(kernel: TunedKernel) -> str:
    said = [kernel.stopped, "proved" if kernel.proved else kernel.problem]
    if kernel.replayed:
        said.append(f"{kernel.replayed} trials from before")
    return ", ".join(filter(None, said))


def _use(args: argparse.Namespace) -> str:
    """The command that compiles with what was found."""
    if is_ir(args):
        return f"vta-tune export {shlex.quote(args.database)} -o tune.jsonl"
    words = ["vta-compile", args.source, "--target", args.target]
    words += ["--calibrate", args.calibrate] if args.calibrate else []
    words += [part for shape in args.shape or () for part in ("--shape", shape)]
    return shlex.join([*words, "--tuning", args.select or args.database])


def _values(found: Tuned) -> dict[str, Any]:
    return {
        "database": found.database,
        "interrupted": found.interrupted,
        "default": found.default,
        "cycles": found.cycles,
        "network": None
        if found.network is None
        else {"default": found.network[0], "tuned": found.network[1]},
        "kernels": [
            {
                "name": kernel.name,
                "layers": list(kernel.layers),
                "summary": kernel.summary,
                "calls": kernel.calls,
                "trials": kernel.trials,
                "replayed": kernel.replayed,
                "default": kernel.default,
                "cycles": kernel.cycles,
                "bound": kernel.bound,
                "gain": kernel.gain,
                "proved": kernel.proved,
                "stopped": kernel.stopped,
                "problem": kernel.problem,
            }
            for kernel in found.kernels
        ],
    }
