"""The search over several kernels: who is asked next, what is measured, when it ends.

The kernels share the trials, as in Ansor's task scheduler (Zheng et al., "Ansor", OSDI 2020): the
next batch goes to the kernel where most cycles of the network may still be gained. At most two
batches, of two kernels, are under way at a time, whatever the number of processes, so that one is
measured while the next is chosen; all decisions follow from what was told before, in the same
order.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vtac.dialects.errors import CompileError, Problem
from vtac.dialects.te import Knobs, Point
from vtac.tools.driver.collector import collector_seldom
from vtac.tools.tune.kernel import KernelScreen, prepared
from vtac.tools.tune.measure import InProcess, Measurer
from vtac.tools.tune.methods import DEFAULT_METHOD, explorer
from vtac.tools.tune.protocol import (
    SIMULATED,
    Best,
    Explorer,
    Journal,
    NoJournal,
    Options,
    Progress,
    Quiet,
    Result,
    Run,
    Screen,
    Standing,
    Stops,
    Task,
    Trial,
)

UNDER_WAY = 2
"""Number of batches submitted for measurement at a time."""

WINDOW = 32
"""Number of latest trials whose gain counts as recent."""

HOPE = 0.002
"""Relative gain assumed for every kernel in addition to its recent gain."""

WORTHWHILE = 0.25
"""A second kernel is measured at the same time only if its worth is at least this fraction of the
largest."""

HOPELESS = 400
"""A kernel is left after this many consecutive points that the simulated cost excludes."""

FIRST_BATCHES = 2
"""Number of batches of each kernel before kernels are compared by gain."""

ProblemOf = Callable[[Task], tuple[Knobs, Screen]]
"""The space of a kernel, and judgements of its points."""


def kernel_problem(task: Task) -> tuple[Knobs, Screen]:
    """The space that the task's template declares, and judgements by what buffers need."""
    kernel = prepared(task.module, task.template)
    return kernel.space, KernelScreen(kernel, task.default)


def tune(
    tasks: Sequence[Task],
    method: str = DEFAULT_METHOD,
    options: Options = Options(),  # noqa: B008
    *,
    stops: Stops = Stops(),  # noqa: B008
    measurer: Measurer | None = None,
    journal: Journal | None = None,
    progress: Progress | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    problem_of: ProblemOf = kernel_problem,
    prove_all: bool = False,
) -> list[Result]:
    """Search the schedules of some kernels; a result for each, in their order.

    measurer: who measures; it stays open. interrupted: asked between batches; once it says so, the
    batches under way are told and recorded, and nothing is proved. The best point of each kernel is
    executed otherwise, see `vtac.tools.tune.proof`; with prove_all every clocked point is, and the
    best of those whose programs are right is the best of the kernel. Raises `CompileError` where
    the method cannot run, or where the journal's trials are not those that the search asks.
    """
    search = _Search(
        [_Kernel(task, method, options, problem_of, journal or NoJournal()) for task in tasks],
        stops,
        measurer or InProcess(),
        journal or NoJournal(),
        progress or Quiet(),
        interrupted,
        prove_all,
    )
    with collector_seldom():
        return search.run()


@dataclass
class _Batch:
    """Points of one kernel that are under way. told: trials that are known already, by place."""

    kernel: "_Kernel"
    points: Sequence[Point]
    told: dict[int, Trial]
    rest: Callable[[], list[Trial]]
    replayed: bool

    def trials(self) -> list[Trial]:
        """All trials, in the order in which the points were asked; waits for them."""
        measured = iter(self.rest())
        return [
            self.told[place] if place in self.told else next(measured)
            for place in range(len(self.points))
        ]


class _Kernel:
    """The search over one kernel."""

    def __init__(
        self, task: Task, method: str, options: Options, problem_of: ProblemOf, journal: Journal
    ) -> None:
        self.task, self.options = task, options
        self.run = Run(task, method, options)
        self.trials: list[Trial] = []
        self.best: Trial | None = None
        self.best_after: list[int] = []
        self.recorded = deque(journal.recorded(self.run))
        self.spent = self.replayed = self.batches = 0
        self.stopped = ""
        self.busy = False
        knobs, self.screen = problem_of(task)
        self.explorer: Explorer = explorer(method, knobs, options, self.screen)

    @property
    def cycles(self) -> int:
        """The fewest cycles known, the default's included."""
        found = None if self.best is None else self.best.cycles
        known = self.task.default_cycles
        return known if found is None else min(found, known)

    def worth(self) -> float:
        """Cycles of the network that the next trial of this kernel may gain, roughly."""
        left = max(self.cycles - self.task.bound, 0)
        if self.batches < FIRST_BATCHES:
            return float("inf") if not self.batches else 1e12 + self.task.multiplicity * left
        recent = self.best_after[-WINDOW:]
        gain = (recent[0] - recent[-1]) / max(recent[-1], 1)
        since = len(self.best_after) - self.best_after.index(self.best_after[-1])
        return self.task.multiplicity * left * (gain + HOPE) / (WINDOW + since)

    def next(self, measurer: Measurer) -> _Batch | None:
        """The next batch; None where there are no more points."""
        points = self.explorer.ask(self.options.batch)
        if not points:
            self.stopped = "all points are tried"
            return None
        self.batches += 1
        self.busy = True
        told = self._recorded(points)
        if told is not None:
            return _Batch(self, points, told, list, True)
        told = {place: trial for place, trial in enumerate(map(self._screened, points)) if trial}
        rest = [point for place, point in enumerate(points) if place not in told]
        self.spent += len(rest)
        return _Batch(self, points, told, measurer.submit(self.task, rest), False)

    def tell(self, trials: Sequence[Trial]) -> None:
        """Take a batch."""
        self.busy = False
        self.explorer.tell(trials)
        for trial in trials:
            self.trials.append(trial)
            if trial.why == SIMULATED:
                continue
            if trial.clocked and (self.best is None or (trial.cycles or 0) < self.cycles_of_best):
                self.best = trial
            self.best_after.append(self.cycles)

    @property
    def cycles_of_best(self) -> int:
        """The cycles of the best clocked trial; one must have been."""
        assert self.best is not None and self.best.cycles is not None
        return self.best.cycles

    def stop(self, stops: Stops) -> None:
        """Leave the kernel where nothing more is to be expected."""
        tried = [trial for trial in self.trials if trial.why != SIMULATED]
        since = len(self.best_after) - self.best_after.index(self.cycles) if tried else 0
        clocked = (n for n, trial in enumerate(reversed(self.trials)) if trial.why != SIMULATED)
        if next(clocked, len(self.trials)) >= HOPELESS:
            self.stopped = f"{HOPELESS} points in a row were sure to be slower"
        elif not self.stopped and tried and self.cycles <= stops.near * self.task.bound:
            self.stopped = "close to its bound"
        elif self.batches >= FIRST_BATCHES and tried and self.best is None:
            self.stopped = "all trials failed"
        elif stops.patience is not None and since > stops.patience:
            self.stopped = f"no better one in {stops.patience} trials"

    def standing(self) -> Standing:
        """How far it has come."""
        screened = sum(trial.why == SIMULATED for trial in self.trials)
        tried = len(self.trials) - screened
        return Standing(self.task, tried, screened, self.replayed, self.best, self.stopped)

    def _screened(self, point: Point) -> Trial | None:
        """The trial of a point that is sure to be slow; None if the clock must say."""
        if self.best is None or not self.options.screen:
            return None
        limit = round(self.options.screen * self.cycles_of_best)
        cost = self.screen.cost(point, limit + 1)
        return Trial(point, cost, SIMULATED) if cost > limit else None

    def _recorded(self, points: Sequence[Point]) -> dict[int, Trial] | None:
        """The trials of a batch that was recorded; None if it was not."""
        if not self.recorded:
            return None
        found = [self.recorded.popleft() for _ in points[: len(self.recorded)]]
        if [dict(trial.point) for trial in found] != [dict(point) for point in points]:
            raise CompileError(
                Problem(
                    f"te.kernel @{self.task.name}",
                    f"the recorded trials are not those that this search asks for, from trial"
                    f" {len(self.trials)} on: another version of the compiler recorded them",
                    "Start afresh.",
                )
            )
        self.replayed += len(found)
        self.spent += sum(trial.why != SIMULATED for trial in found)
        return dict(enumerate(found))


@dataclass
class _Search:
    """The loop over batches."""

    kernels: Sequence[_Kernel]
    stops: Stops
    measurer: Measurer
    journal: Journal
    progress: Progress
    interrupted: Callable[[], bool]
    prove_all: bool = False
    started: float = field(default_factory=time.monotonic)

    def run(self) -> list[Result]:
        """Until a limit is reached, or nothing is left to try."""
        under_way = deque[_Batch]()
        while True:
            while len(under_way) < UNDER_WAY and not self._ended():
                batch = self._next()
                if batch is None:
                    break
                under_way.append(batch)
            if not under_way:
                break
            self._told(under_way.popleft())
        bests: list[Best | None] = [None] * len(self.kernels)
        if not self.interrupted():
            bests = self._proved()
        return [
            Result(kernel.standing(), best, kernel.trials)
            for kernel, best in zip(self.kernels, bests, strict=True)
        ]

    def _ended(self) -> bool:
        seconds, trials = self.stops.seconds, self.stops.trials
        return (
            self.interrupted()
            or (seconds is not None and time.monotonic() - self.started >= seconds)
            or (trials is not None and self._spent() >= trials)
        )

    def _spent(self) -> int:
        return sum(kernel.spent for kernel in self.kernels)

    def _next(self) -> _Batch | None:
        """A batch of the kernel that is worth most; None if there is none to be measured now."""
        while True:
            open_ones = [kernel for kernel in self.kernels if not kernel.stopped]
            ready = [kernel for kernel in open_ones if not kernel.busy]
            if not ready:
                return None
            kernel = max(ready, key=_Kernel.worth)
            if kernel.worth() < WORTHWHILE * max(map(_Kernel.worth, open_ones)):
                return None
            batch = kernel.next(self.measurer)
            if batch is not None:
                return batch
            self.progress.told(kernel.standing(), ())

    def _told(self, batch: _Batch) -> None:
        kernel, first = batch.kernel, len(batch.kernel.trials)
        trials = batch.trials()
        if not batch.replayed:
            self.journal.append(kernel.run, first, trials)
        kernel.tell(trials)
        kernel.stop(self.stops)
        self.progress.told(kernel.standing(), trials)

    def _proved(self) -> list[Best | None]:
        """The best trials, executed and recorded."""
        tried = [(kernel, trial) for kernel in self.kernels for trial in self._to_prove(kernel)]
        proofs = self.measurer.prove([(kernel.task, trial.point) for kernel, trial in tried])
        found: dict[int, Best] = {}
        for (kernel, trial), proof in zip(tried, proofs, strict=True):
            best = Best(trial, proof.bound or kernel.task.bound, not proof.problem, proof.problem)
            known = found.setdefault(id(kernel), best)
            if best.proved and not known.proved:  # those with fewer cycles come first
                found[id(kernel)] = best
        for kernel in self.kernels:
            if (chosen := found.get(id(kernel))) is not None:
                self.journal.finish(kernel.run, chosen)
                self.progress.finished(kernel.standing(), chosen)
        return [found.get(id(kernel)) for kernel in self.kernels]

    def _to_prove(self, kernel: _Kernel) -> list[Trial]:
        """The trials of a kernel that are executed, by rising cycles: the first best one first."""
        if kernel.best is None:
            return []
        if not self.prove_all:
            return [kernel.best]
        clocked = [trial for trial in kernel.trials if trial.clocked]
        return sorted(clocked, key=lambda trial: trial.cycles or 0)
