"""Records as lines: they are read as they were written, and merging them has no order."""

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from te_interpreter import kernel_named
from te_kernels import random_kernel
from tuning_records import TARGET, key, record, run_row, trials

from vtac.dialects import te
from vtac.dialects.errors import CompileError
from vtac.dialects.target import PRESETS, Target
from vtac.tools.tune import keys
from vtac.tools.tune.database import Database
from vtac.tools.tune.records import (
    Record,
    TrialRow,
    line_of,
    merged,
    read_lines,
    trial_line,
    verify_texts,
)

NAMES = st.sampled_from("abcd")
VALUES = st.one_of(
    st.integers(-9, 9),
    st.booleans(),
    st.none(),
    st.text(max_size=4),
    st.lists(st.integers(0, 9), max_size=3).map(tuple),
    st.lists(st.text(max_size=2), max_size=3).map(tuple),
)
POINTS = st.dictionaries(st.text(max_size=6), VALUES, max_size=4)
RECORDS = st.builds(
    lambda name, version, point, cycles, default, proved: Record(
        key(name, version=version),
        f"text of {name}",
        keys.target_text(TARGET),
        point,
        cycles,
        default,
        None,
        proved,
        "0.1.0",
    ),
    NAMES,
    st.integers(1, 2),
    POINTS,
    st.integers(1, 5),
    st.one_of(st.none(), st.integers(1, 9)),
    st.booleans(),
)
LISTS = st.lists(RECORDS, max_size=6)


@given(RECORDS)
def test_a_line_is_read_as_it_was_written(found: Record) -> None:
    again = line_of(found.line)
    assert again == found and isinstance(again, Record) and again.line == found.line
    types = {name: type(value) for name, value in found.point.items()}
    assert {name: type(value) for name, value in again.point.items()} == types
    assert "\n" not in found.line


def test_a_trial_is_read_as_it_was_written() -> None:
    run = run_row()
    for number, trial in enumerate(trials(30)):
        again = line_of(trial_line(TrialRow(run, number, trial)))
        assert again == TrialRow(run, number, trial)


@given(LISTS, LISTS, LISTS)
def test_merging_has_no_order(a: list[Record], b: list[Record], c: list[Record]) -> None:
    def union(*groups: list[Record]) -> list[Record]:
        return list(merged(each for group in groups for each in group).values())

    def same(one: list[Record], other: list[Record]) -> bool:
        return {r.line for r in one} == {r.line for r in other}

    assert same(union(a, b), union(b, a))
    assert same(union(union(a, b), c), union(a, union(b, c)))
    assert same(union(a, a), union(a))
    assert all(min(r.cycles for r in a if r.key == one.key) == one.cycles for one in union(a))


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(LISTS, LISTS, st.lists(st.tuples(NAMES, st.integers(0, 3), st.integers(1, 4)), max_size=8))
def test_databases_merge_in_any_order(
    tmp_path_factory: pytest.TempPathFactory,
    a: list[Record],
    b: list[Record],
    found: list[tuple[str, int, int]],
) -> None:
    """Two databases that take over two groups in either order, and one of them twice, are equal."""
    folder = tmp_path_factory.mktemp("merge")
    runs = {name: run_row(name) for name in "abcd"}
    rows = [TrialRow(runs[name], number, trials(5, seed)[number]) for name, number, seed in found]
    half = len(rows) // 2
    contents = []
    for order in ((0, 1), (1, 0), (0, 1, 0, 1)):
        groups = [(a, rows[:half]), (b, rows[half:])]
        with Database.open(folder / f"{order}.db") as database:
            for which in order:
                database.offer(groups[which][0])
                database.add(groups[which][1])
            tables = {stored.run: database.trials(stored.id) for stored in database.runs()}
            contents.append(([r.line for r in database.records()], tables))
    assert contents[0] == contents[1] == contents[2]
    assert contents[0][0] == sorted(
        [r.line for r in merged([*a, *b]).values()],
        key=lambda line: [json.loads(line)[n] for n in ("kernel", "oracle", "template")],
    )


def changed(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda line: line.update(values)


BAD = {
    "cycles must be a whole number": [
        changed(cycles=0),
        changed(cycles=-5),
        changed(cycles=1.5),
        changed(cycles="9"),
        changed(cycles=True),
        changed(cycles=1 << 63),
        changed(cycles=None),
    ],
    "default must be a whole number": [changed(default=0)],
    "proved must be bool": [changed(proved=1), changed(proved="yes")],
    "cannot have the value": [
        changed(point={"tile.i0": 1.5}),
        changed(point={"tile.i0": {}}),
        changed(point={"order": [["i0"]]}),
        changed(point={"order": [True]}),
        changed(point={"order": [1, "i0"]}),
    ],
    "point is no table": [changed(point=[1]), changed(point=None)],
    "has version": [changed(v=2), changed(v=None)],
    "kernel is no SHA-256": [changed(kernel="../../etc/passwd"), changed(kernel="A" * 64)],
    "oracle is no SHA-256": [changed(oracle="")],
    "template must be NAME/VERSION": [
        changed(template="tiles"),
        changed(template="tiles/x"),
        changed(template="tiles/-1"),
        changed(template="tiles/²"),
        changed(template="/1"),
    ],
    "lacks bound, proved": [lambda line: (line.pop("proved"), line.pop("bound"))],
    "has the unknown 'colour'": [changed(colour="red")],
    "target is no table": [changed(target="pynq")],
    "text must be str": [changed(text=5)],
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_line_is_refused(what: str) -> None:
    for change in BAD[what]:
        values = json.loads(record().line)
        change(values)
        with pytest.raises(ValueError, match=what):
            line_of(json.dumps(values))


def test_lines_that_are_no_json() -> None:
    good = record().line
    for bad, what in (
        (good.replace("1000", "NaN"), "NaN is no number"),
        (good.replace("1000", "Infinity"), "Infinity is no number"),
        (good[:-1], "is not JSON"),
        ("[1]", "is no JSON object"),
        ("[" * 100_000, "nested too deeply"),
        (b"\xff\xfe", "is not"),
    ):
        with pytest.raises(ValueError, match=what):
            line_of(bad)


def test_a_file_with_bad_lines(tmp_path: Path) -> None:
    path, notes = tmp_path / "r.jsonl", list[str]()
    lines = [record("a").line, "nonsense", "", record("b").line, record("c", 0 + 7).line[:40]]
    path.write_text("\n".join(lines))
    with pytest.raises(CompileError, match=r"line 2: is not JSON") as raised:
        list(read_lines(path, notes.append))
    assert len(raised.value.problems) == 1
    assert notes == [f"{path}: line 5 is not finished, and left out"]
    found = [line for _, line in read_lines(path, notes.append, skip_bad=True)]
    assert found == [record("a"), record("b")]
    assert (len(notes) == 3 and "line 2" in notes[2]) or "line 2" in notes[1]


def test_the_text_of_a_kernel_is_its_digest(tmp_path: Path) -> None:
    digests = set()
    for number in range(40):
        module, _ = random_kernel(Random(number))
        kernel = kernel_named(module, "k")
        constants = (1,) if number % 2 else ()
        text = keys.kernel_text(kernel, constants)
        digest = keys.kernel_digest(kernel, constants)
        assert keys.digest_of_kernel_text(text) == digest
        assert keys.kernel_text(te.canonical_kernel(kernel), constants) == text
        again = keys.parsed_kernel(text)
        assert te.canonical_text(again) == te.canonical_text(kernel)
        assert keys.constants_in(again) == constants
        digests.add(digest)
    assert len(digests) > 30


def test_texts_that_are_not_canonical_are_refused() -> None:
    module, _ = random_kernel(Random(3))
    kernel = kernel_named(module, "k")
    text, digest = keys.kernel_text(kernel, ()), keys.kernel_digest(kernel, ())
    found = Record(
        keys.Key(digest, key().target, key().oracle, "tiles", 1),
        text,
        keys.target_text(TARGET),
        {},
        5,
    )
    verify_texts(found)
    for bad, what in (
        (text.replace("@kernel", "@other"), "is not canonical"),
        (text.replace('"s0"', '"t0"'), "is not canonical"),
        (text[:-20], "is no IR"),
        ("", "is no IR"),
        ("builtin.module {\n}\n", "does not have one kernel"),
        (text.replace("arith.addi", "arith.subi"), "another digest|is no IR"),
    ):
        changed = Record(found.key, bad, found.target_text, {}, 5)
        with pytest.raises(ValueError, match=what):
            verify_texts(changed)


def test_machines_are_known_by_their_fields() -> None:
    digests: dict[str, str] = {}
    for name in PRESETS:
        target = Target.named(name)
        text = keys.target_text(target)
        assert keys.target_digest(keys.target_of(text)) == keys.target_digest(target)
        assert name not in text
        digests[name] = keys.target_digest(target)
    pynq = Target.named("chisel-pynq")
    slower = pynq.replace(latency=99)
    assert keys.target_digest(slower) != keys.target_digest(pynq)
    assert keys.oracle_digest(slower.timing) != keys.oracle_digest(pynq.timing)
    quicker = pynq.replace(clock_mhz=500.0)
    assert keys.target_digest(quicker) == keys.target_digest(pynq)
    assert keys.oracle_digest(quicker.timing) == keys.oracle_digest(pynq.timing)
    assert keys.target_name(keys.target_text(pynq)) == "chisel-pynq"
    smaller = Target.named("pynq").replace(log_inp_buff_size=14)
    assert len(keys.target_name(keys.target_text(smaller))) == keys.DIGITS
    for bad in ("5", "{}", '{"log_block": 4}', keys.target_text(pynq).replace("4", '"x"')):
        with pytest.raises(ValueError):
            keys.target_of(bad)
