"""The parser that all commands use."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from vtac.dialects.errors import CompileError
from vtac.tools.commands.guard import FAILED, print_problems
from vtac.tools.commands.parsers.configuration_file import configured_options

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


def _not_empty(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("is empty")
    return text


class _PrintVersions(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from vtac.tools.commands.versions import versions_text

        print(versions_text(as_json=asks_for_json(parser)))
        parser.exit()


class ArgumentParser(argparse.ArgumentParser):
    """argparse with our exit status, a hint to --help in its errors, and ``--version``.

    Arguments that are texts must not be empty, as those of unset shell variables are. Options that
    a configuration file gives (`vtac.tools.commands.parsers.configuration_file`) come before those
    of the command line, which therefore count.
    """

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.given: list[str] = []
        """The arguments that are parsed, with those of the configuration file."""
        self.register("type", None, _not_empty)
        self.add_argument(
            "--version",
            action=_PrintVersions,
            nargs=0,
            help="print the versions of vtac and of the libraries that it uses (with --json as"
            " JSON), and stop",
        )

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse does, with the options of the configuration file in front."""
        given = sys.argv[1:] if args is None else list(args)
        try:
            configured = configured_options(self.prog, self._actions)
        except CompileError as error:
            print_problems(self.prog, error.problems)
            self.exit(FAILED)
        self.given = [*configured, *given]
        return super().parse_known_args(self.given, namespace)

    def print_help(self, file: "SupportsWrite[str] | None" = None) -> None:
        """Print the help; unlike argparse, raise OSError if the output cannot be written."""
        print(self.format_help(), end="", file=sys.stdout if file is None else file)

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with status 1."""
        self.exit(FAILED, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def asks_for_json(parser: argparse.ArgumentParser) -> bool:
    """Whether ``--json`` is among the arguments, for actions that end the command at once."""
    return isinstance(parser, ArgumentParser) and "--json" in parser.given


def add_verbose_argument(
    parser: argparse.ArgumentParser, what: str = "print each step as it begins"
) -> None:
    """Add the option ``-v``. what: its help text."""
    parser.add_argument("-v", "--verbose", action="store_true", help=f"{what} (to stderr)")


def add_quiet_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--quiet``."""
    parser.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        help="print what the options ask for, warnings and errors, and nothing else",
    )
