"""Keeps pytest from taking the repository for a package of its own.

The root of the repository is the package ``vtac`` (see ``package-dir`` in pyproject.toml), so it
has an ``__init__.py``. pytest would collect it as a package and import that file a second time,
under a name made from the clone's folder. Tests import the installed ``vtac`` instead.

And sets what costs time: NumPy's threads, before anything imports it, and the collector of cycles.
"""

import gc
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# pytest has a process for each core. Threads of NumPy's linear algebra would be more than that, and
# on matrices as small as ours they cost more than they compute.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


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


def pytest_collection_finish() -> None:
    """The collector looks no more at what imports have made, and waits for more that is new.

    IR is made of cycles and made in masses; by default a test that compiles spends a tenth of its
    time in collections.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
