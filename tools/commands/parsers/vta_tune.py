"""The arguments of ``vta-tune`` and of its subcommands, and what is wrong with them."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence

from vtac.dialects.errors import CompileError, Problem
from vtac.tools.commands.arguments import file_of, verify_paths, verify_used
from vtac.tools.commands.parsers.argument_parser import (
    ArgumentParser,
    add_quiet_argument,
    add_verbose_argument,
)
from vtac.tools.commands.parsers.shapes import add_shape_argument
from vtac.tools.commands.parsers.types import at_least, not_negative, positive_number
from vtac.tools.commands.parsers.vta_serve import TOKEN

EXAMPLES = """subcommands, each of which has --help:
{subcommands}

examples:
  vta-tune model.onnx --target chisel-pynq --calibrate samples.npz --database tune.db
  vta-tune kernel.mlir --target chisel-pynq --database tune.db --trials 50 --layers 'conv*'
  vta-tune model.onnx --calibrate samples.npz --remote 10.0.0.2:9190 --remote 10.0.0.3:9190
  vta-compile model.onnx --target chisel-pynq --calibrate samples.npz --tuning tune.db
"""

METHODS = (
    "annealing",
    "clocked",
    "default",
    "discrete-1+1",
    "exhaustive",
    "model",
    "p",
    "q",
    "random",
    "tpe",
)
"""The names of the explorers (`vtac.tools.tune.methods`), whose modules take long to import."""


class _Parser(ArgumentParser):
    """The parser of the command; a first word that is a subcommand has a parser of its own."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse with the parser of the subcommand if there is one."""
        given = sys.argv[1:] if args is None else list(args)
        if given and given[0] in SUBCOMMANDS:
            found, rest = subcommand_parser(given[0]).parse_known_args(given[1:], namespace)
            found.command = given[0]
            return found, rest
        found, rest = super().parse_known_args(given, namespace)
        found.command = None
        return found, rest


def argument_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    width = max(map(len, SUBCOMMANDS))
    listed = "\n".join(f"  {name:{width}}  {text}" for name, (text, _) in SUBCOMMANDS.items())
    parser = _Parser(
        prog="vta-tune",
        usage="%(prog)s SOURCE --database FILE [options]\n       %(prog)s SUBCOMMAND FILE ...",
        description="Search for better schedules of the kernels of a network, and record them."
        " The same command goes on where an earlier one stopped.",
        epilog=EXAMPLES.format(subcommands=listed),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("source", metavar="SOURCE", help="an ONNX model, or IR of the level te (.mlir)")
    add(
        "--database",
        metavar="FILE",
        default="tune.db",
        help="where trials and best schedules are kept (default: %(default)s)",
    )
    add(
        "--target",
        default="pynq",
        help="the name of a preset, or the path of a vta_config.json (default: %(default)s)",
    )
    add(
        "--calibrate",
        metavar="DATA",
        help="samples of the inputs, .npz by input name or .npy; the first axis is the sample",
    )
    add(
        "--select",
        metavar="OUT.jsonl",
        help="write the records by which the whole network gets quicker: each is tried in a"
        " compilation",
    )
    add_shape_argument(parser)
    _add_search_arguments(parser)
    _add_place_arguments(parser)
    add_quiet_argument(parser)
    add_verbose_argument(parser, "print a line for each batch of trials")
    add("--json", action="store_true", help="print the result as JSON")
    return parser


def _add_search_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("search").add_argument
    add("--method", choices=METHODS, default="model", help="(default: %(default)s)")
    add(
        "--trials",
        type=at_least(1),
        default=200,
        help="schedules that are timed, of all kernels together, in whole batches (default:"
        " %(default)s)",
    )
    add("--seconds", type=positive_number, help="stop after so long")
    add(
        "--patience",
        type=at_least(1),
        metavar="N",
        help="leave a kernel after N schedules without a better one",
    )
    add(
        "--layers",
        action="append",
        default=[],
        metavar="GLOB",
        help="tune only kernels of layers whose names match; may be repeated",
    )
    add("--seed", type=at_least(0), default=0, help="of random choices (default: %(default)s)")
    add(
        "--batch",
        type=at_least(1),
        default=8,
        help="schedules of a kernel that are timed and recorded together (default: %(default)s)",
    )
    add(
        "--prove",
        choices=("best", "all"),
        default="best",
        help="execute the best program of each kernel and compare it with NumPy, or every one that"
        " is timed (default: %(default)s)",
    )
    add("--fresh", action="store_true", help="begin anew even where an earlier search could go on")
    add(
        "--oracle",
        choices=("clock", "simulation"),
        default="clock",
        help="what the method learns from: the clock, or the simulated cost, whose best points are"
        " then clocked (default: %(default)s)",
    )
    add(
        "--screen",
        type=not_negative,
        default=1.2,
        metavar="FACTOR",
        help="do not clock schedules whose simulated cost exceeds the best by this factor; 0 clocks"
        " all (default: %(default)s)",
    )


def _add_place_arguments(parser: argparse.ArgumentParser) -> None:
    """Where schedules are timed."""
    add = parser.add_argument_group("places").add_argument
    add(
        "--jobs",
        type=at_least(1),
        default=1,
        help="processes that time schedules (default: %(default)s)",
    )
    add(
        "--remote",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="time schedules on this vta-serve instead; may be repeated; the token is that of the"
        f" variable {TOKEN}",
    )
    add(
        "--cluster",
        metavar="ADDRESS",
        help="time schedules on the workers of this Dask scheduler instead, tcp://HOST:8786",
    )
    add("--remote-certificates", metavar="FILE.pem", help="encrypt, and trust these certificates")


def _files(parser: argparse.ArgumentParser, least: str = "+") -> None:
    parser.add_argument(
        "files", metavar="FILE", nargs=least, help="a database, or a file of JSON lines"
    )


def _filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", help="only of this machine: a preset, or a file")
    parser.add_argument(
        "--kernel", metavar="DIGEST", help="only of the kernel whose digest begins so"
    )


def _show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="DATABASE", nargs=1)
    _filters(parser)


def _best(parser: argparse.ArgumentParser) -> None:
    _files(parser)
    _filters(parser)


def _export(parser: argparse.ArgumentParser) -> None:
    _files(parser)
    _filters(parser)
    parser.add_argument("--trials", action="store_true", help="write trials instead of best points")
    parser.add_argument("-o", "--output", metavar="OUT.jsonl", help="(default: standard output)")


def _import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("database", metavar="DATABASE", help="what takes the records; may be new")
    _files(parser)
    parser.add_argument("--skip-bad", action="store_true", help="leave bad lines out")


def _check(parser: argparse.ArgumentParser) -> None:
    _files(parser)
    _filters(parser)


def _replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="DATABASE", nargs=1)
    _filters(parser)
    parser.add_argument(
        "--method", action="append", choices=METHODS, help="may be repeated (default: all)"
    )
    parser.add_argument("--trials", type=at_least(1), default=100, help="(default: %(default)s)")
    parser.add_argument("--seed", type=at_least(0), default=0, help="(default: %(default)s)")


def _forget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="DATABASE", nargs=1)
    _filters(parser)
    parser.add_argument("--all", action="store_true", help="everything")


SUBCOMMANDS: Mapping[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "show": ("list the searches of a database", _show),
    "best": ("list the best schedule of each kernel", _best),
    "export": ("write records as JSON lines", _export),
    "import": ("take records of files over into a database", _import),
    "merge": ("the same as import: the better record of each kernel stays", _import),
    "check": ("time recorded schedules with this compiler, and name those that changed", _check),
    "replay": ("compare methods on recorded trials, without timing anything", _replay),
    "forget": ("drop searches and records", _forget),
}


def subcommand_parser(name: str) -> argparse.ArgumentParser:
    """The parser of a subcommand."""
    text, add = SUBCOMMANDS[name]
    parser = ArgumentParser(prog=f"vta-tune {name}", description=f"{text[0].upper()}{text[1:]}.")
    add(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_quiet_argument(parser)
    add_verbose_argument(parser)
    return parser


def is_ir(args: argparse.Namespace) -> bool:
    """Whether kernels are tuned that a file of IR has, instead of a model's."""
    return bool(args.source.endswith(".mlir"))


def verify(args: argparse.Namespace) -> None:
    """Raise `CompileError` on paths that cannot be used and arguments that do not go together."""
    if args.command is not None:
        verify_paths([file_of(getattr(args, "target", None))], [getattr(args, "output", None)])
        return
    certificates = args.remote_certificates
    verify_paths(
        [args.source, args.calibrate, file_of(args.target), certificates],
        [args.database, args.select],
    )
    verify_used(
        (
            ("--remote-certificates", not args.remote and certificates, "--remote"),
            (
                "--jobs",
                (args.remote or args.cluster) and args.jobs != 1,
                "measurement here (no --remote, no --cluster)",
            ),
            ("--cluster", args.cluster and args.remote, "measurement by Dask alone (no --remote)"),
        )
    )
    if is_ir(args) and args.calibrate:
        raise CompileError(Problem("--calibrate", "is for models: kernels are integers already"))
    if is_ir(args) and args.select:
        raise CompileError(Problem("--select", "is for models: it judges records in a network"))
