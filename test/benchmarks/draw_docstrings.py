"""Draws public docstrings at random: whoever reads them should understand each at once.

``python test/benchmarks/draw_docstrings.py --seed 1 --count 20`` prints the place, the name and the
docstring of modules, classes and functions of the rooms that are installed.
"""

import argparse
import ast
import random
from collections.abc import Iterator

from count_code import ROOMS, sources

TESTS = ("examples", "docs", "test")
"""Rooms from which nothing is drawn."""


def main() -> None:
    """Print the docstrings that a seed draws."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    options = parser.parse_args()
    for place, name, docstring in drawn(options.seed, options.count):
        print(f"{place} {name}\n    {docstring.replace(chr(10), chr(10) + '    ')}\n")


def drawn(seed: int, count: int) -> list[tuple[str, str, str]]:
    """Places, names and texts of so many docstrings, the same ones for the same code."""
    found = [
        each
        for path, text in sources(None)
        if path.split("/")[0] in ROOMS and path.split("/")[0] not in TESTS
        for each in docstrings(path, ast.parse(text))
    ]
    return random.Random(seed).sample(sorted(found), count)


def docstrings(path: str, tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """The public docstrings of a file."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            continue
        name = "module" if isinstance(node, ast.Module) else node.name
        docstring = ast.get_docstring(node)
        if docstring and not name.startswith("_"):
            line = 1 if isinstance(node, ast.Module) else node.lineno
            yield f"{path}:{line}", name, docstring


if __name__ == "__main__":
    main()
