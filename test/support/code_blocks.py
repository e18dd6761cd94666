"""The fenced code blocks of the pages, and what it means to run each of them.

A page is README.md, CONTRIBUTING.md, CHANGELOG.md or a page in docs/. Its blocks run in the order
in which they stand, in a folder of their own that has the repository's files beside those that the
page writes:

- a block whose first line is a comment with a path, ``# machine.toml``, is also that file;
- ``python`` runs, with the names of the blocks before it;
- ``sh`` runs in bash, with the commands of the environment that runs the tests;
- ``console`` shows commands, ``$ vta-run ...``, and what they print, which is compared; a line
  ``...`` stands for any lines;
- ``mlir`` is parsed and verified, as a module or as a part of one; where a page shows an excerpt
  (``...`` or ``…`` in it), a command writes the page and a test compares it;
- a block below a line that is the name of a file, alone in backquotes, shows parts of that file:
  each line of it is looked for there;
- ``toml`` and ``json`` are parsed;
- ``text`` is not code.

A block without a language, or with another one, is an error, so no block stays unchecked.

``python test/support/code_blocks.py`` writes what the commands of ``console`` blocks print into the
pages (``make docs``).
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")

WRITTEN = (
    "README.md",
    "docs/schedules.md",
    "docs/operators.md",
    "docs/partitioning.md",
    "docs/cluster_plan.md",
)
"""Pages with parts that a command writes, which a test compares: there, MLIR may be an excerpt."""

LINKED = ("test", "Makefile", "pyproject.toml", "setup.py")
COPIED = ("docs", "examples", "README.md")
"""What the folder of a page has of the repository. Commands may write beside what is copied."""

PRELUDE = r"""
set -eu -o pipefail
pip() { [ "$1" = install ]; }  # The environment is the one that runs the tests.
make() { command make --no-print-directory --dry-run "$@" > /dev/null; }
python() {  # Benchmarks take minutes: their arguments are read, and then they stop.
  case "$1" in
    test/benchmarks/*) command python "$CODE_BLOCKS" --arguments "$@" ;;
    *) command python "$@" ;;
  esac
}
"""

_FENCE = re.compile(r"^( *)```(.*)$")
_FILE = re.compile(r"(?:#|//) (\S+\.(?:py|toml|json|mlir))")
_SHOWN = re.compile(r"`([\w/.]+\.\w+)`:?")
_EXCERPT = re.compile(r"\.\.\.|…")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it starts, counted from 1, its language and its text.

    file: the file of the repository that the block shows a part of, if it does.
    """

    page: str
    line: int
    language: str
    text: str
    file: str = ""

    @property
    def place(self) -> str:
        """The page and the line, for messages."""
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """The pages, as paths from the root of the repository."""
    docs = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))
    return [*OUTSIDE, *docs]


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page. Raises `ValueError` on one without a known language or an end."""
    found: list[Block] = []
    start, language, indent, lines = 0, "", "", []
    above = ""
    for number, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if fence and not start:
            start, indent, language, lines = number, fence[1], fence[2].strip(), []
            if language not in RUNNERS:
                known = ", ".join(RUNNERS)
                raise ValueError(f"{page}:{number}: {language!r} is no language of {known}")
        elif fence:
            named = _SHOWN.fullmatch(above)
            text = "\n".join(lines) + "\n"
            found.append(Block(page, start, language, text, named[1] if named else ""))
            start, above = 0, ""
        elif start:
            lines.append(line.removeprefix(indent))
        elif line:
            above = line
    if start:
        raise ValueError(f"{page}:{start}: this block has no end")
    return found


class Page:
    """A page that runs. names: what its Python blocks find; folder: where they run, empty."""

    def __init__(self, page: str, folder: Path, names: Mapping[str, Any] | None = None) -> None:
        self.page, self.folder = page, folder
        # Dataclasses and passes look their module up by name.
        self.module = ModuleType("code_blocks_" + re.sub(r"\W", "_", page))
        self.names = vars(self.module)
        self.names.update(names or {})
        self.written: dict[Block, str] = {}
        for name in LINKED:
            (folder / name).symlink_to(ROOT / name)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, folder / name)

    def run(self) -> None:
        """Run all blocks. Raises what is wrong, an `AssertionError` if it is an output."""
        sys.modules[self.module.__name__] = self.module
        sys.path.insert(0, str(self.folder))
        path = os.environ["PATH"]
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{path}"
        try:
            with chdir(self.folder):
                for block in blocks_of(self.page):
                    self._run(block)
        finally:
            os.environ["PATH"] = path
            sys.path.remove(str(self.folder))
            del sys.modules[self.module.__name__]

    def _run(self, block: Block) -> None:
        if block.file:
            whole = (ROOT / block.file).read_text(encoding="utf-8")
            for line in block.text.splitlines():
                assert line.strip() in whole, f"{block.place}: {block.file} has no {line!r}"
            return
        first = block.text.split("\n")[0]
        if (named := _FILE.fullmatch(first)) and block.language != "text":
            file = self.folder / named[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
        RUNNERS[block.language](self, block)

    def shell(self, script: str, block: Block) -> str:
        """What a script prints. Raises `AssertionError` if it fails."""
        settings = {"CODE_BLOCKS": __file__, "COLUMNS": "100", "NO_COLOR": "1"}
        done = subprocess.run(
            ["bash", "-c", PRELUDE + script],
            cwd=self.folder,
            env={**os.environ, **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, f"{block.place}: {script}\n{done.stdout}"
        return done.stdout


def _python(page: Page, block: Block) -> None:
    code = compile("\n" * block.line + block.text, str(ROOT / block.page), "exec")
    exec(code, page.names)


def _sh(page: Page, block: Block) -> None:
    page.shell(block.text, block)


def _console(page: Page, block: Block) -> None:
    shown = []
    for command, output in _commands(block):
        printed = page.shell(command, block)
        shown.append(f"$ {command}{_shortened(printed, output)}")
    page.written[block] = "".join(shown)


def _commands(block: Block) -> Iterator[tuple[str, str]]:
    """Each command of a console block with the lines it goes on for, and the output below it."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        end = next(i for i, line in enumerate(lines, 1) if not line.endswith("\\\n"))
        yield "".join(lines[:end]), "".join(lines[end:])


def _shortened(printed: str, shown: str) -> str:
    """What was printed, with the lines left out that ``...`` stands for in what is shown.

    Between two dots there are as many lines as shown, found by the first of them, whose digits may
    have changed.
    """
    lines = [line.rstrip() for line in printed.splitlines()]
    result: list[str] = []
    for number, part in enumerate(re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE)):
        wanted = part.splitlines()
        if number:
            result.append("...")
        if not wanted:
            continue
        start = _line_like(wanted[0], lines) if number else 0
        result += lines[start : start + len(wanted)]
        lines = lines[start + len(wanted) :]
    if not shown.endswith("...\n"):
        result += lines
    return "".join(line + "\n" for line in result)


def _line_like(wanted: str, lines: list[str]) -> int:
    """The first of some lines that is another one but for its digits; the first one if none is."""

    def words(line: str) -> str:
        return re.sub(r"[\d,. ]+", " ", line)

    return next((i for i, line in enumerate(lines) if words(line) == words(wanted)), 0)


def _mlir(page: Page, block: Block) -> None:
    if _EXCERPT.search(block.text) or page.page in WRITTEN:
        assert page.page in WRITTEN, f"{block.place}: an excerpt on a page that nobody compares"
        return
    file = page.folder / "block.mlir"
    file.write_text(block.text, encoding="utf-8")
    page.shell(f"vta-opt {file} > /dev/null", block)


def _toml(page: Page, block: Block) -> None:
    tomllib.loads(block.text)


def _json(page: Page, block: Block) -> None:
    json.loads(block.text)


def _text(page: Page, block: Block) -> None:
    pass


RUNNERS: Mapping[str, Callable[[Page, Block], None]] = {
    "python": _python,
    "sh": _sh,
    "console": _console,
    "mlir": _mlir,
    "toml": _toml,
    "json": _json,
    "text": _text,
}


def read_arguments(command: list[str]) -> None:
    """Run a script up to the point where it has read its arguments."""
    import argparse
    import runpy

    class Read(BaseException):
        pass

    original = argparse.ArgumentParser.parse_args

    def parse_args(*args: Any, **keywords: Any) -> None:
        original(*args, **keywords)
        raise Read

    argparse.ArgumentParser.parse_args = parse_args  # type: ignore[assignment,method-assign]
    sys.argv = command
    sys.path[:0] = [str(Path(command[0]).resolve().parent), str(ROOT / "test/support")]
    try:
        runpy.run_path(command[0], run_name="__main__")
    except Read:
        return
    raise SystemExit(f"{command[0]} reads no arguments")


def write(page: str) -> None:
    """Run a page, and put what its commands print into its console blocks."""
    from page_names import names_of

    with tempfile.TemporaryDirectory() as folder:
        run = Page(page, Path(folder), names_of(page, Path(folder)))
        run.run()
    text = (ROOT / page).read_text(encoding="utf-8")
    for block, shown in run.written.items():
        text = text.replace(f"```console\n{block.text}```", f"```console\n{shown}```")
    (ROOT / page).write_text(text, encoding="utf-8")


def main() -> None:
    """Write the pages that have console blocks."""
    if sys.argv[1:2] == ["--arguments"]:
        read_arguments(sys.argv[2:])
        return
    for page in pages():
        if any(block.language == "console" for block in blocks_of(page)):
            write(page)


if __name__ == "__main__":
    main()
