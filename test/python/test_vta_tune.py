"""``vta-tune`` and `vtac.tune`: results are recorded, exact, and used; a search goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from digits_model import MODEL, save_images
from te_interpreter import kernel_named
from te_kernels import random_kernel

import vtac
from vtac import te
from vtac.dialects.errors import CompileError
from vtac.dialects.target import TARGET_ATTRIBUTE, Target
from vtac.tools.commands import vta_compile, vta_tune
from vtac.tools.commands.parsers.vta_tune import METHODS, SUBCOMMANDS
from vtac.tools.files.ir_files import module_text
from vtac.tools.tune import lookup
from vtac.tools.tune.database import Database
from vtac.tools.tune.lookup import RecordFile
from vtac.tools.tune.methods import methods
from vtac.tools.tune.protocol import Options
from vtac.tools.tune.records import Record, TrialRow, line_of

TARGET = Target.named("chisel-pynq")


def tune(*args: str | Path) -> None:
    vta_tune.main([str(arg) for arg in args])


def said(capsys: pytest.CaptureFixture[str], *args: str | Path) -> str:
    capsys.readouterr()
    tune(*args)
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *args: str | Path) -> str:
    """What a command says that must fail in one line or several, without a traceback."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        tune(*args)
    assert stopped.value.code == 1
    out, err = capsys.readouterr()
    assert not out and "Traceback" not in err and "vta-tune" in err
    return err


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "samples.npz"
    save_images(path, 8)
    return path


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with one kernel that has a large space of schedules."""
    path = tmp_path_factory.mktemp("kernel") / "kernel.mlir"
    module, _ = random_kernel(Random(3))
    assert kernel_named(module, "k").computes
    path.write_text(module_text(module))
    return path


def target_of(kernel: Path) -> Path:
    """The machine of the kernel, as the option --target has it."""
    return kernel.with_name("machine.json")


@pytest.fixture(scope="module")
def base(kernel: Path) -> list[str | Path]:
    """Arguments that tune the kernel on its own machine."""
    module, _ = random_kernel(Random(3))
    target = module.attributes[TARGET_ATTRIBUTE]
    assert isinstance(target, Target)
    machine = target_of(kernel)
    machine.write_text(json.dumps(target.to_replay_config()))
    return [kernel, "--target", machine, "--method", "random", "--screen", "0"]


def tables(path: Path) -> list[tuple[Any, ...]]:
    """The trials of all runs, without what differs from one search to the next."""
    with Database.read(path) as database:
        return [
            (
                run.run.key,
                run.run.method,
                run.run.seed,
                bool(run.run.ended),
                database.trials(run.id),
            )
            for run in database.runs()
        ]


def best(path: Path) -> list[Record]:
    with Database.read(path) as database:
        return list(database.records())


@pytest.fixture(scope="module")
def database(base: list[str | Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An undisturbed search of 24 trials."""
    path = tmp_path_factory.mktemp("database") / "tune.db"
    tune(*base, "--database", path, "--trials", "24", "-q")
    return path


def test_a_model_is_tuned_and_compiled(
    samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, package = tmp_path / "tune.db", tmp_path / "m.vtapkg"
    model = [str(MODEL), "--target", "chisel-pynq", "--calibrate", str(samples)]
    found = json.loads(
        said(capsys, *model, "--database", path, "--trials", "24", "--layers", "second", "--json")
    )
    (tuned,) = found["kernels"]
    assert tuned["layers"] == ["second"] and tuned["trials"] == 24 and tuned["proved"]
    assert tuned["bound"] <= tuned["cycles"] <= tuned["default"]
    modules = [vtac.compile(str(MODEL), TARGET, str(samples), tuning=t) for t in (False, path)]
    default, with_records = (module.profile().cycles for module in modules)
    assert found["network"] == {"default": default, "tuned": with_records}
    (record,) = best(path)
    assert record.proved and record.cycles == tuned["cycles"] and record.default == tuned["default"]
    vta_compile.main([*model, "-o", str(package), "--tuning", str(path), "--json"])
    schedules = json.loads(capsys.readouterr().out)["schedules"]
    assert [s["origin"] for s in schedules if "second" in s["layers"]] == ["tuned"]
    assert {s["origin"] for s in schedules if "second" not in s["layers"]} <= {"default", "tuned"}
    with np.load(samples) as arrays:
        feeds = {name: arrays[name] for name in arrays.files}
    plain = vtac.compile(str(MODEL), TARGET, str(samples), tuning=False)
    expected, got = plain.run(feeds), vtac.load(package).run(feeds)
    assert all(np.array_equal(expected[name], got[name]) for name in expected)


def test_records_that_help_the_network_are_selected(
    samples: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the kernels gain alone, the network with the selected records is not slower."""
    monkeypatch.setattr(lookup, "SHIPPED", tmp_path)  # where no records are
    path, chosen = tmp_path / "tune.db", tmp_path / "chosen.jsonl"
    args = [MODEL, "--target", "chisel-pynq", "--calibrate", samples, "--database", path]
    args += ["--layers", "second", "--layers", "logits", "--trials", "32", "--select", chosen]
    told = said(capsys, *args)
    assert f"--tuning {chosen}" in told
    with Database.read(path) as database:
        assert {r.name for r in RecordFile(chosen).records()} <= {
            r.name for r in database.records()
        }
    modules = [vtac.compile(str(MODEL), TARGET, str(samples), tuning=t) for t in (False, chosen)]
    default, selected = (module.profile().cycles for module in modules)
    assert selected <= default and f"{default:,} cycles by default, {selected:,} with" in told
    assert len(modules[1].report.tuned) == len(RecordFile(chosen).records())


def test_the_table_names_the_command_that_uses_the_result(
    base: list[str | Path], database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = said(capsys, *base, "--database", database, "--trials", "24")
    assert "24 trials from before" in told and "proved" in told
    assert f"to use it: vta-tune export {database}" in told
    assert tables(database)[0][3]


def test_the_same_command_goes_on(
    base: list[str | Path], database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tune.db"
    for trials in (8, 16, 24):
        tune(*base, "--database", path, "--trials", str(trials), "-q")
    (run,) = tables(path)
    (wanted,) = tables(database)
    assert run[-1] == wanted[-1] and len(run[-1]) == 24
    assert best(path) == best(database)
    tune(*base, "--database", path, "--trials", "8", "-q", "--fresh")
    assert len(tables(path)) == 2
    tune(*base, "--database", path, "--trials", "8", "-q", "--seed", "5")
    assert len(tables(path)) == 3


def process(args: list[str | Path], path: Path) -> "subprocess.Popen[str]":
    command = "from vtac.tools.commands.vta_tune import main; main()"
    words = [*args, "--database", path, "--trials", "24", "-v"]
    return subprocess.Popen(
        [sys.executable, "-c", command, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
    )


def test_a_search_that_is_killed_goes_on(base: list[str | Path], tmp_path: Path) -> None:
    """Killed ten times, at random moments of a batch, it gives the table of an undisturbed one."""
    path, whole = tmp_path / "tune.db", tmp_path / "whole.db"
    limits = ["--trials", "80", "--batch", "4", "-v"]
    tune(*base, *limits, "-q", "--database", whole)
    random, seen = Random(5), 0
    for _ in range(10):
        child, lines = forked([*base, *limits, "--database", path])
        with lines:
            for _ in range(random.randint(1, 2 + seen // 4)):  # batches from before are told, too
                if not lines.readline():
                    break
            time.sleep(0.05 * random.random())
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        (run,) = tables(path)
        assert len(run[-1]) >= seen and run[-1] == tables(whole)[0][-1][: len(run[-1])]
        seen = len(run[-1])
    assert seen > 0
    tune(*base, *limits, "-q", "--database", path)
    assert tables(path) == tables(whole) and best(path) == best(whole)


def forked(args: list[str | Path]) -> tuple[int, Any]:
    """The command in a copy of this process, and what it writes to standard error."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(write, 2)
        sys.stderr = os.fdopen(2, "w", buffering=1)
        try:
            tune(*args)
        finally:
            os._exit(0)
    os.close(write)
    return child, os.fdopen(read)


def test_an_interrupted_search_goes_on(
    base: list[str | Path], database: Path, tmp_path: Path
) -> None:
    """Ctrl-C ends the search after the batches under way, which are written."""
    path = tmp_path / "tune.db"
    with process(base, path) as running:
        assert running.stderr is not None
        while " trials, best " not in running.stderr.readline():  # libraries may warn before
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        out, said = running.communicate(timeout=300)
    assert running.returncode in (0, 130), said  # it may have been at its end
    assert ("the same command goes on" in out) == (running.returncode == 130)
    assert 0 < len(tables(path)[0][-1]) <= 24
    tune(*base, "--database", path, "--trials", "24", "-q")
    assert tables(path) == tables(database) and best(path) == best(database)


def test_a_database_that_others_write_to(base: list[str | Path], tmp_path: Path) -> None:
    """Two searches of one kernel at the same time: the trials of both stay."""
    path = tmp_path / "tune.db"
    both = [process(base, path), process([*base, "--seed", "1"], path)]
    for each in both:
        each.communicate(timeout=300)
        assert each.returncode == 0
    found = tables(path)
    assert sorted(run[2] for run in found) == [0, 1]
    assert all(len(run[-1]) == 24 for run in found)
    cycles = [t.cycles for run in found for t in run[-1] if t.clocked]
    assert [record.cycles for record in best(path)] == [min(cycles)]


def test_a_search_ends_where_all_points_are_slow(
    base: list[str | Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Points that are not clocked are no trials; there may be no end of them."""
    args = (*base, "--screen", "1.0", "--database", tmp_path / "tune.db", "--json")
    (found,) = json.loads(said(capsys, *args))["kernels"]
    assert found["trials"] < 200 and "in a row were sure to be slower" in found["stopped"]


def test_show_and_best(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run,) = json.loads(said(capsys, "show", database, "--json"))["runs"]
    assert run["trials"] == 24 and run["method"] == "random" and run["ended"]
    assert "random" in said(capsys, "show", database)
    (record,) = json.loads(said(capsys, "best", database, "--json"))["records"]
    assert record["cycles"] == run["best"] and record["proved"] and "stage" in record["summary"]
    assert f"{record['cycles']:,}" in said(capsys, "best", database)
    assert json.loads(said(capsys, "best", database, "--target", "pynq", "--json"))["records"] == []
    digest = record["kernel"][:6]
    assert json.loads(said(capsys, "best", database, "--kernel", digest, "--json"))["records"]


def test_export_and_import(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, trials, other = tmp_path / "r.jsonl", tmp_path / "t.jsonl", tmp_path / "other.db"
    tune("export", database, "-o", lines)
    tune("export", database, "--trials", "-o", trials)
    assert [line_of(line) for line in lines.read_text().splitlines()] == best(database)
    assert all(isinstance(line_of(line), TrialRow) for line in trials.read_text().splitlines())
    told = said(capsys, "import", other, lines, trials)
    assert "1 of 1 records are new or better, 24 of 24 trials are new" in told
    again = said(capsys, "merge", other, lines, trials, database)
    assert "0 of 2 records are new or better, 0 of 48 trials are new" in again
    assert best(other) == best(database)
    assert [run[-1] for run in tables(other)] == [run[-1] for run in tables(database)]
    assert said(capsys, "export", other) == said(capsys, "export", database, lines)


def test_an_import_of_bad_lines(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (good,) = best(database)
    values = json.loads(good.line)
    bad = [
        ({"point": {"colour": 1}}, "there is no knob 'colour'"),
        ({"point": {"slots.inp": 99}}, "knob 'slots.inp' has no value 99"),
        ({"cycles": 0}, "cycles must be a whole number"),
        ({"kernel": "0" * 64}, "the kernel's text has another digest"),
        ({"text": "nonsense"}, "the kernel's text is no IR"),
        ({"target": {}}, "the machine does not have exactly the fields|lacks or has too many"),
    ]
    path, other = tmp_path / "bad.jsonl", tmp_path / "other.db"
    lines = [json.dumps({**values, **change}) for change, _ in bad]
    path.write_text("\n".join([*lines, good.line, ""]))
    told = refused(capsys, "import", other, path)
    assert len([line for line in told.splitlines() if ": line " in line]) == len(bad)
    for number, (_, what) in enumerate(bad, 1):
        assert any(part in told for part in what.split("|")), what
        assert f"line {number}: " in told
    assert not other.exists()
    assert "1 of 1 records" in said(capsys, "import", other, path, "--skip-bad")
    assert best(other) == [good]


def test_check_finds_what_changed(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "1 records, 0 changed" in said(capsys, "check", database)
    (good,) = best(database)
    values = json.loads(good.line)
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({**values, "cycles": good.cycles - 1}) + "\n")
    with pytest.raises(SystemExit) as stopped:
        tune("check", path)
    assert stopped.value.code == 1
    assert f"{good.cycles - 1:,} cycles are recorded, now it takes {good.cycles:,}" in (
        capsys.readouterr().out
    )


def test_replay_measures_nothing(
    database: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    args = ("replay", database, "--method", "random", "--trials", "24", "--json")
    (found,) = json.loads(said(capsys, *args))["replays"]
    assert found["trials"] == 24 and found["unknown"] == 0
    assert found["best"] == found["recorded"] == best(database)[0].cycles
    other = json.loads(said(capsys, *args[:-1], "--seed", "9", "--json"))["replays"][0]
    assert other["unknown"] > 0


def test_forget(database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tune.db"
    path.write_bytes(database.read_bytes())
    assert "say what to forget" in refused(capsys, "forget", path)
    assert "0 searches and 0 records" in said(capsys, "forget", path, "--target", "pynq")
    assert "1 searches and 1 records" in said(capsys, "forget", path, "--all")
    assert not best(path) and not tables(path)
    refused(capsys, "forget", tmp_path / "absent.db", "--all")
    assert not (tmp_path / "absent.db").exists()


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (["--trials", "0"], "0 is less than 1"),
        (["--trials", "-5"], "-5 is less than 1"),
        (["--jobs", "0"], "0 is less than 1"),
        (["--seconds", "0"], "0 is not above 0"),
        (["--seconds", "nan"], "is not a finite number"),
        (["--method", "magic"], "invalid choice: 'magic' (choose from"),
        (["--batch", "0"], "0 is less than 1"),
        (["--oracle", "tarot"], "invalid choice"),
        (["--prove", "none"], "invalid choice"),
        (["--cluster", "tcp://127.0.0.1:1", "--jobs", "2"], "--jobs"),
        (["--cluster", "tcp://127.0.0.1:1", "--remote", "127.0.0.1:2"], "--cluster"),
        (["--layers", "nothing*"], "no layer is called like nothing*"),
        (["--calibrate", str(MODEL)], "is for models"),
        (["--target", "no-such-machine"], "no-such-machine"),
    ],
)
def test_arguments_that_make_no_sense(
    args: list[str],
    what: str,
    base: list[str | Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "tune.db"
    assert what in refused(capsys, *base, "--database", path, *args)
    assert not path.exists()


def test_databases_that_are_none(
    base: list[str | Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tune.db"
    path.write_text("no database at all")
    assert "is not a SQLite database" in refused(capsys, *base, "--database", path)
    assert path.read_text() == "no database at all"
    for command in SUBCOMMANDS:
        wanted = [
            tmp_path / "absent.db",
            *([tmp_path / "x"] if command in ("import", "merge") else []),
        ]
        extra = ["--all"] if command == "forget" else []
        assert "there is no such file" in refused(capsys, command, *wanted, *extra)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["tune.db"]


def test_a_model_of_which_nothing_can_be_tuned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = (MODEL, "--target", "chisel-pynq", "--database", tmp_path / "tune.db")
    assert "there are no calibration samples" in refused(capsys, *args)


def test_the_parser_knows_the_methods() -> None:
    assert sorted(methods()) == sorted(METHODS)


def test_tensors_are_tuned(tmp_path: Path) -> None:
    a, x = te.placeholder((64, 96), "a"), te.placeholder((96,), "x")
    k = te.reduce_axes(k=96)
    y = te.compute((64,), lambda i: te.saturate(te.total(a[i, k] * x[k], k) >> 8), "y")
    path = tmp_path / "tune.db"
    options = Options(screen=0)
    found = vtac.tune(y, TARGET, database=path, method="random", trials=16, options=options)
    (tuned,) = found.kernels
    assert tuned.trials == 16 and tuned.proved and found.database == str(path)
    assert found.cycles <= found.default and found.timed
    run = te.build(y, TARGET, tuning=path)
    assert "record = {" in run.ir("te") and "refused" not in run.ir("te")
    rng = np.random.default_rng(0)
    feeds = {
        name: rng.integers(-128, 128, shape, np.int8)
        for name, shape in (("a", (64, 96)), ("x", (96,)))
    }
    assert np.array_equal(run(**feeds), te.build(y, TARGET, tuning=False)(**feeds))


def test_a_module_is_tuned(samples: Path) -> None:
    module = vtac.compile(str(MODEL), TARGET, str(samples), keep_ir=["te"])
    found = vtac.tune(module, TARGET, method="default", layers=["first"])
    assert [kernel.layers for kernel in found.kernels] == [("first",)]
    with pytest.raises(CompileError, match="does not keep its IR"):
        vtac.tune(vtac.compile(str(MODEL), TARGET, str(samples)), TARGET)


def test_bad_options_in_python(samples: Path) -> None:
    with pytest.raises(CompileError) as raised:
        vtac.tune(str(MODEL), TARGET, str(samples), trials=0, jobs=-1, seconds=0)
    assert len(raised.value.problems) == 3
    with pytest.raises(CompileError, match="there is no method 'magic'"):
        vtac.tune(str(MODEL), TARGET, str(samples), method="magic", layers=["first"])
