"""The search over several kernels: order, stops, resuming, failures, proof, processes."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

import artificial_space as artificial
import pytest
from artificial_space import ArtificialScreen, Counting, problem_of, task

from vtac.dialects.errors import CompileError
from vtac.dialects.te import Point
from vtac.tools.tune.measure import FAILED_TIME, FAILED_WORKER, InProcess
from vtac.tools.tune.pool import LocalPool, measurer
from vtac.tools.tune.proof import Proof
from vtac.tools.tune.protocol import (
    SIMULATED,
    Best,
    NoJournal,
    Options,
    Quiet,
    Result,
    Run,
    Standing,
    Stops,
    Task,
    Trial,
)
from vtac.tools.tune.tuner import tune


class Memory(NoJournal):
    """A journal in memory. after: it fails when so many batches are recorded."""

    def __init__(self, after: int | None = None) -> None:
        self.trials: dict[Run, list[Trial]] = {}
        self.finished: dict[Run, Best] = {}
        self.left = after

    def recorded(self, run: Run) -> Sequence[Trial]:
        return list(self.trials.get(run, ()))

    def append(self, run: Run, first: int, trials: Sequence[Trial]) -> None:
        if self.left == 0:
            raise KeyboardInterrupt
        if self.left is not None:
            self.left -= 1
        known = self.trials.setdefault(run, [])
        assert first == len(known)
        known += trials

    def finish(self, run: Run, best: Best) -> None:
        self.finished[run] = best


class Heard(Quiet):
    """What was told of the search."""

    def __init__(self) -> None:
        self.order: list[str] = []

    def told(self, standing: Standing, trials: Sequence[Trial]) -> None:
        self.order.append(standing.task.name)


def found(results: Sequence[Result]) -> list[list[Trial]]:
    return [list(result.trials) for result in results]


def search(
    tasks: Sequence[Task],
    method: str = "model",
    options: Options | None = None,
    *,
    trials: int | None = 64,
    journal: Memory | None = None,
    of: Callable[[str, str, Point], Trial] = artificial.judge,
    **stops: float,
) -> tuple[list[Result], Counting]:
    measured = Counting(of)
    results = tune(
        tasks,
        method,
        options or Options(),
        stops=Stops(trials=trials, **{"near": 0.5, **stops}),  # type: ignore[arg-type]
        measurer=measured,
        journal=journal,
        problem_of=problem_of,
    )
    return results, measured


def test_the_best_trial_is_proved_and_recorded() -> None:
    journal = Memory()
    (result,), _ = search([task()], journal=journal)
    assert result.best is not None and result.best.proved and result.best.bound == 9_000
    assert result.best.trial.cycles == 10_000
    assert list(journal.finished.values()) == [result.best]
    assert journal.recorded(Run(task(), "model", Options())) == result.trials


def test_a_wrong_program_is_not_proved() -> None:
    class Wrong(Counting):
        def prove(self, asked: Sequence[tuple[Task, Point]]) -> list[Proof]:
            return [Proof("5 of 9 elements of out0 differ from the reference") for _ in asked]

    (result,) = tune(
        [task()], "default", stops=Stops(trials=8), measurer=Wrong(), problem_of=problem_of
    )
    assert result.best is not None and not result.best.proved
    assert "differ" in result.best.problem


def test_every_clocked_point_can_be_proved() -> None:
    """Wrong programs are passed over, whatever their cycles; the best right one is recorded."""
    executed: list[Point] = []

    def odd(module: str, template: str, point: Point) -> Proof:
        executed.append(point)
        return Proof("it is wrong" if artificial.KNOBS.value(point, "slots") == 2 else "", 9_000)

    measurer = InProcess(judge=artificial.judge, prover=odd)
    (found,) = tune(
        [task("a")],
        "random",
        stops=Stops(trials=40),
        measurer=measurer,
        problem_of=problem_of,
        prove_all=True,
    )
    clocked = [trial for trial in found.trials if trial.clocked]
    assert len(executed) == len(clocked)
    right = [t for t in clocked if artificial.KNOBS.value(t.point, "slots") != 2]
    assert right and len(right) < len(clocked)
    assert found.best is not None and found.best.proved
    assert found.best.trial.cycles == min(trial.cycles for trial in right if trial.cycles)


def test_kernels_that_matter_more_get_more_trials() -> None:
    tasks = [task("rare"), task("often", multiplicity=50)]
    results, _ = search(tasks, "annealing", trials=96)
    rare, often = (result.standing.trials for result in results)
    assert rare >= 16 and often > 2 * rare


def test_a_kernel_at_its_bound_is_left() -> None:
    tasks = [task("near", bound=10_000), task("far", bound=1)]
    results, _ = search(tasks, trials=400, near=1.003)
    assert results[0].standing.stopped == "close to its bound"
    assert results[0].standing.trials < 100 < results[1].standing.trials


def test_a_kernel_without_progress_is_left() -> None:
    (result,), _ = search([task()], trials=10_000, patience=40)
    assert result.standing.stopped == "no better one in 40 trials"
    cycles = [trial.cycles for trial in result.trials if trial.clocked]
    place = cycles.index(min(c for c in cycles if c is not None))
    assert len(cycles) - place <= 40 + 2 * Options().batch


def test_a_kernel_whose_trials_all_fail_is_dead_and_the_others_go_on() -> None:
    def dead(module: str, template: str, point: Point) -> Trial:
        return Trial(point, None, "refused") if module else artificial.judge("", template, point)

    results, _ = search([task("dead", "x", multiplicity=99), task("alive")], of=dead, trials=80)
    assert results[0].standing.stopped == "all trials failed" and results[0].best is None
    assert results[0].standing.trials <= 24 and results[1].standing.trials >= 56
    assert results[0].standing.cycles == results[0].standing.task.default_cycles


def test_a_mistake_of_the_compiler_fails_one_point() -> None:
    (result,), _ = search([task(module="raise=2")], trials=16)
    (why,) = {trial.why for trial in result.trials if trial.cycles is None}
    assert why == "failed: ValueError: a mistake of the compiler"


def test_a_small_space_ends() -> None:
    (result,), _ = search([task()], "p", Options(knobs=("form",)), trials=None)
    assert result.standing.stopped == "all points are tried"
    assert len(result.trials) == 10


def test_slow_points_are_told_their_simulated_cost() -> None:
    (result,), measured = search([task()], "random", trials=40)
    screened = [trial for trial in result.trials if trial.why == SIMULATED]
    assert result.standing.screened == len(screened) > 0
    assert result.standing.trials == len(measured.asked) == len(result.trials) - len(screened)
    assert not any(trial.clocked for trial in screened)
    (whole,), _ = search([task()], "random", Options(screen=0), trials=40)
    assert whole.standing.screened == 0


@pytest.mark.parametrize(
    ("method", "batches"),
    [*product(("model", "q", "annealing"), (0, 1, 3, 8)), ("tpe", 3), ("discrete-1+1", 3)],
)
def test_a_stopped_search_goes_on_where_it_was(method: str, batches: int) -> None:
    tasks = [task("a"), task("b", multiplicity=3)]
    whole, all_measured = search(tasks, method, trials=96)
    journal = Memory(batches)
    with pytest.raises(KeyboardInterrupt):
        search(tasks, method, journal=journal, trials=96)
    known = sum(len(trials) for trials in journal.trials.values())
    journal.left = None
    again, measured = search(tasks, method, journal=journal, trials=96)
    assert found(again) == found(whole)
    assert sum(result.standing.replayed for result in again) == known
    assert len(measured.asked) < len(all_measured.asked) or not batches
    more, last = search(tasks, method, journal=journal, trials=128)
    assert [trials[: len(old)] for trials, old in zip(found(more), found(whole), strict=True)] == (
        found(whole)
    )
    assert len(last.asked) <= 48


def test_trials_of_another_version_are_refused() -> None:
    journal = Memory()
    journal.trials[Run(task(), "model", Options())] = [Trial({"slots": 9}, 5)] * 8
    with pytest.raises(CompileError, match="another version of the compiler"):
        search([task()], journal=journal)


def test_an_interrupted_search_records_what_is_under_way() -> None:
    journal, heard = Memory(), Heard()
    results = tune(
        [task("a"), task("b")],
        measurer=Counting(),
        journal=journal,
        progress=heard,
        problem_of=problem_of,
        interrupted=lambda: len(heard.order) >= 3,
    )
    assert [result.best for result in results] == [None, None] and not journal.finished
    assert len(heard.order) == 4
    assert sum(map(len, journal.trials.values())) == sum(len(r.trials) for r in results)


@pytest.fixture(scope="module")
def pool() -> Iterator[LocalPool]:
    found = LocalPool(2, seconds=600, judge=artificial.judge, prover=artificial.proved)
    yield found
    found.close()


def test_any_number_of_processes_gives_the_same_trials(pool: LocalPool) -> None:
    tasks = [task("a"), task("b", multiplicity=3)]
    alone, _ = search(tasks, trials=48)
    results = tune(tasks, stops=Stops(trials=48, near=0.5), measurer=pool, problem_of=problem_of)
    assert found(results) == found(alone)
    assert all(result.best is not None and result.best.proved for result in results)


def test_workers_that_die_fail_their_point_alone(pool: LocalPool, tmp_path: Path) -> None:
    points: list[Point] = [{"slots": 7}, {"slots": 3}, {"slots": 4}]
    expected = [artificial.cycles(point) for point in points]
    trials = pool.submit(task(module="die=3"), points)()
    assert [trial.why for trial in trials] == ["", FAILED_WORKER, ""]
    trials = pool.submit(task(module=f"once={tmp_path / 'died'}"), points)()
    assert [trial.cycles for trial in trials] == expected


def test_a_point_that_hangs_fails_alone() -> None:
    point: Point = {"slots": 7}
    pool = LocalPool(1, seconds=0.5, judge=artificial.judge)
    try:
        (hung,) = pool.submit(task(module="hang=7"), [point])()
        assert hung.why == FAILED_TIME
        pool.seconds = 600
        (trial,) = pool.submit(task(), [point])()
        assert trial.cycles == artificial.cycles(point)
    finally:
        pool.close()


def test_no_process_is_refused() -> None:
    with pytest.raises(CompileError, match="0 processes"):
        measurer(0)


def test_the_default_bounds_what_is_reported() -> None:
    standing = Standing(task(), 3, 0, 0, Trial({}, 99_999))
    assert standing.cycles == artificial.cycles(ArtificialScreen().default)
