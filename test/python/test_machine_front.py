"""The Pareto front, and the designs that look for it, on artificial machines."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtac.dialects.target import Target
from vtac.tools.explore_machines.description import Description
from vtac.tools.explore_machines.design import BATCH, Design
from vtac.tools.explore_machines.exploration import Base, Exploration, explore
from vtac.tools.explore_machines.front import FALLS, MIXED, RISES, SAME, fields_on_front, front_of
from vtac.tools.explore_machines.outcome import Outcome, comparable
from vtac.tools.explore_machines.output import csv_of, json_of
from vtac.tools.explore_machines.processes import Finished
from vtac.tools.explore_machines.space import Candidate, MachineSpace
from vtac.tools.explore_machines.store import StudyStore

PAIRS = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), max_size=40)


def beats(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return a != b and a[0] <= b[0] and a[1] <= b[1]


@given(PAIRS)
def test_the_front_is_what_no_other_pair_beats(pairs: list[tuple[int, int]]) -> None:
    front = front_of(pairs)
    found = [pairs[place] for place in front]
    assert set(found) == {a for a in pairs if not any(beats(b, a) for b in pairs)}
    assert len(set(found)) == len(found)
    assert [pair[1] for pair in found] == sorted(pair[1] for pair in found)
    assert [pair[0] for pair in found] == sorted((pair[0] for pair in found), reverse=True)
    assert all(pairs.index(pairs[place]) == place for place in front)


@given(st.lists(st.tuples(st.none() | st.integers(1, 9), st.integers(0, 3)), max_size=20))
def test_machines_that_do_less_are_not_compared(figures: list[tuple[int | None, int]]) -> None:
    outcomes = [Outcome(cycles, macs=macs) for cycles, macs in figures]
    kept = comparable(outcomes)
    most = max((macs for cycles, macs in figures if cycles is not None), default=None)
    assert kept == [i for i, (cycles, macs) in enumerate(figures) if cycles and macs == most]


def test_the_fields_on_the_front() -> None:
    tried = [(4, "a", 1, None), (5, "a", 3, 7), (6, "b", 2, 7), (3, "b", 2, 7)]
    found = {field.name: field for field in fields_on_front("pqrs", tried, [0, 1, 2])}
    assert [found[name].trend for name in "pqrs"] == [RISES, RISES, MIXED, RISES]
    assert found["p"].tried == {3: 1, 4: 1, 5: 1, 6: 1} and found["p"].never == (3,)
    assert found["q"].front == {"a": 2, "b": 1}
    trends = [field.trend for field in fields_on_front("pqr", [(1, 5, 0), (1, 4, 0)], [0, 1])]
    assert trends == [SAME, SAME, FALLS]


def space(**limits: object) -> MachineSpace:
    """630 points, fewer machines."""
    given = {"limit": None, "where": ()} | limits
    return Description("chisel-pynq", cost="sram_bytes", **given).space()


def artificial(machine: Target) -> Outcome:
    """Cycles that fall with everything that costs, some more than others; some machines fail."""
    figures = machine.data
    if figures.log_wgt_buff_size == figures.log_acc_buff_size == 15:
        return Outcome(None, "no room")
    work = 1e6 / 4 ** (figures.log_block - 3)
    waits = sum(
        factor * 0.5**size
        for factor, size in (
            (4e8, figures.log_inp_buff_size),
            (9e9, figures.log_wgt_buff_size),
            (2e9, figures.log_acc_buff_size),
        )
    )
    return Outcome(round(work + waits), macs=7)


def evaluated(machines: list[Target], finished: Finished) -> None:
    for place, machine in enumerate(machines):
        finished(place, artificial(machine))


def shuffled(machines: list[Target], finished: Finished) -> None:
    """As several processes do: in another order."""
    order = list(range(len(machines)))
    random.shuffle(order)
    for place in order:
        finished(place, artificial(machines[place]))


def explored(
    machines: int, seed: int = 0, evaluate: object = evaluated, store: StudyStore | None = None
) -> Exploration:
    wanted = space()
    base = Base(wanted, artificial(wanted.base))
    kept = store or StudyStore(None, "study", "model")
    return explore("net", base, Design(wanted, machines, seed), kept, evaluate)


def test_a_small_space_is_looked_at_whole() -> None:
    found = explored(630)
    wanted = found.space
    machines = [wanted.candidate(point) for point in wanted.points()]
    assert found.is_whole
    assert [row.candidate for row in found.rows] == [
        each for each in machines if isinstance(each, Candidate)
    ]
    assert sum(found.refused.values()) + len(found.rows) == wanted.size


@pytest.mark.parametrize("seed", range(5))
def test_a_sample_finds_the_front(seed: int) -> None:
    """With a sixth of the machines it is near the true front, nearer than as many at random."""
    whole, found = explored(630), explored(100, seed)
    assert not found.is_whole and len(found.rows) == 100

    def ratio(rows: list[object]) -> float:
        """The mean, over the true front, of cycles at no more cost over those possible."""
        ratios = []
        for best in whole.front:
            within = [row for row in rows if row.candidate.cost <= best.candidate.cost]
            least = min((row.cycles for row in within), default=10 * best.cycles)
            ratios.append(least / best.cycles)
        return sum(ratios) / len(ratios)

    chosen = random.Random(seed).sample(whole.compared, 100)
    assert ratio(found.front) < ratio(chosen)
    assert ratio(found.front) < 1.15


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 120))
def test_no_machine_comes_twice(seed: int, machines: int) -> None:
    found = explored(machines, seed)
    points = Counter(row.candidate.point for row in found.rows)
    assert len(points) == len(found.rows) == machines
    assert all(count == 1 for count in points.values())


def test_the_order_of_evaluation_changes_nothing() -> None:
    random.seed(3)
    first, second = explored(90, 7), explored(90, 7, shuffled)
    assert json_of(first) == json_of(second) and csv_of(first) == csv_of(second)
    assert json_of(first) != json_of(explored(90, 8))


@pytest.mark.parametrize("stop", [0, 1, BATCH, 37, 89])
def test_an_interrupted_exploration_goes_on_where_it_stopped(stop: int, tmp_path: object) -> None:
    path = f"{tmp_path}/machines.db"
    asked: list[Target] = []

    def interrupted(machines: list[Target], finished: Finished) -> None:
        for place, machine in enumerate(machines):
            if len(asked) == stop:
                raise KeyboardInterrupt
            asked.append(machine)
            finished(place, artificial(machine))

    with pytest.raises(KeyboardInterrupt):
        explored(90, 7, interrupted, StudyStore(path, "study", "model"))
    before = len(asked)
    assert before == stop
    stop = -1
    found = explored(90, 7, interrupted, StudyStore(path, "study", "model"))
    assert len(asked) == 90 and len({str(machine) for machine in asked}) == 90
    assert json_of(found) == json_of(explored(90, 7))


def test_results_of_one_space_serve_another(tmp_path: object) -> None:
    path = f"{tmp_path}/machines.db"
    explored(630, store=StudyStore(path, "study", "model"))

    def never(machines: list[Target], finished: Finished) -> None:
        raise AssertionError("a machine is known")

    explored(50, 3, never, StudyStore(path, "study", "model"))
    with pytest.raises(AssertionError, match="a machine is known"):
        explored(50, 3, never, StudyStore(path, "another study", "model"))


def test_failures_that_may_pass_are_not_kept() -> None:
    store, machine = StudyStore(None, "study", "model"), Target.named("pynq")
    store.keep(machine, Outcome(None, "took too long", is_lasting=False))
    assert store.outcome(machine) is None
    store.keep(machine, Outcome(None, "no room"))
    assert store.outcome(machine) == Outcome(None, "no room")
    renamed = machine.replace(name="another name")
    assert store.outcome(renamed) == Outcome(None, "no room")
