"""Every method of search finds good points of a space whose best one is known."""

from collections.abc import Sequence
from itertools import product
from random import Random
from typing import Any

import artificial_space as artificial
import pytest
from artificial_space import KNOBS, WITH_ORDER, ArtificialScreen, best_cycles, cycles

from vtac.dialects.errors import CompileError
from vtac.dialects.te import Knob, KnobKind, Knobs, Point, Value, point_text
from vtac.tools.tune.explorers import extras
from vtac.tools.tune.explorers.features import Features
from vtac.tools.tune.explorers.model import ALIKE
from vtac.tools.tune.explorers.moves import Moves
from vtac.tools.tune.ladder import Ladder
from vtac.tools.tune.methods import explorer, methods
from vtac.tools.tune.protocol import SIMULATED, Explorer, Options, Trial

GOOD = {
    "annealing": 1.06,
    "clocked": 1.60,
    "default": 1.9,
    "discrete-1+1": 1.10,
    "model": 1.0,
    "p": 1.08,
    "q": 1.10,
    "random": 1.20,
    "tpe": 1.06,
}
"""What each method reaches at least in 200 trials, times the best cycles; any of three seeds."""

SEARCHES = sorted(set(GOOD) - {"default", "clocked"})


def run(
    method: str,
    trials: int,
    options: Options | None = None,
    knobs: Knobs = KNOBS,
    screen: ArtificialScreen | None = None,
) -> tuple[Explorer, list[Trial]]:
    """Ask and tell until there are so many trials, or nothing is left."""
    options, screen = options or Options(), screen or ArtificialScreen(knobs)
    found = explorer(method, knobs, options, screen)
    told: list[Trial] = []
    while len(told) < trials:
        points = found.ask(min(options.batch, trials - len(told)))
        if not points:
            break
        new = [Trial(point, cycles(point, knobs)) for point in points]
        found.tell(new)
        told += new
    return found, told


def best(trials: Sequence[Trial]) -> int:
    return min(trial.cycles for trial in trials if trial.cycles is not None)


def test_every_method_has_a_bar() -> None:
    assert set(GOOD) | {"exhaustive"} == set(methods())


def test_the_space_has_the_optimum_that_it_states() -> None:
    assert KNOBS.size == 10_000
    assert cycles(artificial.BEST) == best_cycles() == 10_000
    assert sum(artificial.fits(point) for point in KNOBS.points()) < 10_000


LIBRARIES = {"tpe", "discrete-1+1"}
"""Methods that take most of their time themselves."""

OURS = sorted(set(GOOD) - LIBRARIES)


@pytest.mark.parametrize(
    ("method", "seed"), [*product(OURS, range(3)), *product(sorted(LIBRARIES), (0,))]
)
def test_methods_come_close_to_the_optimum(method: str, seed: int) -> None:
    _, trials = run(method, 200, Options(seed=seed))
    assert best(trials) <= GOOD[method] * best_cycles()
    assert trials[0].point == ArtificialScreen().default


@pytest.mark.parametrize("method", ["annealing", "p", "q", "model"])
def test_methods_that_learn_beat_random_ones(method: str) -> None:
    ours = [best(run(method, 120, Options(seed=seed))[1]) for seed in range(5)]
    others = [best(run("random", 120, Options(seed=seed))[1]) for seed in range(5)]
    assert sum(ours) < sum(others)


def test_the_model_needs_few_trials() -> None:
    for seed in range(5):
        _, trials = run("model", 24, Options(seed=seed, cold=True))
        assert best(trials) == best_cycles()


def test_exhaustive_search_finds_the_best_point_and_refuses_large_spaces() -> None:
    _, trials = run("exhaustive", 20_000)
    assert best(trials) == best_cycles()
    assert len(trials) == sum(artificial.fits(point) for point in KNOBS.points())
    with pytest.raises(CompileError, match=r"10,000 points, and the limit is 9,999"):
        run("exhaustive", 1, Options(limit=9_999))


@pytest.mark.parametrize("method", sorted(GOOD))
def test_points_fit_and_are_asked_once(method: str) -> None:
    count = 60 if method in LIBRARIES else 300
    _, trials = run(method, count, Options(seed=4), WITH_ORDER)
    texts = [point_text(trial.point) for trial in trials]
    assert len(set(texts)) == len(texts)
    assert all(WITH_ORDER.check(trial.point) is None for trial in trials)
    assert all(artificial.fits(trial.point, WITH_ORDER) for trial in trials)


@pytest.mark.parametrize("method", SEARCHES)
def test_seed_and_told_trials_fix_what_is_asked(method: str) -> None:
    found = {}
    for seed, oracle in product((3, 5), ("clock", "simulation")):
        options = Options(seed=seed, oracle=oracle, simulations=40)  # type: ignore[arg-type]
        one, other = (run(method, 40, options, WITH_ORDER)[1] for _ in range(2))
        assert one == other
        found[seed, oracle] = one
    assert found[3, "clock"] != found[5, "clock"]


@pytest.mark.parametrize("method", SEARCHES)
def test_refused_points_are_no_obstacle(method: str) -> None:
    screen = ArtificialScreen()
    found = explorer(method, KNOBS, Options(), screen)
    told: list[Trial] = []
    for _ in range(12):
        new = [
            Trial(point, None, "refused")
            if KNOBS.value(point, "slots") == 2
            else Trial(point, cycles(point))
            for point in found.ask(8)
        ]
        found.tell(new)
        told += new
    assert len(told) == 96 and {trial.cycles is None for trial in told} == {True, False}


@pytest.mark.parametrize("method", SEARCHES)
def test_all_points_refused_is_no_obstacle(method: str) -> None:
    found = explorer(method, KNOBS, Options(), ArtificialScreen())
    for _ in range(3):
        asked = found.ask(8)
        assert len(asked) <= 8
        found.tell([Trial(point, None, "refused") for point in asked])


def test_a_cold_start_does_without_the_default_point() -> None:
    for method in SEARCHES:
        _, trials = run(method, 8, Options(cold=True))
        assert ArtificialScreen().default not in [trial.point for trial in trials]


def test_knobs_that_no_pattern_names_stay_as_they_are() -> None:
    default: Point = {"tile.b": 24, "form": "f3"}
    for method in ("exhaustive", "model", "p", "q", "tpe"):
        options = Options(knobs=("tile.*",))
        _, trials = run(method, 30, options, screen=ArtificialScreen(default=default))
        assert {KNOBS.value(trial.point, "form") for trial in trials} == {"f3"}
        assert {KNOBS.value(trial.point, "slots") for trial in trials} == {2}
    _, trials = run("exhaustive", 200, Options(knobs=("tile.*",), limit=100))
    assert len(trials) == sum(
        artificial.fits(point) for point in KNOBS.points() if not point.keys() & {"form", "slots"}
    )


def test_the_ladder_clocks_the_best_simulated_points() -> None:
    screen = ArtificialScreen()
    options = Options(oracle="simulation", simulations=400, finalists=5)
    found, trials = run("annealing", 100, options, screen=screen)
    assert isinstance(found, Ladder)
    assert len(found.trace) == 400 and {trial.why for trial in found.trace} == {SIMULATED}
    assert len(trials) == 5 and screen.default in [trial.point for trial in trials]
    cheapest = sorted(trial.cycles or 0 for trial in found.trace)[:4]
    asked = [screen.cost(t.point) for t in trials if t.point != screen.default]
    assert sorted(asked) == cheapest


def test_one_network_for_each_knob_is_a_choice() -> None:
    _, trials = run("q", 200, Options(networks="per-knob"))
    assert best(trials) <= GOOD["q"] * best_cycles()


def test_an_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(extras.importlib, "import_module", missing)
    for method, extra in (("tpe", "optuna"), ("discrete-1+1", "nevergrad")):
        with pytest.raises(CompileError, match=rf"vtac\[{extra}\]"):
            run(method, 1)


def test_an_unknown_method_is_refused_with_the_choices() -> None:
    with pytest.raises(CompileError, match=r"no method 'genetic'.*\n.*annealing, clocked"):
        run("genetic", 1)


def test_vectors_of_points_differ_where_points_do() -> None:
    features = Features(WITH_ORDER)
    points = [WITH_ORDER.step({}, direction) for direction in WITH_ORDER.directions]
    vectors = [features(point) for point in [{}, *points] if point is not None]
    assert all(vector.shape == (features.length,) for vector in vectors)
    assert len({vector.tobytes() for vector in vectors}) == len(
        {point_text(point) for point in [{}, *points] if point is not None}
    )
    assert all(vector.min() >= 0 and vector.max() <= 1 for vector in vectors)


@pytest.mark.parametrize("knobs", [KNOBS, WITH_ORDER])
def test_moves_stay_in_the_space_and_reach_every_value(knobs: Knobs) -> None:
    moves = Moves(knobs, Random(1))
    met: dict[str, set[Value]] = {name: set() for name in knobs.knobs}
    point, others = moves.draw(), [moves.draw() for _ in range(3)]
    for _ in range(3_000):
        point = moves.step(point, others)
        assert knobs.check(point) is None
        for name in knobs.knobs:
            met[name].add(knobs.value(point, name))
    assert {name: len(values) for name, values in met.items()} == {
        name: knob.count for name, knob in knobs.knobs.items()
    }


def test_a_knob_with_one_value_keeps_it_even_if_it_is_not_its_default() -> None:
    fixed = Knob("a", KnobKind.CHOICE, (3,), 1)
    moves = Moves(Knobs([fixed, Knob("b", KnobKind.ORDERED, (1, 2), 1)]), Random(0))
    drawn = [moves.draw() for _ in range(50)]
    assert {point.get("a") for point in drawn} == {3}
    assert {moves.step(point, drawn).get("a") for point in drawn} == {3}


class CostOfSize(ArtificialScreen):
    """Every point fits, and its simulated cost follows from one knob alone."""

    def fits(self, point: Point) -> bool:
        return True

    def cost(self, point: Point, limit: int | None = None) -> int:
        return 1_000 + 10 * int(str(self.knobs.value(point, "size")))


def test_points_of_one_simulated_cost_come_last() -> None:
    """Half of the knobs make no difference to the cost: their points are not clocked one by one."""
    idle = [Knob(f"idle{n}", KnobKind.CHOICE, tuple(range(6)), 0) for n in range(2)]
    knobs = Knobs([Knob("size", KnobKind.ORDERED, tuple(range(1, 21)), 1), *idle])
    screen = CostOfSize(knobs)
    asked = explorer("model", knobs, Options(cold=True), screen).ask(16)
    costs = [screen.cost(point) for point in asked]
    assert all(costs.count(cost) <= ALIKE for cost in costs)
