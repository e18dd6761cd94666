"""The arguments of ``vta-run``."""

import argparse

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
