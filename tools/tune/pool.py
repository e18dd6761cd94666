"""Measurement in local processes that are ended one by one: `vtac[tune]`.

A point that takes too long is ended with its process, which is replaced; the others go on. The
point of a process that died is measured once more (`vtac.runtime.processes`).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import TimeoutError as FutureTimeout

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import Point
from vtac.runtime.processes import Call, LostProcessError, Processes
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
        self.seconds, self._judge, self._prover = seconds, judge, prover
        hint = "pip install 'vtac[tune]' does; one process needs nothing."
        self._processes = Processes(jobs, hint)

    def submit(self, task: Task, points: Sequence[Point]) -> Callable[[], list[Trial]]:
        """Hand the points to the processes."""
        calls = [self._call(self._judge, task, point, self.seconds) for point in points]
        return lambda: list(map(_trial, points, calls))

    def prove(self, asked: Sequence[tuple[Task, Point]]) -> list[Proof]:
        """Execute the programs, as many at once as there are processes."""
        return list(map(_proof, [self._call(self._prover, *each, PROOF_SECONDS) for each in asked]))

    def close(self) -> None:
        """End all processes, whatever they do."""
        self._processes.close()

    def _call(self, function: Judge | Prover, task: Task, point: Point, seconds: float) -> Call:
        return self._processes.call(function, [task.module, task.template, point], seconds)


def _trial(point: Point, call: Call) -> Trial:
    try:
        trial: Trial = call.result()
        return trial
    except FutureTimeout:
        return Trial(point, None, FAILED_TIME)
    except LostProcessError:
        return Trial(point, None, FAILED_WORKER)
    except Exception as error:  # one point must not end a search
        return failure(point, error)


def _proof(call: Call) -> Proof:
    try:
        proof: Proof = call.result()
        return proof
    except FutureTimeout:
        return Proof(FAILED_TIME)
    except Exception as error:  # the point is then not proved
        return Proof(f"failed: {type(error).__name__}: {error}")
