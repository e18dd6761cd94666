"""The documentation site: its navigation has every page, and its links have targets."""

import re
from pathlib import Path

import pytest
from by_path import load
from code_blocks import pages

site = load("docs/site.py")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")


def test_the_navigation_has_every_page(root: Path) -> None:
    listed = set(re.findall(r"^ +- .*?: ([\w.-]+\.md)$", (root / "mkdocs.yml").read_text(), re.M))
    assert listed == {site.place(page) for page in pages()}


@pytest.mark.parametrize("page", pages())
def test_links_lead_to_what_is_there(root: Path, page: str) -> None:
    text = re.sub(r"^```.*?^```", "", (root / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in LINK.findall(text):
        if not re.match(r"[a-z]+:", target):
            file = ((root / page).parent / target).resolve()
            assert file.exists(), f"{page}: {target}"


@pytest.mark.parametrize("page", pages())
def test_files_that_a_page_names_exist(root: Path, page: str) -> None:
    names = re.findall(r"`([a-z_]+/[\w./-]+\.(?:py|mlir|md|c|onnx))`", (root / page).read_text())
    ours = [name for name in names if (root / name.split("/")[0]).is_dir()]
    assert [name for name in ours if not (root / name).exists()] == []


def test_links_of_files_lead_to_pages() -> None:
    moved = site.rewritten("[a](../README.md#x) [b](../sim/hazards.py)", "docs/vta.md", "vta.md")
    assert moved == "[a](index.md#x) [b](reference/vtac.sim.md)"


def test_brackets_in_a_row_are_no_link() -> None:
    source = 'def f():\n    """Shape [N][C], as in ``x[0][1]``."""\n    return x[0][1]\n'
    assert site.without_links(source) == source.replace("[N][C]", "[N]&#91;C]")


def test_a_module_is_documented_with_what_it_defines(root: Path) -> None:
    names = site.definitions(root / "sim" / "hazards.py")
    assert "check" in names
    assert "Target" not in names and not any(name.startswith("_") for name in names)
