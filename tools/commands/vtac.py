"""``vtac``: names the commands, says the versions, and writes completions for shells.

vtac --version
eval "$(vtac --completion bash)"
"""

import argparse
import importlib
import sys
from collections.abc import Sequence

from vtac.dialects.errors import CompileError, Problem
from vtac.tools.commands import parsers
from vtac.tools.commands.diagnostics import run_command
from vtac.tools.commands.entry import COMMANDS
from vtac.tools.commands.parsers.argument_parser import (
    ArgumentParser,
    add_quiet_argument,
    add_verbose_argument,
)
from vtac.tools.commands.parsers.fish import FISH, fish_completions
from vtac.tools.commands.versions import versions_text

SHELLS = ("bash", FISH, "tcsh", "zsh")


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the command."""
    run_command(lambda: _run(_parser().parse_args(args)), "vtac")


def _parser() -> argparse.ArgumentParser:
    names = [entry.__name__.replace("_", "-") for entry in COMMANDS]
    width = max(map(len, names))
    described = [f"  {n:{width}}  {e.__doc__}" for n, e in zip(names, COMMANDS, strict=True)]
    parser = ArgumentParser(
        prog="vtac",
        description="A compiler from ONNX models to VTA, and a simulator of the machine.",
        epilog="\n".join(["commands, each of which has --help:", *described]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--json", action="store_true", help="print the versions of vtac and its libraries as JSON"
    )
    parser.add_argument(
        "--completion",
        choices=SHELLS,
        help="print the completions of all commands for a shell; for bash say in its start-up file:"
        ' eval "$(vtac --completion bash)"; for fish: vtac --completion fish | source',
    )
    add_quiet_argument(parser)
    add_verbose_argument(parser, "accepted, as by every command; there is nothing more to say")
    return parser


def _run(args: argparse.Namespace) -> None:
    if args.completion:
        sys.stdout.write(completions(args.completion))
    elif args.json:
        print(versions_text(as_json=True))
    elif not args.quiet:
        _parser().print_help()


def completions(shell: str) -> str:
    """The completions of all commands for a shell of `SHELLS`.

    Raises `CompileError` if the package shtab, which writes them for all shells but fish, is not
    installed.
    """
    modules = [importlib.import_module(f"{parsers.__name__}.{e.__name__}") for e in COMMANDS]
    made = [_parser(), *(module.argument_parser() for module in modules)]
    if shell == FISH:
        return "".join(map(fish_completions, made))
    try:
        import shtab
    except ImportError:
        hint = "Install it: pip install 'vtac[completion]'."
        raise CompileError(Problem("--completion", "needs the package shtab", hint)) from None
    return "\n".join(str(shtab.complete(parser, shell)) for parser in made)
