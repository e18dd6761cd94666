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
