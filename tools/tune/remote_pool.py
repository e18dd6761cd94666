"""Measurement by servers: the processes of one `vta-serve` or of several (`vtac[remote]`).

    pool = RemotePool([vtac.connect("127.0.0.1:9190", token)])
    vtac.tune(model, target, samples, "tune.db", measurer=pool)

Trials are the same for any number of places, as a search decides by what it was told, in the order
in which it asked. A point whose server is lost is measured elsewhere; the lost server is used again
when it answers. Once no place is left, the search ends with an error, and the batches before are
recorded.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import Point
from vtac.tools.tune.measure import FAILED_TIME, FAILED_WORKER
from vtac.tools.tune.pool import PROOF_SECONDS, SECONDS
from vtac.tools.tune.proof import Proof
from vtac.tools.tune.protocol import Task, Trial
from vtac.tools.tune.remote_work import MEASURE, PROVE, proof_of, request_of, trial_of

if TYPE_CHECKING:
    from vtac.runtime.remote.client import RemoteDevice

MOST_LOSSES = 5
"""How often the server of one point may be lost before the point itself is taken for the cause."""

PATIENCE = 30.0
"""Seconds without any place after which a search gives up."""

PAUSE = 0.2
"""Seconds between looks whether a place answers, or has room, again."""

QUEUE = 10
"""How many times its own seconds a request may wait for those of others."""


@dataclass
class _Job:
    """A request that some place answers. deaths: processes that ended over it."""

    service: str
    body: bytes
    seconds: float
    answer: "Future[bytes | str]" = field(default_factory=Future)
    losses: int = 0
    deaths: int = 0

    def fail(self, why: str) -> None:
        """It has no answer, for a reason that is the point's."""
        self.answer.set_result(why)


@dataclass
class _Place:
    """A server. lost: since when it does not answer. refused: why it is left for good."""

    device: "RemoteDevice"
    lost: float | None = None
    refused: CompileError | None = None


class RemotePool:
    """Servers that measure; they stay open, and are the caller's to close.

    seconds: what a measurement may take. patience: seconds to wait where no server answers.
    """

    def __init__(
        self,
        devices: Sequence["RemoteDevice"],
        seconds: float = SECONDS,
        patience: float = PATIENCE,
    ) -> None:
        if not devices:
            raise CompileError(Problem("", "there is no server that could measure"))
        self._seconds, self._patience = seconds, patience
        self._jobs = queue.SimpleQueue[_Job | None]()
        self._closed = threading.Event()
        self._places = [_Place(device) for device in devices]
        self._threads = [
            threading.Thread(target=self._work, args=(place,), daemon=True)
            for place in self._places
            for _ in range(place.device.workers)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, task: Task, points: Sequence[Point]) -> Callable[[], list[Trial]]:
        """Hand the points to the servers."""
        jobs = [self._begin(MEASURE, task, point, self._seconds) for point in points]
        return lambda: [self._trial(point, job) for point, job in zip(points, jobs, strict=True)]

    def prove(self, asked: Sequence[tuple[Task, Point]]) -> list[Proof]:
        """Execute the programs there."""
        jobs = [self._begin(PROVE, task, point, PROOF_SECONDS) for task, point in asked]
        return [self._proof(job) for job in jobs]

    def close(self) -> None:
        """End the threads that wait for answers. The servers go on."""
        self._closed.set()
        for _ in self._threads:
            self._jobs.put(None)

    def _begin(self, service: str, task: Task, point: Point, seconds: float) -> _Job:
        job = _Job(service, request_of(task.module, task.template, point), seconds)
        self._jobs.put(job)
        return job

    def _trial(self, point: Point, job: _Job) -> Trial:
        answer = self._answer(job)
        if isinstance(answer, str):
            return Trial(point, None, answer)
        try:
            return trial_of(answer, point)
        except ValueError as error:
            return Trial(point, None, f"failed: the answer {error}")

    def _proof(self, job: _Job) -> Proof:
        answer = self._answer(job)
        if isinstance(answer, str):
            return Proof(answer)
        try:
            return proof_of(answer)
        except ValueError as error:
            return Proof(f"failed: the answer {error}")

    def _answer(self, job: _Job) -> bytes | str:
        """The answer to a job, or why there is none. Raises `CompileError` without any place."""
        while True:
            try:
                return job.answer.result(timeout=PAUSE)
            except FutureTimeout:
                self._verify_places()

    def _verify_places(self) -> None:
        """Raise `CompileError` if every place refuses, or all have been lost for too long."""
        refused = [place.refused for place in self._places if place.refused is not None]
        lost = [place.lost for place in self._places if place.refused is None]
        if any(since is None for since in lost):
            return
        longest = max((since for since in lost if since is not None), default=0.0)
        if lost and time.monotonic() - longest < self._patience:
            return
        problems = [problem for error in refused for problem in error.problems]
        hint = "The same command goes on with the trials that are recorded."
        problems += [
            Problem(place.device.address, "does not answer any more", hint)
            for place in self._places
            if place.refused is None
        ]
        raise CompileError(problems)

    def _work(self, place: _Place) -> None:
        """Take jobs and have a place do them, until the pool is closed or the place refuses."""
        from vtac.runtime.remote.client import RefusedError, UnreachableError

        while (job := self._jobs.get()) is not None:
            if place.refused is not None or self._closed.is_set():
                self._jobs.put(job)
                return
            try:
                answer = place.device.ask(job.service, job.body, job.seconds, QUEUE * job.seconds)
            except UnreachableError:
                self._lost(place, job)
            except RefusedError as error:
                self._refused(place, job, error, error.status)
            else:
                job.answer.set_result(answer)

    def _lost(self, place: _Place, job: _Job) -> None:
        """Let another place do a job, and wait until this one answers again."""
        place.lost = place.lost or time.monotonic()
        job.losses += 1
        if job.losses > MOST_LOSSES:
            job.fail(FAILED_WORKER)
        else:
            self._jobs.put(job)
        while not self._closed.wait(PAUSE):
            if place.device.is_well():
                place.lost = None
                return

    def _refused(self, place: _Place, job: _Job, error: CompileError, status: int) -> None:
        """Try a job again, let it fail, or leave a place, by the status of its answer."""
        if status == HTTPStatus.GATEWAY_TIMEOUT:
            job.fail(FAILED_TIME)
            return
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            job.deaths += 1
            if job.deaths > 1:
                job.fail(FAILED_WORKER)
                return
        elif status == HTTPStatus.SERVICE_UNAVAILABLE:
            self._closed.wait(PAUSE)
        elif status != HTTPStatus.REQUEST_TIMEOUT:
            place.refused = error
        self._jobs.put(job)
