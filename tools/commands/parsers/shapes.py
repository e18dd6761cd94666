"""``--shape``, which fixes the symbolic dimensions of inputs."""

import argparse
from collections.abc import Sequence

from vtac.dialects.errors import CompileError, Problem


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
