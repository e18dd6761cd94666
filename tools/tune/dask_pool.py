"""Measurement on many machines by Dask (`vtac[dask]`): the workers of a scheduler's address.

Tasks are pure functions of at most a second without shared objects, for which Dask's futures are
enough; it is pure Python, and dask-jobqueue brings Slurm and PBS. A worker that is lost has its
points measured again by another one, twice at most. A point that takes too long fails; its worker
cannot be ended from here, and is busy until the point is done.
"""

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import Point
from vtac.tools.tune.code_digest import code_digest
from vtac.tools.tune.measure import (
    FAILED_TIME,
    FAILED_WORKER,
    Judge,
    Prover,
    failure,
    measure,
)
from vtac.tools.tune.pool import PROOF_SECONDS, SECONDS
from vtac.tools.tune.proof import Proof, prove
from vtac.tools.tune.protocol import Task, Trial

RETRIES = 2
"""How often a point is measured again whose worker was lost."""


class DaskPool:
    """The workers that a Dask scheduler knows.

    address: of the scheduler, ``tcp://host:8786``. Raises `CompileError` where Dask is missing, the
    scheduler does not answer, or a worker has another vtac.
    """

    def __init__(
        self,
        address: str,
        seconds: float = SECONDS,
        judge: Judge = measure,
        prover: Prover = prove,
    ) -> None:
        try:
            distributed: Any = importlib.import_module("distributed")
        except ModuleNotFoundError:
            hint = "pip install 'vtac[dask]' does."
            raise CompileError(Problem("", "Dask is not installed", hint)) from None
        self._seconds, self._judge, self._prover = seconds, judge, prover
        self._late, self._lost = distributed.TimeoutError, distributed.scheduler.KilledWorker
        try:
            self._client: Any = distributed.Client(address, timeout=SECONDS, set_as_default=False)
        except (OSError, ValueError, distributed.TimeoutError) as error:
            what = f"there is no Dask scheduler: {error}"
            raise CompileError(Problem(address, what, "dask scheduler starts one.")) from None
        try:
            self._check_workers(address)
        except CompileError:
            self.close()
            raise

    def submit(self, task: Task, points: Sequence[Point]) -> Callable[[], list[Trial]]:
        """Hand the points to the workers."""
        futures = [self._begin(self._judge, task, point) for point in points]
        workers = max(len(self._client.scheduler_info()["workers"]), 1)
        # The points of a worker wait for each other.
        seconds = self._seconds * -(-2 * len(points) // workers)
        return lambda: [
            self._trial(point, future, seconds)
            for point, future in zip(points, futures, strict=True)
        ]

    def prove(self, asked: Sequence[tuple[Task, Point]]) -> list[Proof]:
        """Execute the programs on the workers."""
        futures = [self._begin(self._prover, task, point) for task, point in asked]
        return [self._proof(future, PROOF_SECONDS * len(asked)) for future in futures]

    def close(self) -> None:
        """Leave the scheduler, which goes on with its workers."""
        self._client.close()

    def _begin(self, function: Callable[..., Any], task: Task, point: Point) -> Any:
        call = partial(function, task.module, task.template, dict(point))
        return self._client.submit(call, pure=False, retries=RETRIES)

    def _check_workers(self, address: str) -> None:
        found = self._client.run(code_digest)
        if not found:
            raise CompileError(
                Problem(address, "the Dask scheduler has no workers", "dask worker starts one.")
            )
        others = sorted(worker for worker, digest in found.items() if digest != code_digest())
        if others:
            what = f"the workers {', '.join(others)} have another vtac than this process"
            raise CompileError(Problem(address, what, "Install the same one everywhere."))

    def _trial(self, point: Point, future: Any, seconds: float) -> Trial:
        try:
            trial: Trial = future.result(timeout=seconds)
        except self._late:
            future.cancel()
            return Trial(point, None, FAILED_TIME)
        except self._lost:
            return Trial(point, None, FAILED_WORKER)
        except Exception as error:  # one point must not end a search
            return failure(point, error)
        return Trial(point, trial.cycles, trial.why, trial.millis)

    def _proof(self, future: Any, seconds: float) -> Proof:
        try:
            proof: Proof = future.result(timeout=seconds)
        except Exception as error:  # the point is then not proved
            future.cancel()
            return Proof(f"failed: {type(error).__name__}: {error}")
        return proof
