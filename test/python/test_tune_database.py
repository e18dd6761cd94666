"""The database of tuning: writers side by side, interrupted writers, and files that are none."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
from tuning_records import key, record, run_row, trials

from vtac.dialects.errors import CompileError
from vtac.tools.tune import database_file
from vtac.tools.tune.database import Database
from vtac.tools.tune.records import Record, TrialRow, read_lines

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tune.db"


def filled(path: Path, names: str = "abc") -> None:
    with Database.open(path) as database:
        for name in names:
            run, _ = database.start(run_row(name))
            database.write(run, 0, trials(20), record(name))
            database.end(run)


def test_what_was_written_is_read(path: Path) -> None:
    filled(path)
    with Database.read(path) as database:
        assert sorted(r.key.kernel for r in database.records()) == sorted(
            key(name).kernel for name in "abc"
        )
        wanted = key("b")
        assert database.best(wanted.kernel, wanted.target, wanted.oracle) == [record("b")]
        assert not database.best(wanted.kernel, wanted.target, "0" * 64)
        assert not database.best(wanted.kernel, wanted.kernel, wanted.oracle)
        for stored in database.runs():
            assert stored.trials == 20 and stored.run.ended
            assert database.trials(stored.id) == trials(20)
            assert stored.best == min(t.cycles for t in trials(20) if t.cycles)


def test_the_better_record_stays(path: Path) -> None:
    with Database.open(path) as database:
        assert database.offer([record(cycles=900), record(cycles=1000), record(cycles=800)]) == 2
        assert [r.cycles for r in database.records()] == [800]
        assert database.offer([record(cycles=800)]) == 0
        assert database.offer([record(cycles=800, proved=False)]) == 0


def test_a_run_goes_on_where_it_was_closed(path: Path) -> None:
    with Database.open(path) as database:
        run, before = database.start(run_row())
        assert not before
        database.write(run, 0, trials(16)[:8])
    with Database.open(path) as database:
        again, before = database.start(run_row())
        assert again == run and before == trials(16)[:8]
        database.write(again, 8, trials(16)[8:])
        database.end(again)
    with Database.open(path) as database:
        again, before = database.start(run_row())
        assert again == run and before == trials(16)
        for other in (run_row(seed=1), run_row(method="model"), run_row("other")):
            assert not database.start(other)[1]
        assert not database.start(run_row(), fresh=True)[1]
        assert len(database.runs()) == 5


def test_a_run_of_a_process_that_is_alive_is_left_alone(path: Path) -> None:
    with Database.open(path) as one, Database.open(path) as other:
        first, _ = one.start(run_row())
        one.write(first, 0, trials(8))
        second, before = other.start(run_row())
        assert second != first and not before


def write_many(path: str, seed: int) -> None:
    with Database.open(path) as database:
        run, _ = database.start(run_row(seed=seed))
        found = trials(1000, seed)
        for first in range(0, 1000, 8):
            batch = found[first : first + 8]
            best = record(cycles=2000 - first - seed)
            assert database.write(run, first, batch, best)
        database.end(run)


def test_two_writers_lose_nothing(path: Path) -> None:
    writers = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"import sys; sys.path[:0] = [{str(SUPPORT)!r}, {str(Path(__file__).parent)!r}]\n"
                f"from test_tune_database import write_many; write_many({str(path)!r}, {seed})",
            ]
        )
        for seed in (1, 2)
    ]
    assert [writer.wait(300) for writer in writers] == [0, 0]
    with Database.read(path) as database:
        found = {stored.run.seed: database.trials(stored.id) for stored in database.runs()}
        assert found == {seed: trials(1000, seed) for seed in (1, 2)}
        assert [r.cycles for r in database.records()] == [2000 - 992 - 2]
    assert not Path(f"{path}.rescue.jsonl").exists()


def test_a_file_that_another_writer_is_about_to_fill(path: Path) -> None:
    """Between the header and the tables of a new file, a second writer may open it."""
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA journal_mode = WAL")
    other.close()
    assert path.stat().st_size
    with pytest.raises(CompileError, match="has no tables yet"):
        Database.read(path)
    filled(path, "a")
    with Database.read(path) as database:
        assert len(database.runs()) == 1


WRITER = """
import sys
sys.path[:0] = [{support!r}]
from tuning_records import run_row, trials
from vtac.tools.tune.database import Database
database = Database.open({path!r})
run, before = database.start(run_row())
found = trials(400)
for first in range(len(before), 400, 8):
    sys.stdin.readline()
    database.write(run, first, found[first:first + 8])
    print(first, flush=True)
database.end(run)
database.close()
"""


def test_a_killed_writer_goes_on(path: Path) -> None:
    """Killed at several random moments and started again, all trials are there, once."""
    program = WRITER.format(support=str(SUPPORT), path=str(path))
    random, killed, reached = Random(7), 0, -1
    for _ in range(30):
        with subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as writer:
            assert writer.stdin is not None and writer.stdout is not None
            stop = random.randrange(1, 12)
            writer.stdin.write("\n" * (stop + 3))  # it may be within one of three more batches
            writer.stdin.flush()
            said = []
            for line in writer.stdout:
                said.append(int(line))
                if len(said) == stop:
                    writer.send_signal(signal.SIGKILL)
                    break
            ended = writer.wait(60) == 0
        assert all(first > reached for first in said)  # nothing is done again
        reached = max([reached, *said])
        with Database.read(path) as database:
            (stored,) = database.runs()
            kept = database.trials(stored.id)
            assert len(kept) >= reached + 8 and kept == trials(400)[: len(kept)]
        if ended:
            break
        killed += 1
    assert killed >= 3 and len(kept) == 400 and stored.run.ended


def test_a_newer_version_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(database_file, "SCHEMA", 7)
        filled(path)
    before = path.read_bytes()
    for opened in (Database.open, Database.read):
        with pytest.raises(CompileError, match=r"tables of version 7; this vtac knows .* to 1"):
            opened(path)
    assert path.read_bytes() == before


def test_an_older_version_is_migrated(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path)
    monkeypatch.setattr(database_file, "SCHEMA", 3)
    steps = {1: ["ALTER TABLE best ADD COLUMN remark TEXT"], 2: ["CREATE TABLE more(x INTEGER)"]}
    monkeypatch.setattr(database_file, "MIGRATIONS", steps)
    with Database.read(path) as database:  # without migration: reading changes nothing
        assert len(list(database.records())) == 3
    Database.open(path).close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT value FROM meta").fetchall() == [("3",)]
        assert connection.execute("SELECT count(remark) FROM best").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM more").fetchone() == (0,)


def test_a_migration_that_fails_changes_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(path)
    monkeypatch.setattr(database_file, "SCHEMA", 2)
    steps = {1: ["CREATE TABLE more(x INTEGER)", "CREATE NONSENSE"]}
    monkeypatch.setattr(database_file, "MIGRATIONS", steps)
    with pytest.raises(CompileError, match="NONSENSE"):
        Database.open(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT value FROM meta").fetchall() == [("1",)]
        assert not connection.execute("SELECT name FROM sqlite_master WHERE name='more'").fetchall()


def damaged(path: Path) -> dict[str, str]:
    """Files that are no databases of tuning, and what is said of them."""
    filled(path)
    whole = path.read_bytes()
    folder = path.parent
    (folder / "short").write_bytes(whole[: len(whole) // 2])
    (folder / "head").write_bytes(whole[:50])
    (folder / "noise").write_bytes(whole[:100] + os.urandom(len(whole) - 100))
    (folder / "text").write_bytes(b"no database, but a text that somebody wrote\n" * 9)
    (folder / "folder").mkdir()
    with sqlite3.connect(folder / "other") as connection:
        connection.execute("CREATE TABLE songs(title TEXT)")
    connection.close()
    return {
        "short": "is truncated",
        "head": "is truncated",
        "noise": "is damaged|not a SQLite",
        "text": "is not a SQLite database",
        "folder": "is no file",
        "other": "is a SQLite database, but not one of vta-tune",
    }


def test_files_that_are_no_databases(path: Path) -> None:
    for name, what in damaged(path).items():
        file = path.parent / name
        before = file.read_bytes() if file.is_file() else None
        for opened in (Database.open, Database.read):
            with pytest.raises(CompileError, match=what) as raised, opened(file) as database:
                list(database.records())
            assert str(file) in str(raised.value) and len(raised.value.problems) == 1
        assert before is None or file.read_bytes() == before
    with pytest.raises(CompileError, match="there is no such file"):
        Database.read(path.parent / "absent")
    assert not (path.parent / "absent").exists()
    with pytest.raises(CompileError, match="there is no folder"):
        Database.open(path.parent / "absent" / "tune.db")


def test_a_path_with_signs_that_mean_something_in_a_uri(tmp_path: Path) -> None:
    path = tmp_path / "a?mode=memory&b#c%41.db"
    filled(path)
    assert path.is_file()
    with Database.read(path) as database:
        assert len(list(database.records())) == 3


READ_ONLY = """
import os, sys
sys.path[:0] = [{support!r}]
from vtac.dialects.errors import CompileError
from vtac.tools.tune.database import Database
os.setuid(65534)
with Database.read({path!r}) as database:
    print(len(list(database.records())))
try:
    Database.open({path!r})
except CompileError as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_read_only_file_can_be_read() -> None:
    # A folder that everybody may enter, which those of pytest are not.
    folder = Path(f"/tmp/vtac-read-only-{os.getpid()}")
    folder.mkdir()
    path = folder / "tune.db"
    try:
        filled(path)
        path.chmod(0o444)
        folder.chmod(0o555)
        program = READ_ONLY.format(support=str(SUPPORT), path=str(path))
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        first, second, *_ = done.stdout.splitlines()
        assert first == "3" and second == f"{path}: is read-only"
        assert [file.name for file in folder.iterdir()] == ["tune.db"]
    finally:
        folder.chmod(0o755)
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def test_a_full_disk_keeps_the_batch(path: Path) -> None:
    notes: list[str] = []
    with Database.open(path, notes.append) as database:
        run, _ = database.start(run_row())
        connection = database._connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        assert not database.write(run, 0, trials(200)[:100])
        assert not database.write(run, 100, trials(200)[100:], record())
        assert not database.trials(run)
        connection.execute("PRAGMA max_page_count = 100000")
        assert database.flush()
        assert database.trials(run) == trials(200)
    assert len(notes) == 1 and "disk is full" in notes[0]
    assert not Path(f"{path}.rescue.jsonl").exists()


def test_what_a_full_disk_never_took_is_rescued(path: Path) -> None:
    notes: list[str] = []
    with Database.open(path, notes.append) as database:
        run, _ = database.start(run_row())
        (pages,) = database._connection.execute("PRAGMA page_count").fetchone()
        database._connection.execute(f"PRAGMA max_page_count = {pages}")
        database.write(run, 0, trials(300), record())
    rescue = Path(f"{path}.rescue.jsonl")
    assert "is full" in notes[0] and str(rescue) in notes[1] and "vta-tune import" in notes[1]
    lines = [line for _, line in read_lines(rescue)]
    with Database.open(path) as database:
        assert database.add([line for line in lines if isinstance(line, TrialRow)]) == 300
        assert database.offer([line for line in lines if isinstance(line, Record)]) == 1
        (stored,) = database.runs()
        assert database.trials(stored.id) == trials(300)
        again, before = database.start(run_row())
        assert again == stored.id and before == trials(300)


def test_a_locked_file_is_waited_for_and_then_kept(path: Path) -> None:
    notes: list[str] = []
    filled(path)
    with Database.open(path, notes.append, wait=0.2) as database:
        run, _ = database.start(run_row("z"))
        with sqlite3.connect(path, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            started = time.monotonic()
            assert not database.write(run, 0, trials(8))
            assert time.monotonic() - started >= 0.2
            with pytest.raises(CompileError, match="is locked by another process"):
                Database.open(path, wait=0.2)
            with Database.read(path) as reader:  # a reader waits for nobody
                assert len(list(reader.records())) == 3
            other.execute("ROLLBACK")
        other.close()
        assert database.write(run, 8, trials(16)[8:])
        assert database.trials(run) == trials(16)
    assert len(notes) == 1 and "locked" in notes[0]


def test_what_is_forgotten_is_gone(path: Path) -> None:
    filled(path)
    wanted = key("b")
    with Database.open(path) as database:
        assert database.forget([wanted.kernel], [wanted.target]) == (1, 1)
        assert database.forget([wanted.kernel], [wanted.target]) == (0, 0)
        assert {r.key.kernel for r in database.records()} == {key(n).kernel for n in "ac"}
        (count,) = database._connection.execute("SELECT count(*) FROM trial").fetchone()
        assert count == 40
