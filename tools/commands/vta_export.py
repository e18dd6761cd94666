"""``vta-export``: writes a package as a C99 project, which runs without Python.

    vta-export model.vtapkg --c model_c
    make -C model_c
    model_c/model input.bin output.bin

The folder holds the whole network: weights, programs, host parts, a plan of the memory, and a
simulator of the machine in place of a board's driver (docs/export.md).
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from vtac.runtime.c_project import CProject, c_project_of
from vtac.runtime.package import read_package
from vtac.tools.commands.diagnostics import run_command
from vtac.tools.commands.parsers.vta_export import argument_parser, verify
from vtac.tools.commands.progress import shown_steps


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the command."""
    run_command(lambda: _run(argument_parser().parse_args(args)), "vta-export")


def _run(args: argparse.Namespace) -> None:
    verify(args)
    with shown_steps(quiet=args.quiet, verbose=args.verbose) as step:
        step(f"open {args.package}")
        package = read_package(args.package)
        step("write C for each part, and plan the memory")
        project = c_project_of(package)
        step(f"write {args.c}")
        project.write(args.c)
    if args.json:
        print(json.dumps(_plan(project), indent=2))
        return
    if args.quiet:
        return
    console = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
    console.print(_table(project))
    console.print("\n".join(_summary(project, Path(args.c))), soft_wrap=True)


def _table(project: CProject) -> Table:
    """Where each value lies on the host, and when it lives."""
    table = Table(title="memory of the host", title_justify="left")
    for column in ("offset", "bytes"):
        table.add_column(column, justify="right")
    table.add_column("steps")
    table.add_column("value", overflow="fold")
    for place in project.memory.places:
        span = project.memory.span(place)
        table.add_row(f"{place.offset:,}", f"{place.bytes:,}", span, place.title)
    return table


def _summary(project: CProject, folder: Path) -> list[str]:
    memory, device = project.memory, project.device
    return [
        f"host: {memory.bytes:,} bytes; at most {memory.peak:,} live at one time, and"
        f" {memory.sum:,} if no value shared its bytes",
        f"accelerator: {device.total:,} bytes: {len(device.image):,} of constants,"
        f" {device.code:,} of instructions, {device.work:,} for the data of a launch",
        f"{folder}: {len(project.files)} files; make -C {folder} builds {folder / 'model'}",
    ]


def _plan(project: CProject) -> dict[str, Any]:
    """The plan as plain data; all sizes and offsets are in bytes."""
    memory, device = project.memory, project.device
    return {
        "files": {name: len(data) for name, data in project.files.items()},
        "host": {
            "bytes": memory.bytes,
            "peak": memory.peak,
            "sum": memory.sum,
            "steps": memory.steps,
            "values": [
                {
                    "value": place.title,
                    "offset": place.offset,
                    "bytes": place.bytes,
                    "first": place.first,
                    "last": place.last,
                }
                for place in memory.places
            ],
        },
        "accelerator": {
            "bytes": device.total,
            "constants": len(device.image),
            "instructions": device.code,
            "work": device.work,
        },
    }


if __name__ == "__main__":
    main()
