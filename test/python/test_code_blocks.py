"""Every code block of README, CONTRIBUTING and the pages in docs/ runs."""

from pathlib import Path

import pytest
from code_blocks import Page, blocks_of, pages
from page_names import GIVEN, names_of


@pytest.mark.parametrize("page", pages())
def test_the_blocks_of_a_page_run(page: str, tmp_path: Path) -> None:
    run = Page(page, tmp_path, names_of(page, tmp_path))
    run.run()
    for block, written in run.written.items():
        assert block.text == written, f"{block.place}: make docs"


def test_what_pages_are_given_is_needed() -> None:
    assert set(GIVEN) <= set(pages())
    assert all(blocks_of(page) for page in GIVEN)
