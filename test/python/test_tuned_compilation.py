"""Compilations with recorded schedules: used where they hold, exact, and never to the worse."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from digits_model import MODEL, save_images
from tuning_records import records_of, write_records
from xdsl.dialects.builtin import ModuleOp

import vtac
from vtac.dialects.errors import CompileError
from vtac.dialects.target import Target
from vtac.runtime.package import package_to_bytes, read_package
from vtac.tools.commands import vta_compile
from vtac.tools.driver.compiled_cache import compilation_digest
from vtac.tools.driver.options import CompileOptions
from vtac.tools.tune import lookup
from vtac.tools.tune.database import Database
from vtac.tools.tune.lookup import Tuning
from vtac.tools.tune.records import Record

TARGET = Target.named("chisel-pynq")
SMALL = TARGET.replace(log_acc_buff_size=12, log_inp_buff_size=12)


@pytest.fixture(autouse=True)
def none_shipped(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No records come with vtac: these tests say which there are."""
    monkeypatch.setattr(lookup, "SHIPPED", tmp_path_factory.mktemp("shipped"))


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "samples.npz"
    save_images(path, 8)
    return path


def compiled(samples: Path, tuning: Any, target: Target = TARGET, **options: Any) -> vtac.Module:
    return vtac.compile(str(MODEL), target, str(samples), tuning=tuning, **options)


def kernels(samples: Path, target: Target = TARGET) -> ModuleOp:
    """The level te of the model."""
    found: list[ModuleOp] = []

    def observe(level: str, module: ModuleOp, ctx: object) -> None:
        if level == "te":
            found.append(module.clone())

    compiled(samples, False, target, observe=observe)
    return found[0]


@pytest.fixture(scope="module")
def default(samples: Path) -> vtac.Module:
    return compiled(samples, False)


@pytest.fixture(scope="module")
def records(samples: Path) -> list[Record]:
    found = records_of(kernels(samples), TARGET, 1)
    assert len(found) >= 2
    return found


def outputs(module: vtac.Module, samples: Path) -> dict[str, Any]:
    with np.load(samples) as arrays:
        return module.run({name: arrays[name] for name in arrays.files})


@pytest.mark.parametrize("seed", range(4))
def test_a_tuned_program_is_exact(
    seed: int, samples: Path, default: vtac.Module, tmp_path: Path
) -> None:
    """Whatever points are recorded: other programs, and the same integers."""
    found = records_of(kernels(samples), TARGET, seed)
    module = compiled(samples, write_records(tmp_path / "r.jsonl", found))
    assert len(module.report.tuned) == len(found)
    assert package_to_bytes(module.package) != package_to_bytes(default.package)
    expected, got = outputs(default, samples), outputs(module, samples)
    assert all(np.array_equal(expected[name], got[name]) for name in expected)
    assert module.profile().cycles <= 1.2 * default.profile().cycles


def test_the_same_records_give_the_same_bytes(
    samples: Path, records: list[Record], tmp_path: Path
) -> None:
    lines = write_records(tmp_path / "r.jsonl", records)
    with Database.open(tmp_path / "tune.db") as database:
        database.offer(records)
    found = [compiled(samples, each) for each in (lines, lines, tmp_path / "tune.db")]
    assert len({package_to_bytes(module.package) for module in found}) == 1
    assert all(len(module.report.tuned) == len(records) for module in found)


def test_without_a_record_the_bytes_are_those_of_no_tuning(
    samples: Path, default: vtac.Module, records: list[Record], tmp_path: Path
) -> None:
    empty = write_records(tmp_path / "empty.jsonl", [])
    other = Target.named("chisel-pynq").replace(latency=40)
    stranger = write_records(
        tmp_path / "other.jsonl", records_of(kernels(samples, other), other, 1)
    )
    for tuning in (empty, stranger, []):
        module = compiled(samples, tuning)
        if not any(choice.record for choice in module.report.schedules):
            assert package_to_bytes(module.package) == package_to_bytes(default.package)
    assert compiled(samples, stranger, other).report.tuned


def test_the_first_file_counts_most(samples: Path, records: list[Record], tmp_path: Path) -> None:
    first = write_records(tmp_path / "first.jsonl", [records[0]])
    rest = write_records(tmp_path / "rest.jsonl", [replace(r, bound=2) for r in records])
    module = compiled(samples, [first, rest])
    sources = {choice.record.source for choice in module.report.schedules if choice.record}
    assert sources == {"first.jsonl", "rest.jsonl"}
    assert {record.name for _, record in module.report.tuned} >= {records[0].name}


def changed(**values: Any) -> Callable[[Record], Record]:
    return lambda record: replace(record, **values)


STALE = {
    "is of version 9 of template 'tiles', which has": lambda r: replace(
        r, key=replace(r.key, version=9)
    ),
    "there is no template 'moon'": lambda r: replace(r, key=replace(r.key, template="moon")),
    "there is no knob 'colour'": changed(point={"colour": 1}),
    "knob 'slots.inp' has no value 77": changed(point={"slots.inp": 77}),
    "knob 'slots.inp' has no value true": changed(point={"slots.inp": True}),
    "knob 'order' has no value i0,i0": changed(point={"order": ("i0", "i0")}),
    "the kernel's text is not that of its digest": changed(text="tampered"),
    "exceeds the": changed(point={"slots.inp": 1, "slots.wgt": 1, "slots.acc": 1, "tile.i2": 1}),
    "it needs": changed(point={"slots.inp": 4, "slots.wgt": 4, "slots.acc": 3}),  # on `SMALL`
}


@pytest.mark.parametrize("reason", STALE)
def test_what_does_not_hold_is_not_used(
    reason: str, samples: Path, default: vtac.Module, records: list[Record], tmp_path: Path
) -> None:
    largest = max(records, key=lambda record: record.cycles)
    path = write_records(tmp_path / "r.jsonl", [STALE[reason](largest)])
    if reason == "it needs":
        found = records_of(kernels(samples, SMALL), SMALL, 1)
        whole = max(found, key=lambda record: record.cycles)
        path = write_records(tmp_path / "r.jsonl", [STALE[reason](whole)])
        module, plain = compiled(samples, path, SMALL), compiled(samples, False, SMALL)
    else:
        module, plain = compiled(samples, path), default
    assert not module.report.tuned
    notes = [note for note in module.report.notes if reason in note]
    assert len(notes) == 1, module.report.notes
    assert package_to_bytes(module.package) == package_to_bytes(plain.package)


def test_a_file_that_is_none(samples: Path, tmp_path: Path, default: vtac.Module) -> None:
    (tmp_path / "bad.jsonl").write_text('{"v": 1}\n{"v": 2}\n')
    (tmp_path / "db").write_bytes(b"SQLite format 3\0" + b"\0" * 200)
    with pytest.raises(CompileError) as raised:
        compiled(samples, [tmp_path / "bad.jsonl", tmp_path / "absent", tmp_path / "db"])
    told = [str(problem) for problem in raised.value.problems]
    assert len(told) == 4
    assert "line 1: lacks" in told[0] and "line 2: has version 2" in told[1]
    assert "there is no such file of records" in told[2] and "is not a SQLite" in told[3]


def test_the_command(
    samples: Path,
    records: list[Record],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path, out = write_records(tmp_path / "r.jsonl", records), tmp_path / "m.vtapkg"
    base = [str(MODEL), "--target", "chisel-pynq", "--calibrate", str(samples), "-o", str(out)]
    vta_compile.main([*base, "--tuning", str(path), "--json"])
    found = json.loads(capsys.readouterr().out)
    tuned = [each for each in found["schedules"] if each["origin"] == "tuned"]
    assert {each["record"]["name"] for each in tuned} == {record.name for record in records}
    assert all(each["record"]["source"] == "r.jsonl" for each in tuned)
    assert all(each["record"]["gain"] > 0.95 and each["layers"] for each in tuned)
    with_option = out.read_bytes()
    listed = read_package(out).tuning
    assert {each.name for each in listed} == {record.name for record in records}
    assert {each.cycles for each in listed} == {record.cycles for record in records}
    monkeypatch.setenv("COLUMNS", "200")
    vta_compile.main([*base, "--tuning", str(path), "--explain"])
    told = capsys.readouterr().out
    count = len(found["schedules"])
    assert f"schedules: {count} kernels, {len(tuned)} with a record, {len(tuned)} tuned" in told
    assert f"tuned: record {records[0].name} of r.jsonl" in told
    monkeypatch.setenv("VTAC_TUNING", str(path))
    vta_compile.main([*base, "-q"])
    assert out.read_bytes() == with_option
    vta_compile.main([*base, "-q", "--no-tuning"])
    assert out.read_bytes() != with_option and not read_package(out).tuning
    monkeypatch.delenv("VTAC_TUNING")
    (tmp_path / "vtac.toml").write_text(f'[vta-compile]\ntuning = ["{path}"]\n')
    monkeypatch.setenv("VTAC_CONFIG", str(tmp_path / "vtac.toml"))
    vta_compile.main([*base, "-q"])
    assert out.read_bytes() == with_option


def test_options_that_contradict(samples: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        vta_compile.main([str(MODEL), "--tuning", str(samples), "--no-tuning"])
    assert "--tuning: is for a compilation without --no-tuning" in capsys.readouterr().err


def test_records_are_part_of_the_key_of_caches(
    samples: Path, records: list[Record], tmp_path: Path
) -> None:
    def digest(tuning: Any) -> str:
        options = CompileOptions(tuning=tuning)
        return compilation_digest(str(MODEL), TARGET, str(samples), options)

    path = write_records(tmp_path / "r.jsonl", records)
    one, none = digest(path), digest(False)
    assert one != none and digest([path]) == one
    path.rename(tmp_path / "moved.jsonl")
    assert digest(tmp_path / "moved.jsonl") == one
    write_records(path, records[:1])
    assert digest(path) not in (one, none)
    with Database.open(tmp_path / "tune.db") as database:
        database.offer(records)
    assert digest(tmp_path / "tune.db") == digest(
        write_records(path, sorted(records, key=lambda record: record.key.kernel))
    )


def test_names_of_axes_do_not_matter(samples: Path, records: list[Record], tmp_path: Path) -> None:
    """A record that was found under canonical names applies to the names of the network."""
    module = kernels(samples)
    labels = {c.label.data for op in module.ops for c in getattr(op, "computes", ())}
    assert not {"s0", "s1"} & labels  # the network calls its stages otherwise
    assert compiled(samples, write_records(tmp_path / "r.jsonl", records)).report.tuned


def test_a_database_is_not_changed_by_looking(
    samples: Path, records: list[Record], tmp_path: Path
) -> None:
    path = tmp_path / "tune.db"
    with Database.open(path) as database:
        database.offer(records)
    before = path.read_bytes()
    assert compiled(samples, path).report.tuned
    assert path.read_bytes() == before
    tuning = Tuning([path])
    assert tuning.digest_parts(TARGET) and not tuning.digest_parts(Target.named("sim"))
    tuning.close()
