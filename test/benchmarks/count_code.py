"""Counts code: lines per room, and names of classes that several classes have.

Lines of docstrings, comments and blank lines are not counted. ``python
test/benchmarks/count_code.py [REVISION]`` counts the working tree, or a revision of git.
"""

import argparse
import ast
import io
import subprocess
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("dialects", "passes", "lowering", "runtime", "sim", "tools", "examples", "docs", "test")
QUANTISER = ("passes/approximation", "passes/graph/float_groups", "passes/graph/quantize")
"""The rooms of the quantiser, which are part of ``passes``."""
SKIPPED = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision", nargs="?", help="a revision of git; the working tree if absent")
    revision = parser.parse_args().revision
    lines: dict[str, int] = defaultdict(int)
    classes: dict[str, list[str]] = defaultdict(list)
    for path, text in sources(revision):
        room = path.split("/")[0]
        tree = ast.parse(text)
        lines[room] += code_lines(text, tree)
        for inner in (part for part in QUANTISER if path.startswith(f"{part}/")):
            lines[inner] += code_lines(text, tree)
        if room not in ("test", "docs", "examples"):
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    classes[node.name].append(path)
    for room in (*ROOMS, *QUANTISER):
        print(f"{room:28}{lines[room]:8,}")
    print(f"{'all rooms':28}{sum(lines[room] for room in ROOMS[:6]):8,}")
    twice = {name: paths for name, paths in classes.items() if len(paths) > 1}
    public = sorted(name for name in twice if not name.startswith("_"))
    private = len(twice) - len(public)
    print(f"\nclass names used more than once: {len(public)}, and {private} private ones")
    for name in public:
        print(f"  {name}: {', '.join(twice[name])}")


def sources(revision: str | None) -> Iterator[tuple[str, str]]:
    """Path and text of every Python file of the rooms."""
    command = ("ls-files",) if revision is None else ("ls-tree", "-r", "--name-only", revision)
    for path in git(*command).splitlines():
        if path.endswith(".py") and path.split("/")[0] in ROOMS:
            if revision is not None:
                yield path, git("show", f"{revision}:{path}")
            elif (ROOT / path).exists():
                yield path, (ROOT / path).read_text(encoding="utf-8")


def code_lines(text: str, tree: ast.Module) -> int:
    """Lines that have code on them."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SKIPPED and token.string:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(), lineno=first, end_lineno=last)):
                assert last is not None
                found.difference_update(range(first, last + 1))
    return len(found)


def git(*command: str) -> str:
    """What git prints."""
    return subprocess.run(
        ["git", "-C", str(ROOT), *command], capture_output=True, check=True, text=True
    ).stdout


if __name__ == "__main__":
    main()
