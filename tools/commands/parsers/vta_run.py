"""The arguments of ``vta-run``, and what is wrong with them."""

import argparse
from collections.abc import Iterator

from vtac.dialects.errors import CompileError, Problem
from vtac.tools.commands.arguments import (
    file_of,
    verify_paths,
    verify_picture_names,
    verify_used,
)
from vtac.tools.commands.parsers.accuracy import add_evaluate_argument
from vtac.tools.commands.parsers.argument_parser import (
    ArgumentParser,
    add_quiet_argument,
    add_verbose_argument,
)
from vtac.tools.commands.parsers.clock import PRESET_HELP, add_clock_arguments, add_report_arguments
from vtac.tools.commands.parsers.types import at_least
from vtac.tools.commands.parsers.vta_serve import TOKEN


def argument_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = ArgumentParser(
        prog="vta-run",
        usage="%(prog)s PACKAGE [options]",
        description="Run a compiled package on the functional simulator, and time it.",
        epilog=PRESET_HELP,
    )
    add = parser.add_argument
    add("package", metavar="PACKAGE", help="what vta-compile wrote (.vtapkg)")
    add(
        "--input",
        metavar="DATA",
        help="samples, .npz by input name or .npy; the first axis is the sample, and samples are"
        " regrouped into the model's batch",
    )
    add("-o", "--output", metavar="OUT.npz", help="write the outputs, by name")
    add("--limit", type=at_least(1), metavar="N", help="run the first N batches only")
    add_evaluate_argument(parser, "the original model (--reference)")
    add(
        "--reference",
        "--compare-onnxruntime",
        metavar="MODEL.onnx",
        help="the original model: run it in onnxruntime as well, and say how far the outputs of"
        " --input or --evaluate are apart",
    )
    add(
        "--dump-programs",
        metavar="DIR",
        help="write one NNN_NAME.npz per launch of the first batch; of a cluster a folder NNN_NAME"
        " with one stream per unit, which vta-sim reads",
    )
    add(
        "--order-seed",
        type=at_least(0),
        metavar="N",
        help="let the simulated modules take turns in another order",
    )
    add(
        "--allow-native",
        action="store_true",
        help="run code in the package that is for this machine (codegen c); only if you trust it",
    )
    add_quiet_argument(parser)
    add_verbose_argument(parser)
    remote = parser.add_argument_group("a device behind a wire (vta-serve)")
    remote.add_argument(
        "--remote",
        metavar="HOST:PORT",
        help=f"run and time it there; the token is that of the variable {TOKEN}",
    )
    remote.add_argument(
        "--remote-certificates", metavar="FILE.pem", help="encrypt, and trust these certificates"
    )
    profile = parser.add_argument_group("profile")
    profile.add_argument(
        "--profile", action="store_true", help="say where the accelerator's cycles go"
    )
    add_clock_arguments(profile)
    add_report_arguments(profile)
    return parser


def profiles(args: argparse.Namespace) -> bool:
    """Whether the arguments ask for a profile."""
    shows = (args.preset, args.set, args.csv, args.trace, args.timeline, args.roofline)
    return bool(args.profile or any(shows) or (args.json and args.evaluate is None))


def verify(args: argparse.Namespace) -> None:
    """Raise `CompileError` on paths that cannot be used and on options that would be ignored."""
    if args.json and args.evaluate is not None and profiles(args):
        what = "is for the evaluation or for the profile, not for both"
        raise CompileError(Problem("--json", what, "Run the command twice."))
    verify_picture_names(args)
    _verify_paths(args)
    if args.input is None and args.evaluate is None and not profiles(args):
        hint = "Or ask for --evaluate or --profile."
        raise CompileError(Problem("", "say what to run it on: --input", hint))


def _verify_paths(args: argparse.Namespace) -> None:
    verify_paths(
        (
            args.package,
            args.input,
            args.evaluate,
            args.reference,
            file_of(args.preset),
            args.remote_certificates,
        ),
        (args.output, args.trace, args.timeline, args.roofline),
        [args.dump_programs],
    )
    here = "packages that run here (no --remote)"
    verify_used(
        (
            ("--remote-certificates", not args.remote and args.remote_certificates, "--remote"),
            *((name, args.remote and value, here) for name, value in _only_here(args)),
        )
    )
    if args.input is None:
        samples = "--input or --evaluate" if args.evaluate is None else None
        verify_used(
            (
                ("--output", args.output, "what --input gives"),
                ("--dump-programs", args.dump_programs, "what --input gives"),
                ("--order-seed", args.order_seed, "what --input gives"),
                ("--limit", samples and args.limit, "--input or --evaluate"),
                ("--reference", samples and args.reference, "--input or --evaluate"),
            )
        )


def _only_here(args: argparse.Namespace) -> Iterator[tuple[str, object]]:
    """The options that a device behind a wire does not have, with their values."""
    names = ("dump-programs", "order-seed", "allow-native", "set", "csv", "trace", "timeline")
    for name in (*names, "roofline"):
        yield f"--{name}", getattr(args, name.replace("-", "_")) or None
