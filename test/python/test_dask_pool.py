"""Measurement by Dask, on a cluster in this process."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import artificial_space as artificial
import pytest
from artificial_space import Counting, problem_of, task

from vtac.dialects.errors import CompileError
from vtac.tools.tune import dask_pool
from vtac.tools.tune.dask_pool import DaskPool
from vtac.tools.tune.protocol import Stops
from vtac.tools.tune.tuner import tune

distributed = pytest.importorskip("distributed", reason="needs vtac[dask]")
dask = pytest.importorskip("dask")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(
        n_workers=1,
        threads_per_worker=2,
        processes=False,
        dashboard_address=None,
        scheduler_port=0,
        protocol="inproc://",
    ) as found:
        yield found


def test_workers_give_the_trials_that_this_process_gives(cluster: Any) -> None:
    tasks = [task("a", module="raise=3"), task("b", multiplicity=3)]
    pool = DaskPool(cluster.scheduler_address, judge=artificial.judge, prover=artificial.proved)
    found = []
    try:
        for measurer in (pool, Counting()):
            stops = Stops(trials=32, near=0.5)
            results = tune(tasks, stops=stops, measurer=measurer, problem_of=problem_of)
            found.append([result.trials for result in results])
            assert all(result.best is not None and result.best.proved for result in results)
    finally:
        pool.close()
    assert found[0] == found[1]


def test_a_worker_that_dies_changes_no_trial(tmp_path: Path) -> None:
    """Workers in processes of their own: the first one that is asked ends, and is replaced."""
    patient = {
        "distributed.comm.timeouts.connect": "300s",
        "distributed.comm.timeouts.tcp": "300s",
        "distributed.scheduler.worker-ttl": None,
    }
    died = tmp_path / "died"
    stops = Stops(trials=16, near=0.5)
    with (
        dask.config.set(patient),
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            scheduler_port=0,
        ) as workers,
    ):
        pool = DaskPool(
            workers.scheduler_address, 300, judge=artificial.judge, prover=artificial.proved
        )
        with closing(pool):
            (found,) = tune(
                [task("a", module=f"once={died}")],
                stops=stops,
                measurer=pool,
                problem_of=problem_of,
            )
    assert died.exists()
    (expected,) = tune([task("a")], stops=stops, measurer=Counting(), problem_of=problem_of)
    assert found.trials == expected.trials


def test_workers_with_another_compiler_are_refused(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Workers run in other threads than this test.
    monkeypatch.setattr(dask_pool, "code_digest", lambda: threading.current_thread().name)
    with pytest.raises(CompileError, match="another vtac"):
        DaskPool(cluster.scheduler_address)


def test_a_digest_follows_from_the_files() -> None:
    assert dask_pool.code_digest() == dask_pool.code_digest() != ""
