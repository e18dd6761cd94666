"""``vta-report``: writes a page that shows a compiled network.

    vta-report model.vtapkg -o report.html
    vta-report model.vtapkg --layer-errors errors.json --preset chisel-pynq

The page is one file that needs no network connection. Details of nodes come from the IR that
``vta-compile --keep-ir`` keeps in the package (docs/report.md).
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from vtac.dialects.wording import counted
from vtac.runtime.atomic import write_whole
from vtac.runtime.executor import load
from vtac.tools.commands.accuracy import read_layer_errors
from vtac.tools.commands.diagnostics import run_command
from vtac.tools.commands.parsers.vta_report import argument_parser, output_of, verify
from vtac.tools.commands.progress import shown_steps
from vtac.tools.commands.timing_output import chosen_preset
from vtac.tools.report_page import Contents, contents_of, html_of


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the command."""
    run_command(lambda: _run(argument_parser().parse_args(args)), "vta-report")


def _run(args: argparse.Namespace) -> None:
    verify(args)
    name, output = Path(args.package).stem, output_of(args)
    errors = None if args.layer_errors is None else read_layer_errors(args.layer_errors)
    with shown_steps(quiet=args.quiet, verbose=args.verbose) as step:
        step(f"open {args.package}")
        module = load(args.package, allow_native=args.allow_native)
        preset = None if module.target is None else chosen_preset(args, module.target)
        step("time the launches, and collect what is known of each node")
        contents = contents_of(module, args.title or name, preset, errors)
        step(f"write {output}")
        page = html_of(contents).encode()
        write_whole(output, page)
    if args.json:
        print(json.dumps(_summary(contents, output, len(page)), indent=2))
    elif not args.quiet:
        print(f"{output}: {len(page):,} bytes, {counted(len(contents.nodes), 'node')}")


def _summary(contents: Contents, output: str, size: int) -> dict[str, Any]:
    return {
        "page": output,
        "bytes": size,
        "nodes": len(contents.nodes),
        "cycles": contents.profile.cycles,
        "advice": [asdict(each) for each in (*contents.on_accelerator, *contents.on_host)],
    }
