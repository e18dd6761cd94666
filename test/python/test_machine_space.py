"""Spaces of machines: what users may say, what the target refuses, and all problems at once."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtac.dialects.errors import CompileError
from vtac.dialects.target import PRESETS, Target, TargetError
from vtac.tools.explore_machines.description import BY_DEFAULT, Description, usual_values
from vtac.tools.explore_machines.reading import Texts, described, values_of
from vtac.tools.explore_machines.space import Candidate, Refused, machine_digest


def problems(texts: Texts) -> list[str]:
    with pytest.raises(CompileError) as refused:
        described(texts).space()
    return list(map(str, refused.value.problems))


@pytest.mark.parametrize("preset", PRESETS)
def test_the_space_without_any_options(preset: str) -> None:
    space = described(Texts(target=preset)).space()
    assert space.names == BY_DEFAULT and space.cost.text == "area"
    found = [space.candidate(point) for point in space.points()]
    machines = [each for each in found if isinstance(each, Candidate)]
    assert len(machines) > 200
    assert any(each.machine == Target.named(preset) for each in machines)
    assert len({machine_digest(each.machine) for each in machines}) == len(machines)


def test_options_say_which_machines() -> None:
    texts = Texts(
        target="chisel-de10",
        vary=[
            "log_block=4,5",
            "port_bytes",
            "latency=8..10",
            "fetch_ahead",
            "inp_beat_limit=none,64",
        ],
        fix=["read_channels=2", "alu_mul=true"],
        cost="sram_bytes / 2",
        where=["latency < 10 or port_bytes == 4"],
        limit=300_000,
    )
    space = described(texts).space()
    assert space.fields == {
        "log_block": (4, 5),
        "port_bytes": (4, 8, 16, 32),
        "latency": (8, 9, 10),
        "fetch_ahead": (False, True),
        "inp_beat_limit": (None, 64),
    }
    assert space.size == 2 * 4 * 3 * 2 * 2
    for point in space.points():
        answer, values = space.candidate(point), space.values(point)
        wanted = values["latency"] != 10 or values["port_bytes"] == 4
        assert isinstance(answer, Candidate) == wanted
        if isinstance(answer, Candidate):
            timing = answer.machine.timing
            assert (timing.read_channels, timing.port_bytes) == (2, values["port_bytes"])
            assert answer.machine.alu_mul and answer.cost == 233_472


def test_a_file_says_the_same(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text(
        'base = "pynq"\ncost = "sram_bytes"\nwhere = ["block > 8"]\nlimit_cost = 5e5\n'
        'fix = { latency = 40 }\n[vary]\nlog_block = [5, 3, 4]\nport_bytes = "usual"\n'
    )
    space = described(Texts(str(file))).space()
    same = Texts(
        target="pynq",
        vary=["log_block=3..5", "port_bytes"],
        fix=["latency=40"],
        cost="sram_bytes",
        where=["block > 8"],
        limit=5e5,
    )
    assert space.digest == described(same).space().digest
    changed = described(Texts(str(file), "sim", ["log_block=4"], cost="area")).space()
    assert changed.base == Target.named("sim").replace(latency=40)
    assert changed.fields == {"log_block": (4,), "port_bytes": (4, 8, 16, 32)}
    assert changed.cost.text == "area" and changed.limit == 5e5


@given(st.sampled_from(sorted(PRESETS)), st.data())
def test_a_machine_is_what_the_target_accepts(preset: str, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(BY_DEFAULT), min_size=1, unique=True))
    vary = {
        name: data.draw(st.lists(st.integers(-1, 22), min_size=1, unique=True)) for name in names
    }
    space = Description(preset, vary).space()
    point = tuple(data.draw(st.integers(0, size - 1)) for size in space.sizes)
    answer = space.candidate(point)
    try:
        machine = Target.named(preset).replace(**space.values(point))
    except TargetError:
        assert isinstance(answer, Refused)
    else:
        assert isinstance(answer, Candidate) and answer.machine == machine


@given(st.data())
def test_neighbours_are_one_step_away(data: st.DataObject) -> None:
    space = described(Texts(vary=["log_block", "port_bytes", "latency"])).space()
    point = tuple(data.draw(st.integers(0, size - 1)) for size in space.sizes)
    around = space.neighbours(point)
    assert len(set(around)) == len(around) and point not in around
    for other in around:
        steps = sorted(b - a for a, b in zip(point, other, strict=True))
        assert steps in ([-1, 0, 0], [0, 0, 1], [-1, 0, 1])
    assert set(around) == {
        other for other in space.points() if other != point and point in space.neighbours(other)
    }


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (Texts(vary=["log_blok=3"]), "no such field (did you mean log_block"),
        (Texts(vary=["log_block="]), "is not FIELD=A,B,C"),
        (Texts(vary=["=3"]), "is not FIELD=A,B,C"),
        (Texts(vary=["log_block=3,3"]), "field log_block: has the value 3 twice"),
        (Texts(vary=["log_block=3", "log_block=4"]), "log_block is given twice"),
        (Texts(vary=["log_block=x"]), "log_block must be int, not 'x'"),
        (Texts(vary=["port_bytes=8,9"]), "port_bytes must be a power of two, not 9"),
        (Texts(vary=["queue_depth"]), "field queue_depth: has no usual values"),
        (Texts(vary=["name=a,b"]), "field name: a machine has no such field"),
        (Texts(vary=["timing=fast"]), "there is no timing preset 'fast'"),
        (Texts(vary=["log_block"], fix=["log_block=3"]), "cannot be fixed and vary"),
        (Texts(fix=["latency"]), "--fix latency: is not FIELD=VALUE"),
        (Texts(fix=["latency="]), "is not FIELD=VALUE"),
        (Texts(fix=["latency=1", "latency=2"]), "latency is given twice"),
        (Texts(fix=["latency=-1"]), "latency must be 0 to"),
        (Texts(fix=["log_wgt_buff_size=30"]), "fix: log_wgt_buff_size is 30"),
        (Texts(fix=["nothing=9"]), "field nothing: a machine has no such field"),
        (Texts(cost="sram"), "cost: 'sram': there is no 'sram'"),
        (Texts(where=["block"], cost="1 +"), "cost: '1 +' is no formula"),
        (Texts(where=["x > 1"]), "where: 'x > 1': there is no 'x'"),
        (Texts(target="nobody"), "'nobody' is neither a target preset"),
        (Texts("absent.toml"), "cannot read absent.toml"),
    ],
)
def test_what_is_refused(texts: Texts, expected: str) -> None:
    assert any(expected in problem for problem in problems(texts))


def test_all_problems_are_told_at_once() -> None:
    texts = Texts(vary=["a=1", "log_block=x,y", "latency=-1"], cost="b", where=["c", "d"])
    found = problems(texts)
    for part in ("field a:", "'x'", "'y'", "latency must be", "'b'", "'c'", "'d'"):
        assert any(part in problem for problem in found), part
    found = problems(Texts("absent.toml", vary=["=", "="], fix=["x"]))
    assert len(found) == 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1", "x: there is no such key"),
        ("base = 3", "base: must be a text"),
        ("vary = 3", "vary: must be a table"),
        ("[vary]\nlog_block = 3", 'vary.log_block: must be a list of values, or "usual"'),
        ("[vary]\nlog_block = [[3]]", "vary.log_block: must be a list of values"),
        ("[fix]\nlatency = [3]", "fix.latency: must be a value"),
        ("where = 'a'", "where: must be a list"),
        ("where = [1]", "where: must be a list of formulas"),
        ("limit_cost = true", "limit_cost: must be a number"),
        ("limit_cost = ", "is not TOML"),
    ],
)
def test_files_that_are_wrong(text: str, expected: str, tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text(text)
    assert any(
        str(file) in problem and expected in problem for problem in problems(Texts(str(file)))
    )


def test_everything_that_is_wrong_with_a_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text("base = 3\nx = 1\ny = 2\ncost = 1\n[vary]\nlog_block = 3\n")
    assert len(problems(Texts(str(file)))) == 5


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1, 2", [1, 2]),
        ("3..5,8", [3, 4, 5, 8]),
        ("5..3", []),
        ("1.5,true,none,x", [1.5, True, None, "x"]),
        ("a..b", ["a..b"]),
        (" , ", []),
    ],
)
def test_lists_of_values(text: str, values: list[Any]) -> None:
    assert values_of(text) == values


def test_a_range_is_not_gone_through_to_its_end() -> None:
    assert len(values_of("1..99999999999")) <= 1001


def test_usual_values_are_those_of_the_target() -> None:
    base = Target.named("ultra96")
    for name in base.fields():
        for value in usual_values(base, name) or ():
            changed = base.data.replace(**{name: value})
            assert getattr(changed, name, value) == value


def test_a_formula_without_a_value_refuses_the_machine() -> None:
    space = Description(vary={"latency": [0, 1]}, cost="1 / latency").space()
    first, second = map(space.candidate, space.points())
    assert isinstance(first, Refused) and "a formula has no value" in first.why
    assert isinstance(second, Candidate) and second.cost == 1
    assert space.cost_of(space.base) == 1 / 16
