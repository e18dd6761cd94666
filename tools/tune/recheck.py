"""Records and trials looked at again: timed by this compiler, or replayed for other methods."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from vtac.dialects.errors import CompileError
from vtac.dialects.target import TARGET_ATTRIBUTE
from vtac.dialects.te import CallOp, Point, point_text
from vtac.tools.tune.kernel import prepared
from vtac.tools.tune.keys import parsed_kernel, target_of
from vtac.tools.tune.methods import methods
from vtac.tools.tune.proof import Proof
from vtac.tools.tune.protocol import Options, Stops, Task, Trial
from vtac.tools.tune.records import Record, RunRow, TrialRow
from vtac.tools.tune.tasks import module_text, tasks_of
from vtac.tools.tune.tuner import tune
from vtac.tools.tune.verification import verify_record

NOT_RECORDED = "not recorded"
"""Why a replayed point has no cycles."""


@dataclass(frozen=True)
class Recheck:
    """A record timed again. cycles: None where it is refused, and then there is a problem."""

    record: Record
    cycles: int | None
    problem: str = ""

    @property
    def changed(self) -> bool:
        """Whether it is not what the record says."""
        return self.cycles != self.record.cycles

    @property
    def told(self) -> str:
        """What has changed, for people."""
        if self.cycles is None:
            return f"{self.record.cycles:,} cycles are recorded, now it is refused: {self.problem}"
        return f"{self.record.cycles:,} cycles are recorded, now it takes {self.cycles:,}"


def recheck(record: Record) -> Recheck:
    """Time a record with this compiler."""
    try:
        verify_record(record)
        module = task_module(record.text, record.target_text)
        kernel = prepared(module, record.key.template)
        if kernel.version != record.key.version:
            what = f"template '{record.key.template}' has version {kernel.version} now"
            return Recheck(record, None, what)
        return Recheck(record, kernel.cycles(record.point))
    except (CompileError, ValueError) as error:
        return Recheck(record, None, str(error))


@lru_cache(maxsize=256)
def task_module(text: str, target_text: str) -> str:
    """The text of a task's module (`Task.module`) for the texts of a record."""
    kernel = parsed_kernel(text)
    module = kernel.parent_op()
    assert module is not None
    module.attributes[TARGET_ATTRIBUTE] = target_of(target_text)
    call = next((op for op in module.walk() if isinstance(op, CallOp)), None)
    return module_text(kernel, call)


@dataclass(frozen=True)
class Replay:
    """What a method found for a kernel with recorded trials alone.

    trials: that it asked for; unknown: of them without a record. best: the fewest cycles, found at
    trial ``at``. recorded: the fewest cycles of all recorded trials.
    """

    kernel: str
    summary: str
    method: str
    trials: int
    unknown: int
    best: int | None
    at: int | None
    recorded: int

    def values(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return asdict(self)


def replayed(
    rows: Iterable[TrialRow], chosen: Sequence[str] | None, trials: int, seed: int
) -> list[Replay]:
    """Each kernel of the trials searched by each method, which is told recorded trials only."""
    kernels: dict[RunRow, dict[str, Trial]] = {}
    firsts: dict[object, RunRow] = {}
    for row in rows:
        first = firsts.setdefault(row.run.key, row.run)
        known = kernels.setdefault(first, {})
        if row.trial.clocked:
            known[point_text(row.trial.point)] = row.trial
    found = []
    for run, known in kernels.items():
        if not known:
            continue
        module = parsed_kernel(run.text).parent_op()
        assert module is not None
        kernel = parsed_kernel(task_module(run.text, run.target_text))
        owner = kernel.parent_op()
        assert owner is not None
        (task,) = tasks_of(owner, run.key.template)  # type: ignore[arg-type]
        for method in chosen or list(methods()):
            try:
                found.append(_replay(task, known, method, trials, seed))
            except CompileError as error:
                if chosen:
                    raise
                del error  # a method that needs what is not installed, or is not possible here
    return found


def _replay(task: Task, known: dict[str, Trial], method: str, trials: int, seed: int) -> Replay:
    options, stops = Options(seed=seed, screen=0), Stops(trials=trials, near=0)
    (result,) = tune([task], method, options, stops=stops, measurer=_Recorded(known))
    asked = list(result.trials)
    clocked = [(trial.cycles, n) for n, trial in enumerate(asked, 1) if trial.cycles is not None]
    best, at = min(clocked, default=(None, None))
    return Replay(
        task.digest,
        task.summary,
        method,
        len(asked),
        sum(trial.why == NOT_RECORDED for trial in asked),
        best,
        at,
        min(trial.cycles for trial in known.values() if trial.cycles is not None),
    )


class _Recorded:
    """A measurer that knows recorded trials and nothing else."""

    def __init__(self, known: dict[str, Trial]) -> None:
        self._known = known

    def submit(self, task: Task, points: Sequence[Point]) -> Callable[[], list[Trial]]:
        """The recorded trials of points."""
        found = [self._known.get(point_text(p), Trial(p, None, NOT_RECORDED)) for p in points]
        return lambda: found

    def prove(self, asked: Sequence[tuple[Task, Point]]) -> list[Proof]:
        """Nothing is executed."""
        return [Proof("it was replayed") for _ in asked]

    def close(self) -> None:
        """There is nothing to end."""
