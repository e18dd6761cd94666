"""What the tests in Python share: fixtures, and how hypothesis runs.

Helper functions are modules in ``test/support``, which pytest puts on the path.
"""

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[2]

# A first call compiles or imports and may be slow: no deadline. In CI every run is the same run.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


LONG = (
    "test_random_networks",
    "test_fuzz",
    "test_default_schedule",
    "test_graph_to_te",
    "test_models",
    "test_pack_constants",
    "test_te_schedule",
    "test_te_walks",
    "test_token_removal",
)
"""Modules with tests of ten seconds and more: they start first, or one core waits for them last."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first, otherwise as they stand."""
    items.sort(key=lambda item: item.path.stem not in LONG)


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder ``shared`` beside the repository: golden streams, models, data sets."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("needs the folder ../shared beside the repository, which is absent")
    return folder
