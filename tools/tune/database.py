"""The database of tuning: one SQLite file with runs, their trials, and the best point of each key.

Any number of processes write to one file: every write is one transaction that waits for its turn
(``BEGIN IMMEDIATE``), and with a write-ahead log readers wait for nobody. A batch that cannot be
written, because the disk is full or the file stays locked, is kept and tried again with the next
one; what is left at the end goes to a file of JSON lines beside the database.
"""

import json
import os
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from vtac.runtime.atomic import write_whole
from vtac.tools.tune.database_file import (
    WAIT,
    connect,
    explained,
    has_tables,
    make_tables,
    use_log,
    verify_file,
    verify_schema,
)
from vtac.tools.tune.keys import Key
from vtac.tools.tune.owners import is_gone, this_process
from vtac.tools.tune.protocol import Trial
from vtac.tools.tune.records import (
    Record,
    RunRow,
    TrialRow,
    better,
    point_json,
    point_of,
    trial_line,
)

_BEST = """
SELECT k.digest, t.digest, b.oracle, b.template, b.version, k.text, t.text, b.point, b.cycles,
  b.default_cycles, b.bound, b.proved, b.compiler
FROM best b JOIN kernel k ON k.id = b.kernel JOIN target t ON t.id = b.target
"""
_RUN = """
SELECT r.id, r.uuid, k.digest, t.digest, r.oracle, r.template, r.version, k.text, t.text,
  r.method, r.options, r.seed, r.compiler, r.started, r.ended, r.owner
FROM run r JOIN kernel k ON k.id = r.kernel JOIN target t ON t.id = r.target
"""


@dataclass(frozen=True)
class StoredRun:
    """A run with the number of it in this database, of its trials, and the best of them."""

    id: int
    run: RunRow
    trials: int
    best: int | None


@dataclass(frozen=True)
class _Batch:
    """What is written together. first: the number of the first trial in its run."""

    run: int
    first: int
    trials: Sequence[Trial]
    best: Record | None


class Database:
    """A file of runs, trials and best points. `open` it for writing, or for reading only.

    note: is told what a user should know, one line each. Raises `CompileError` where the file
    is not a database of tuning.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        connection: sqlite3.Connection,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.path = os.fspath(path)
        self._connection, self._note = connection, note
        self._waiting: list[_Batch] = []
        self._runs: dict[int, RunRow] = {}
        self._is_noted = False

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        note: Callable[[str], None] = lambda _: None,
        wait: float = WAIT,
    ) -> Self:
        """The database in a file, for writing; made if there is no such file."""
        text = os.fspath(path)
        verify_file(text, new=True)
        found = cls(text, connect(text, "rwc", wait), note)
        with found._closing_on_error():
            if has_tables(found._connection):
                verify_schema(found._connection, text)
            if not use_log(found._connection, wait):
                note(f"{text}: no write-ahead log here: readers and writers wait in turn")
            with found._transaction():
                make_tables(found._connection, text)
        return found

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """The database in a file, for reading only; nothing about it changes."""
        text = os.fspath(path)
        verify_file(text, new=False)
        found = cls(text, connect(text, "ro"))
        with found._closing_on_error():
            try:
                verify_schema(found._connection, text)
            except sqlite3.OperationalError:
                # In a folder that cannot be written to, the log needs files that cannot be made.
                if os.path.exists(f"{text}-wal") and os.path.getsize(f"{text}-wal"):
                    raise
                found._connection.close()
                found._connection = connect(text, "ro&immutable=1")
                verify_schema(found._connection, text)
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write what is still waiting, or save it beside the database; then let go of the file."""
        try:
            if not self.flush():
                self._rescue()
            with suppress(sqlite3.Error), self._transaction():
                for run in self._runs:
                    self._connection.execute("UPDATE run SET owner = '' WHERE id = ?", (run,))
        finally:
            self._connection.close()

    def start(self, run: RunRow, *, fresh: bool = False) -> tuple[int, list[Trial]]:
        """Go on with the newest run of the same key, method, options and seed, or start this one.

        Returns the number of the run here, and the trials that it has. A run is left alone while
        the process that it belongs to is alive on this machine, or where it is of another machine
        and has not ended. fresh: start this one in any case.
        """
        with self._errors(), self._transaction():
            kernel, target = self._ids(run.key, run.text, run.target_text)
            same = () if fresh else self._same(run, kernel, target)
            for number, ended, owner in same:
                if ended or is_gone(owner):
                    self._connection.execute(
                        "UPDATE run SET owner = ?, ended = '' WHERE id = ?",
                        (this_process(), number),
                    )
                    (unique,) = self._connection.execute(
                        "SELECT uuid FROM run WHERE id = ?", (number,)
                    ).fetchone()
                    self._runs[number] = replace(run, uuid=unique)
                    return number, list(self._trials(number))
            number = self._insert(run, kernel, target, this_process())
        self._runs[number] = run
        return number, []

    def write(
        self, run: int, first: int, trials: Sequence[Trial], best: Record | None = None
    ) -> bool:
        """Write a batch of trials, and a point that may be the best, in one transaction.

        first: the number of the first of them in the run. Returns whether all that was to be
        written is on the disk now. If not, it is kept for the next time.
        """
        self._waiting.append(_Batch(run, first, tuple(trials), best))
        return self.flush()

    def flush(self) -> bool:
        """Write all batches that are waiting; whether that succeeds."""
        if not self._waiting:
            return True
        try:
            with self._transaction():
                for batch in self._waiting:
                    for number, trial in enumerate(batch.trials, batch.first):
                        self._put(batch.run, number, trial)
                    if batch.best is not None:
                        self._offer(batch.best)
        except sqlite3.OperationalError as error:
            count = sum(len(batch.trials) for batch in self._waiting)
            if not self._is_noted:
                self._note(f"{self.path}: {error}; {count} trials are kept, to be written later")
            self._is_noted = True
            return False
        self._waiting.clear()
        self._is_noted = False
        return True

    def end(self, run: int) -> None:
        """Record that a run has ended by itself; an interrupted run has no end."""
        with suppress(sqlite3.OperationalError), self._transaction():
            self._connection.execute("UPDATE run SET ended = ? WHERE id = ?", (now(), run))

    def offer(self, records: Iterable[Record]) -> int:
        """Take over the records that are better than those here; returns how many are."""
        with self._errors(), self._transaction():
            return sum([self._offer(record) for record in records])

    def add(self, trials: Iterable[TrialRow]) -> int:
        """Take over trials of runs from elsewhere; returns how many were not here like that."""
        numbers: dict[str, int] = {}
        with self._errors(), self._transaction():
            added = 0
            for row in trials:
                if row.run.uuid not in numbers:
                    numbers[row.run.uuid] = self._merge_run(row.run)
                added += self._merge_trial(numbers[row.run.uuid], row.number, row.trial)
            return added

    def best(self, kernel: str, target: str, oracle: str) -> list[Record]:
        """The best point of each template for a kernel on a machine, the fewest cycles first."""
        where = f"{_BEST} WHERE k.digest = ? AND t.digest = ? AND b.oracle = ?"
        with self._errors():
            rows = self._connection.execute(where, (kernel, target, oracle)).fetchall()
            return sorted(map(_record, rows), key=lambda record: record.rank)

    def records(self) -> Iterator[Record]:
        """The best point of every key, in the order of their digests."""
        order = "ORDER BY k.digest, t.digest, b.oracle, b.template, b.version"
        with self._errors():
            for row in self._connection.execute(f"{_BEST} {order}"):
                yield _record(row)

    def runs(self) -> list[StoredRun]:
        """All runs, the oldest first, without their trials."""
        with self._errors():
            rows = self._connection.execute(f"{_RUN} ORDER BY r.started, r.uuid").fetchall()
            counts = "SELECT run, count(*), min(cycles) FROM trial GROUP BY run"
            found = {run: (count, best) for run, count, best in self._connection.execute(counts)}
        return [StoredRun(row[0], _run(row), *found.get(row[0], (0, None))) for row in rows]

    def trials(self, run: int) -> list[Trial]:
        """The trials of a run, in their order."""
        with self._errors():
            return list(self._trials(run))

    def forget(self, kernels: Iterable[str], targets: Iterable[str]) -> tuple[int, int]:
        """Drop the runs and the best points of kernels on machines, by digest.

        Returns how many runs and how many best points are gone.
        """
        pairs = [(kernel, target) for kernel in kernels for target in targets]
        ids = (
            "kernel = (SELECT id FROM kernel WHERE digest = ?)"
            " AND target = (SELECT id FROM target WHERE digest = ?)"
        )
        gone = {"run": 0, "best": 0}
        with self._errors(), self._transaction():
            for pair in pairs:
                runs = f"SELECT id FROM run WHERE {ids}"
                self._connection.execute(f"DELETE FROM trial WHERE run IN ({runs})", pair)
                for table in gone:
                    deleted = self._connection.execute(f"DELETE FROM {table} WHERE {ids}", pair)
                    gone[table] += deleted.rowcount
        return gone["run"], gone["best"]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction that takes its turn among writers, whole or not at all."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn SQLite's errors into `CompileError`."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise explained(self.path, error) from None

    @contextmanager
    def _closing_on_error(self) -> Iterator[None]:
        try:
            with self._errors():
                yield
        except BaseException:
            self._connection.close()
            raise

    def _ids(self, key: Key, text: str, target_text: str) -> tuple[int, int]:
        """The numbers of a kernel and of a machine here, which are added if need be."""
        found = []
        for table, digest, content in (
            ("kernel", key.kernel, text),
            ("target", key.target, target_text),
        ):
            insert = f"INSERT OR IGNORE INTO {table}(digest, text) VALUES (?, ?)"
            self._connection.execute(insert, (digest, content))
            select = f"SELECT id FROM {table} WHERE digest = ?"
            found.append(int(self._connection.execute(select, (digest,)).fetchone()[0]))
        return found[0], found[1]

    def _same(self, run: RunRow, kernel: int, target: int) -> list[tuple[int, str, str]]:
        """Runs that this one would repeat, the newest first: number, end, owner."""
        rows = self._connection.execute(
            "SELECT id, ended, owner FROM run WHERE kernel = ? AND target = ? AND oracle = ?"
            " AND template = ? AND version = ? AND method = ? AND options = ? AND seed = ?"
            " ORDER BY id DESC",
            (
                *(kernel, target, run.key.oracle, run.key.template, run.key.version),
                *(run.method, run.options, run.seed),
            ),
        )
        return rows.fetchall()

    def _insert(self, run: RunRow, kernel: int, target: int, owner: str) -> int:
        key = run.key
        values = (
            *(run.uuid, kernel, target, key.oracle, key.template, key.version, run.method),
            *(run.options, run.seed, run.compiler, run.started, run.ended, owner),
        )
        cursor = self._connection.execute(
            "INSERT INTO run(uuid, kernel, target, oracle, template, version, method, options,"
            f" seed, compiler, started, ended, owner) VALUES ({', '.join('?' * len(values))})",
            values,
        )
        assert cursor.lastrowid is not None
        return cursor.lastrowid

    def _put(self, run: int, number: int, trial: Trial) -> None:
        self._connection.execute(
            "INSERT OR REPLACE INTO trial VALUES (?, ?, ?, ?, ?, ?)",
            (run, number, *_trial_values(trial)),
        )

    def _offer(self, record: Record) -> bool:
        """Keep a record if it is better than the one here; whether it is."""
        key = record.key
        kernel, target = self._ids(key, record.text, record.target_text)
        place = (kernel, target, key.oracle, key.template, key.version)
        where = (
            "WHERE b.kernel = ? AND b.target = ? AND b.oracle = ? AND b.template = ?"
            " AND b.version = ?"
        )
        row = self._connection.execute(f"{_BEST} {where}", place).fetchone()
        if row is not None and better(_record(row), record) is not record:
            return False
        values = (
            *(*place, point_json(record.point), record.cycles, record.default, record.bound),
            *(int(record.proved), record.compiler),
        )
        marks = ", ".join("?" * len(values))
        self._connection.execute(f"INSERT OR REPLACE INTO best VALUES ({marks})", values)
        return True

    def _merge_run(self, run: RunRow) -> int:
        """The number of a run from elsewhere; of two accounts of one run, the later end counts."""
        row = self._connection.execute(
            "SELECT id, ended FROM run WHERE uuid = ?", (run.uuid,)
        ).fetchone()
        if row is None:
            return self._insert(run, *self._ids(run.key, run.text, run.target_text), "")
        number, ended = row
        if run.ended > ended:
            self._connection.execute("UPDATE run SET ended = ? WHERE id = ?", (run.ended, number))
        return int(number)

    def _merge_trial(self, run: int, number: int, trial: Trial) -> bool:
        """Add a trial from elsewhere, and whether anything changed.

        Where there is one of that number, the one with the smaller text stays.
        """
        row = self._connection.execute(
            "SELECT point, cycles, why, millis FROM trial WHERE run = ? AND number = ?",
            (run, number),
        ).fetchone()
        if row is not None and json.dumps(_trial_values(trial)) >= json.dumps(row):
            return False
        self._put(run, number, trial)
        return True

    def _trials(self, run: int) -> Iterator[Trial]:
        rows = self._connection.execute(
            "SELECT point, cycles, why, millis FROM trial WHERE run = ? ORDER BY number", (run,)
        )
        for point, cycles, why, millis in rows:
            yield Trial(point_of(json.loads(point)), cycles, why, millis)

    def _rescue(self) -> None:
        """Save what could not be written as JSON lines beside the database."""
        place = Path(f"{self.path}.rescue.jsonl")
        lines = [
            line
            for batch in self._waiting
            for line in (
                *(
                    trial_line(TrialRow(self._runs[batch.run], number, trial))
                    for number, trial in enumerate(batch.trials, batch.first)
                ),
                *([] if batch.best is None else [batch.best.line]),
            )
        ]
        before = place.read_bytes() if place.is_file() else b""
        write_whole(place, before + "".join(f"{line}\n" for line in lines).encode())
        self._note(
            f"{self.path} could not be written: {len(lines)} lines are in {place}; when it can be"
            f" written again: vta-tune import {self.path} {place}"
        )
        self._waiting.clear()


def new_run(
    key: Key,
    text: str,
    target_text: str,
    method: str,
    options: Mapping[str, Any],
    seed: int,
    compiler: str,
) -> RunRow:
    """A run that starts now."""
    written = json.dumps(options, sort_keys=True)
    return RunRow(str(uuid.uuid4()), key, text, target_text, method, written, seed, compiler, now())


def now() -> str:
    """The time in ISO 8601, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _record(row: Sequence[Any]) -> Record:
    digest, target, oracle, template, version, text, target_text, point, cycles, *rest = row
    default, bound, proved, compiler = rest
    key = Key(digest, target, oracle, template, version)
    return Record(
        key,
        text,
        target_text,
        point_of(json.loads(point)),
        cycles,
        default,
        bound,
        bool(proved),
        compiler,
    )


def _run(row: Sequence[Any]) -> RunRow:
    _, unique, kernel, target, oracle, template, version, text, target_text, *rest = row
    method, options, seed, compiler, started, ended, _ = rest
    key = Key(kernel, target, oracle, template, version)
    return RunRow(unique, key, text, target_text, method, options, seed, compiler, started, ended)


def _trial_values(trial: Trial) -> tuple[str, int | None, str, int]:
    return point_json(trial.point), trial.cycles, trial.why, trial.millis


def verify_writable(path: str | os.PathLike[str]) -> None:
    """Raise `CompileError` unless a file is a database that can be written to, or can be made."""
    text = os.fspath(path)
    verify_file(text, new=True)
    if os.path.isfile(text) and os.path.getsize(text):
        Database.open(text).close()
