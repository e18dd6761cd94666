"""The notebooks of the examples run from their first cell to the last."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").rglob("*.ipynb"))


def test_there_is_a_notebook() -> None:
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path: Path) -> None:
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    assert not any(cell.get("outputs") for cell in book.cells), "outputs are not committed"
    done = nbclient.NotebookClient(
        book, timeout=300, resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    printed = [cell for cell in done.cells if cell.get("outputs")]
    assert len(printed) >= 6
    scores = next(c for c in done.cells if c.source.rstrip().endswith("\naccuracy"))
    assert "vtac" in str(scores.outputs[-1]["data"]["text/plain"])
