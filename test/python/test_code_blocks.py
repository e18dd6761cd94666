"""Every code block of README, CONTRIBUTING and the pages in docs/ runs."""

import re
from pathlib import Path

import pytest
from code_blocks import WRITTEN, Page, blocks_of, pages
from page_names import GIVEN, NEEDED, names_of
from xdsl.dialects import get_all_dialects

from vtac.tools.driver.discovery import our_codegens, our_dialects


@pytest.mark.parametrize("page", pages())
def test_the_blocks_of_a_page_run(page: str, tmp_path: Path) -> None:
    for package in NEEDED.get(page, ()):
        pytest.importorskip(package, reason=f"{page} needs {package}")
    run = Page(page, tmp_path, names_of(page, tmp_path))
    try:
        run.run()
    finally:
        our_codegens.cache_clear()  # The page may have installed others.
    for block, written in run.written.items():
        assert block.text == written, f"{block.place}: make docs"


def test_operations_of_the_excerpts_exist() -> None:
    table = {**get_all_dialects(), **our_dialects()}
    for page in WRITTEN:
        for block in blocks_of(page):
            for name in re.findall(r"(?<![\w.@])(te|vta|graph)\.(\w+)\b(?! = )", block.text):
                if block.language == "mlir":
                    known = table[name[0]]()
                    names = {op.name for op in (*known.operations, *known.attributes)}
                    assert any(n.startswith(".".join(name)) for n in names), (
                        f"{block.place}: {name}"
                    )


def test_what_pages_are_given_is_needed() -> None:
    assert set(GIVEN) <= set(pages())
    assert all(blocks_of(page) for page in GIVEN)
