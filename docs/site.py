"""Hook of the documentation site (mkdocs.yml): pages outside docs/, the API reference, and links.

Pages are written to be read in the repository, with links from file to file. The site moves some of
them: README.md is its first page, and a link to a Python file leads to the reference of that
module. A link to anything else in the repository is a warning, which `make docs` does not allow.
"""

import ast
import logging
import posixpath
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "build" / "reference" / "vtac"
"""A copy of the package, which the reference is read from: the root of the repository has more."""

ROOMS = ("dialects", "passes", "lowering", "runtime", "sim", "tools")
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Files at the root of the repository, and the pages that they are."""

_LINK = re.compile(r"(!?\[[^\]]*\])\(([^)#\s]+)(#[^)\s]*)?\)")
# Folders of sources that are not there when the plugins start are not looked at later.
SOURCES.parent.mkdir(parents=True, exist_ok=True)

_FENCE = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)
_log = logging.getLogger("mkdocs.hooks.site")


def on_config(config: Any) -> Any:
    """Copy the package for the reference, and add the reference to the navigation."""
    shutil.rmtree(SOURCES, ignore_errors=True)
    for modules in packages().values():
        for name in modules:
            copy = SOURCES / source_of(name).relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(without_links(source_of(name).read_text(encoding="utf-8")))
    config.nav.append({"Reference": [{name: reference_page(name)} for name in packages()]})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not files in docs/."""
    from mkdocs.structure.files import File

    for source, page in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    for name, modules in packages().items():
        content = reference(name, modules)
        files.append(File.generated(config, reference_page(name), content=content))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Turn links between files of the repository into links between pages."""
    here = page.file.src_uri
    source = next((s for s, moved in OUTSIDE.items() if moved == here), f"docs/{here}")
    if here.startswith("reference/"):
        return markdown
    parts = _FENCE.split(markdown)
    return "".join(p if p.startswith("```") else rewritten(p, source, here) for p in parts)


def rewritten(text: str, source: str, here: str) -> str:
    """The text of a page. source: its file in the repository, here: where the site has it."""

    def link(match: re.Match[str]) -> str:
        label, target, anchor = match[1], match[2], match[3] or ""
        if re.match(r"[a-z]+:", target):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        moved = place(path)
        if moved is None:
            _log.warning(f"{source}: a link to {path}, which the site does not have")
            return label
        return f"{label}({posixpath.relpath(moved, posixpath.dirname(here) or '.')}{anchor})"

    return _LINK.sub(link, text)


def place(path: str) -> str | None:
    """Where the site has a file of the repository, if it does."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    room = path.split("/")[0]
    if room == "docs":
        return path.removeprefix("docs/")
    if room in ROOMS:
        folder = path if (ROOT / path).is_dir() else posixpath.dirname(path)
        return reference_page("vtac." + folder.strip("/").replace("/", "."))
    return None


def packages() -> dict[str, list[str]]:
    """The packages by name, each with the modules in it; the package itself comes first."""
    found = {"vtac": ["vtac", "vtac.backend", "vtac.session"]}
    for folder in sorted(_folders()):
        files = sorted(file for file in folder.glob("*.py") if file.stem != "__init__")
        name = _dotted(folder)
        found[name] = [name, *(_dotted(file.with_suffix("")) for file in files)]
    return found


def reference_page(package: str) -> str:
    """The page of a package."""
    return f"reference/{package}.md"


def reference(package: str, modules: list[str]) -> str:
    """The text of a package's page: one directive for each module, which mkdocstrings expands.

    A module is documented with what it defines; names that it re-exports stand where they are
    defined.
    """
    parts = [f"# {package}"]
    for module in modules:
        names = ", ".join(definitions(source_of(module)))
        parts.append(f"::: {module}\n    options:\n      members: [{names}]")
    return "\n\n".join(parts) + "\n"


def source_of(module: str) -> Path:
    """The file of a module. A folder of data may have a module's name."""
    path = ROOT.joinpath(*module.split(".")[1:])
    package = path / "__init__.py"
    return package if package.exists() else path.with_suffix(".py")


def definitions(file: Path) -> list[str]:
    """The public names that a file defines, in its order."""
    names: list[str] = []
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names.append(name)
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                names.append(name)
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


def without_links(source: str) -> str:
    """The source of a module, whose docstrings have no links: brackets in a row are a shape.

    Markdown would take ``[N/BATCH][C/BLOCK]``, outside of code, for a link.
    """
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(), lineno=first, end_lineno=last)):
                assert last is not None
                text = "".join(lines[first - 1 : last])
                parts = re.split(r"(``[^`]*``|`[^`]*`)", text)
                parts[::2] = [part.replace("][", "]&#91;") for part in parts[::2]]
                lines[first - 1 : last] = "".join(parts).splitlines(keepends=True)
    return "".join(lines)


def _folders() -> Iterator[Path]:
    for room in ROOMS:
        yield from (file.parent for file in (ROOT / room).rglob("__init__.py"))


def _dotted(path: Path) -> str:
    return ".".join(["vtac", *path.relative_to(ROOT).parts])
