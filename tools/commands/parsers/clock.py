"""Arguments of the commands that time programs."""

import argparse

TIMING_PRESETS = ("chisel-pynq", "chisel-de10", "hls-pynq", "hls-de10nano", "hls-ultra96")
"""The names of the clocks (`vtac.dialects.target.TIMING_PRESETS`), whose module takes long to
import."""

PRESET_HELP = (
    f"Timing presets: {', '.join(TIMING_PRESETS)}, and NAME-ideal (memory that answers at once)."
)


def add_clock_arguments(group: argparse._ArgumentGroup) -> None:
    """Add ``--preset`` and ``--set``, which choose the machine's clock."""
    group.add_argument(
        "--preset", help="a timing preset or a .toml or .json file of one (default: the target's)"
    )
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change one value of the preset, such as latency=32; may be given several times",
    )


def add_report_arguments(group: argparse._ArgumentGroup) -> None:
    """Add ``--json`` and ``--csv``, and the options for the files that show a run."""
    form = group.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the report as JSON")
    form.add_argument(
        "--csv", action="store_true", help="print the report as CSV, one line per layer"
    )
    group.add_argument("--trace", metavar="FILE.json", help="write a trace for the Perfetto viewer")
    group.add_argument(
        "--timeline", metavar="FILE.png", help="draw the modules over time (also .svg, .pdf)"
    )
    group.add_argument("--roofline", metavar="FILE.png", help="draw a roofline, one dot per layer")
