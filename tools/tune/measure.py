"""Points by the clock: a pure function, and who calls it in this process.

Cycles depend neither on data nor on names, so a measurement needs the text of a kernel and nothing
else: it can run in any process on any machine.
"""

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from vtac.dialects.errors import CompileError
from vtac.dialects.te import Point
from vtac.tools.driver.collector import collector_seldom
from vtac.tools.tune.kernel import prepared
from vtac.tools.tune.proof import Proof, prove
from vtac.tools.tune.protocol import Task, Trial

Judge: TypeAlias = Callable[[str, str, Point], Trial]
"""Module text, template and point to a trial."""

Prover: TypeAlias = Callable[[str, str, Point], Proof]

FAILED_TIME = "failed: time"
FAILED_WORKER = "failed: worker died"


def measure(module: str, template: str, point: Point) -> Trial:
    """The trial of a point: its cycles, or why the compiler refused it."""
    started = time.process_time()
    try:
        with collector_seldom():
            cycles, why = prepared(module, template).cycles(point), ""
    except CompileError as error:
        cycles, why = None, "; ".join(problem.what for problem in error.problems)
    return Trial(point, cycles, why, round(1000 * (time.process_time() - started)))


def failure(point: Point, error: BaseException) -> Trial:
    """The trial of a point whose measurement raised what it should not."""
    return Trial(point, None, f"failed: {type(error).__name__}: {error}")


class Measurer(Protocol):
    """Measures the points that explorers ask for."""

    def submit(self, task: Task, points: Sequence[Point]) -> Callable[[], list[Trial]]:
        """Begin with some points; the result, when called, waits for their trials in order."""
        ...

    def prove(self, asked: Sequence[tuple[Task, Point]]) -> list[Proof]:
        """Execute programs and compare them with the integer reference."""
        ...

    def close(self) -> None:
        """End all processes."""
        ...


class InProcess:
    """Measures in this process, a point when its trial is wanted. There is no limit of time."""

    def __init__(self, judge: Judge = measure, prover: Prover = prove) -> None:
        self._judge, self._prover = judge, prover

    def submit(self, task: Task, points: Sequence[Point]) -> Callable[[], list[Trial]]:
        """Return a function that measures the points when it is called."""
        return lambda: [self._trial(task, point) for point in points]

    def prove(self, asked: Sequence[tuple[Task, Point]]) -> list[Proof]:
        """Execute the programs and compare their results, one after the other."""
        return [self._prover(task.module, task.template, point) for task, point in asked]

    def close(self) -> None:
        """There is nothing to end."""

    def _trial(self, task: Task, point: Point) -> Trial:
        try:
            return self._judge(task.module, task.template, point)
        except Exception as error:  # one point must not end a search
            return failure(point, error)
