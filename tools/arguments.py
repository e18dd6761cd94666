"""Arguments that several commands take, and how they are read."""

import argparse
from collections.abc import Callable, Sequence

from vtac.dialects.errors import CompileError, Problem


def at_least(least: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number of at least ``least``."""

    def whole_number(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text} is not a whole number") from None
        if number < least:
            raise argparse.ArgumentTypeError(f"{number} is less than {least}")
        return number

    return whole_number


def add_shape_argument(parser: argparse.ArgumentParser) -> None:
    """Add ``--shape name=1,3,32,32``, which may be given several times."""
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1,3,32,32",
        help="fix the symbolic dimensions of an input; may be given several times",
    )


def parse_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The shape of each named input. Raises `CompileError` on texts of any other form."""
    shapes: dict[str, tuple[int, ...]] = {}
    problems = []
    for text in texts:
        name, _, extents = text.rpartition("=")
        try:
            shape = tuple(int(extent) for extent in extents.replace("x", ",").split(",") if extent)
        except ValueError:
            shape = (-1,)
        if not name or any(extent < 0 for extent in shape):
            problems.append(
                Problem(f"--shape {text}", "is not NAME=1,3,32,32 (numbers of 0 or more)")
            )
        shapes[name] = shape
    if problems:
        raise CompileError(problems)
    return shapes
