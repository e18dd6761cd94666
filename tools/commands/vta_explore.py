"""``vta-explore``: varies the machine, and shows cycles of a model against cost.

    vta-explore model.onnx --calibrate samples.npz --picture front.png
    vta-explore model.onnx --calibrate samples.npz --vary port_bytes --database machines.db

The page docs/machines.md has more.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from rich.console import Console

from vtac.dialects.errors import CompileError, Problem
from vtac.runtime.atomic import write_whole
from vtac.sim.timing.pictures import PlotsMissing
from vtac.tools.commands.diagnostics import run_command
from vtac.tools.commands.parsers.shapes import parse_shapes
from vtac.tools.commands.parsers.vta_explore import argument_parser, space_of, verify
from vtac.tools.explore_machines.design import Design
from vtac.tools.explore_machines.evaluation import FAULT, ComparedNetwork, Evaluator, processors
from vtac.tools.explore_machines.exploration import Exploration, Progress, base_of, explore
from vtac.tools.explore_machines.outcome import Outcome
from vtac.tools.explore_machines.output import (
    csv_of,
    json_of,
    machine_files,
    machine_line,
    table_of,
)
from vtac.tools.explore_machines.page import page_of
from vtac.tools.explore_machines.pictures import front_picture
from vtac.tools.explore_machines.processes import evaluating
from vtac.tools.explore_machines.space import Candidate, MachineSpace
from vtac.tools.explore_machines.store import StudyStore

WIDTH = 160
"""Columns of the table where no terminal says how many there are."""


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the command."""
    run_command(lambda: _run(argument_parser().parse_args(args)), "vta-explore")


def _run(args: argparse.Namespace) -> None:
    space, network = _verified(args)
    evaluator, name = Evaluator(network), Path(args.model).stem
    started = time.perf_counter()
    with (
        closing(StudyStore(args.database, network.digest, name)) as store,
        evaluating(evaluator, args.jobs or processors(), args.seconds) as evaluate,
        _progress(args, space) as progress,
    ):
        base = base_of(space, store, evaluator)
        design = Design(space, args.machines, args.seed)
        found = explore(name, base, design, store, evaluate, progress)
    _write(args, found)
    _print(args, found, time.perf_counter() - started)


def _verified(args: argparse.Namespace) -> tuple[MachineSpace, ComparedNetwork]:
    """The space and the network. Raises `CompileError` with everything that is wrong."""
    verify(args)
    shapes = parse_shapes(args.shape)
    network = ComparedNetwork(args.model, args.calibrate, shapes, args.shift, args.requantise)
    return space_of(args), network


def _write(args: argparse.Namespace, found: Exploration) -> None:
    """Write the files that the arguments ask for."""
    if args.csv:
        write_whole(args.csv, csv_of(found).encode())
    if args.picture:
        try:
            picture = front_picture(found, Path(args.picture).suffix[1:])
        except PlotsMissing as error:
            raise CompileError(Problem(args.picture, str(error))) from None
        write_whole(args.picture, picture)
    if args.report:
        write_whole(args.report, page_of(found).encode())
    if args.front:
        try:
            Path(args.front).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CompileError(Problem(args.front, f"cannot make it: {error.strerror}")) from None
        for file, text in machine_files(found).items():
            write_whole(Path(args.front) / file, text.encode())


def _print(args: argparse.Namespace, found: Exploration, seconds: float) -> None:
    """Print the table or JSON, then warnings, and the time."""
    faults = [row for row in found.failed if row.outcome.why.startswith(FAULT)]
    for row in faults[:1]:
        print(
            f"vta-explore: warning: for {len(faults)} machines there was {row.outcome.why}, such as"
            f" for {row.candidate.machine}",
            file=sys.stderr,
        )
    if args.json:
        print(json_of(found))
    elif not args.quiet:
        width = None if sys.stdout.isatty() else WIDTH
        console = Console(highlight=False, width=width)
        console.print(table_of(found))
    if not args.quiet:
        print(f"vta-explore: {seconds:.1f} s", file=sys.stderr)


@contextmanager
def _progress(args: argparse.Namespace, space: MachineSpace) -> Iterator[Progress]:
    """Tells of each machine: on a terminal in place, with --verbose line by line."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    most = min(args.machines, space.size)

    def line(done: int, candidate: Candidate, outcome: Outcome, known: bool) -> str:
        what = outcome.why if outcome.cycles is None else f"{outcome.cycles:,} cycles"
        fields = machine_line(list(space.values(candidate.point).items()))
        return f"{done}/{most}  {fields}: {what}{' (known)' if known else ''}"

    if args.verbose:
        yield lambda *what: console.print(line(*what), markup=False)
    elif args.quiet or not console.is_terminal:
        yield lambda *what: None
    else:
        with console.status("") as status:
            yield lambda *what: status.update(line(*what))


if __name__ == "__main__":
    main()
