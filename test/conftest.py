"""What pytest needs for this repository: how it collects, what costs time, and shared fixtures.

The root of the repository is the package ``vtac`` (see ``package-dir`` in pyproject.toml), so it
has an ``__init__.py``. pytest would collect it as a package and import that file a second time,
under a name made from the clone's folder. Tests import the installed ``vtac`` instead.

Helper functions are modules in ``test/support``, which pytest puts on the path.
"""

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

# pytest has a process for each core. Threads of NumPy's linear algebra would be more than that, and
# on matrices as small as ours they cost more than they compute. NumPy is not imported yet.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A configuration of whoever runs the tests plays no part in them.
os.environ["VTAC_CONFIG"] = ""

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


class RootIsAFolder:
    """Collects the repository's root as an ordinary folder.

    A plugin, since the hooks of a conftest are not asked about folders above it.
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Dir | None:
        if path.resolve() == ROOT:
            return pytest.Dir.from_parent(parent, path=path)
        return None


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(RootIsAFolder())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first, otherwise as they stand."""
    items.sort(key=lambda item: item.path.stem not in LONG)


def pytest_collection_finish() -> None:
    """The collector looks no more at what imports have made, and waits for more that is new.

    IR is made of cycles and made in masses; by default a test that compiles spends a tenth of its
    time in collections.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """A process of pytest-xdist that has reported all its tests ends quickly, and undisturbed.

    execnet sends it SIGINT five seconds after the end of the session. pytest then still looks
    through all objects, and Hypothesis, whose function is told of each collection, was interrupted.
    """
    if hasattr(config, "workerinput"):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        gc.freeze()


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
