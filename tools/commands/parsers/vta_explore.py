"""The arguments of ``vta-explore``, and what is wrong with them."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, get_args

from vtac.dialects.errors import CompileError, Problem
from vtac.passes.graph.quantise_options import Requantise, Sharing
from vtac.tools.commands.arguments import file_of, verify_paths, verify_picture_name
from vtac.tools.commands.parsers.argument_parser import ArgumentParser, add_quiet_argument
from vtac.tools.commands.parsers.shapes import add_shape_argument, parse_shapes
from vtac.tools.commands.parsers.types import at_least, finite_number

if TYPE_CHECKING:
    from vtac.tools.explore_machines.space import MachineSpace

_EPILOG = """\
examples:
  vta-explore model.onnx --calibrate samples.npz
  vta-explore model.onnx --calibrate samples.npz --vary log_block=4,5 --vary port_bytes \\
      --cost "area + 2000 * port_bytes" --database machines.db --picture front.png
  vta-explore model.onnx --calibrate samples.npz --where "multipliers <= 256" --front front

Fields are those of a machine's file. Formulas read them and block, batch, multipliers, alu_lanes,
uop_bytes, inp_bytes, wgt_bytes, acc_bytes, out_bytes, sram_bytes and area (docs/machines.md).
"""


def argument_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = ArgumentParser(
        prog="vta-explore",
        usage="%(prog)s MODEL [options]",
        description="Vary the machine itself: compile a model for many machines, count cycles, and"
        " show those that no other beats in cycles and cost.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="the ONNX model")
    add(
        "--calibrate",
        metavar="DATA",
        help="samples of the inputs, .npz by input name or .npy; the first axis is the sample",
    )
    add_shape_argument(parser)
    add(
        "--requantise",
        choices=get_args(Requantise),
        default="auto",
        help="how sums return to 8 bits, as of vta-compile (default: %(default)s)",
    )
    add(
        "--shift",
        choices=get_args(Sharing),
        default="auto",
        help="what shares one requantisation shift (default: %(default)s)",
    )
    add_quiet_argument(parser)
    add("-v", "--verbose", action="store_true", help="print a line for each machine (to stderr)")
    _add_space_arguments(parser)
    _add_run_arguments(parser)
    _add_output_arguments(parser)
    return parser


def _add_space_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("which machines").add_argument
    add(
        "--target",
        help="the machine to start from: a preset, or the path of a file (default: chisel-pynq)",
    )
    add("--space", metavar="FILE", help="a description of the space, .toml or .json")
    add(
        "--vary",
        action="append",
        default=[],
        metavar="FIELD=A,B,C",
        help="the values of a field, also as A..B; FIELD alone takes the usual ones (default: block"
        " and the buffers of inputs, weights and accumulators); may be given several times",
    )
    add(
        "--fix",
        action="append",
        default=[],
        metavar="FIELD=VALUE",
        help="change a field of the machine to start from; may be given several times",
    )
    add(
        "--cost",
        metavar="FORMULA",
        help="what a machine costs: area (default), sram_bytes, multipliers, or any formula",
    )
    add("--limit-cost", type=finite_number, metavar="N", help="leave out machines that cost more")
    add(
        "--where",
        action="append",
        default=[],
        metavar="FORMULA",
        help='leave out machines that do not meet a condition, such as "multipliers <= 1024"; may'
        " be given several times",
    )


def _add_run_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("how").add_argument
    add(
        "--machines",
        type=at_least(1),
        default=200,
        metavar="N",
        help="look at so many machines, or at all if there are fewer (default: %(default)s)",
    )
    add(
        "--seed",
        type=at_least(0),
        default=0,
        metavar="N",
        help="chooses another sample (default: %(default)s)",
    )
    add(
        "--jobs",
        type=at_least(1),
        metavar="N",
        help="processes; 1: in this one (default: one for each processor)",
    )
    add(
        "--seconds",
        type=at_least(1),
        default=300,
        metavar="N",
        help="give up on a machine after so long, if there are several processes (default:"
        " %(default)s)",
    )
    add(
        "--database",
        metavar="FILE",
        help="keep results in a file; the same command goes on where it was interrupted",
    )


def _add_output_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("what to see").add_argument
    add("--json", action="store_true", help="print everything as JSON instead of a table")
    add("--csv", metavar="FILE", help="write a line for each machine")
    add("--picture", metavar="FILE.png", help="draw cycles against cost (also .svg, .pdf)")
    add("--report", metavar="FILE.html", help="write a page that needs no network connection")
    add("--front", metavar="DIR", help="write the machines of the front as files for --target")


def space_of(args: argparse.Namespace) -> "MachineSpace":
    """The machines that come into question. Raises `CompileError` with all that is wrong."""
    from vtac.tools.explore_machines.reading import Texts, described

    texts = Texts(
        args.space, args.target, args.vary, args.fix, args.cost, args.where, args.limit_cost
    )
    return described(texts).space()


def verify(args: argparse.Namespace) -> None:
    """Raise `CompileError` with everything that is wrong with paths, shapes and machines."""
    problems: list[Problem] = []
    with _collecting(problems):
        read = (args.model, args.calibrate, args.space, file_of(args.target))
        written = (args.database, args.csv, args.picture, args.report)
        verify_paths(read, written, [args.front])
    with _collecting(problems):
        verify_picture_name(args.picture)
    with _collecting(problems):
        parse_shapes(args.shape)
    with _collecting(problems):
        space_of(args)
    if problems:
        raise CompileError(list(dict.fromkeys(problems)))


@contextmanager
def _collecting(problems: list[Problem]) -> Iterator[None]:
    """Add the problems of a `CompileError` to those that were found before."""
    try:
        yield
    except CompileError as error:
        problems += error.problems
