"""Measurement in local processes that are ended one by one: `vtac[tune]`.

A point that takes too long is ended with its process, which is replaced; the others go on. The
point of a process that died is measured once more, alone.
"""

import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from multiprocessing import get_context
from typing import Any

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import Point
from vtac.tools.tune.measure import (
    FAILED_TIME,
    FAILED_WORKER,
    InProcess,
    Judge,
    Measurer,
    Prover,
    failure,
    measure,
)
from vtac.tools.tune.proof import Proof, prove
from vtac.tools.tune.protocol import Task, Trial

SECONDS, PROOF_SECONDS = 20.0, 300.0
"""What a measurement and an execution of a program may take, of wall time."""


def measurer(jobs: int, seconds: float = SECONDS) -> Measurer:
    """Who measures with so many processes; one means this process itself."""
    if jobs < 1:
        raise CompileError(Problem("", f"{jobs} processes cannot measure", "Use 1 or more."))
    return InProcess() if jobs == 1 else LocalPool(jobs, seconds)


class LocalPool:
    """Processes of this machine. Raises `CompileError` where pebble is missing.

    seconds: what a measurement may take, of wall time.
    """

    def __init__(
        self,
        jobs: int,
        seconds: float = SECONDS,
        judge: Judge = measure,
        prover: Prover = prove,
    ) -> None:
        try:
            import pebble
        except ModuleNotFoundError:
            hint = "pip install 'vtac[tune]' does; one process needs nothing."
            what = "several processes need pebble, which is not installed"
            raise CompileError(Problem("", what, hint)) from None
        self._expired = pebble.ProcessExpired
        self.seconds, self._judge, self._prover = seconds, judge, prover
        self._pool: Any = pebble.ProcessPool(
            jobs, initializer=_ignore_interrupts, context=get_context("spawn")
        )

    def submit(self, task: Task, points: Sequence[Point]) -> Callable[[], list[Trial]]:
        """Hand the points to the processes."""
        futures = [self._schedule(task, point) for point in points]
        return lambda: self._trials(task, points, futures)

    def prove(self, asked: Sequence[tuple[Task, Point]]) -> list[Proof]:
        """Execute the programs, as many at once as there are processes."""
        futures = [
            self._pool.schedule(
                self._prover, args=[task.module, task.template, point], timeout=PROOF_SECONDS
            )
            for task, point in asked
        ]
        return [self._proof(future) for future in futures]

    def close(self) -> None:
        """End all processes, whatever they do."""
        self._pool.stop()
        self._pool.join()

    def _schedule(self, task: Task, point: Point) -> "Future[Trial]":
        arguments = [task.module, task.template, point]
        future: Future[Trial] = self._pool.schedule(
            self._judge, args=arguments, timeout=self.seconds
        )
        return future

    def _trials(
        self, task: Task, points: Sequence[Point], futures: Sequence["Future[Trial]"]
    ) -> list[Trial]:
        found = [self._trial(point, f) for point, f in zip(points, futures, strict=True)]
        for place, point in enumerate(points):
            if found[place].why == FAILED_WORKER:
                found[place] = self._trial(point, self._schedule(task, point))
        return found

    def _trial(self, point: Point, future: "Future[Trial]") -> Trial:
        try:
            return future.result()
        except FutureTimeout:
            return Trial(point, None, FAILED_TIME)
        except self._expired:
            return Trial(point, None, FAILED_WORKER)
        except Exception as error:  # one point must not end a search
            return failure(point, error)

    def _proof(self, future: "Future[Proof]") -> Proof:
        try:
            return future.result()
        except FutureTimeout:
            return Proof(FAILED_TIME)
        except Exception as error:  # the point is then not proved
            return Proof(f"failed: {type(error).__name__}: {error}")


def _ignore_interrupts() -> None:
    """Ctrl-C ends the search after its batch; the processes of a terminal all get it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
